# SPDX-License-Identifier: Apache-2.0
"""Caller's objects as text, for messages and for passing to the core; arguments and packages that are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import errors
from .._missing import closest
from .device_spec import name_of
from .devices import LogicalDevice, PhysicalDevice


def shown(value: object) -> str:
    """Return a caller's object as text for a message, with the middle left out if it is long."""
    text = bounded_repr(value)
    return text if len(text) <= 400 else f"{text[:200]}... {len(text) - 300} characters ...{text[-100:]}"


def given(value: object) -> str:
    """Return what a message says of an argument of a wrong type."""
    return f"{type(value).__name__}: {shown(value)}"


def bounded_repr(value: object) -> str:
    """Return an object's repr in bounded time, truncating nested containers. Never raises, even if the repr fails."""
    try:
        if not isinstance(value, (list, tuple, dict, set, frozenset)) or hasattr(value, "_fields"):
            return repr(value)
        import reprlib

        cut = reprlib.Repr()
        cut.maxlevel, cut.maxstring, cut.maxlong, cut.maxother = 4, 400, 400, 400
        cut.maxlist = cut.maxtuple = cut.maxdict = cut.maxset = cut.maxfrozenset = 16
        return cut.repr(value)
    except Exception as error:  # a number with more digits than Python prints, or an error in the object's own repr
        return f"a {type(value).__name__} whose repr failed: {type(error).__name__}"


def check_text(what: str, value: object) -> str:
    """Return the string if it can be passed to the core; otherwise raise an error with the reason."""
    if not isinstance(value, str):
        such = {"gpu": ", such as 'A10'", "spec": ", such as '2xT4'"}.get(what, "")
        raise errors.InvalidTypeError(f"{what} must be a string{such}, but got {given(value)}")
    if "\0" in value:
        raise errors.InvalidArgumentError(f"{what} must not contain a NUL character: {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.InvalidArgumentError(
            f"{what} is not valid text (it has a lone surrogate): {shown(value)}. In a path, that is a byte "
            "that is not UTF-8"
        ) from None
    return value


def device_text(device: object) -> str:
    """Return a device argument as a string that can be passed to the core; otherwise raise an error with the remedy."""
    try:
        return check_text("device", name_of(device))
    except errors.InvalidTypeError as error:
        remedy = ""
        if isinstance(device, PhysicalDevice):
            remedy = "; use the name of one of list_logical_devices()"
        elif isinstance(device, LogicalDevice) and isinstance(device.name, str):
            remedy = "; use its name"
        elif isinstance(device, int) and not isinstance(device, bool):
            remedy = f"; write 'GPU:{device}'" if 0 <= device < 10_000 else "; write 'GPU:0'"
        raise errors.InvalidTypeError(f"{error}{remedy}") from None


# Keyword arguments that a function does not have: what was probably meant. Python names only the wrong one.


def refuse_unknown(
    function: str, unknown: Mapping[str, object], known: Sequence[str], meant: Mapping[str, str]
) -> None:
    """Raise InvalidTypeError for the first keyword that a function does not know.

    ``meant`` has words of other tools.
    """
    for name in unknown:
        near = meant.get(name) or closest(name, known)
        hint = f". Did you mean {near!r}?" if near else f": it has {', '.join(known[:-1])} and {known[-1]}"
        raise errors.InvalidTypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


# What needs a package that gpuconf does not depend on says so in one form, and with one class: see :func:`missing`.


def missing(what: str, package: str, extra: str, error: ImportError) -> errors.MissingPackageError:
    """Return the error for a feature whose package cannot be imported: one line that ends with the command that
    installs it.

    ``what`` is the feature, with its verb. If the package is there, but its import fails, the line has the reason, too.
    """
    reason = "" if isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name else f" ({error})"
    found = errors.MissingPackageError(f"{what} {package}{reason}: pip install 'gpuconf[{extra}]'")
    found.name = error.name
    return found


def plain_machine(spec: str) -> str:
    """Return a simulated machine as messages name it: without the word for the cards of a rehearsal."""
    return spec.replace(":no-limit", "")
