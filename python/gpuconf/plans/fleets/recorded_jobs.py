# SPDX-License-Identifier: Apache-2.0
"""The jobs and the cards of a fleet."""

from __future__ import annotations

from bisect import bisect_left

from ... import errors
from ..._core import texts
from ..._core.generated.fleet import FleetBatch
from ..._core.native import core
from ..._core.table import Table
from ..._typing import Any
from ...memory._record import Recording
from ...memory._trace import Trace, load_trace
from ..generated.policies import NEED_VIRTUAL, OF_GPUCONF
from ..recordings.replay import Plan, find

AUTO = "auto"  # for each job, the allocator that `gpuconf run` gives it
_MIB = 1 << 20


class Need(Table):
    """The GPUs of a trace, and the least limit under which each of them fits."""

    gpus: int
    limit: int  # in bytes; the same for each GPU, as `gpuconf run --memory` sets it
    policy: str  # the one that needs the least
    settings: str  # of PYTORCH_CUDA_ALLOC_CONF, with which the job has that policy below `gpuconf run`
    # with phases: until when, in seconds since the start, at most how many bytes are in use
    curve: tuple[tuple[float, int], ...] = ()


def need(trace: Any, policies: tuple[str, ...], phases: bool = False) -> Need:
    """Replay a trace: a file, a Trace or a Recording. ``phases`` adds the curve."""
    trace = trace if isinstance(trace, Trace) else trace.trace if isinstance(trace, Recording) else load_trace(trace)
    of_pytorch = bool(trace._of_pytorch or trace._incomplete)
    if policies == (AUTO,):
        policies = ("pytorch" if of_pytorch and not trace._settings.get("expandable_segments") else "virtual",)
    outcome = find(trace, policy=policies)
    if not outcome.results:
        return Need(1, 1 << 20, policies[0], "")  # no allocations; the smallest limit there is
    best: Need | None = None
    for policy in policies:
        results = [result for result in outcome.results if result.policy == policy]
        worst = max(results, key=lambda result: result.least_limit)
        if best is None or worst.least_limit < best.limit:
            best = Need(len(results), worst.least_limit, policy, worst.settings)
            if of_pytorch:
                best = _below_run(best, trace)
    assert best is not None
    return best._replace(curve=_curve(outcome, best)) if phases else best


def _below_run(need: Need, trace: Trace) -> Need:
    """Return what a job of PyTorch needs below ``gpuconf run``, with the settings that select the policy.

    PyTorch keeps its allocator there, and its segments are gpuconf's; with expandable segments, gpuconf replaces it.
    """
    if need.policy in OF_GPUCONF:
        return need._replace(settings="expandable_segments:True")
    if need.policy in NEED_VIRTUAL:
        replaced = find(trace, policy="virtual").results
        return need._replace(limit=max(need.limit, *(result.least_limit for result in replaced)))
    recorded = _as_text(trace._settings)
    return need._replace(settings=",".join(filter(None, (recorded, need.settings))))


def _as_text(settings: dict[str, Any]) -> str:
    """Return what PYTORCH_CUDA_ALLOC_CONF had when a snapshot was recorded, as far as it is not PyTorch's default."""
    sizes = {
        "max_split_size": "max_split_size_mb",
        "max_non_split_rounding_size": "max_non_split_rounding_mb",
        "large_segment_size": "large_segment_size_mb",
    }
    parts = [f"{name}:{settings[key] // _MIB}" for key, name in sizes.items() if settings.get(key)]
    if settings.get("garbage_collection_threshold"):
        parts.append(f"garbage_collection_threshold:{settings['garbage_collection_threshold']:g}")
    divisions = settings.get("roundup_power2_divisions") or [0]
    if len(set(divisions)) == 1:
        parts += [f"roundup_power2_divisions:{divisions[0]}"] if divisions[0] > 1 else []
    else:
        steps = ",".join(f"{1 << i}:{max(n, 1)}" for i, n in enumerate(divisions))
        parts.append(f"roundup_power2_divisions:[{steps.rpartition(',')[0]},>:{max(divisions[-1], 1)}]")
    return ",".join(parts)


def _curve(outcome: Plan, best: Need) -> tuple[tuple[float, int], ...]:
    """Return the memory in use over time, at each time that of the GPU with the most."""
    gpus = {result.gpu for result in outcome.results}
    lines = [[(point.time, point.bytes_in_use) for point in outcome.timeline(gpu, best.policy)] for gpu in gpus]
    if len(lines) == 1:
        return tuple(lines[0])
    times = sorted({time for line in lines for time, _ in line})
    return tuple((time, max(_at(line, time) for line in lines)) for time in times)


def _at(line: list[tuple[float, int]], time: float) -> int:
    """Return the bytes of the interval that contains a time or ends at it."""
    place = bisect_left(line, time, key=lambda point: point[0])
    return line[place][1] if place < len(line) else 0


def attempt(trace: Any, policies: tuple[str, ...], phases: bool = False) -> Need | str:
    """Return what a trace needs, or why it cannot be read. The other traces do not suffer from a bad one."""
    try:
        return need(trace, policies, phases)
    except (errors.GpuconfError, OSError) as error:
        return str(error)


# The cards of a fleet.


class FleetGpus(Table):
    """Equal cards of a fleet."""

    gpu: str  # the model, as for gpuconf.simulate
    count: int  # type: ignore[assignment]  # hides tuple's
    memory: int  # of each card, in bytes
    leasable: int  # the most that one process can lease of a card, in bytes
    context: int  # what a lease takes besides, in bytes, for the CUDA context of its process


def parse(fleet: str, policies: tuple[str, ...]) -> tuple[FleetGpus, ...]:
    """Return the cards of a fleet in the order of the text. Raises ValueError for an invalid one."""
    import json

    batches = list(map(FleetBatch._read, json.loads(core.pybind_ParseFleet(texts.check_text("fleet", fleet)))))
    for batch in batches:
        for policy in (name.replace("auto", "virtual") for name in policies):
            if policy in NEED_VIRTUAL and not batch.virtual:
                raise errors.InvalidArgumentError(
                    f"{batch.gpu} has no virtual memory management, which policy {policy} requires; pass another policy"
                )
    return tuple(FleetGpus(b.gpu, b.count, b.memory, b.leasable, b.context) for b in batches)
