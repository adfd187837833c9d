# SPDX-License-Identifier: Apache-2.0
"""The options that say which memory to lease, of ``gpuconf run`` and ``gpuconf lease``."""

from __future__ import annotations

import argparse

from .console import UsageError


def add_request(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--memory", metavar="SIZE", help="memory to lease on each GPU, such as 10GiB or 25%%")
    parser.add_argument(
        "--gpus",
        type=_count,
        metavar="N",
        help="number of GPUs (default: 1); without --memory, all of their memory",
    )
    parser.add_argument(
        "--contexts",
        type=_count,
        metavar="N",
        help="processes that use each GPU at the same time, each with a CUDA context for which the lease takes room "
        "beside the "
        "memory (default: the ranks of torchrun on a GPU, else 1)",
    )
    parser.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="give up after this time, with exit code 124"
    )
    parser.add_argument(
        "--policy",
        choices=("spread", "pack"),
        default="spread",
        help="lease on the GPUs with the most room (default) or the least",
    )
    parser.add_argument("--name", default="", help="a name for the lease, shown to others")
    parser.add_argument("--simulate", metavar="SPEC", help="simulated GPUs, such as 4xA100-40GB")
    parser.add_argument(
        "--growth",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="let pools reserve memory as needed, or all of it at once",
    )


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number: pass 1 or more") from None


def _seconds(text: str) -> float:
    try:
        count = float(text)
    except ValueError:
        count = -1.0
    if not 0 <= count < 1e9:  # not a number, too
        why = "pass 0 or more, or leave --timeout out to wait without limit"
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds: {why}")
    return count


def share_simulated(spec: str) -> dict[str, str]:
    """Let a program that replaces this process find the simulated driver, and share its cards with all that it starts.

    Returns the variables.
    """
    from ..jobs.simulated_cards import of_program
    from ..leases.environment import of_simulation

    found, cards = of_simulation(), of_program(spec)
    if cards is not None:
        cards.keep_descriptor()
        found.update(cards.environment)
    return found


def simulated_here(spec: str) -> None:
    """Simulate GPUs in this process. Raises UsageError for an invalid simulation."""
    from .. import errors
    from ..simulation.simulate import simulate_buffers

    try:
        simulate_buffers(spec)
    except errors.InvalidArgumentError as error:
        raise UsageError(f"--simulate: {error}") from None
