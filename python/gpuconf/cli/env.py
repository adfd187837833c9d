# SPDX-License-Identifier: Apache-2.0
"""``gpuconf env``: the variables of ``gpuconf run`` as text, for programs that something else starts."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable

from .._core import settings, sizes
from .._core.table import human_bytes
from .._core.texts import check_text
from ..leases.environment import LeasedCard, of_program
from ..machine.cards import visible_devices
from . import console
from .console import OK, CheckingUsage, UsageError
from .output import print_json
from .parser import Options
from .simulated import simulated_here


def env(options: Options) -> int:
    """Run the command."""
    if options.json and options.format is not None:
        raise UsageError(f"--json is a format of its own: leave --format {options.format} out, or leave --json out")
    if options.simulate is not None:
        simulated_here(options.simulate)
    devices = visible_devices()
    with CheckingUsage():
        most = settings.ceiling()
        if options.memory is not None:
            total = min((device.total_memory for device in devices), default=None)
            limit = sizes.size("--memory", options.memory, total)
            settings.refuse_above_ceiling(limit)
            if total is not None and limit > total:
                has = f"more than a GPU here has, {human_bytes(total)}"
                console.complain(f"gpuconf env: --memory {options.memory} is {has}: it limits nothing")
        elif most is not None:
            limit = most.bytes
        else:
            raise UsageError("--memory is missing: pass the memory of each GPU, such as --memory 10GiB")
    if limit < 1 << 20:
        hint = sizes.unit_hint(options.memory, limit)
        raise UsageError(f"--memory must be at least 1 MiB, but got {options.memory!r}{hint}")
    cards = [LeasedCard(device.uuid, device.total_memory, device.total_memory) for device in devices]
    variables = of_program(cards, limit, options.growth, options.simulate)
    del variables["CUDA_VISIBLE_DEVICES"]  # the scheduler's
    if not devices:
        console.complain(
            "gpuconf env: there is no GPU here: XLA_PYTHON_CLIENT_MEM_FRACTION and TF_DEVICE_MIN_SYS_MEMORY_IN_MB are "
            "missing, because they depend on its memory. Run this where the program will run"
        )
    form = options.format or "shell"
    if form in ("docker", "kubernetes"):
        del variables["PYTHONPATH"]
        variables.pop("LD_LIBRARY_PATH", None)  # a folder of this machine
    if form == "docker":
        console.complain(
            "gpuconf env: PyTorch and Numba keep to these variables under gpuconf run, or in a program that "
            "imports gpuconf: docker run ... IMAGE gpuconf run python train.py"
        )
    if options.json:
        print_json({"limit": limit, "environment": variables})
    else:
        lines = [_FORMATS[form](name, value) for name, value in sorted(variables.items())]
        if form == "kubernetes":
            # NVIDIA's container toolkit reads it in MiB, and gpuconf takes it for a ceiling.
            lines.append(_kubernetes("NVIDIA_GPU_MEMORY_LIMIT", str(limit >> 20)))
            lines = [_POD, *lines]
            if not options.simulate:
                lines.append(_RESOURCES.format(max(1, len(devices))))
        if sys.stdout.isatty():
            print(*lines, sep="\n")
        else:  # a shell gets the values as they are, also names of files that are no text
            console.raw(sys.stdout).buffer.write(os.fsencode("\n".join([*lines, ""])))
    return OK


def _systemd(name: str, value: str) -> str:
    check_text(name, value)  # systemd ignores the line of another
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'Environment="{name}={escaped}"'


_POD = """\
spec:
  containers:
    - name: main  # the name of the container in your pod
      command: ["gpuconf", "run", "--", "python", "train.py"]
      env:"""
_RESOURCES = """\
      resources:
        limits:
          nvidia.com/gpu: {}"""


def _kubernetes(name: str, value: str) -> str:
    # A text of JSON is one of YAML, too.
    return f"        - name: {name}\n          value: {json.dumps(value)}"


_FORMATS: dict[str, Callable[[str, str], str]] = {
    "shell": lambda name, value: f"export {name}={shlex.quote(value)}",
    "docker": lambda name, value: f"{name}={value}",
    "systemd": _systemd,
    "kubernetes": _kubernetes,
}
