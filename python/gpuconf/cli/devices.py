# SPDX-License-Identifier: Apache-2.0
"""``gpuconf devices`` and ``gpuconf visible``: the GPUs that a program sees."""

from __future__ import annotations

import logging
import os

from .. import errors
from .._core.devices import VisibleDevice
from ..leases.contexts import context_bytes
from ..machine.cards import survey, visible_devices, why_no_gpu
from ..simulation.simulate import simulated
from . import console
from .console import CONDITION, OK
from .output import print_json, print_table, size
from .parser import Options
from .processes import no_gpus


def devices(options: Options) -> int:
    """Run the command."""
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


_FORMS = {"uuid": "uuid", "cuda": "cuda_ordinal", "nvml": "nvml_index", "pci": "pci_bus_id"}


def visible(options: Options) -> int:
    """Run ``gpuconf visible``."""
    if options.value is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = options.value  # before CUDA reads it
    said = Notices()
    logging.getLogger("gpuconf").addHandler(said)
    devices = visible_devices()
    if options.json:
        value = os.environ.get("CUDA_VISIBLE_DEVICES")
        print_json({"value": value, "devices": [device.to_dict() for device in devices], "notices": said.texts})
    else:
        for text in said.texts:
            console.complain(f"gpuconf visible: {text}")
        if not devices and not said.texts:
            console.complain(f"gpuconf visible: {_why_none()}")
        print(",".join(_form(device, vars(options)["as"] or "uuid") for device in devices))
    return OK if devices else CONDITION


def _why_none() -> str:
    found = survey()
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not found.cards or shown is None:
        return no_gpus(found)
    return f"no GPUs: CUDA_VISIBLE_DEVICES={shown!r} shows none of the {len(found.cards)} GPUs of this machine"


def _form(device: VisibleDevice, form: str) -> str:
    found = getattr(device, _FORMS[form])
    if found is None:
        raise errors.UnavailableError(f"NVML reports no number for GPU {device.uuid}; use --as uuid")
    return str(found)


class Notices(logging.Handler):
    """Keeps what listing the devices logs."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []  # warnings, such as those about CUDA_VISIBLE_DEVICES
        self.infos: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        (self.infos if record.levelno < logging.WARNING else self.texts).append(record.getMessage())
