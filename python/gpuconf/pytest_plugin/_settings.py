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
        self.peak = self._peak(given(config, "peak"))
        self.leak = self._leak(given(config, "leak"))
        self.baseline = config.rootpath / str(config.getini("gpuconf_baseline"))
        self.tolerance = self._tolerance(config.getini("gpuconf_tolerance"))
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

    @staticmethod
    def _peak(text: Any) -> int | None:
        if not text:
            return None
        from .. import errors
        from .._core import sizes

        try:
            return sizes.limit_bytes(str(text))
        except errors.GpuconfError as error:
            hint = str(error).partition("; did")
            text = f"--gpuconf-peak {text!r} must be a size of at least 1 MiB, such as '6GiB'{hint[1]}{hint[2]}"
            raise pytest.UsageError(text) from None

    @staticmethod
    def _leak(text: Any) -> int | None:
        if not text:
            return None
        from ._marks import MarkError, size

        try:
            return size("--gpuconf-leak", int(text) if str(text).isdecimal() else text)
        except MarkError as error:
            raise pytest.UsageError(str(error)) from None

    @staticmethod
    def _tolerance(text: Any) -> float:
        from ._marks import MarkError, tolerance

        try:
            return tolerance("gpuconf_tolerance", text) if text else 0.0
        except MarkError as error:
            raise pytest.UsageError(str(error)) from None

    def _share(self, text: str) -> None:
        from .. import errors
        from .._core import sizes

        try:
            self.fraction = float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
            if not text.endswith("%") and "." not in text:
                self.fraction = 0.0
            elif not 0 < self.fraction <= 1:
                raise pytest.UsageError(
                    f"--gpuconf-memory {text!r} must be more than 0 and at most all of a GPU's memory"
                )
        except ValueError:
            self.fraction = 0.0
        if self.fraction:
            return
        try:
            self.per_worker = sizes.limit_bytes(int(text) if text.isdecimal() else text)
        except errors.GpuconfError as error:
            hint = str(error).partition("; did")
            text = (
                f"--gpuconf-memory {text!r} must be a size of at least 1 MiB, such as '6GiB', or a fraction: 0.25 "
                "or '25%'"
            )
            text += hint[1] + hint[2]
            raise pytest.UsageError(text) from None


_KEY = pytest.StashKey[Settings]()


def settings(config: pytest.Config) -> Settings:
    """Return the settings of a run. Raises pytest.UsageError for an invalid one."""
    if _KEY not in config.stash:
        config.stash[_KEY] = Settings(config)
    return config.stash[_KEY]
