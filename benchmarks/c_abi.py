"""What gpuconf_malloc and gpuconf_free cost from C, against an empty call from C into Go and back."""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import gpuconf as tf

ROUNDS = 15
NUMBER = 200_000


def measure() -> list[dict[str, str]]:
    """Take turns between the loops of c_abi.c; medians."""
    with tempfile.TemporaryDirectory() as folder, tf.simulate("H100-80GB"):
        built = str(Path(folder, "loops.so"))
        source = Path(__file__).with_suffix(".c")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", built, source], check=True)
        loops = ctypes.CDLL(built)
        tf.config.list_logical_devices()
        core = ctypes.CDLL(tf.library_path())
        take, give, empty = core.gpuconf_malloc, core.gpuconf_free, core.gpuconf_empty_call
        for loop in (loops.time_empty, loops.time_pair, loops.time_churn):
            loop.restype = ctypes.c_double
        times: dict[str, list[float]] = {"empty": [], "pair": [], "churn": []}
        for _ in range(ROUNDS):
            times["empty"].append(loops.time_empty(empty, NUMBER))
            times["pair"].append(loops.time_pair(take, give, ctypes.c_size_t(4096), NUMBER))
            times["churn"].append(loops.time_churn(take, give, 1000, NUMBER))
    median = {name: statistics.median(values) for name, values in times.items()}
    ratios = {name: median[name] / median["empty"] for name in ("pair", "churn")}
    goal = "<= 2.2x the empty call"
    return [
        {"what": "an empty call from C into Go and back", "time": f"{median['empty']:.0f} ns", "ratio": "1", "goal": ""},
        *(
            {"what": what, "time": f"{median[name]:.0f} ns", "ratio": f"{ratios[name]:.2f}", "goal": goal}
            for name, what in (
                ("pair", "`gpuconf_malloc` or `_free`, hot pair of 4 KiB"),
                ("churn", "`gpuconf_malloc` or `_free`, churn of 1000 blocks, 512 B to 8 MiB"),
            )
        ),
        {
            "what": "geometric mean of both",
            "time": "",
            "ratio": f"{statistics.geometric_mean(ratios.values()):.2f}",
            "goal": "<= 1.9x",
        },
    ]
