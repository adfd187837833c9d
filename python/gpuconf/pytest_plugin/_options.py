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
        "The GPU memory of each pytest-xdist worker, such as 6GiB or 0.25. By default workers share their GPU equally.",
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
    return not any(given(config, name) for name in _OPTIONS)


def add_options(parser: pytest.Parser) -> None:
    """Add the options and the keys."""
    group = parser.getgroup("gpuconf", "GPUs (gpuconf)")
    for name, (metavar, text) in _OPTIONS.items():
        whole = "gpuconf" if name == "mode" else f"gpuconf_{name}"
        kind: Any = {"metavar": metavar} if metavar else {"action": "store_true", "default": None}
        group.addoption(f"--{whole.replace('_', '-')}", dest=f"gpuconf_{name}", help=text, **kind)
        of_key: Any = {"default": ""} if metavar else {"type": "bool", "default": False}
        parser.addini(whole, text, **of_key)
    parser.addini("gpuconf_baseline", "The baseline's file, from the suite's root.", default="gpuconf-memory.json")
    parser.addini(
        "gpuconf_tolerance", "The part by which a peak may be higher than the baseline's, such as 5%.", default=""
    )
