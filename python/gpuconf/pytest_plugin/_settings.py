# SPDX-License-Identifier: Apache-2.0
"""The values of the options and of the keys of the configuration file."""

from __future__ import annotations

import pytest

from .._core import texts
from .._typing import Any
from ._options import given

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
        from ._marks import size, tolerance

        peak, leak = given(config, "peak"), given(config, "leak")
        self.peak = _size("--gpuconf-peak", str(peak)) if peak else None
        self.leak: int | None = _checked(size, "--gpuconf-leak", int(leak) if str(leak).isdecimal() else leak)
        self.baseline = config.rootpath / str(config.getini("gpuconf_baseline"))
        self.tolerance: float = _checked(tolerance, "gpuconf_tolerance", config.getini("gpuconf_tolerance")) or 0.0
        self.per_worker: int = 0  # bytes; 0 for none
        self.fraction: float = 0.0  # of a GPU's memory; 0 for none
        if self.mode not in MODES:
            text = f"--gpuconf must be one of {', '.join(MODES)}, but got {texts.shown(self.mode)}"
            raise pytest.UsageError(f"{text}; --gpuconf-simulate=2xT4 simulates GPUs")
        if self.machine and self.mode in ("off", "required"):
            raise pytest.UsageError(f"--gpuconf-simulate simulates GPUs and cannot be used with --gpuconf={self.mode}")
        if self.machine:
            self.mode = "simulate"
        if given(config, "memory"):
            self._share(str(given(config, "memory")))

    def _share(self, text: str) -> None:
        part = "%" in text or "." in text
        try:
            number = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            part = False
        if part and not 0 < number <= 1:
            raise pytest.UsageError(f"--gpuconf-memory {text!r} must be more than 0 and at most all of a GPU's memory")
        if part:
            self.fraction = number
        else:
            self.per_worker = _size("--gpuconf-memory", text, ", or a fraction: 0.25 or '25%'")


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
    from ._marks import MarkError

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
