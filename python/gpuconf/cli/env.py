# SPDX-License-Identifier: Apache-2.0
"""``gpuconf env``: the variables of ``gpuconf run`` as text, for programs that something else starts."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable

from .. import errors
from .._core import settings, sizes
from .._typing import Any
from ..leases.environment import LeasedCard, of_program
from ..machine.cards import visible_devices
from . import console
from .console import OK, UsageError
from .output import add_json, example, print_json
from .requested import simulated_here

_EXAMPLE = """
gpuconf env --memory 10GiB --format systemd >> service.conf
eval "$(gpuconf env --memory 10GiB)"           # in a Slurm script, or a container's entry point
docker run --env-file <(gpuconf env --memory 10GiB --format docker) IMAGE gpuconf run python train.py
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "env",
        help="print the environment variables that limit a program, for Slurm, Docker and systemd",
        description="Print the environment variables with which gpuconf run limits a program. Use them where Slurm, "
        "Docker, systemd "
        "or another scheduler starts the program and selects its GPUs. Nothing is leased.",
        **example(_EXAMPLE),
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="memory of each GPU that the program may use, such as 10GiB (default: NVIDIA_GPU_MEMORY_LIMIT, in a "
        "container that has it)",
    )
    parser.add_argument("--simulate", metavar="SPEC", help="simulated GPUs, such as 4xA100-40GB")
    parser.add_argument(
        "--growth",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="let pools reserve memory as needed, or all of it at once",
    )
    parser.add_argument(
        "--format",
        choices=tuple(_FORMATS),
        help="shell (default), systemd, or docker for --env-file; docker leaves out the path of the startup code, "
        "which differs in "
        "a container",
    )
    add_json(parser)
    parser.set_defaults(run=_env)


def _env(options: argparse.Namespace) -> int:
    if options.json and options.format is not None:
        raise UsageError(f"--json is a format of its own: leave --format {options.format} out, or leave --json out")
    if options.simulate is not None:
        simulated_here(options.simulate)
    devices = visible_devices()
    try:
        most = settings.ceiling()
        if options.memory is not None:
            total = min((device.total_memory for device in devices), default=None)
            limit = sizes.size("--memory", options.memory, total)
            settings.refuse_above_ceiling(limit)
        elif most is not None:
            limit = most.bytes
        else:
            raise UsageError("--memory is missing: pass the memory of each GPU, such as --memory 10GiB")
    except errors.InvalidArgumentError as error:
        raise UsageError(str(error)) from None
    if limit < 1 << 20:
        raise UsageError(f"--memory must be at least 1 MiB, but got {options.memory!r}{sizes.unit_hint(limit)}")
    cards = [LeasedCard(device.uuid, device.total_memory, device.total_memory) for device in devices]
    variables = of_program(cards, limit, options.growth, options.simulate)
    del variables["CUDA_VISIBLE_DEVICES"]  # the scheduler's
    if not devices:
        console.complain(
            "gpuconf env: there is no GPU here: XLA_PYTHON_CLIENT_MEM_FRACTION and TF_DEVICE_MIN_SYS_MEMORY_IN_MB are "
            "missing, "
            "because they depend on its memory. Run this where the program will run"
        )
    if options.format == "docker":
        del variables["PYTHONPATH"]
        variables.pop("LD_LIBRARY_PATH", None)  # a folder of this machine
        console.complain(
            "gpuconf env: PyTorch and Numba keep to these variables below gpuconf run, or in a program that "
            "imports gpuconf: docker run ... IMAGE gpuconf run python train.py"
        )
    if options.json:
        print_json({"limit": limit, "environment": variables})
    else:
        print(
            *(_FORMATS[options.format or "shell"](name, value) for name, value in sorted(variables.items())), sep="\n"
        )
    return OK


def _systemd(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'Environment="{name}={escaped}"'


_FORMATS: dict[str, Callable[[str, str], str]] = {
    "shell": lambda name, value: f"export {name}={shlex.quote(value)}",
    "docker": lambda name, value: f"{name}={value}",
    "systemd": _systemd,
}
