# SPDX-License-Identifier: Apache-2.0
"""The driver's own limits of device memory: control groups, which ``gpuconf run`` prefers to its guard, and MPS."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .. import errors
from .._core.table import human_bytes
from . import cgroup

VARIABLE = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_DEFAULT_PIPES = "/tmp/nvidia-mps"
_ENTRY = r"\s*([^=\s]+)\s*=\s*(\d+)\s*([GMgm])[Bb]?\s*"
_SECONDS = 2.0
_UNLIMITED = 2**64 - 1  # NVML_DEVICE_MEMORY_LIMIT_MAX


def mps_runs(environ: Mapping[str, str]) -> bool:
    """Whether a program with this environment would become a client: the daemon's pipe is there, and the daemon
    lives.
    """
    folder = environ.get(_PIPES) or _DEFAULT_PIPES
    if not os.path.exists(f"{folder}/control"):
        return False
    try:
        with open(f"{folder}/nvidia-cuda-mps-control.pid") as file:
            os.kill(int(file.read()), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError):  # of another user, or not readable: the pipe has to do
        pass
    return True


def mps_limits(environ: Mapping[str, str]) -> dict[str, int]:
    """Return the bytes that each process may have, by GPU as the variable names it: an ordinal or a UUID. {} if it is
    malformed.
    """
    by_gpu = {}
    for entry in filter(None, environ.get(VARIABLE, "").split(",")):
        match = re.fullmatch(_ENTRY, entry)
        if match is None:
            return {}
        by_gpu[match[1]] = int(match[2]) << (30 if match[3] in "gG" else 20)
    return by_gpu


def mps_default_limit(environ: Mapping[str, str], gpu: int) -> str:
    """Return the daemon's limit for processes that set none, in its own words; "" if it has none or does not say."""
    import subprocess

    from .._core.command import run

    try:
        question = f"get_default_device_pinned_mem_limit {gpu}\n"
        done = run(["nvidia-cuda-mps-control"], input=question, env=dict(environ), timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = done.stdout.strip()
    return words if done.returncode == 0 and re.search(r"[1-9]", words) else ""


def limits(bus_ids: Iterable[str]) -> dict[cgroup.Card | None, tuple[int, str]]:
    """Return the smallest limit of each card, in bytes, and the control group that has it.

    NVML knows the limits of a driver that counts without the kernel's controller, too.
    """
    by_card: dict[cgroup.Card | None, tuple[int, str]] = dict(cgroup.limits().items())
    for card, (limit, group) in _of_nvml(bus_ids).items():
        if card not in by_card or limit < by_card[card][0]:
            by_card[card] = limit, group
    return by_card


def _of_nvml(bus_ids: Iterable[str]) -> dict[cgroup.Card | None, tuple[int, str]]:
    """Return what NVML reports of this process's control group; nothing from a driver older than CUDA 13.4."""
    import ctypes

    class Limits(ctypes.Structure):  # nvmlGetMemoryLimits_v1_t
        _fields_ = (
            ("name_space", ctypes.c_char_p),
            ("soft", ctypes.c_ulonglong),
            ("hard", ctypes.c_ulonglong),
            ("used", ctypes.c_ulonglong),
        )

    by_card: dict[cgroup.Card | None, tuple[int, str]] = {}
    try:
        group = cgroup.own_group()
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        get = nvml.nvmlDeviceGetMemoryLimits_v1
    except (OSError, AttributeError):  # no control groups, no driver, or an older one
        return by_card
    if nvml.nvmlInit_v2() != 0:
        return by_card
    for bus_id in bus_ids:
        device, found = ctypes.c_void_p(), Limits(group.encode())
        if nvml.nvmlDeviceGetHandleByPciBusId_v2(bus_id.encode(), ctypes.byref(device)) == 0 and (
            get(device, ctypes.byref(found)) == 0 and found.hard != _UNLIMITED
        ):
            by_card[cgroup.card_at(bus_id)] = found.hard, group[len(cgroup.ROOT) :] or "/"
    nvml.nvmlShutdown()
    return by_card


def set_limits(limit_of: Mapping[str, int], bus_ids: Mapping[str, str], name: str) -> cgroup.Group:
    """Move this process into a control group that has these limits, in bytes by UUID.

    The programs that it starts are in it too.

    ``bus_ids`` has the PCI bus id of each card. Raises UnavailableError with the reason if that is not possible here.
    """
    regions = cgroup.regions()
    if not regions:
        raise errors.UnavailableError(
            f"the kernel and the driver do not support limits on device memory ({cgroup.ROOT}/dmem.capacity)"
        )
    wanted = {}
    for uuid, limit in limit_of.items():
        card = cgroup.card_at(bus_ids.get(uuid, ""))
        if uuid.startswith("MIG-") or card not in regions:
            raise errors.UnavailableError(f"dmem.capacity does not list {uuid}")
        wanted[regions[card]] = limit
    try:
        group = cgroup.Group(name)
        group.enter(wanted)
    except OSError as error:
        why = f"{error.filename or cgroup.ROOT}: {error.strerror}"
        raise errors.UnavailableError(f"the limit cannot be set in a control group ({why})") from None
    return group


def below(wanted: Mapping[str, int], bus_ids: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences about limits of the driver that are smaller than these, in bytes by UUID."""
    found = limits(bus_ids.values())
    for uuid, limit in wanted.items() if found else ():
        card = cgroup.card_at(bus_ids.get(uuid, ""))
        if card in found and found[card][0] < limit:
            smaller, group = found[card]
            yield f"the control group {group} limits {uuid} to {human_bytes(smaller)}, less than {human_bytes(limit)}"
    for gpu, smaller in mps_limits(environ).items() if mps_runs(environ) else ():
        if not _is_visible(gpu, list(wanted)):
            text = "names a GPU that the program does not see: the multi-process service may then drop all its limits"
            yield f"{VARIABLE}={environ[VARIABLE]} {text}"
        elif smaller < max(wanted.values()):
            share = f"{human_bytes(smaller)} of GPU {gpu} ({VARIABLE})"
            yield f"the multi-process service limits each process to {share}"


def _is_visible(gpu: str, uuids: Sequence[str]) -> bool:
    """Whether a program that sees only these GPUs sees the one of this ordinal or UUID."""
    return int(gpu) < len(uuids) if gpu.isdigit() else any(uuid.startswith(gpu) for uuid in uuids)


def in_force(labels: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[tuple[bool, str]]:
    """Yield sentences about all limits of the driver, and whether each is as it should be.

    ``labels`` names cards by PCI bus id.
    """
    names = {cgroup.card_at(bus_id): label for bus_id, label in labels.items()}
    for card, (limit, group) in limits(labels).items():
        label = names.get(card) or "{:04x}:{:02x}:{:02x}".format(*(card or ()))
        yield True, f"control group {group}: {human_bytes(limit)} of {label}, which the driver enforces"
    yield from _of_mps(len(labels), environ)


def may_be_set() -> str:
    """Say whether ``gpuconf run`` can set limits that the driver enforces; "" if kernel and driver do not have them."""
    try:
        group = cgroup.own_group() if cgroup.regions() else ""
    except OSError:
        return ""
    if not group:
        return ""
    said = "control groups can limit device memory here"
    if os.access(f"{group}/cgroup.procs", os.W_OK) and os.access(group, os.W_OK):
        return f"{said}: gpuconf run uses one in place of its guard, if no other process is in its own"
    return f"{said}, but this user cannot create one; as root, run systemd-run --scope -p Delegate=yes gpuconf run ..."


def _of_mps(gpus: int, environ: Mapping[str, str]) -> Iterator[tuple[bool, str]]:
    runs, value = mps_runs(environ), environ.get(VARIABLE)
    if value and not runs:
        yield False, f"{VARIABLE}={value} has no effect: no multi-process service is running here"
    elif value and not mps_limits(environ):
        yield False, f"{VARIABLE}={value} is malformed: entries are like 0=8G, or GPU-...=512M"
    elif value:
        yield True, f"{VARIABLE}={value}: the multi-process service enforces it for each process"
    for gpu in range(gpus) if runs else ():
        limit = mps_default_limit(environ, gpu)
        if limit:
            yield (True, f"multi-process service: {limit} of GPU {gpu} for each process without a limit of its own")
