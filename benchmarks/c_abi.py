"""The cost of gpuconf_malloc and gpuconf_free from C, compared with an empty call from C into Go and back."""

from __future__ import annotations

import statistics

from benchmarks.c_loops import loops

ROUNDS = 15
NUMBER = 200_000


def measure() -> list[dict[str, str]]:
    """Run the loops of c_abi.c alternately; return medians."""
    with loops() as c:
        ways = {"empty": c.empty, "pair": c.pair, "tagged": c.tagged_pair, "churn": c.churn}
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                times[name].append(way(NUMBER))
    median = {name: statistics.median(values) for name, values in times.items()}
    ratios = {name: median[name] / median["empty"] for name in ("pair", "churn")}
    goal = "<= 2.2x the empty call"
    return [
        {
            "what": "an empty call from C into Go and back",
            "time": f"{median['empty']:.0f} ns",
            "ratio": "1",
            "goal": "",
        },
        *(
            {"what": what, "time": f"{median[name]:.0f} ns", "ratio": f"{ratios[name]:.2f}", "goal": goal}
            for name, what in (
                ("pair", "`gpuconf_malloc` or `_free`, hot pair of 4 KiB"),
                ("churn", "`gpuconf_malloc` or `_free`, churn of 1000 blocks, 512 B to 8 MiB"),
            )
        ),
        {
            "what": "the hot pair under a tag, beside that without one",
            "time": f"{median['tagged']:.0f} ns",
            "ratio": f"{statistics.median(t / p for t, p in zip(times['tagged'], times['pair'], strict=True)):.3f}",
            "goal": "<= 1.02x the pair",
        },
        {
            "what": "geometric mean of both",
            "time": "",
            "ratio": f"{statistics.geometric_mean(ratios.values()):.2f}",
            "goal": "<= 1.9x",
        },
    ]
