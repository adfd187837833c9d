# SPDX-License-Identifier: Apache-2.0
"""The marks, the options, and the keys of the configuration file, as pytest lists them, and their values."""

from __future__ import annotations

from typing import Any

import pytest

MARKS = (
    "gpu(n=1, free=None, cc=None): needs n GPUs with this much free memory ('8GiB') and this compute capability "
    "('>=8.0').",
    "gpu_exclusive: no GPU test of another pytest-xdist worker runs on this worker's GPU meanwhile.",
    "gpu_leak(allow=0, warmup=0): fails if more GPU memory than this stays allocated after the test, once it has run "
    "warmup times.",
    "gpu_process(machine=None): runs the test in a process of its own, on the simulated machine if it names one "
    "('2xT4').",
    "gpu_peak(limit=None, tolerance=0, warmup=0): fails if more GPU memory is in use at once than this, or than in "
    "the baseline.",
)

# CUDA_VISIBLE_DEVICES when the run began.
MASK = pytest.StashKey["str | None"]()

# This process's part of the GPUs: the limit, and of a worker the UUID of its GPU and its name; None for all.
SHARE = pytest.StashKey["dict[str, Any] | None"]()

# Each option, what it takes (None: it is a switch), and what it does. --gpuconf is the mode; the others are
# --gpuconf-NAME. The keys have the same names: gpuconf, gpuconf_NAME.
_OPTIONS: dict[str, tuple[str | None, str]] = {
    "mode": (
        "MODE",
        "GPU tests: 'auto' skips them without a GPU (the default), 'required' fails them, 'simulate' simulates, 'off' "
        "skips.",
    ),
    "simulate": ("SPEC", "Simulate these GPUs, such as 2xH100-80GB."),
    "memory": (
        "SIZE|FRACTION",
        "The most GPU memory of the run, or of each pytest-xdist worker, such as 6GiB or 0.25. Without it, workers "
        "share their GPU equally.",
    ),
    "fail_on_cuda_at_collection": (None, "Fail a module that uses CUDA while it is imported."),
    "report": (None, "Show the GPU memory of each test that used any."),
    "update": (
        None,
        "Write the peaks of this run's tests with the mark gpu_peak to the baseline's file, gpuconf-memory.json, and "
        "remove the entries of tests that are gone.",
    ),
    "require_baseline": (None, "Fail tests with the mark gpu_peak that have no baseline on this GPU."),
    "peak": ("SIZE", "Fail tests that have more GPU memory in use at once than this, such as 6GiB."),
    "leak": ("SIZE", "Fail tests that leave more GPU memory allocated than this, such as 0 or 1MiB."),
}


def given(config: pytest.Config, name: str) -> Any:
    """Return the value of an option, else that of the key of the same name."""
    option = _option(config, name)
    if option == "":
        raise pytest.UsageError(f"{named(config, name)} is empty: it takes {_OPTIONS[name][0]}")
    return option if option is not None else _key(config, _whole(name))


def named(config: pytest.Config, name: str) -> str:
    """Return how a message names a value: by its option, or by its key if that was not given."""
    whole = _whole(name)
    return f"the key {whole}" if _option(config, name) is None else f"--{whole.replace('_', '-')}"


def _whole(name: str) -> str:
    return "gpuconf" if name == "mode" else f"gpuconf_{name}"


def _option(config: pytest.Config, name: str) -> Any:
    option = config.getoption(f"gpuconf_{name}", None)
    # Before the first conftest is loaded, pytest has the options here only; pytest 8.2 has no others then.
    if option is None:
        option = getattr(getattr(config, "known_args_namespace", None), f"gpuconf_{name}", None)
    return option


def _key(config: pytest.Config, name: str) -> Any:
    try:
        return config.getini(name)
    except (pytest.UsageError, TypeError, ValueError) as error:  # which need not name the key
        raise pytest.UsageError(str(error) if name in str(error) else f"{name}: {error}") from None


def is_plain(config: pytest.Config) -> bool:
    """Whether a run sets none of the options and keys: marks named as ours are another suite's then, and nothing is
    shared.
    """
    return not any(given(config, name) for name in _OPTIONS)


def add_options(parser: pytest.Parser) -> None:
    """Add the options and the keys."""
    group = parser.getgroup("gpuconf", "GPUs (gpuconf)")
    for name, (metavar, text) in _OPTIONS.items():
        whole = _whole(name)
        kind: Any = {"metavar": metavar} if metavar else {"action": "store_true", "default": None}
        group.addoption(f"--{whole.replace('_', '-')}", dest=f"gpuconf_{name}", help=text, **kind)
        of_key: Any = {"default": ""} if metavar else {"type": "bool", "default": False}
        parser.addini(whole, text, **of_key)
    parser.addini("gpuconf_baseline", "The baseline's file, from the suite's root.", default="gpuconf-memory.json")
    parser.addini(
        "gpuconf_tolerance", "The part by which a peak may be higher than the baseline's, such as 5%.", default=""
    )


MODES = ("auto", "simulate", "required", "off")
DEFAULT_MACHINE = "H100-80GB"


class Settings:
    """The values in force. An option takes precedence over the key of the same name."""

    def __init__(self, config: pytest.Config) -> None:
        self.mode: str = given(config, "mode") or "auto"
        self.machine: str = given(config, "simulate") or ""
        self.fail_on_cuda_at_collection = bool(given(config, "fail_on_cuda_at_collection"))
        self.report = bool(given(config, "report"))
        self.update = bool(given(config, "update"))
        self.require_baseline = bool(given(config, "require_baseline"))
        peak, leak = given(config, "peak"), given(config, "leak")
        self.peak = _size(named(config, "peak"), str(peak)) if peak else None
        leak = int(leak) if str(leak).isdecimal() else leak
        self.leak: int | None = _checked(size, named(config, "leak"), leak)
        self.baseline = config.rootpath / str(config.getini("gpuconf_baseline"))
        self.tolerance: float = _checked(tolerance, "gpuconf_tolerance", config.getini("gpuconf_tolerance")) or 0.0
        self.per_worker: int = 0  # bytes; 0 for none
        self.fraction: float = 0.0  # of a GPU's memory; 0 for none
        if self.mode not in MODES:
            from .._core import texts

            text = f"{named(config, 'mode')} must be one of {', '.join(MODES)}, but got {texts.shown(self.mode)}"
            raise pytest.UsageError(f"{text}; --gpuconf-simulate=2xT4 simulates GPUs")
        if self.machine and self.mode in ("off", "required"):
            raise pytest.UsageError(f"--gpuconf-simulate simulates GPUs and cannot be used with --gpuconf={self.mode}")
        if self.machine:
            self.mode = "simulate"
        if given(config, "memory"):
            self._share(named(config, "memory"), str(given(config, "memory")))

    def _share(self, name: str, text: str) -> None:
        part = "%" in text or "." in text
        try:
            number = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            part = False
        if part and not 0 < number <= 1:
            raise pytest.UsageError(f"{name} {text!r} must be more than 0 and at most all of a GPU's memory")
        if part:
            self.fraction = number
        else:
            self.per_worker = _size(name, text, ", or a fraction: 0.25 or '25%'")


class MarkError(Exception):
    """A mark is invalid: the test errors."""


def size(name: str, value: Any) -> int:
    """Return bytes of a number or a text such as "8GiB". Raises MarkError."""
    from .._core import sizes, texts

    try:
        found = sizes.size(name, value)
    except (ValueError, TypeError) as error:
        raise MarkError(str(error)) from None
    if isinstance(value, bool) or found < 0:
        raise MarkError(f"{name} must be a size of at least 0, but got {texts.shown(value)}")
    return found


def tolerance(name: str, value: Any) -> float:
    """Return the part by which a peak may be higher: 0.05, or "5%". Raises MarkError."""
    part = 0.0
    try:
        if isinstance(value, str):
            part = float(value.strip().removesuffix("%")) / (100 if value.strip().endswith("%") else 1)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            part = float(value)
        else:
            raise ValueError
        if not 0 <= part <= 1:
            raise ValueError
    except ValueError:
        from .._core import texts

        hint = f"; did you mean '{part:g}%'?" if 1 < part <= 100 else ""
        raise MarkError(
            f"{name} must be a part of the peak such as 0.05 or '5%', but got {texts.shown(value)}{hint}"
        ) from None
    return part


def _size(option: str, text: str, other: str = "") -> int:
    from .. import errors
    from .._core import sizes

    try:
        return sizes.limit_bytes(int(text) if text.isdecimal() else text)
    except errors.GpuconfError as error:
        _, hint, meant = str(error).partition("; did")
        what = f"{option} {text!r} must be a size of at least 1 MiB, such as '6GiB'{other}{hint}{meant}"
        raise pytest.UsageError(what) from None


def _checked(check: Any, name: str, value: Any) -> Any:
    """Return what a check of marks makes of a value, None for none."""
    if value in (None, ""):
        return None
    try:
        return check(name, value)
    except MarkError as error:
        raise pytest.UsageError(str(error)) from None


_KEY = pytest.StashKey[Settings]()


def settings(config: pytest.Config) -> Settings:
    """Return the settings of a run. Raises pytest.UsageError for an invalid one."""
    if _KEY not in config.stash:
        config.stash[_KEY] = Settings(config)
    return config.stash[_KEY]
