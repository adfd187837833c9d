# SPDX-License-Identifier: Apache-2.0
"""What a program of JAX needs of the share of a card that JAX takes, and whether a card has it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ...._core.table import human_bytes
from ...._typing import Any, NamedTuple
from ....memory import load_trace
from ...recordings import sites
from ...recordings.replay import PlanResult, PlanUsage, find
from .. import needs
from ..framework import Framework, Run
from ..launch import Heard
from ..line import JAX_REPORT
from ..needs import DEPENDS, DOES_NOT_FIT, FITS, HOPPER_CONTEXT, MARGIN, Beside, Card, Verdict
from ..records import Report
from .card_memory import TUNED

# XLA publishes descriptions of these models (xla/backends/gpu/target_config/specs). A test compares the table with four
# of them.
DESCRIBED = ("A100-40GB", "A100-80GB", "B200-180GB", "GB200-186GB", "H100-80GB", "H200-141GB", "P100-16GB", "V100-16GB")
_CUDA = "13.0.0"
_CUDNN = (9, 10, 0)
_FIRST = {12: (5, 0), 13: (7, 5)}  # the first compute capability for which a CUDA version compiles
_KINDS = (
    (9, 0),
    (10, 0),
    (10, 3),
    (11, 0),
    (12, 0),
    (12, 1),
)  # whose code may use instructions that later cards lack, such as sm_90a


def is_described(card: Card) -> bool:
    """Whether XLA publishes a description of the card."""
    return card.name in DESCRIBED


def why_not(card: Card, cuda: int) -> str:
    """Return why a version of CUDA does not compile for a card; "" if it does."""
    first = _FIRST.get(cuda, (0, 0))
    if card.capability >= first:
        return ""
    return f"CUDA {cuda}, for which this JAX is built, needs compute capability {first[0]}.{first[1]}"


def description(card: Card) -> str:
    """Return the description of a card."""
    has, usable = card.hardware, card.usable()
    bandwidth = 2 * has["memory_mhz"] * 1_000_000 * has["bus_bits"] // 8
    major, minor = card.capability
    suffix, extension = ("a", "ACCELERATED_FEATURES") if card.capability in _KINDS else ("", "NONE")
    cudnn = ".".join(map(str, _CUDNN))
    return f"""\
gpu_device_info {{
  name: "{card.product}"
  device_vendor: "NVIDIA Corporation"
  platform_version: "Compute Capability {major}.{minor}{suffix}"
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {extension} }}
  core_count: {has["multiprocessors"]}
  fpus_per_core: {has["lanes"]}
  clock_rate_ghz: {has["clock_mhz"] / 1000}
  device_memory_size: {(usable.low + usable.high) // 2}
  memory_bandwidth: {bandwidth or 100_000_000_000}
  l2_cache_size: {has["l2"]}
  shared_memory_per_core: {has["shared"]}
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: {has["shared_block"]}
  registers_per_core_limit: {has["registers"]}
  registers_per_block_limit: 65536
  threads_per_core_limit: {has["threads"]}
  threads_per_block_limit: 1024
  threads_per_warp: 32
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  device_address_bits: 64
  driver_version: "{_CUDA}"
  runtime_version: "{_CUDA}"
  compile_time_toolkit_version: "{_CUDA}"
  dnn_version: "{cudnn}"
}}
platform_name: "CUDA"
dnn_version_info {{ major: {_CUDNN[0]} minor: {_CUDNN[1]} patch: {_CUDNN[2]} }}
device_description_str: "{card.product}"
"""


# XLA's allocator is TensorFlow's. It takes its share at once, or (XLA_PYTHON_CLIENT_PREALLOCATE=false) grows to at most
# the same.
_AT_ONCE, _GROWING = "regions", "tensorflow"
_WORKSPACES = 4  # times the largest array: more than any recorded convolution took but those that XLA tried
_MOST = 0.95
LARGER = f"MEM_FRACTION={_MOST:.2f}".replace("0.", ".")
_EXACT = "XLA_PYTHON_CLIENT_ALLOCATOR=platform"
_LINES, _FUNCTIONS = 6, 8
_CONTEXT = (528 << 20, 768 << 20)  # of one process
_CONTEXT_SOURCE = "JAX's processes on an H200 with driver 580: 528 to 640 MiB, and a fifth for other drivers"
_WORKSPACE, _WORKSPACE_OF_HOPPER = 4 << 20, 32 << 20


def settings_for(card: Card, gpus: int) -> dict[str, Any]:
    """Return the settings of a card for a process of the program."""
    return {
        "gpus": gpus,
        "card": {
            "product": card.product,
            "memory": card.usable().low,
            "workspace": _workspace(card),
            "description": description(card),
            "why_not": {cuda: f"{card.name}: {why}" for cuda in (12, 13) if (why := why_not(card, cuda))},
        },
    }


class JAX(Framework):
    """JAX."""

    report = JAX_REPORT

    def recording(self, process: Heard) -> str:
        """Return the path of the trace of XLA's allocations."""
        return process.trace

    def peaks(
        self,
        process: Heard,
        report: Report,
        cards: Sequence[Card],
        *,
        first: bool,  # noqa: ARG002
    ) -> list[dict[str, Any]]:
        """Replay the trace through XLA's allocator: all cards are alike to it."""
        rows = []
        parts = {one.gpu: one for one in report.gpus}
        if not parts:
            return []
        share = int(report.fraction * cards[0].usable().low) if report.grows else None
        steps = _replayed(process.trace, share)
        tuned = process.trace.removesuffix(".csv") + TUNED
        compiling = _replayed(tuned, share) if os.path.exists(tuned) else steps
        for gpu, (usage, result, most) in steps.items():
            least = result.least_limit
            of_gpu = parts[gpu]
            made_of = dict(of_gpu.parts)
            rest = most - sum(made_of.values())
            if rest > 0:
                made_of["rounding of blocks"] = rest
            rows.append(
                {
                    "pid": process.pid,
                    "rank": None,
                    "world": len(parts) if report.collectives else 1,
                    "gpu": gpu,
                    "uuid": of_gpu.uuid,
                    "allocated": most,
                    "requested": usage.peak_bytes_requested,
                    "reserved": least if share is None else compiling[gpu].result.peak_bytes_reserved,
                    "least": {"default": least, LARGER: least},
                    "shares": {"default": report.fraction, LARGER: max(_MOST, report.fraction)},
                    "others": {"platform": {"least": usage.peak_bytes_in_use, "settings": _EXACT}},
                    "parts": dict(sorted(made_of.items(), key=lambda part: -part[1])),
                    "lines": [row.strip() for row in sites.lines(usage.sites_at_peak, _LINES)],
                    "growth": of_gpu.growth,
                    "largest": of_gpu.largest,
                    "compiling": max(compiling[gpu].most, most),
                    "convolutions": sum(report.paths.values()),
                    "products": report.products,
                    "functions": report.functions[:_FUNCTIONS],
                }
            )
        return rows

    def may_differ(self, run: Run, card: Card) -> bool:
        """Whether XLA may compile otherwise for a card with the same compute capability: it then knows that memory is
        short.
        """
        most = max((one["allocated"] for one in run.processes), default=0)
        return 2 * most > min(run.cards[0].memory, card.memory)

    def verdicts(self, cards: Sequence[Card], gpus: Sequence[Sequence[dict[str, Any]]]) -> list[Verdict]:
        """Compare cards with the GPU that needs most, for each share that JAX may take."""
        return [self._verdict(card, setting, gpus) for card in cards for setting in gpus[0][0]["shares"]]

    def _verdict(self, card: Card, setting: str, gpus: Sequence[Sequence[dict[str, Any]]]) -> Verdict:
        usable, worst = card.usable(), None
        for gpu in gpus:
            more = [one for one in self.beside(card, gpu) if "workspaces" not in one.what]
            inside = [one for one in self.beside(card, gpu) if "workspaces" in one.what]
            share = sum(one["shares"][setting] for one in gpu)
            least = sum(one["least"][setting] for one in gpu)
            low, high = (
                least + sum(one.low for one in inside),
                int(least * (1 + MARGIN)) + sum(one.high for one in inside),
            )
            high = max(high, sum(one["compiling"] for one in gpu))
            # What is beside the share has its place in the rest of the card, or takes it from the share.
            has_low = int(min(share * usable.low, usable.low - sum(one.high for one in more)))
            has_high = int(min(share * usable.high, usable.high - sum(one.low for one in more)))
            found = FITS if high <= has_low and share <= 1 else DOES_NOT_FIT if low > has_high or share > 1 else DEPENDS
            one = Verdict(card.name, setting, low, high, max(has_low, 0), max(has_high, 0), found)
            if worst is None or _order(one) > _order(worst):
                worst = one
        assert worst is not None
        return worst

    def beside(self, card: Card, gpu: Sequence[dict[str, Any]]) -> list[Beside]:
        """Return what is taken beside JAX's share, and the workspaces that are in it."""
        rows = []
        for one in needs.beside(card, gpu):
            if one.what != "CUDA context":
                rows.append(one)
            elif card.context() is HOPPER_CONTEXT:
                low, high = (size * len(gpu) for size in _CONTEXT)
                rows.append(Beside(one.what, low, high, _CONTEXT_SOURCE))
            else:
                rows.append(one._replace(source="as of PyTorch's processes; JAX's was measured on an H200 only"))
        if any(one["convolutions"] for one in gpu):
            most = _WORKSPACES * max(one["largest"] for one in gpu)
            rows.append(Beside("workspaces of cuDNN", 0, most, f"at most {_WORKSPACES} times the largest array"))
        products = sum(one["products"] for one in gpu)
        if products:
            source = "where the autotuning on the card chooses it for a product of matrices"
            rows.append(Beside("workspaces of cuBLAS", 0, products * _workspace(card), source))
        return rows

    def tried(self, process: Mapping[str, Any]) -> dict[str, int]:
        """Return what an allocator without rounding and fragments needs."""
        return {one["settings"]: one["least"] for one in process["others"].values()}

    def notes(self, runs: Sequence[Run], _asked: Sequence[str]) -> list[str]:
        """Return what XLA does not know without the card, and what was not computed."""
        reports = [report for run in runs for report in run.reports]
        texts = [
            "XLA chose its kernels without the card: the autotuning on it may choose others, with other workspaces"
        ]
        processes = [one for run in runs for one in run.processes]
        largest = max(processes, key=lambda one: one["compiling"], default=None)
        if largest is not None and largest["compiling"] > largest["allocated"]:
            most = f"XLA takes most while it compiles, to try kernels: {human_bytes(largest['compiling'])} or more"
            texts.append(f"{most}; it leaves out kernels for which there is no memory")
        if any(one["convolutions"] for one in processes):
            tried = "XLA tries convolutions of cuDNN with workspaces of any size, as far as there is memory"
            texts.append(f"{tried}: peak_bytes_in_use may be far more than the program needs")
        unproven = [card.name for run in runs for card in run.cards if not is_described(card)]
        if unproven:
            names = ", ".join(unproven)
            texts.append(f"unproven: XLA publishes no description of {names}, and got gpuconf's")
        decisions = [place for report in reports for place in report.decisions]
        if decisions:
            texts.append(
                f"depends on values: Python decides by arrays that were not computed ({decisions[0]}); run it with "
                "--values cpu"
            )
        if any(report.skipped_callbacks for report in reports):
            texts.append(
                "callbacks to Python, such as those of jax.debug.print, were not called where values were not computed"
            )
        return texts

    def functions(self, processes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return what each compiled function needs, of the process that needs most."""
        found: list[dict[str, Any]] = max(processes, key=lambda one: one["allocated"], default={"functions": []})[
            "functions"
        ]
        return found


def _workspace(card: Card) -> int:
    """Return what XLA gives to cuBLAS on a card."""
    return _WORKSPACE_OF_HOPPER if card.capability >= (9, 0) else _WORKSPACE


class _Replayed(NamedTuple):
    usage: PlanUsage
    result: PlanResult
    most: int  # in use


def _replayed(trace: str, share: int | None) -> dict[int, _Replayed]:
    """Replay a trace through an allocator that takes its share at once (None), or grows to so much.

    Return outcomes by GPU.
    """
    planned = find(load_trace(trace), share, None, [_AT_ONCE if share is None else _GROWING])
    outcomes = {}
    for usage in planned.usages:
        result = next(one for one in planned.results if one.gpu == usage.gpu)
        # A growing allocator often has no chunk to take a block from that it can split: some blocks get more than they
        # need.
        outcomes[usage.gpu] = _Replayed(
            usage, result, usage.peak_bytes_in_use if share is None else result.peak_bytes_in_use
        )
    return outcomes


def _order(one: Verdict) -> tuple[int, int]:
    return (FITS, DEPENDS, DOES_NOT_FIT).index(one.verdict), one.needs_high
