# SPDX-License-Identifier: Apache-2.0
"""``gpuconf simulate``."""

from __future__ import annotations

import argparse
import os

from .. import errors
from .._typing import Any
from ..jobs.execute import become
from ..machine.cards import models, survey
from ..simulation.simulate import simulate
from .console import EMPTY, OK, UsageError
from .output import add_json, example, print_json, print_table, size
from .requested import share_simulated

_EXAMPLE = """
gpuconf simulate 4xH100-80GB
gpuconf simulate A100,T4 -- python train.py
gpuconf simulate --models
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "simulate",
        usage="gpuconf simulate [-h] [--json] (--models | SPEC [[--] COMMAND ...])",
        help="run a command on simulated GPUs, or show what a specification means",
        description="Run a command with simulated GPUs, or show the cards of a specification: [Nx]MODEL[:MEMORY], "
        "separated by commas.",
        **example(_EXAMPLE),
    )
    parser.add_argument("--models", action="store_true", help="list the known models")
    add_json(parser)
    parser.add_argument("spec", nargs="?", metavar="SPEC", help="the machine, such as 4xT4:8GiB")
    parser.add_argument("command_line", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command to run")
    parser.set_defaults(run=_simulate)


def _simulate(options: argparse.Namespace) -> int:
    if options.models:
        if options.spec:
            raise UsageError("--models takes no specification")
        return _models(options)
    if not options.spec:
        raise UsageError("no specification: name the cards, such as 4xH100-80GB, or pass --models")
    try:
        spec = simulate(options.spec).spec
    except errors.InvalidArgumentError as error:
        raise UsageError(str(error)) from None
    words = options.command_line[1:] if options.command_line[:1] == ["--"] else options.command_line
    if words:
        if options.json:
            raise UsageError("--json cannot be used with a command")
        if not words[0]:
            raise UsageError(EMPTY)
        from ..leases.environment import of_startup

        become(words, {**os.environ, "GPUCONF_SIMULATE": spec, **of_startup(), **share_simulated(spec)})
    return _show(options, spec)


def _show(options: argparse.Namespace, spec: str) -> int:
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


def _models(options: argparse.Namespace) -> int:
    known = models()
    if options.json:
        print_json({"models": [model.to_dict() for model in known]})
        return OK
    rows = [(m.name, m.product, size(m.memory), m.memory_kind, ".".join(map(str, m.compute_capability))) for m in known]
    print_table(("model", "reported as", "memory", "kind", "capability"), rows, right=("memory",))
    return OK
