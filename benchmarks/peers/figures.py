"""Figures computed from a run's measurements: the ratios and sums that the page and the plot share."""

from __future__ import annotations

import math
from typing import Any

OURS = "gpuconf"
RULE = "gpuconf, TensorFlow's split rule"
VIRTUAL = "gpuconf, virtual"
AS_IT_IS = "gpuconf, as it is"
TENSORFLOW = "TensorFlow's BFCAllocator"
RMM = "RMM's free list"
TORCH = "torch's shape"
EXPANDABLE = "torch's shape, expandable"
OFFSET = "offset-allocator"
VMA = "Vulkan Memory Allocator"
TLSF = "rlsf (TLSF)"
MIMALLOC = "mimalloc"
ARENA = "RMM's arena"

EQUAL = (OURS, RULE, TENSORFLOW, TORCH, EXPANDABLE, RMM, OFFSET, VMA, TLSF)
BARE = (AS_IT_IS, TORCH, EXPANDABLE, RMM, OFFSET, VMA, TLSF)
PEERS = EQUAL[2:]
THREADED = (OURS, TENSORFLOW, ARENA, MIMALLOC)

LAWS = {
    "hot-pair": "hot pair, 4 KiB",
    "transformer": "transformer-like",
    "churn-8MiB": "churn to 8 MiB",
    "random-64MiB": "random to 64 MiB",
    "random-1MiB": "random to 1 MiB",
    "churn-1MiB": "churn to 1 MiB",
}


def geometric(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def speeds(run: dict[str, Any], league: str, part: str = "laws") -> dict[str, dict[str, dict[str, float]]]:
    """By contender and law: best and p999 in ns."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for law in run["result"][part]:
        for who, timing in law["leagues"].get(league, {}).items():
            found.setdefault(who, {})[law["name"]] = timing
    return found


def ratios(run: dict[str, Any], over: str) -> dict[str, float]:
    """How many times slower than ours a peer is, by law; equal interface."""
    table = speeds(run, "equal")
    return {law: one["best"] / table[OURS][law]["best"] for law, one in table.get(over, {}).items()}


def fastest_peer(run: dict[str, Any]) -> dict[str, tuple[str, float]]:
    """By law: the fastest peer of equal interface, and our time as a multiple of its time."""
    table = speeds(run, "equal")
    found = {}
    for law in table[OURS]:
        times = {who: table[who][law]["best"] for who in PEERS if law in table.get(who, {})}
        if times:
            best = min(times, key=lambda who: times[who])
            found[law] = (best, table[OURS][law]["best"] / times[best])
    return found


def slopes(run: dict[str, Any]) -> dict[str, dict[int, float]]:
    """By contender and live blocks: ns."""
    found: dict[str, dict[int, float]] = {}
    for law in run["result"]["slope"]:
        for who, timing in law["leagues"]["equal"].items():
            found.setdefault(who, {})[law["blocks"]] = timing["best"]
    return found


def most_live(run: dict[str, Any]) -> tuple[str, float, float]:
    """With the most live blocks: the fastest peer, its time and ours in ns."""
    found = slopes(run)
    live = max(found[OURS])
    times = {who: found[who][live] for who in PEERS if live in found.get(who, {})}
    best = min(times, key=lambda who: times[who])
    return best, times[best], found[OURS][live]


def faster_and_tighter(run: dict[str, Any]) -> list[str]:
    """The laws on which a peer is faster and needs less memory, each with the peer."""
    table = speeds(run, "equal")
    return [
        f"{LAWS[one['name']]}: {who}"
        for one in needs(run, "law")
        for who in PEERS
        if one["name"] in table.get(who, {})
        and table[who][one["name"]]["best"] < table[OURS][one["name"]]["best"]
        and one["over"].get(who, math.inf) < one["over"][OURS]
    ]


def needs(run: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The memory that each trace of a kind needs, relative to the optimum if it is known, else to the live peak."""
    return [
        {
            "name": one["name"],
            "peak": one["peak_bytes"],
            "optimum": one["optimum"],
            "over": {who: size / (one["optimum"] or one["peak_bytes"]) for who, size in one["needed"].items()},
            "over_peak": {who: size / one["peak_bytes"] for who, size in one["needed"].items()},
        }
        for one in run["result"]["needs"]
        if one["kind"] == kind
    ]


def mean_need(run: dict[str, Any], kinds: tuple[str, ...], who: str) -> float | None:
    """The geometric mean of a contender's needs; None if it did not run all of the traces."""
    found = [one["over"].get(who) for kind in kinds for one in needs(run, kind)]
    return geometric([value for value in found if value]) if found and all(found) else None


# The columns of the recorded runs.
PYTORCH = "PyTorch"
LEAST = {
    "pytorch": PYTORCH,
    "pytorch-expandable": "PyTorch, expandable",
    "tensorflow": "TensorFlow",
    "regions": OURS,
    "virtual": VIRTUAL,
}


def recorded(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The recorded runs with the memory that each needs: the least limits, and what RMM's list takes."""
    found = []
    for one in run["result"]["recorded"]:
        sizes = {name: one["least"][policy] for policy, name in LEAST.items()}
        if RMM in one["needed"]:
            sizes[RMM] = one["needed"][RMM]
        found.append({"name": one["name"], "peak_bytes": one["peak_bytes"], "sizes": sizes})
    return found


def recorded_means(run: dict[str, Any]) -> dict[str, float]:
    """What the recorded runs need over their live peaks: geometric means of those that ran all."""
    runs = recorded(run)
    return {
        name: geometric([one["sizes"][name] / one["peak_bytes"] for one in runs])
        for name in [*LEAST.values(), RMM]
        if all(name in one["sizes"] for one in runs)
    }


def footprints(run: dict[str, Any], law: str) -> dict[str, tuple[float, float]]:
    """By contender: host memory in bytes, in total and per live block."""
    return {
        one["name"]: (one["bytes"], one["bytes"] / one["blocks"])
        for one in run["result"]["footprints"]
        if one["law"] == law
    }


def missing(run: dict[str, Any]) -> dict[str, str]:
    """Contenders that were not available, and the reasons."""
    return {who: peer["missing"] for peer in run["peers"] if peer["missing"] for who in peer["contenders"]}


def complete(run: dict[str, Any]) -> bool:
    """Whether no peer is missing and none failed, so that the best of them really is the best."""
    return not set(PEERS) & {*missing(run), *(one["name"] for one in run["result"]["out"] if one["broken"])}
