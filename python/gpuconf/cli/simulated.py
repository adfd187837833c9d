# SPDX-License-Identifier: Apache-2.0
"""The option --simulate of ``gpuconf run``, ``lease`` and ``env``."""

from __future__ import annotations

from .console import CheckingUsage, UsageError


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
    from ..simulation.simulate import simulate_buffers

    if not spec.strip():
        raise UsageError("--simulate needs SPEC, such as --simulate 2xT4, but got an empty text")
    with CheckingUsage("--simulate: "):
        simulate_buffers(spec)
