# SPDX-License-Identifier: Apache-2.0
"""``gpuconf devices``."""

from __future__ import annotations

import argparse

from .._typing import Any
from ..leases.contexts import context_bytes
from ..machine.cards import survey, visible_devices, why_no_gpu
from ..simulation.simulate import simulated
from .console import CONDITION, OK
from .output import add_json, example, print_json, print_table, size
from .processes import no_gpus

_EXAMPLE = """
gpuconf devices
gpuconf devices --json | jq -r '.devices[].uuid'
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "devices",
        help="list the GPUs that a process sees",
        description="List the GPUs that a process sees, with their CUDA and NVML numbers, PCI bus ID, UUID and "
        "TensorFlow name. "
        "context is what a lease takes for the CUDA context of each process. "
        "The exit code is 3 if there are none.",
        **example(_EXAMPLE),
    )
    add_json(parser)
    parser.set_defaults(run=_devices)


def _devices(options: argparse.Namespace) -> int:
    devices, machine = visible_devices(), simulated()
    code = OK if devices else CONDITION
    if options.json:
        found = [{**d.to_dict(), "context_bytes": context_bytes(d)} for d in devices]
        print_json({"simulated": machine or None, "devices": found})
        return code
    if machine:
        print(f"simulated: {machine}")
    if not devices:
        surveyed = survey()
        why = "" if surveyed.why_none else why_no_gpu()
        print(f"no GPUs: {why}; gpuconf doctor says more" if why else no_gpus(surveyed))
        return code
    rows = [
        (
            str(d.cuda_ordinal),
            d.name,
            size(d.total_memory) + ("" if d.memory_kind == "dedicated" else f" {d.memory_kind}"),
            size(context_bytes(d)),
            ".".join(map(str, d.compute_capability)),
            d.pci_bus_id,
            "-" if d.nvml_index is None else str(d.nvml_index),
            d.uuid,
            d.physical_device or "ignored",
        )
        for d in devices
    ]
    header = ("CUDA", "name", "memory", "context", "capability", "PCI bus", "NVML", "UUID", "device")
    print_table(header, rows, drop=("device", "PCI bus", "context", "capability", "NVML"))
    return code
