# SPDX-License-Identifier: Apache-2.0
"""What went wrong in a rehearsal, in one line each."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from ..._core import stacks
from ..._core.table import human_bytes
from ..._typing import Any
from . import launch
from .line import TORCH_REPORT
from .needs import MARGIN
from .records import Report

_LONGEST = 200  # of an error's text


def why_no_verdict(
    run: launch.Program | launch.Outcome, ran: dict[str, Any], processes: Sequence[dict[str, Any]]
) -> str:
    """Return why there can be no verdict; "" if there can be one."""
    if not processes:
        left = "" if not run.outlived else f"; what it left running was ended ({run.outlived})"
        return line(run) + left
    if ran["skipped_steps"] and not ran["optimizer_steps"]:
        return f"the optimizer's steps were skipped ({ran['skipped_steps']} times)"
    failed = _failure(run)
    if failed:
        return f"{failed}; the peak is that of what ran before"
    if run.ended in ("interrupted", "seconds") and ran["jax"] and not ran["optimizer_steps"]:
        return (
            "no call had updated its arguments by then: before its first step, a training needs far less; see --seconds"
        )
    return ""


def failed_after_cut(run: launch.Program) -> bool:
    """Whether a program failed, and loops of it had ended early, which may be the cause."""
    reports = [one.report(TORCH_REPORT) for one in run.processes.values()]
    return run.ended == "program" and run.status != 0 and any(report and report.cut for report in reports)


def ran_out(run: launch.Program | launch.Outcome) -> bool:
    """Whether the program ended by PyTorch's out-of-memory error."""
    failures = [one.failed for one in run.processes.values() if one.failed is not None]
    return run.ended == "program" and run.status != 0 and any(one["error"] == "OutOfMemoryError" for one in failures)


def unseen(run: launch.Program | launch.Outcome, reports: Sequence[Report]) -> list[str]:
    """Return what a program may do that was not seen, so that no card surely holds it."""
    texts = []
    if run.ended in _LEFT and reports and not (run.ended == "repeated" and run.until_repeated):
        texts.append(_LEFT[run.ended])
    for report in reports:
        texts += [f"{text} ({place})" for place, text in report.unseen.items()]
        if report.sized_by_values:
            names = ", ".join(sorted(one.removeprefix("aten::") for one in report.sized_by_values))
            texts.append(f"sizes that come from {names} of tensors without values: run it with --values cpu")
        if report.counts.get("optimizers") and not report.counts.get("optimizer"):
            texts.append("a step of the optimizer that was made")
    return texts


# What is not seen of a program that did not end by itself.
_LEFT = {
    "seconds": "the program's end: see --seconds and --all, or give the program fewer iterations",
    "interrupted": "the program's end: it was interrupted",
    "steps": "what comes after these steps",
    "full": "the program's end: its recording was full",
    "repeated": "what comes after the steps that repeat: see --all",
}


def unreached(reports: Sequence[Report]) -> str:
    """Return why there can be no verdict if the part of the program that the answer is for did not begin."""
    waits = next((report.waits_for for report in reports if report.waits_for), "")
    return f"{waits}, which the answer is for, was not reached" if waits else ""


def line(run: launch.Program | launch.Outcome) -> str:
    """Return why nothing is known about a program's memory."""
    failed = _failure(run)
    if failed:
        return failed
    processes = list(run.processes.values())
    refused = next((one.refused for one in processes if one.refused), "")
    if refused:
        return refused
    used = any(one.uses_gpu for one in processes)
    if run.ended == "seconds" and used:
        return f"the program did not say what it allocated within {run.seconds:.0f} s: give it fewer iterations"
    if run.ended == "seconds":
        return f"the program used no GPU within {run.seconds:.0f} s; see --seconds"
    if run.ended == "interrupted":
        return f"interrupted before the program {'said what it allocated' if used else 'used a GPU'}"
    if any(one.jax for one in processes) and not any(one.torch for one in processes):
        return "the program imports JAX, and computes nothing with it"
    if not any(one.torch for one in processes):
        return "the program imports no framework that gpuconf can rehearse: PyTorch, built for CUDA, or JAX"
    if not any(one.simulated for one in processes):
        return (
            "the program's PyTorch is built without CUDA; the wheel of https://pypi.org/project/torch is built with it"
        )
    return 'the program allocates nothing on a GPU: move its model and data there, as with .to("cuda")'


def _failure(run: launch.Program | launch.Outcome) -> str:
    if run.ended not in ("program", "block") or run.status == 0:
        return ""
    if run.failure:
        return run.failure
    failures = [one.failed for one in run.processes.values() if one.failed is not None]
    failed = min(failures, key=lambda one: one["time"], default=None)  # of the rank that the others and torchrun follow
    if failed is not None and failed["error"] == "EOFError":
        return f"the program reads standard input, and a rehearsal has none ({_short(failed['place'])})"
    place = "" if failed is None else _place_of(failed)
    if failed is not None and failed["absent"] is not None and not run.has_network():
        what, command = failed["absent"]
        if command:
            return f"{what} is not on this machine, and a rehearsal has no network: `{command}` gets it{place}"
        return f"the program requests {what}, and a rehearsal has no network: --network runs it with the network{place}"
    if failed is not None:
        text = " ".join(failed["text"].split())
        if len(text) > _LONGEST:
            text = (text[: _LONGEST + 1].rpartition(" ")[0] or text[:_LONGEST]) + " ..."
        return f"the program failed: {failed['error']}: {text}{place}"
    if run.status < 0:
        return f"the program was killed by {signal.Signals(-run.status).name}"
    return f"the program failed with exit code {run.status}"


def _place_of(failed: dict[str, Any]) -> str:
    """Return the line of the program that failed, and the rank."""
    where = [_short(failed["place"])] if failed["place"] else []
    where += [f"rank {failed['rank']}"] if failed["rank"] else []
    return f" ({', '.join(where)})" if where else ""


def _short(place: str) -> str:
    file, _, number = place.rpartition(":")
    return stacks.place(os.path.basename(file), number)


def notes(
    run: launch.Program | launch.Outcome,
    ran: dict[str, Any],
    processes: Sequence[dict[str, Any]],
    reports: Sequence[Report],
) -> list[str]:
    """Return what a reader has to know beside the figures."""
    texts = []
    if processes and ran["jax"] and not ran["optimizer_steps"]:
        texts.append(
            "no call updated its arguments: this is the memory of inference, or of a step that was not compiled as a "
            "whole"
        )
    elif processes and not ran["optimizer_steps"] and not ran["backward_passes"]:
        texts.append("no backward pass ran: this is the memory of inference")
    elif processes and not ran["optimizer_steps"]:
        texts.append("no optimizer of torch.optim stepped; what the program updates by hand is in the figures")
    if ran["skipped_steps"] and ran["optimizer_steps"]:
        texts.append(f"{ran['skipped_steps']} steps of the optimizer were skipped")
    if run.outlived and processes:
        texts.append(f"the program left {run.outlived} processes running, which were ended")
    if any(report.tried for report in reports):
        texts.append(
            "torch.backends.cudnn.benchmark is on: PyTorch also tries kernels whose workspaces need no more than the "
            "free memory. Estimates of them are in the peak, and not in what the program needs"
        )
    if unknown := sorted({name for report in reports for name in report.unknown}):
        texts.append(f"not known: {', '.join(unknown)}; the need is {len(unknown) * MARGIN:.0%} wider at both ends")
    texts += [f"{text} ({place})" for report in reports for place, text in report.remarks.items()]
    grown = max((one["growth"] for one in processes), default=0)
    if grown > 0:
        texts.append(f"memory in use grows by {human_bytes(grown)} with each step")
    return texts
