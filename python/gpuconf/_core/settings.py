# SPDX-License-Identifier: Apache-2.0
"""Settings of gpuconf: from calls, the environment, and files, in this order.

``gpuconf.toml``, or the table ``[tool.gpuconf]`` of a ``pyproject.toml``, in the working directory or the nearest
folder above it, as far as it can be trusted (:mod:`.settings_file`). Such a file cannot name code, the ledger or a
simulation, unless the user trusts its folder. The administrator's file sets ceilings, which every process keeps.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from .. import errors
from .._missing import closest
from .._typing import Any, NamedTuple
from . import message, settings_file, sizes, texts
from .settings_file import Ignored
from .table import human_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Setting(NamedTuple):
    """One setting, with the name of its environment variable."""

    variable: str
    text: str  # what it does
    key: str = ""  # in files; "" for one that files cannot set
    # "text", "path", "library" (a path or another name), "size" (of a limit), "amount" (which may be 0), "lease" (a
    # size or MIN..MAX), "switch", or "flag" (1 or 0).
    kind: str = "text"
    default: str = ""  # for people


VALUES = "GPUCONF_SIMULATE_VALUES"

SETTINGS = (
    Setting("GPUCONF_SIMULATE", "simulated GPUs instead of real ones, such as 2xH100-80GB", key="simulate"),
    Setting(VALUES, "what PyTorch computes on simulated GPUs: cpu (default), everything; none, only small tensors"),
    Setting("GPUCONF_SIMULATE_STRICT", "1: what has no value on simulated GPUs is an error", kind="flag"),
    Setting(
        "GPUCONF_LIMIT", "the most memory of a process on each GPU; calls can only lower it", key="limit", kind="size"
    ),
    Setting(
        "NVIDIA_GPU_MEMORY_LIMIT",
        "MiB of each GPU that NVIDIA's toolkit allows a container: a ceiling for limits and leases",
    ),
    Setting("GPUCONF_GROWTH", "whether pools grow; overrides set_memory_growth", key="growth", kind="switch"),
    Setting(
        "GPUCONF_MEMORY",
        "what `gpuconf run` leases without --memory and --gpus, such as 10GiB..30GiB",
        key="memory",
        kind="lease",
    ),
    Setting(
        "GPUCONF_TURNS",
        "whether programs of `gpuconf run` take turns by default; experimental: on a real driver, too",
        key="turns",
        kind="switch",
    ),
    Setting("GPUCONF_LEDGER", "folder of the ledger, in which processes lease memory", key="ledger", kind="path"),
    Setting(
        "GPUCONF_CONTEXT_MEMORY",
        "memory that a lease takes for each process's CUDA context; 0 for none",
        key="context_memory",
        kind="amount",
        default="by GPU",
    ),
    Setting(
        "GPUCONF_BLAS",
        "what multiplies matrices on the CPU: auto, gonum, or a library's path",
        key="blas",
        kind="library",
        default="auto",
    ),
    Setting("GPUCONF_SIMULATE_PLAIN_NAMES", "1: names of simulated GPUs do not end in (simulated)", kind="flag"),
    Setting(
        "GPUCONF_SIMULATOR_LOG", "1: what a program calls and is not simulated is named on standard error", kind="flag"
    ),
    Setting("CUDA_VISIBLE_DEVICES", "the GPUs that a process sees", default="all"),
    Setting("CUDA_DEVICE_ORDER", "how CUDA numbers GPUs", default="FASTEST_FIRST"),
    Setting("TF_FORCE_GPU_ALLOW_GROWTH", "same as GPUCONF_GROWTH, which takes precedence"),
    Setting("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "MiB that the default limit leaves to the system"),
    Setting(
        "TF_ENABLE_GPU_GARBAGE_COLLECTION",
        "whether pools release idle memory before an allocation fails",
        default="true",
    ),
    Setting("TF_MIN_GPU_MULTIPROCESSOR_COUNT", "GPUs with fewer multiprocessors are ignored", default="8"),
    Setting("TF_ENABLED_DEVICE_TYPES", "the types of devices to list", default="all"),
    Setting(settings_file.VARIABLE, "folders whose settings files count in any case, with every key"),
    Setting("GPUCONF_DISABLE", "1 turns off what `gpuconf run` adds to Python's startup", kind="flag"),
)

# Variables of gpuconf that are no settings: the file, what its commands and plugins pass on, and what builds read.
OWN = (
    "GPUCONF_AS_TENSORFLOW",
    "GPUCONF_BUILD_TAGS",
    "GPUCONF_CONFIG",
    "GPUCONF_DOCUMENTATION",
    "GPUCONF_GUARD",
    "GPUCONF_LEASE",
    "GPUCONF_LEASE_FD",
    "GPUCONF_LIMIT_FROM",
    "GPUCONF_PINNED_GO",
    "GPUCONF_PYTEST_PROCESS",
    "GPUCONF_MIRROR",
    "GPUCONF_REHEARSAL",
    "GPUCONF_REPOSITORY",
    "GPUCONF_RUN",
    "GPUCONF_SIMULATED_CARDS",
    "GPUCONF_STARTUP",
    "GPUCONF_WHEEL_PLATFORM",
)

_KNOWN = frozenset((*(setting.variable for setting in SETTINGS), *OWN))
_KEYS = {setting.key: setting for setting in SETTINGS if setting.key}
_LIMIT = "GPUCONF_LIMIT"
_GROWTH = "GPUCONF_GROWTH"
_CONTEXT = "GPUCONF_CONTEXT_MEMORY"
_BLAS = "GPUCONF_BLAS"

# What other programs take for a switch, in lower case.
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")

ADMINISTRATOR = "/etc/gpuconf.toml"

# What NVIDIA's container toolkit applies to a container: the bytes that are guaranteed, and the most, in whole MiB.
CONTAINER_REQUEST, CONTAINER_LIMIT = "NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"


class Ceiling(NamedTuple):
    """The most bytes that a process may have on each GPU, and the file or the variable that says so."""

    bytes: int
    source: str


class Origin(NamedTuple):
    """A setting's value and where it comes from."""

    value: str  # "" if nothing sets it
    source: str  # "call", "environment", a file's path, or "default"
    ceiling: str  # the file or the variable that lowered the value, or ""


_MEANT = {"MEMORY_LIMIT": "GPUCONF_LIMIT", "SIMULATED": "GPUCONF_SIMULATE"}  # behind GPUCONF_


def set_variables(variables: Mapping[str, str | None]) -> None:
    """Set variables of this process, and remove those that are None."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def misspelled(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return a sentence for each variable of gpuconf that it does not have, and what to do."""
    sentences = []
    for name in sorted(environ):
        if name.startswith("GPUCONF_") and name not in _KNOWN and "_TEST" not in name:
            # The variables that a user sets, before those that gpuconf passes to its own processes.
            close = _MEANT.get(name[8:]) or closest(name, _KNOWN - set(OWN)) or closest(name, OWN)
            fix = f"did you mean {close}?" if close else "unset it"
            sentences.append((f"{name} is set, but gpuconf has no such variable", fix))
    return sentences


def requested_values() -> str:
    """Return the choice of ``GPUCONF_SIMULATE_VALUES``, or "cpu". Raises InvalidArgumentError for another value."""
    return checked_values(os.environ.get(VALUES) or "cpu", VALUES)


def checked_values(values: str, name: str) -> str:
    """Return a choice of what PyTorch computes on simulated GPUs. Raises InvalidArgumentError for another text."""
    if values not in ("cpu", "none"):
        raise errors.InvalidArgumentError(
            f'{name} is {values!r}: choose "cpu", with which the CPU computes what PyTorch does on simulated GPUs, or '
            '"none", with which PyTorch only allocates'
        )
    return values


def environment(environ: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return the variables with one of the prefixes, completed by files and kept below ceilings."""
    variables = {name: value for name, value in environ.items() if name.startswith(prefixes)}
    of_file, ignored = _from_file(environ)
    _log(ignored)
    _warn_of_misspelled(environ)
    for name, origin in of_file.items():
        variables.setdefault(name, origin.value)
    _check_switch(variables.get(_GROWTH, ""))
    values = variables.get(VALUES)
    if values:
        checked_values(values, VALUES)
    context = variables.get(_CONTEXT)
    if context:
        _amount(_CONTEXT, context)
    texts.check_text(_BLAS, variables.get(_BLAS, ""))
    limit = _below_ceiling(Origin(variables.get(_LIMIT, ""), "", ""), environ)
    if limit.value:
        variables[_LIMIT] = limit.value
    return variables


def explain(environ: Mapping[str, str], called: Mapping[str, str]) -> dict[str, Origin]:
    """Return each setting's value and where it comes from. ``called`` are those that calls have set."""
    files, _ = _from_file(environ)
    origins = {}
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
        origins[name] = _below_ceiling(origin, environ) if name == _LIMIT else origin
    return origins


def limit(environ: Mapping[str, str]) -> Origin:
    """Return the most bytes of a process on each GPU that a variable, a file and the ceilings leave; "" for any."""
    return explain(environ, {})[_LIMIT]


def who_limits(origin: Origin) -> str:
    """Return where a limit comes from, as a message names it: what to change for another one."""
    return origin.ceiling or _named(_LIMIT, origin)


def _named(name: str, origin: Origin) -> str:
    return name if origin.source == "environment" else f"{_key(name)} in {origin.source}"


def _key(name: str) -> str:
    return next(key for key, setting in _KEYS.items() if setting.variable == name)


def memory_of_run(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return what `gpuconf run` leases without options, and who says so, as a message names it."""
    origin = explain(environ, {})["GPUCONF_MEMORY"]
    return origin.value, _named("GPUCONF_MEMORY", origin) if origin.value else ""


def value(name: str, environ: Mapping[str, str]) -> str:
    """Return a setting that the core does not read, such as the ledger's folder; "" if nothing sets it."""
    if name in environ:
        return environ[name]
    of_file, ignored = _from_file(environ)
    _log(ignored)
    return of_file[name].value if name in of_file else ""


def ignored(environ: Mapping[str, str]) -> list[Ignored]:
    """Return the files and the settings of files that do not count, and why."""
    return _from_file(environ)[1]


def requested(name: str, environ: Mapping[str, str]) -> str:
    """Return who sets a variable in a way that means this program: not the administrator, who means all."""
    origin = explain(environ, {})[name]
    return asked(name, environ) if origin.value and origin.source != "default" else ""


def asked(name: str, environ: Mapping[str, str]) -> str:
    """Return who sets a variable that no call sets, for a message: the environment, or a file with the line.

    "" if nothing does.
    """
    if name in environ:
        return f"{name}={environ[name]} in the environment"
    origin = _from_file(environ)[0].get(name)
    if origin is None:
        return ""
    key = _key(name)
    line = settings_file.line_of(origin.source, key)
    return f"{key} in {origin.source}" + (f", line {line}" if line else "")


def ceiling(environ: Mapping[str, str] = os.environ) -> Ceiling | None:
    """Return the most that the administrator or the container allows a process on each GPU; None for any amount."""
    table = _administrators() or {}
    ceilings = [Ceiling(table["limit"], ADMINISTRATOR)] if "limit" in table else []
    most = _of_container(CONTAINER_LIMIT, environ)
    if most is not None:
        requested = _of_container(CONTAINER_REQUEST, environ)
        if requested is not None and requested > most:
            raise errors.InvalidArgumentError(
                f"{CONTAINER_REQUEST}={environ[CONTAINER_REQUEST]} is more than "
                f"{CONTAINER_LIMIT}={environ[CONTAINER_LIMIT]}"
            )
        ceilings.append(Ceiling(most, CONTAINER_LIMIT))
    return min(ceilings, default=None)


def refuse_above_ceiling(wanted: int) -> None:
    """Raise InvalidArgumentError for more bytes than the ceiling allows."""
    most = ceiling()
    if most is not None and wanted > most.bytes:
        whose = "administrator" if most.source == ADMINISTRATOR else "container"
        raise errors.InvalidArgumentError(
            f"{human_bytes(wanted)} of memory exceed the {whose}'s limit for each GPU, {human_bytes(most.bytes)} "
            f"({most.source}). Request less memory"
        )


def _of_container(name: str, environ: Mapping[str, str]) -> int | None:
    """Return the bytes of a variable of NVIDIA's container toolkit, which takes digits alone; None if it is not set."""
    text = environ.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) < 1 << 43):
        raise errors.InvalidArgumentError(
            f"{name}={texts.shown(text)} must be a number of MiB, at least 1, such as 6144"
        )
    return int(text) << 20


def _check_switch(text: str) -> None:
    if text not in ("", "true", "false"):
        raise errors.InvalidArgumentError(
            f"{_GROWTH} must be true or false, but got {texts.shown(text)}{_meant_switch(text)}"
        )


def _meant_switch(given: Any) -> str:
    """Return a question for another spelling of true or false, or an empty text."""
    for meant, spellings in (("true", _TRUE), ("false", _FALSE)):
        if str(given).lower() in spellings:
            return f"; did you mean {meant}?"
    return ""


def _below_ceiling(origin: Origin, environ: Mapping[str, str]) -> Origin:
    """Return a memory limit in bytes, lowered to the ceiling.

    Raises InvalidArgumentError if it is no size.
    """
    most = ceiling(environ)
    limit = _limit(_LIMIT, origin.value) if origin.value else None
    if most is not None and (limit is None or limit > most.bytes):
        return Origin(str(most.bytes), origin.source or "default", most.source)
    return origin if limit is None else origin._replace(value=str(limit))


def _from_file(environ: Mapping[str, str]) -> tuple[dict[str, Origin], list[Ignored]]:
    """Return the settings of the file that counts, by variable, and what does not count."""
    file, ignored = settings_file.find(environ)
    origins: dict[str, Origin] = {}
    if file is None:
        return origins, ignored
    where = file.path + (", [tool.gpuconf]" if os.path.basename(file.path) == "pyproject.toml" else "")
    _refuse_unknown(where, file.table, _KEYS)
    for key, given in file.table.items():
        why = "" if file.trusted else _not_from_a_folder(key, given)
        if why:
            ignored.append(Ignored(file.path, key, why))
        else:
            origins[_KEYS[key].variable] = Origin(_text(file.path, key, given), file.path, "")
    return origins, ignored


def _not_from_a_folder(key: str, given: Any) -> str:
    """Return why a setting is not taken from a file that merely lies in a folder, such as that of a project of
    others.
    """
    if key == "blas" and given in ("auto", "gonum"):
        return ""
    what = _ONLY_TRUSTED.get(key)
    return f"a file found in or above the working directory cannot {what}" if what else ""


_ONLY_TRUSTED = {
    "blas": "name code to load",
    "ledger": "move the ledger",
    "simulate": "replace the GPUs by simulated ones",
}


_logged: set[str] = set()


def _warn_of_misspelled(environ: Mapping[str, str]) -> None:
    """Warn, once in a process: a misspelled GPUCONF_LIMIT is no limit."""
    for text, fix in misspelled(environ):
        if text not in _logged:
            _logged.add(text)
            import warnings

            warnings.warn_explicit(f"{text}: {fix}", UserWarning, "environment", 0)


def _log(ignored: list[Ignored]) -> None:
    """Log what does not count, once in a process."""
    for entry in ignored:
        if entry.text not in _logged:
            _logged.add(entry.text)
            message.log("warning", f"{entry.text}. {entry.fix}")


def _refuse_unknown(where: str, table: Any, known: Mapping[str, Any]) -> None:
    if not isinstance(table, dict):
        raise errors.InvalidArgumentError(f"{where} must be a table of settings")
    for key in table:
        if key not in known:
            if key in ("gpuconf", "tool"):
                raise errors.InvalidArgumentError(
                    f"{where} has the table [{key}]: write its settings without a table, at the top"
                )
            meant = _KEYS_MEANT.get(str(key).lower()) or closest(key, known)
            guess = f". Did you mean {meant}?" if meant in known else f"; the settings are {', '.join(known)}"
            raise errors.InvalidArgumentError(f"{where}: unknown setting {texts.shown(key)}{guess}")


# What calls, commands and other tools name them.
_KEYS_MEANT = {
    **dict.fromkeys(("mem", "max_memory", "gpu_memory", "gpuconf_limit"), "limit"),
    **dict.fromkeys(("memory_growth", "set_memory_growth", "gpuconf_growth"), "growth"),
    **dict.fromkeys(("simulated", "gpu", "gpus", "gpuconf_simulate"), "simulate"),
}


def _text(path: str, key: str, given: Any) -> str:
    """Return a value of a file as its variable would have it."""
    kind = _KEYS[key].kind
    what = f"{key} in {path}"
    if kind == "switch":
        if not isinstance(given, bool):
            raise errors.InvalidArgumentError(
                f"{what} must be true or false, but got {texts.shown(given)}{_meant_switch(given)}"
            )
        return "true" if given else "false"
    if kind == "size":
        return str(_limit(what, given))
    if kind == "amount":
        return str(_amount(what, given))
    if kind == "lease" and isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if not isinstance(given, str):
        raise errors.InvalidArgumentError(f"{what} must be text, but got {texts.shown(given)}")
    is_path = kind == "path" or (kind == "library" and (os.sep in given or given.startswith("~")))
    return os.path.join(os.path.dirname(os.path.abspath(path)), os.path.expanduser(given)) if is_path else given


def _limit(what: str, given: Any) -> int:
    return _bytes(what, given, 1 << 20, "1 MiB, such as '6GiB'", sizes.number_hint(given), sizes.unit_hint)


def _amount(what: str, given: Any) -> int:
    return _bytes(what, given, 0, "0, such as '400MiB'", "", lambda *_: "")


def _bytes(what: str, given: Any, least: int, words: str, of_kind: str, of_size: Callable[[Any, int], str]) -> int:
    try:
        count = -1 if isinstance(given, bool) else sizes.size(what, given)
    except errors.InvalidTypeError as error:
        raise errors.InvalidArgumentError(f"{error}{of_kind}") from None
    if count < least:
        text = f"{what} must be at least {words}, but got {texts.shown(given)}{of_size(given, count)}"
        raise errors.InvalidArgumentError(text)
    return count


EXPERIMENTAL = "experimental"


def turns_by_default(environ: Mapping[str, str]) -> bool:
    """Return whether programs of ``gpuconf run`` take turns by the environment, a file, or else the administrator's.

    No file turns on what is experimental.
    """
    text = explain(environ, {})["GPUCONF_TURNS"].value.lower()
    if text == EXPERIMENTAL:
        text = value("GPUCONF_TURNS", {name: text for name, text in environ.items() if name != "GPUCONF_TURNS"})
    if text not in ("", *_TRUE, *_FALSE):
        raise errors.InvalidArgumentError(f"GPUCONF_TURNS must be true, false or {EXPERIMENTAL}, but got {text!r}")
    if text:
        return text in _TRUE
    contents = settings_file.read(ADMINISTRATOR) or {}
    return _text(ADMINISTRATOR, "turns", contents.get("turns", False)) == "true"


def _administrators() -> dict[str, int] | None:
    contents = settings_file.read(ADMINISTRATOR)
    if contents is None:
        return None
    _refuse_unknown(ADMINISTRATOR, contents, {"ceilings": (), "turns": ()})
    where = f"{ADMINISTRATOR}, [ceilings]"
    table = contents.get("ceilings", {})
    _refuse_unknown(where, table, {"limit": ()})
    return {key: _limit(f"{key} in {where}", given) for key, given in table.items()}


# Where the ledger is.

VARIABLE = "GPUCONF_LEDGER"

# An administrator makes this one for all users with `gpuconf ledger init --shared`.
MACHINE_FOLDER = "/var/lib/gpuconf/ledger"


def default_folder(environ: Mapping[str, str] | None = None) -> str:
    """Return the ledger's folder: the one that is set, else the machine's if there is one, else a private one of this
    user.

    ``GPUCONF_LEDGER`` sets it, or ``ledger`` in gpuconf.toml.

    A private ledger is in ``/var/tmp``, which outlives the login and is the same for cron and ssh. The user's run-time
    directory and ``/dev/shm`` may be emptied at logout, and a home may be on a network file system. ``TMPDIR`` is not
    read: batch systems give each job its own, and jobs with different ledgers would not see each other's leases.

    Raises InvalidArgumentError for a relative path in the variable: it would be another ledger in each folder; and for
    one that is not UTF-8, which the core cannot open.
    """
    environ = os.environ if environ is None else environ
    chosen = os.path.expanduser(value(VARIABLE, environ))
    if chosen and not os.path.isabs(chosen):
        raise errors.InvalidArgumentError(
            f"{VARIABLE}={texts.shown(chosen)} is a relative path, which names another folder in each working "
            'directory: programs would not see each other\'s leases. Write an absolute one, such as "$PWD/ledger"'
        )
    if chosen:
        return texts.check_text(VARIABLE, os.path.abspath(chosen))
    if has_ledger(MACHINE_FOLDER):
        return MACHINE_FOLDER
    place = "/var/tmp" if os.path.isdir("/var/tmp") else "/tmp"
    return f"{place}/gpuconf-{os.geteuid()}"


def has_ledger(folder: str) -> bool:
    """Report whether a folder is a ledger."""
    return os.path.exists(os.path.join(folder, "ledger"))
