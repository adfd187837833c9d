# SPDX-License-Identifier: Apache-2.0
"""Findings about the machine and the environment, for ``gpuconf doctor``. Each function below is one subject."""

from __future__ import annotations

import functools
import glob
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping

from .. import errors
from .._core import elf, runtime, settings, settings_file, texts
from .._core.devices import VisibleDevice
from .._core.generated.cards import Card
from .._core.native import core
from .._core.table import Table, counted, human_bytes
from ..jobs.driver_limits import in_force, may_be_set
from ..jobs.job_memory import NOT_COUNTED, of_this_job
from ..jobs.turns import why_never, why_not
from ..leases.contexts import VARIABLE, context_bytes
from ..leases.request import checked_default
from ..leases.view import View, hidden_users, view
from ..machine.cards import Survey, visible_devices
from .devices import Notices
from .processes import WHOLE_CARD_UNKNOWN, refused_queries


def of_process(pid: int) -> list[str]:
    """Return the mapped files of a process with a Go runtime; none if its maps may not be read."""
    try:
        with open(f"/proc/{pid}/maps", errors="replace") as file:
            mapped = {line.split(None, 5)[5].rstrip("\n") for line in file if " r-xp " in line and "/" in line}
    except OSError:
        return []
    return sorted(path for path in mapped if elf.is_go(path))


OK, NOTE, PROBLEM = "ok", "note", "problem"


class Finding(Table):
    """One finding."""

    level: str  # "ok", "note" or "problem"
    subject: str
    text: str
    fix: str = ""


problem, note, fine = (functools.partial(Finding, level) for level in (PROBLEM, NOTE, OK))


def of_machine(environ: MutableMapping[str, str]) -> Iterator[Finding]:
    """Yield the findings about this machine and the environment. A bad setting is removed, and the others follow."""
    of_settings = list(_settings(environ))
    yield from of_settings
    try:
        machine = view()
    except errors.GpuconfError as error:
        if all(finding.text != str(error) for finding in of_settings):
            yield problem("settings", str(error), "correct GPUCONF_SIMULATE, or unset it")
        return
    yield from _driver(machine.survey)
    yield from _cuda(machine.survey, environ)
    for card in machine.survey.cards:
        yield from _card(card)
    yield from _between_gpus(machine.survey)
    yield from _wsl(machine.survey)
    yield from _processes(machine)
    yield from _limits(machine.survey, environ)
    yield from _turns(machine.survey)
    yield from _ledger(machine, environ)
    yield from _contexts()
    yield from _stale(machine.survey, environ)
    yield from _two_go_runtimes(machine, environ)


# Settings


def _settings(environ: MutableMapping[str, str]) -> Iterator[Finding]:
    bad = dict(_refused(environ))
    for name, text in bad.items():
        yield problem("settings", text, f"correct the value, or unset {name}")
        del environ[name]
    for setting in settings.SETTINGS:  # others than 1 are no errors, and mean 1 or 0
        given = environ.get(setting.variable, "")
        if setting.kind == "flag" and given not in ("", "0", "1"):
            text = f"{setting.variable} must be 1 or 0, but got {given!r}"
            yield problem("settings", text, f"correct the value, or unset {setting.variable}")
    try:
        origins = settings.explain(environ, {})
        checked_default(environ)
        _check_simulation(environ)
    except errors.GpuconfError as error:
        yield problem("settings", str(error), "correct the value; every gpuconf call fails until then")
        environ[settings_file.CHOICE] = ""
    else:
        changed = [
            f"{name}={origin.value} ({origin.source})" for name, origin in origins.items() if origin.source != "default"
        ]
        if not bad:
            text = ", ".join(changed) if changed else "all defaults; see gpuconf config --explain"
            yield fine("settings", text)
    try:
        ignored, known = settings.ignored(environ), runtime.environment()
    except errors.GpuconfError:  # the administrator's file, which the finding above names
        return
    yield from (note("settings", one.text, one.fix) for one in ignored)
    for name, text in json.loads(core.pybind_MalformedVariables(known)).items():
        yield problem("settings", text, f"correct {name}, or unset it")
        del environ[name]
    yield from (problem("settings", text, fix) for text, fix in settings.misspelled(environ))


def _refused(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each variable with a value that gpuconf refuses, and what is said of it."""
    without = _why_refused({})  # for the administrator's file
    for setting in settings.SETTINGS:
        name = setting.variable
        why = _why_refused({name: environ[name]}) if name in environ else ""
        if why not in ("", without):
            yield name, why


def _why_refused(variables: Mapping[str, str]) -> str:
    """Return the first error of a program with these variables, and without a file in a folder; "" if there is none."""
    alone = {**variables, settings_file.CHOICE: ""}
    try:
        settings.environment(alone, ("GPUCONF_",))
        settings.turns_by_default(alone)
        settings.default_folder(alone)
        checked_default(alone)
        _check_simulation(alone)
    except errors.GpuconfError as error:
        return str(error)
    return ""


def _check_simulation(environ: Mapping[str, str]) -> None:
    spec = settings.value("GPUCONF_SIMULATE", environ)
    if spec:
        core.pybind_Specification(texts.check_text("GPUCONF_SIMULATE", spec))


# Driver and CUDA


def _driver(survey: Survey) -> Iterator[Finding]:
    if survey.simulated:
        yield note("driver", f"not used: the GPUs are simulated ({survey.simulated})")
        return
    if not survey.cards:
        fix = "simulate GPUs (GPUCONF_SIMULATE=2xH100-80GB), or install the driver, or start the container with GPUs"
        yield problem("driver", survey.why_none or "no GPU", fix)
        yield from _device_files()
        return
    version = "CUDA {}.{}".format(*survey.cuda) if survey.cuda else "an unknown CUDA version"
    kernel = _kernel_module()
    if kernel and survey.driver and kernel != survey.driver:
        fix = "restart the machine or reload the kernel module; in a container, restart the container"
        text = f"the driver library is version {survey.driver}, but the kernel module is version {kernel}"
        yield problem("driver", text, fix)
    else:
        yield fine("driver", f"{survey.driver}, for {version} and older; {counted(len(survey.cards), 'card')}")
    if survey.host_pids:
        yield note("driver", "this is a container: the driver reports PIDs of the host, which mean nothing here")
    yield from _device_files()


def _kernel_module() -> str | None:
    try:
        with open("/proc/driver/nvidia/version") as file:
            match = re.search(r"Kernel Module[^\n]*?\s(\d+\.\d+(?:\.\d+)?)\s", file.read())
    except OSError:
        return None
    return match[1] if match else None


def _device_files() -> Iterator[Finding]:
    for path in sorted(glob.glob("/dev/nvidia[0-9]*") + glob.glob("/dev/nvidiactl") + glob.glob("/dev/nvidia-uvm")):
        if not os.access(path, os.R_OK | os.W_OK):
            fix = f"add the user to the group of {path}, or start the container with access to it"
            yield problem("driver", f"this user may not open {path}", fix)


def _cuda(survey: Survey, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Compare what CUDA shows with what the machine has."""
    said = Notices()
    logger = logging.getLogger("gpuconf")
    logger.addHandler(said)
    logger.setLevel(logging.INFO)
    try:
        devices = visible_devices()
    except errors.GpuconfError as error:
        yield problem("CUDA", str(error), "run nvidia-smi; if it works, restart the program or the container")
        return
    finally:
        logger.removeHandler(said)
    for text in said.texts:
        if text.startswith(runtime.BEGINNING):  # which another finding reports
            continue
        fix = "correct CUDA_VISIBLE_DEVICES or CUDA_DEVICE_ORDER; gpuconf visible prints the first by UUID"
        yield problem("visible GPUs", text, fix)
    if survey.cards and not devices:
        shown = environ.get("CUDA_VISIBLE_DEVICES")
        why, fix = "; ".join(said.infos) or "CUDA finds none", "install the driver's CUDA library, libcuda.so.1"
        if shown is not None:
            why, fix = f"CUDA_VISIBLE_DEVICES={shown!r} shows none", "unset CUDA_VISIBLE_DEVICES"
        yield problem("visible GPUs", f"{counted(len(survey.cards), 'card')}, but a program sees none: {why}", fix)
        return
    if devices:
        yield fine("visible GPUs", f"a program sees {len(devices)} of {counted(_usable(survey), 'GPU')}")
    if not survey.simulated:
        yield from _wanted(devices, environ)
        yield from _order(devices, environ)


def _usable(survey: Survey) -> int:
    return sum(max(1, len(card.instances)) for card in survey.cards)


def _wanted(devices: list[VisibleDevice], environ: Mapping[str, str]) -> Iterator[Finding]:
    """CUDA drops an unknown entry of CUDA_VISIBLE_DEVICES, and all entries after it, and says nothing."""
    wanted = [entry for entry in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if entry.strip()]
    if len(wanted) > len(devices):
        unknown = wanted[len(devices)].strip()
        has = f"has {counted(len(wanted), 'entry', 'entries')}, but shows {len(devices)}"
        text = f"CUDA_VISIBLE_DEVICES {has}: CUDA stops at {unknown!r}"
        yield problem("visible GPUs", text, "remove it; gpuconf devices lists the GPUs")


def _order(devices: list[VisibleDevice], environ: Mapping[str, str]) -> Iterator[Finding]:
    differing = [
        device for device in devices if device.nvml_index is not None and device.nvml_index != device.cuda_ordinal
    ]
    if not differing:
        return
    one = differing[0]
    text = f"CUDA's GPU {one.cuda_ordinal} is nvidia-smi's GPU {one.nvml_index} ({one.uuid})"
    if environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or environ.get("CUDA_VISIBLE_DEVICES"):
        yield note("device order", f"{text}, because only some GPUs are visible")
        return
    fix = "set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID, as gpuconf visible prints them"
    yield problem("device order", f"{text}: numbers from nvidia-smi select other GPUs", fix)


# Cards


_KINDS = {
    "unified": "shares the host's memory, so its numbers are those of the host and include other programs' memory",
    "coherent": "has its own memory, which the CPU can access; only that memory counts",
}


def _card(card: Card) -> Iterator[Finding]:
    who = f"GPU {card.index}"
    refused = refused_queries(card)
    if refused:
        yield note(who, f"{WHOLE_CARD_UNKNOWN} ({refused[0].partition(';')[0]})")
    for text in card.errors:
        if text in refused:
            continue
        yield problem(who, text, "see the message; a reset of the GPU or a restart of the machine may help")
    if card.mig == "on" and not card.instances:
        fix = "create instances: nvidia-smi mig -cgi 19 -C; or turn MIG off: nvidia-smi -mig 0"
        yield problem(who, "MIG is on, but there is no instance: CUDA cannot use the card", fix)
    elif card.instances:
        text = (
            f"is divided into {counted(len(card.instances), 'MIG instance')}, each with its own memory limit, which "
            "the GPU enforces"
        )
        yield note(who, text)
    memory = card.memory
    if memory.kind != "dedicated":
        yield note(who, f"{card.name} {_KINDS[memory.kind]} (source: {memory.source or 'unknown'})")
    if card.processes_error:
        yield note(who, f"the driver does not list its processes: {card.processes_error}")


def _between_gpus(survey: Survey) -> Iterator[Finding]:
    if not survey.simulated and _usable(survey) > 1:
        text = (
            "gpuconf's pools with growth do not work with NCCL yet, with CUDA IPC (cuIpc: Dask-CUDA, UCX) "
            "or with RDMA (GPUDirect: NCCL, UCX, NIXL across machines)"
        )
        yield note("growth", text, "programs that use these: gpuconf.configure(limit=..., growth=False)")


def _wsl(survey: Survey) -> Iterator[Finding]:
    if not survey.simulated and is_wsl():
        text = (
            "this is WSL2: Windows manages the GPU's memory. Allocations beyond it may succeed, free memory is an "
            "estimate, and processes are not listed; only gpuconf's own limits are exact"
        )
        yield note("WSL2", text, "set a limit; if growth fails, use growth=False")


def is_wsl(release: str = "/proc/sys/kernel/osrelease", device: str = "/dev/dxg") -> bool:
    """Whether this Linux runs under Windows."""
    if os.path.exists(device):
        return True
    try:
        with open(release, encoding="utf-8", errors="replace") as file:
            return "microsoft" in file.read(256).lower()
    except OSError:
        return False


def _processes(machine: View) -> Iterator[Finding]:
    for place in machine.places:
        listed = [share for share in place.shares if share.bytes is not None]
        for share in listed:
            bad = [note for note in share.notes if note in ("gone", "zombie")]
            if bad and share.bytes:
                text = f"PID {share.pid} is {bad[0]}, but the driver counts {human_bytes(share.bytes)} for it"
                fix = "end its parent, or whatever else holds its /dev/nvidia* descriptors: fuser -v /dev/nvidia*"
                yield problem(f"GPU {place.gpu}", text, fix)
        for share in place.shares:
            if {"gone", "parent ended"} & {*share.notes} and share.lease and share.bytes is None:
                ended = f"process {share.lease_pid}, which leased {human_bytes(share.lease)}, has ended"
                child = "a child process" if "gone" in share.notes else f"its child {share.pid} ({share.command})"
                yield note(f"GPU {place.gpu}", f"{ended}, but {child} still holds the lease")


# Limits


def _limits(survey: Survey, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Which limits are in force, and who enforces them."""
    said = []
    origin = settings.explain(environ, {})["GPUCONF_LIMIT"]
    if origin.value:
        by = f"{origin.source}, lowered by {origin.ceiling}" if origin.ceiling else origin.source
        size = human_bytes(int(origin.value))
        if survey.cards:
            said.append(f"{size} for gpuconf's pools of each GPU ({by}), which gpuconf enforces")
        else:
            said.append(f"{size} for gpuconf's pools of each GPU ({by}), but there is no GPU: no limit is in force")
    if os.path.exists(environ.get("GPUCONF_GUARD", "")):  # else its job has ended
        said.append(
            "gpuconf's guard counts the memory of every library in this job and refuses allocations beyond the limit"
        )
        said += [f"the guard's budget for {job.uuid}: {job}" for job in of_this_job()]
        said.append(f"the guard does not count: {'; '.join(NOT_COUNTED)}")
    if environ.get("GPUCONF_LEASE") and os.path.exists(environ.get("GPUCONF_RUN", "")):
        said.append("this is a job of gpuconf run, with a lease")
    said += [f"{name}={environ[name]}: {who}" for name, who in _FOREIGN_LIMITS.items() if environ.get(name)]
    if any(card.instances for card in survey.cards):
        said.append("MIG instances: the GPU enforces them")
    yield from (note("limits", text) for text in said)
    drivers = list(_drivers(survey, environ))
    yield from drivers
    if not said and not drivers:
        yield fine("limits", "no limit is set")


def _turns(survey: Survey) -> Iterator[Finding]:
    """Yield whether programs can take turns here."""
    if not survey.cards:
        return
    why = why_not("--turns", survey) or why_never(survey)
    text = f"no program can take turns: {why}" if why else "programs can take turns: gpuconf run --turns"
    yield Finding(NOTE if why else OK, "turns", text)


def _drivers(survey: Survey, environ: Mapping[str, str]) -> Iterator[Finding]:
    for right, text in in_force({card.pci_bus_id: f"GPU {card.index}" for card in survey.cards}, environ):
        fix = "start the daemon (nvidia-cuda-mps-control -d), or unset the variable" if not right else ""
        yield Finding(NOTE if right else PROBLEM, "limits", text, fix)
    text = may_be_set()
    if text:
        yield note("limits", text)


_FOREIGN_LIMITS = {
    "CUDA_DEVICE_MEMORY_LIMIT": "a preloaded library of HAMi enforces it",
    "CUPY_GPU_MEMORY_LIMIT": "CuPy applies it to its own pool",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "JAX keeps to it",
    "XLA_CLIENT_MEM_FRACTION": "JAX keeps to it",
    "PYTORCH_CUDA_ALLOC_CONF": "PyTorch reads it",
    "PYTORCH_ALLOC_CONF": "PyTorch reads it",
    "TF_FORCE_GPU_ALLOW_GROWTH": "TensorFlow and gpuconf read it",
}


# The ledger


def _ledger(machine: View, environ: Mapping[str, str]) -> Iterator[Finding]:
    yield from (note("ledger", text) for text in hidden_users(machine))
    from ..leases.ledger import default_folder, lost, open_ledger, why_unusable

    for text in lost(default_folder()):
        fix = "end the process, or wait until it has ended: other programs do not see its lease"
        yield problem("ledger", text, fix)
    if machine.ledger_error:
        yield problem("ledger", machine.ledger_error, "see the message, and gpuconf ledger check")
        return
    if machine.ledger is None:
        why = why_unusable(default_folder())
        if why:
            fix = "set GPUCONF_LEDGER to a folder of this user, empty or new"
            yield problem("ledger", f"no lease is possible: {why}", fix)
        else:
            yield fine("ledger", "none yet; the first lease creates it")
        return
    ledger = open_ledger(create=False)
    for text in ledger.check():
        fix = "end the processes that use it, then remove the folder"
        if ledger.shared:  # by its administrator, or the user who spoiled a file
            fix = (
                "its administrator, or the user that the text names, ends the processes that use the file, then "
                "removes it"
            )
        yield problem("ledger", f"{machine.ledger}: {text}", fix)
    claims = ledger.claims()
    waiting = sum(claim.state == "waiting" for claim in claims)
    publishing = len(ledger.processes())
    text = (
        f"{machine.ledger}: {counted(len(claims) - waiting, 'lease')}, {waiting} waiting, {publishing} publishing "
        "their pools"
    )
    yield fine("ledger", text)
    lease = environ.get("GPUCONF_LEASE")
    if lease and all(claim.id != lease for claim in claims):
        text = f"GPUCONF_LEASE names lease {lease}, which has ended"
        yield problem("environment", text, "unset GPUCONF_LEASE and GPUCONF_LIMIT, or use gpuconf run again")


# The environment


def _contexts() -> Iterator[Finding]:
    """Yield what leases take of the GPUs for CUDA contexts."""
    try:
        sizes = {device.name: context_bytes(device) for device in visible_devices()}
    except errors.GpuconfError as error:
        yield problem("leases", str(error), "correct the value; no lease is granted until then")
        return
    for name, size in sizes.items():
        if size:
            text = f"a lease also takes {human_bytes(size)} of {name} for the CUDA context of each process ({VARIABLE})"
        else:
            text = (
                f"a lease takes nothing of {name} for CUDA contexts ({VARIABLE}=0): processes may run out of "
                "memory when they start"
            )
        yield note("leases", text)


def _stale(survey: Survey, environ: Mapping[str, str]) -> Iterator[Finding]:
    for name in ("GPUCONF_RUN", "GPUCONF_GUARD", "GPUCONF_SIMULATED_CARDS"):
        path = environ.get(name)
        if path and not os.path.exists(path):
            yield problem("environment", f"{name} names {path}, which is gone: its job has ended", f"unset {name}")
    who = settings.asked("GPUCONF_SIMULATE", environ)
    if survey.simulated and runtime.has_driver():
        yield note("environment", f"the simulation hides the real GPUs of this machine. Requested by: {who}")
    disabled = environ.get("GPUCONF_DISABLE", "")
    if disabled not in ("", "0"):
        yield note("environment", f"GPUCONF_DISABLE={disabled}: programs under gpuconf run are not routed")
    shown = environ.get("NVIDIA_VISIBLE_DEVICES")
    if shown in ("void", "none", "") and not (survey.cards and not survey.simulated):
        yield note("environment", f"NVIDIA_VISIBLE_DEVICES={shown!r}: this container was started without GPUs")
    if environ.get("CUDA_LAUNCH_BLOCKING") == "1":
        text = "CUDA_LAUNCH_BLOCKING=1 makes every kernel launch wait for its kernel; use it only for debugging"
        yield note("environment", text)


def _two_go_runtimes(machine: View, environ: Mapping[str, str]) -> Iterator[Finding]:
    preloaded = [path for path in re.split(r"[ :]", environ.get("LD_PRELOAD", "")) if path and elf.is_go(path)]
    fix = "load only one of them: Go does not support two runtimes in a process"
    if preloaded:
        yield problem("Go runtimes", f"LD_PRELOAD loads {preloaded[0]}, which is written in Go, like gpuconf", fix)
    for pid in sorted({share.pid for place in machine.places for share in place.shares if not share.notes}):
        libraries = of_process(pid)
        if len(libraries) > 1:
            text = f"PID {pid} has loaded several libraries written in Go: {', '.join(libraries)}"
            yield problem("Go runtimes", text, fix)
