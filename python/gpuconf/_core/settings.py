# SPDX-License-Identifier: Apache-2.0
"""Settings of gpuconf: from calls, the environment, and files, in this order.

``gpuconf.toml``, or the table ``[tool.gpuconf]`` of a ``pyproject.toml``, in the working directory or the nearest folder above it.
The
administrator's file sets ceilings, which every process keeps. Reading is cheap while the files do not change.
"""

from __future__ import annotations

import os
import stat
from collections import namedtuple
from collections.abc import Mapping

from .. import errors
from .._typing import Any
from . import sizes, texts


class Setting(namedtuple("Setting", ["variable", "key", "kind", "default", "text"])):
    """One setting, with the name of its environment variable."""

    __slots__ = ()

    variable: str
    key: str  # in files; "" for one that files cannot set
    kind: str  # "text", "path", "size" or "switch"
    default: str  # for people
    text: str  # what it does


SETTINGS = (
    Setting("GPUCONF_SIMULATE", "simulate", "text", "", "simulated GPUs instead of real ones, such as 2xH100-80GB"),
    Setting(
        "GPUCONF_MEMORY_LIMIT", "memory_limit", "size", "", "the most memory of a process on each GPU; calls can only lower it"
    ),
    Setting("GPUCONF_ALLOW_GROWTH", "allow_growth", "switch", "", "whether pools grow; overrides set_memory_growth"),
    Setting("GPUCONF_LEDGER", "ledger", "path", "", "folder of the ledger, in which processes lease memory"),
    Setting("GPUCONF_BLAS", "blas", "text", "auto", "what multiplies matrices on the CPU: auto, gonum, or a library's path"),
    Setting("CUDA_VISIBLE_DEVICES", "", "text", "all", "the GPUs that a process sees"),
    Setting("CUDA_DEVICE_ORDER", "", "text", "FASTEST_FIRST", "how CUDA numbers GPUs"),
    Setting("TF_FORCE_GPU_ALLOW_GROWTH", "", "text", "", "same as GPUCONF_ALLOW_GROWTH, which takes precedence"),
    Setting("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "", "text", "", "MiB that the default limit leaves to the system"),
    Setting("TF_ENABLE_GPU_GARBAGE_COLLECTION", "", "text", "true", "whether pools release idle memory before an allocation fails"),
    Setting("TF_MIN_GPU_MULTIPROCESSOR_COUNT", "", "text", "8", "GPUs with fewer multiprocessors are ignored"),
    Setting("TF_ENABLED_DEVICE_TYPES", "", "text", "all", "the types of devices to list"),
    Setting("GPUCONF_DISABLE", "", "text", "", "1 turns off what `gpuconf run` adds to Python's startup"),
)

_KEYS = {setting.key: setting for setting in SETTINGS if setting.key}
_LIMIT = "GPUCONF_MEMORY_LIMIT"
_GROWTH = "GPUCONF_ALLOW_GROWTH"

# Names a file to read instead of the nearest one; empty for no file.
CHOICE = "GPUCONF_CONFIG"

ADMINISTRATOR = "/etc/gpuconf.toml"


class Origin(namedtuple("Origin", ["value", "source", "ceiling"])):
    """A setting's value and where it comes from."""

    __slots__ = ()

    value: str  # "" if nothing sets it
    source: str  # "call", "environment", a file's path, or "default"
    ceiling: str  # the file that lowered the value, or ""


def environment(environ: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return the variables with one of the prefixes, completed by files and kept below ceilings."""
    found = {name: value for name, value in environ.items() if name.startswith(prefixes)}
    for name, origin in _from_file(environ).items():
        found.setdefault(name, origin.value)
    _check_switch(found.get(_GROWTH, ""))
    limit = _below_ceiling(Origin(found.get(_LIMIT, ""), "", ""))
    if limit.value:
        found[_LIMIT] = limit.value
    return found


def explain(environ: Mapping[str, str], called: Mapping[str, str]) -> dict[str, Origin]:
    """Return each setting's value and where it comes from. ``called`` are those that calls have set."""
    files = _from_file(environ)
    found = {}
    for setting in SETTINGS:
        name = setting.variable
        if name in called:
            origin = Origin(called[name], "call", "")
        elif name in environ:
            origin = Origin(environ[name], "environment", "")
        else:
            origin = files.get(name) or Origin(setting.default, "default", "")
        if name == _GROWTH:
            _check_switch(origin.value)
        found[name] = _below_ceiling(origin) if name == _LIMIT else origin
    return found


def value(name: str, environ: Mapping[str, str]) -> str:
    """Return a setting that the core does not read, such as the ledger's folder; "" if nothing sets it."""
    if name in environ:
        return environ[name]
    origin = _from_file(environ).get(name)
    return origin.value if origin else ""


def ceiling() -> int | None:
    """Return the most bytes that the administrator allows a process on each GPU; None for any amount."""
    table = _administrators()
    return None if table is None else table.get("memory_limit")


def _check_switch(text: str) -> None:
    if text not in ("", "true", "false"):
        raise errors.InvalidArgumentError(f"{_GROWTH} must be true or false, but got {texts.shown(text)}")


def _below_ceiling(origin: Origin) -> Origin:
    """Return a memory limit in bytes, lowered to the administrator's ceiling. Raises InvalidArgumentError if it is no size."""
    most = ceiling()
    limit = _limit(_LIMIT, origin.value) if origin.value else None
    if most is not None and (limit is None or limit > most):
        return Origin(str(most), origin.source or "default", ADMINISTRATOR)
    return origin if limit is None else origin._replace(value=str(limit))


def _from_file(environ: Mapping[str, str]) -> dict[str, Origin]:
    """Return the settings of the nearest file, by variable."""
    chosen = environ.get(CHOICE)
    if chosen is not None:
        if not chosen:
            return {}
        path, table = chosen, _table(chosen)
        if table is None:
            raise errors.InvalidArgumentError(
                f"{CHOICE} is {texts.shown(chosen)}, but there is no such file, or it has no [tool.gpuconf]"
            )
    else:
        path, table = _nearest()
    if not table:
        return {}
    return {_KEYS[key].variable: Origin(_text(path, key, given), path, "") for key, given in table.items()}


def _nearest() -> tuple[str, dict[str, Any] | None]:
    try:
        folder = os.getcwd()
    except OSError:  # it was deleted
        return "", None
    while True:
        for name in ("gpuconf.toml", "pyproject.toml"):
            path = os.path.join(folder, name)
            try:
                table = _table(path)
            except errors.UnavailableError:
                if os.access(folder, os.X_OK):
                    raise
                break  # in a container that changes the user, its first folder may be another user's, and shows nothing
            if table is not None:
                return path, table
        above = os.path.dirname(folder)
        if above == folder:
            return "", None
        folder = above


_MOST_BYTES = 4 << 20
_read: dict[str, tuple[tuple[int, int, int], Any]] = {}  # by path: its identity when it was read, and its table


def _parsed(path: str) -> dict[str, Any] | None:
    """Return a TOML file's contents; {} for a pyproject.toml that does not mention gpuconf, None for no file."""
    try:
        at = os.stat(path)
        identity = (at.st_ino, at.st_mtime_ns, at.st_size)
        if path in _read and _read[path][0] == identity:
            return _read[path][1]  # type: ignore[no-any-return]
        text = _contents(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise errors.UnavailableError(f"cannot read the settings in {path}: {error.strerror}") from None
    others = os.path.basename(path) == "pyproject.toml" and b"tool.gpuconf" not in text.translate(None, b" \t'\"")
    found = {} if others else _toml(path, text)
    _read[path] = identity, found
    return found


def _contents(path: str) -> bytes:
    """Read a file, within bounds: not a pipe, which may never end, and not more than any settings need."""
    with open(path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
        text = None if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode) else file.read(_MOST_BYTES + 1)
    if text is None:
        raise errors.UnavailableError(f"cannot read the settings in {path}: it is a pipe or a terminal")
    if len(text) > _MOST_BYTES:
        raise errors.UnavailableError(f"cannot read the settings in {path}: it is larger than {_MOST_BYTES >> 20} MiB")
    return text


def _toml(path: str, text: bytes) -> dict[str, Any]:
    try:
        import tomllib  # type: ignore[import-not-found,unused-ignore]
    except ImportError:  # Python 3.10
        try:
            import tomli as tomllib  # type: ignore[import-not-found]
        except ImportError:
            raise errors.UnimplementedError(f"{path} has settings, which Python 3.10 reads with tomli: pip install tomli") from None
    try:
        found: dict[str, Any] = tomllib.loads(text.decode())
    except ValueError as error:
        raise errors.InvalidArgumentError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise errors.InvalidArgumentError(f"{path} is nested too deeply") from None
    return found


def _table(path: str) -> dict[str, Any] | None:
    """Return gpuconf's table of a file, with known keys; None if the file has none."""
    contents = _parsed(path)
    if contents is None:
        return None
    if os.path.basename(path) == "pyproject.toml":
        tools = contents.get("tool")
        contents = tools.get("gpuconf") if isinstance(tools, dict) else None
        if contents is None:
            return None
        path += ", [tool.gpuconf]"
    _refuse_unknown(path, contents, _KEYS)
    return contents


def _refuse_unknown(where: str, table: Any, known: Mapping[str, Any]) -> None:
    if not isinstance(table, dict):
        raise errors.InvalidArgumentError(f"{where} must be a table of settings")
    for key in table:
        if key not in known:
            raise errors.InvalidArgumentError(f"{where}: unknown setting {texts.shown(key)}; the settings are {', '.join(known)}")


def _text(path: str, key: str, given: Any) -> str:
    """Return a value of a file as its variable would have it."""
    kind = _KEYS[key].kind
    what = f"{key} in {path}"
    if kind == "switch":
        if not isinstance(given, bool):
            raise errors.InvalidArgumentError(f"{what} must be true or false, but got {texts.shown(given)}")
        return "true" if given else "false"
    if kind == "size":
        return str(_limit(what, given))
    if not isinstance(given, str):
        raise errors.InvalidArgumentError(f"{what} must be text, but got {texts.shown(given)}")
    return os.path.join(os.path.dirname(os.path.abspath(path)), os.path.expanduser(given)) if kind == "path" else given


def _limit(what: str, given: Any) -> int:
    try:
        count = -1 if isinstance(given, bool) else sizes.size(what, given)
    except errors.InvalidTypeError as error:
        raise errors.InvalidArgumentError(str(error)) from None
    if count < 1 << 20:
        raise errors.InvalidArgumentError(f"{what} must be at least 1 MiB, such as '6GiB', but got {texts.shown(given)}")
    return count


def _administrators() -> dict[str, int] | None:
    contents = _parsed(ADMINISTRATOR)
    if contents is None:
        return None
    _refuse_unknown(ADMINISTRATOR, contents, {"ceilings": ()})
    table = contents.get("ceilings", {})
    where = f"{ADMINISTRATOR}, [ceilings]"
    _refuse_unknown(where, table, {"memory_limit": ()})
    return {key: _limit(f"{key} in {where}", given) for key, given in table.items()}
