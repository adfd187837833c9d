"""``gpuconf devices``."""

from __future__ import annotations

import argparse
import json

from .._core.columns import columns
from .._core.humanbytes import human_bytes
from .._typing import Any
from ..machine.simulate import simulated
from ..machine.visible import visible_devices
from .exits import OK


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "devices",
        help="list the GPUs that a process sees",
        description="List the GPUs that a process sees, with their CUDA and NVML numbers, PCI bus ID, UUID and TensorFlow name.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with sizes in bytes")
    parser.set_defaults(run=_devices)


def _devices(options: argparse.Namespace) -> int:
    devices, machine = visible_devices(), simulated()
    if options.json:
        print(json.dumps({"schema": 1, "simulated": machine or None, "devices": [d.to_dict() for d in devices]}, indent=2))
        return OK
    if machine:
        print(f"simulated: {machine}")
    if not devices:
        print("no GPUs")
        return OK
    rows = [("CUDA", "name", "memory", "capability", "PCI bus", "NVML", "UUID", "device")]
    rows += [
        (
            str(d.cuda_ordinal),
            d.name,
            human_bytes(d.total_memory),
            ".".join(map(str, d.compute_capability)),
            d.pci_bus_id,
            "-" if d.nvml_index is None else str(d.nvml_index),
            d.uuid,
            d.physical_device or "ignored",
        )
        for d in devices
    ]
    print(*columns(rows, left=len(rows[0])), sep="\n")
    return OK
