"""The options of the command line and the keys of the configuration file."""

from __future__ import annotations

import pytest

from .._typing import Any

MODES = ("auto", "sim", "required", "off")
MARKS = (
    "gpu(n=1, free=None, cc=None): needs n GPUs with this much free memory ('8GiB') and this compute capability ('>=8.0').",
    "gpu_exclusive: no GPU test of another pytest-xdist worker runs on this worker's GPU meanwhile.",
    "gpu_leak(allow=0): fails if more GPU memory than this stays allocated after the test.",
)
DEFAULT_MACHINE = "H100-80GB"


class Settings:
    """The values in force. An option takes precedence over the key of the same name."""

    def __init__(self, config: pytest.Config) -> None:
        def value(name: str) -> Any:
            option = config.getoption(f"gpuconf_{name}")
            return option if option is not None else config.getini("gpuconf" if name == "mode" else f"gpuconf_{name}")

        self.mode: str = value("mode") or "auto"
        self.machine: str = value("sim") or ""
        self.fail_on_cuda_at_collection = bool(value("fail_on_cuda_at_collection"))
        self.report = bool(value("report"))
        self.per_worker: int = 0  # bytes; 0 for none
        self.fraction: float = 0.0  # of a GPU's memory; 0 for none
        # Whether the suite or its user chose anything: then marks that the suite registers itself mean what they mean here.
        self.chosen = bool(value("mode") or self.machine or value("per_worker"))
        if self.mode not in MODES:
            raise pytest.UsageError(f"--gpuconf must be one of {', '.join(MODES)}, but got {self.mode!r}")
        if self.machine and self.mode in ("off", "required"):
            raise pytest.UsageError(f"--gpuconf-sim simulates GPUs, which --gpuconf={self.mode} excludes")
        if self.machine:
            self.mode = "sim"
        if value("per_worker"):
            self._share(str(value("per_worker")))

    def _share(self, text: str) -> None:
        from .. import errors
        from .._core import sizes

        try:
            self.fraction = float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
            if not text.endswith("%") and "." not in text:
                self.fraction = 0.0
            elif not 0 < self.fraction <= 1:
                raise pytest.UsageError(f"--gpuconf-per-worker {text!r} must be more than 0 and at most all of a GPU's memory")
        except ValueError:
            self.fraction = 0.0
        if self.fraction:
            return
        try:
            self.per_worker = sizes.limit_bytes(int(text) if text.isdecimal() else text)
        except errors.GpuconfError:
            text = f"--gpuconf-per-worker {text!r} must be a size of at least 1 MiB, such as '6GiB', or a fraction: 0.25 or '25%'"
            raise pytest.UsageError(text) from None


_KEY = pytest.StashKey[Settings]()


def settings(config: pytest.Config) -> Settings:
    """Return the settings of a run. Raises pytest.UsageError for an invalid one."""
    if _KEY not in config.stash:
        config.stash[_KEY] = Settings(config)
    return config.stash[_KEY]


def add_options(parser: pytest.Parser) -> None:
    """Add the options and the keys."""
    group = parser.getgroup("gpuconf", "GPUs (gpuconf)")
    group.addoption(
        "--gpuconf",
        dest="gpuconf_mode",
        metavar="MODE",
        help="GPU tests: 'auto' skips them without a GPU (the default), 'required' fails them, 'sim' simulates one, 'off' skips.",
    )
    group.addoption("--gpuconf-sim", dest="gpuconf_sim", metavar="SPEC", help="Simulate these GPUs, such as 2xH100-80GB.")
    group.addoption(
        "--gpuconf-per-worker",
        dest="gpuconf_per_worker",
        metavar="SIZE|FRACTION",
        help="The GPU memory of each pytest-xdist worker, such as 6GiB or 0.25. By default workers share their GPU equally.",
    )
    group.addoption(
        "--gpuconf-fail-on-cuda-at-collection",
        dest="gpuconf_fail_on_cuda_at_collection",
        action="store_true",
        default=None,
        help="Fail a module that uses CUDA while it is imported.",
    )
    group.addoption(
        "--gpuconf-report",
        dest="gpuconf_report",
        action="store_true",
        default=None,
        help="Show the GPU memory of each test that used any.",
    )
    parser.addini("gpuconf", "GPU tests: auto, sim, required or off", default="")
    parser.addini("gpuconf_sim", "GPUs to simulate, such as 2xH100-80GB", default="")
    parser.addini("gpuconf_per_worker", "GPU memory of each pytest-xdist worker", default="")
    parser.addini(
        "gpuconf_fail_on_cuda_at_collection", "fail a module that uses CUDA while it is imported", type="bool", default=False
    )
    parser.addini("gpuconf_report", "show the GPU memory of each test that used any", type="bool", default=False)
