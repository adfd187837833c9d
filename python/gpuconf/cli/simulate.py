# SPDX-License-Identifier: Apache-2.0
"""``gpuconf simulate``."""

from __future__ import annotations

import os

from ..jobs.execute import become
from ..machine.cards import models, survey
from ..simulation.simulate import simulate
from .console import EMPTY, OK, CheckingUsage, UsageError
from .output import print_json, print_table, size
from .parser import Options
from .simulated import share_simulated


def simulate_command(options: Options) -> int:
    """Run the command."""
    if options.models:
        if options.spec:
            raise UsageError("--models takes no specification")
        return _models(options)
    if not options.spec:
        raise UsageError("no specification: name the cards, such as 4xH100-80GB, or pass --models")
    with CheckingUsage():
        spec = simulate(options.spec).spec
    words: list[str] = options.words
    if words:
        if options.json:
            raise UsageError("--json cannot be used with a command")
        if not words[0]:
            raise UsageError(EMPTY)
        from ..leases.environment import of_startup

        become(words, {**os.environ, "GPUCONF_SIMULATE": spec, **of_startup(), **share_simulated(spec)})
    return _show(options, spec)


def _show(options: Options, spec: str) -> int:
    cards = survey().cards
    if options.json:
        fields = ("index", "name", "uuid", "pci_bus_id", "compute_capability")
        described = [
            {
                **{name: card.to_dict()[name] for name in fields},
                "memory": card.memory.total,
                "memory_kind": card.memory.kind,
            }
            for card in cards
        ]
        print_json({"simulated": spec, "cards": described})
        return OK
    print(f"GPUCONF_SIMULATE={spec}")
    rows = [
        (
            str(card.index),
            card.name,
            size(card.memory.total),
            card.memory.kind,
            ".".join(map(str, card.compute_capability)),
            card.uuid,
        )
        for card in cards
    ]
    print_table(
        ("GPU", "name", "memory", "kind", "capability", "UUID"), rows, right=("memory",), drop=("capability", "kind")
    )
    return OK


def _models(options: Options) -> int:
    known = models()
    if options.json:
        print_json({"models": [model.to_dict() for model in known]})
        return OK
    rows = [(m.name, m.product, size(m.memory), m.memory_kind, ".".join(map(str, m.compute_capability))) for m in known]
    print_table(("model", "reported as", "memory", "kind", "capability"), rows, right=("memory",))
    return OK
