"""The cost of the allocator's core, compared with two baselines written for it: a best-fit tree like PyTorch's, and a
plain list.

Other projects' allocators are in benchmarks/peers.
"""

from __future__ import annotations

import re
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 5  # whole runs, so that the contenders alternate; each reports its best of three

LAWS = {
    "hot-pair": "hot pair of 4 KiB",
    "transformer": "transformer-like, varied batch, 230 live",
    "churn-8MiB": "churn, 512 B to 8 MiB, 1 k live",
    "random-64MiB": "random, up to 64 MiB, 650 live",
    "random-1MiB": "random, up to 1 MiB, 36 k live",
    "churn-1MiB": "churn, 512 B to 1 MiB, 50 k live",
}
SLOPE = {"1000-live": "1 000", "10000-live": "10 000", "100000-live": "100 000", "1000000-live": "1 000 000"}


def run() -> dict[tuple[str, str, str], float]:
    """Run the Go benchmarks; return (benchmark, case, contender) -> median ns per operation, or the p99.9 of Tail."""
    found: dict[tuple[str, str, str], list[float]] = {}
    command = ["go", "test", "-run=^$", "-bench=^Benchmark(Laws|Slope|Tail)$", "-benchtime=3x", "./tests_go/pool/bfc"]
    for _ in range(ROUNDS):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        for name, case, who, ns in re.findall(
            r"Benchmark(\w+)/([\w-]+)/([\w-]+?)-\d+\s.*?([\d.]+) (?:ns/op|p99\.9-ns)", done.stdout
        ):
            found.setdefault((name, case, who), []).append(float(ns))
    return {key: statistics.median(values) for key, values in found.items()}


def measure() -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the table of traces and the table of live blocks."""
    ns = run()
    laws = [
        {
            "law": title,
            "gpuconf": f"{ns['Laws', law, 'exact']:.0f} ns",
            "with TensorFlow's split rule": f"{ns['Laws', law, 'tensorflow-rule']:.0f} ns",
            "tree": f"{ns['Laws', law, 'tree']:.0f} ns",
            "list": f"{ns['Laws', law, 'list']:.0f} ns",
            "tree / gpuconf": f"{ns['Laws', law, 'tree'] / ns['Laws', law, 'exact']:.1f}",
            "p99.9": f"{ns['Tail', law, 'exact'] / 1000:.1f} us",
            "tree's": f"{ns['Tail', law, 'tree'] / 1000:.1f} us",
        }
        for law, title in LAWS.items()
    ]
    sizes = [size for size in SLOPE if ("Slope", size, "exact") in ns]
    least = ns["Slope", sizes[0], "exact"]
    slope = [
        {
            "live blocks": SLOPE[size],
            "gpuconf": f"{ns['Slope', size, 'exact']:.0f} ns",
            "ratio": f"{ns['Slope', size, 'exact'] / least:.2f}",
            "goal": "<= 2.5" if size == "1000000-live" else "",
            "tree": f"{ns['Slope', size, 'tree']:.0f} ns",
        }
        for size in sizes
    ]
    faster = statistics.geometric_mean(ns["Laws", law, "tree"] / ns["Laws", law, "exact"] for law in LAWS)
    worst = max(ns["Tail", law, "exact"] for law in LAWS) / 1000
    laws.append(
        dict.fromkeys(laws[0], "")
        | {
            "law": "geometric mean; the worst p99.9",
            "tree / gpuconf": f"{faster:.1f} (goal >= 3.5)",
            "p99.9": f"{worst:.1f} us (goal <= 1)",
        }
    )
    return laws, slope
