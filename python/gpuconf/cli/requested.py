# SPDX-License-Identifier: Apache-2.0
"""The options that say which memory to lease, of ``gpuconf run`` and ``gpuconf lease``."""

from __future__ import annotations

import argparse

from .. import errors
from .exits import UsageError


def add_request(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--memory", metavar="SIZE", help="memory to lease on each GPU, such as 10GiB or 25%%")
    parser.add_argument("--gpus", type=int, metavar="N", help="how many GPUs (1); without --memory, all memory that they can give")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="wait at most this long; the exit code is then 124")
    parser.add_argument(
        "--policy", choices=("spread", "pack"), default="spread", help="the GPU with most room (default), or with least"
    )
    parser.add_argument("--name", default="", help="the name of the lease, for others to see")
    parser.add_argument("--simulate", metavar="SPEC", help="simulated GPUs, such as 4xA100-40GB")
    parser.add_argument(
        "--growth", action=argparse.BooleanOptionalAction, default=None, help="let pools reserve memory as needed, or at once"
    )


def simulated_here(spec: str) -> None:
    """Simulate GPUs in this process. Raises UsageError for an invalid simulation."""
    from ..machine.simulate import simulate

    try:
        simulate(spec)
    except errors.InvalidArgumentError as error:
        raise UsageError(f"--simulate: {error}") from None
