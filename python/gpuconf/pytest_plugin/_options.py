# SPDX-License-Identifier: Apache-2.0
"""The marks, the options, and the keys of the configuration file, as pytest lists them."""

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

_NAMES = ("mode", "simulate", "memory", "fail_on_cuda_at_collection", "report", "update", "peak", "leak")


def given(config: pytest.Config, name: str) -> Any:
    """Return the value of an option, else that of the key of the same name."""
    option = _option(config, name)
    return option if option is not None else _key(config, "gpuconf" if name == "mode" else f"gpuconf_{name}")


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
    return not any(given(config, name) for name in _NAMES)


def add_options(parser: pytest.Parser) -> None:
    """Add the options and the keys."""
    group = parser.getgroup("gpuconf", "GPUs (gpuconf)")
    group.addoption(
        "--gpuconf",
        dest="gpuconf_mode",
        metavar="MODE",
        help="GPU tests: 'auto' skips them without a GPU (the default), 'required' fails them, 'simulate' simulates, "
        "'off' skips.",
    )
    group.addoption(
        "--gpuconf-simulate", dest="gpuconf_simulate", metavar="SPEC", help="Simulate these GPUs, such as 2xH100-80GB."
    )
    group.addoption(
        "--gpuconf-memory",
        dest="gpuconf_memory",
        metavar="SIZE|FRACTION",
        help="The GPU memory of each pytest-xdist worker, such as 6GiB or 0.25. By default workers share their GPU "
        "equally.",
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
    group.addoption(
        "--gpuconf-update",
        dest="gpuconf_update",
        action="store_true",
        default=None,
        help="Write the peaks of this run's tests with the mark gpu_peak to the baseline's file, gpuconf-memory.json.",
    )
    group.addoption(
        "--gpuconf-peak",
        dest="gpuconf_peak",
        metavar="SIZE",
        help="Fail tests that have more GPU memory in use at once than this, such as 6GiB.",
    )
    group.addoption(
        "--gpuconf-leak",
        dest="gpuconf_leak",
        metavar="SIZE",
        help="Fail tests that leave more GPU memory allocated than this, such as 0 or 1MiB.",
    )
    parser.addini("gpuconf_leak", "the most GPU memory that a test may leave allocated", default="")
    parser.addini("gpuconf_update", "write the peaks of tests to the baseline's file", type="bool", default=False)
    parser.addini("gpuconf_peak", "the most GPU memory that a test may have in use at once", default="")
    parser.addini("gpuconf_baseline", "the baseline's file, from the root of the suite", default="gpuconf-memory.json")
    parser.addini(
        "gpuconf_tolerance", "the part by which a peak may be higher than the baseline's, such as 5%", default=""
    )
    parser.addini("gpuconf", "GPU tests: auto, simulate, required or off", default="")
    parser.addini("gpuconf_simulate", "GPUs to simulate, such as 2xH100-80GB", default="")
    parser.addini("gpuconf_memory", "GPU memory of each pytest-xdist worker", default="")
    parser.addini(
        "gpuconf_fail_on_cuda_at_collection",
        "fail a module that uses CUDA while it is imported",
        type="bool",
        default=False,
    )
    parser.addini("gpuconf_report", "show the GPU memory of each test that used any", type="bool", default=False)
