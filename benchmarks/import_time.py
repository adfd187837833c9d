"""The time that `import gpuconf` adds to the start of an interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 21


def start(code: str) -> float:
    """Run an interpreter once; return milliseconds."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    return (time.perf_counter() - begin) * 1000


def measure() -> list[dict[str, str]]:
    """Run a bare interpreter and one that imports alternately; return medians."""
    programs = {
        "bare": "pass",
        "import": "import gpuconf",
        "first call": "import gpuconf; gpuconf.config.list_physical_devices()",
        "simulated": "import gpuconf; gpuconf.simulate('A100'); gpuconf.config.list_physical_devices()",
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, code in programs.items():
            times[name].append(start(code))
    median = {name: statistics.median(values) for name, values in times.items()}
    return [
        {"what": "a bare interpreter", "time": f"{median['bare']:.1f} ms", "goal": ""},
        {
            "what": "`import gpuconf`, in addition",
            "time": f"{median['import'] - median['bare']:.1f} ms",
            "goal": f"<= {0.6 * median['bare']:.1f} ms: 0.6 of a bare interpreter",
        },
        {
            "what": "import and first call (which loads the core), in addition",
            "time": f"{median['first call'] - median['bare']:.1f} ms",
            "goal": "<= 30 ms",
        },
        {
            "what": "the same with a simulated GPU",
            "time": f"{median['simulated'] - median['bare']:.1f} ms",
            "goal": "<= 30 ms",
        },
    ]
