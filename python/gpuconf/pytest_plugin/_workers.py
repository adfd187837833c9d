# SPDX-License-Identifier: Apache-2.0
"""pytest-xdist: each worker gets a GPU and a share of its memory before it collects tests.

The controller lists the GPUs that it may use itself, in a process of its own, so that it creates no CUDA context. It
sends each worker the UUID of one of them, and a limit in bytes. Workers take turns on the GPUs; one that replaces a
crashed worker takes its place.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from .._core.command import run
from .._core.settings import set_variables
from .._core.table import counted
from .._typing import Any
from ._options import DEFAULT_MACHINE, MASK, SHARE, is_plain, settings

# Shows the GPUs of this process's mask and the memory that a process would get of each now.
_PROBE = """
import json, gpuconf
from gpuconf._core import runtime
seen = {d.cuda_ordinal: d for d in gpuconf.visible_devices()}
gpus = gpuconf.config.list_logical_devices("GPU")
print(json.dumps([
    {"uuid": seen[o].uuid, "name": seen[o].name, "total": seen[o].total_memory,
     "free": gpuconf.memory.stats(d.name).bytes_limit}
    for d, o in zip(gpus, runtime.ordinals())
]))
"""
_PROBE_S = 120
_LEAST = 1 << 30  # bytes that a worker needs, where the run does not say how much
_DRIVERS = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")


class Cards:
    """The controller's side: which worker has which place on which GPU."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.gpus: list[dict[str, Any]] = []
        self.why = ""
        self._places: dict[str, int] = {}  # by worker
        if may_have_gpus():
            self._list()

    def _list(self) -> None:
        try:
            done = run([sys.executable, "-c", _PROBE], timeout=_PROBE_S)
            self.gpus = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else []
            if done.returncode:
                self.why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
            self.why = str(error)

    def _room(self, gpu: dict[str, Any]) -> int:
        """Return how many workers fit on a GPU."""
        chosen = settings(self._config)
        wanted = int(gpu["total"] * chosen.fraction) if chosen.fraction else chosen.per_worker or _LEAST
        return int(gpu["free"] // wanted) if wanted else 0

    def most_workers(self) -> int:
        """Return how many workers fit on all GPUs, 0 if there is none."""
        chosen = settings(self._config)
        room = sum(map(self._room, self.gpus))
        return max(1, room) if self.gpus and (chosen.fraction or chosen.per_worker) else room

    def place(self, worker: str, workers: int) -> dict[str, Any] | None:
        """Return the GPU and the bytes of a worker, None without GPUs."""
        if not self.gpus:
            return None
        taken = set(self._places.values())
        self._places[worker] = number = next(n for n in range(len(taken) + 1) if n not in taken)
        gpu = self.gpus[number % len(self.gpus)]
        return {"uuid": gpu["uuid"], "limit": self.share(gpu, number % len(self.gpus), workers), "worker": worker}

    def share(self, gpu: dict[str, Any], position: int, workers: int) -> int:
        """Return the bytes of each worker on a GPU, a multiple of 1 MiB."""
        chosen = settings(self._config)
        neighbors = max(1, len(range(position, workers, len(self.gpus))))
        size = int(gpu["total"] * chosen.fraction) if chosen.fraction else chosen.per_worker
        return max(1 << 20, (size or gpu["free"] // neighbors) >> 20 << 20)

    def refuse_too_many(self, workers: int) -> None:
        """Raise pytest.UsageError if the workers' memory does not fit on the GPUs."""
        chosen = settings(self._config)
        if not self.gpus or not (chosen.fraction or chosen.per_worker):
            return
        for position, gpu in enumerate(self.gpus):
            here = len(range(position, workers, len(self.gpus)))
            if here > self._room(gpu):
                from ._marks import sizes_text

                fewer = f"at most {self.most_workers()} workers, or " if self.most_workers() < workers else ""
                share, free = sizes_text(self.share(gpu, position, workers)), sizes_text(gpu["free"])
                raise pytest.UsageError(
                    f"--gpuconf-memory: {counted(here, 'worker')} of {share} {'does' if here == 1 else 'do'} not fit "
                    f"in the {free} that are free on {gpu['name']} ({gpu['uuid']}): use {fewer}a smaller share"
                )

    def left(self, worker: str) -> None:
        """Free the place of a worker that is gone."""
        self._places.pop(worker, None)


_CARDS = pytest.StashKey[Cards]()
_COUNT = pytest.StashKey[int]()


def worker_left(config: pytest.Config, worker: str) -> None:
    """Free the place of a worker that is gone."""
    cards = config.stash.get(_CARDS, None)
    if cards is not None:
        cards.left(worker)


def problem(config: pytest.Config) -> str:
    """Return why the GPUs could not be shared, "" if nothing went wrong."""
    cards = config.stash.get(_CARDS, None)
    return cards.why if cards is not None else ""


def may_have_gpus() -> bool:
    """Whether this machine may have a GPU, or simulates some. Cheap: nothing is loaded."""
    return bool(os.environ.get("GPUCONF_SIMULATE")) or any(map(os.path.exists, _DRIVERS))


def cards_of(config: pytest.Config) -> Cards | None:
    """Return the GPUs of the controller's workers, None if they are not to be shared."""
    if is_plain(config) or settings(config).mode == "off":
        return None
    if _CARDS not in config.stash:
        simulate_if_chosen(config)  # before the options are all read, for -n auto
        config.stash[_CARDS] = Cards(config)
    return config.stash[_CARDS]


_BEFORE = pytest.StashKey[dict[str, "str | None"]]()  # the variables that simulating has changed
_SHARED = pytest.StashKey[Any]()  # OwnedCards, or None


def simulate_if_chosen(config: pytest.Config) -> None:
    """Simulate the GPUs of ``--gpuconf-simulate``, in this process and those that it starts, which share the memory of
    the cards.

    Raises pytest.UsageError for a bad machine.
    """
    chosen = settings(config)
    if chosen.mode != "simulate" or _BEFORE in config.stash:
        return
    spec = chosen.machine or os.environ.get("GPUCONF_SIMULATE") or DEFAULT_MACHINE
    from .. import errors
    from ..jobs.simulated_cards import of_program
    from ..simulation import simulated_torch
    from ..simulation.simulate import simulate_buffers

    try:
        spec = simulate_buffers(spec).spec
        shared = None if _is_shared(spec) else of_program(spec)
        if not simulated_torch.runs():
            simulate_buffers(None)
    except (errors.InvalidArgumentError, errors.FailedPreconditionError, errors.UnavailableError) as error:
        raise pytest.UsageError(f"--gpuconf-simulate: {str(error).splitlines()[0]}") from None
    try:
        simulated_torch.choose(None, None)
    except errors.InvalidArgumentError as error:
        raise pytest.UsageError(str(error)) from None
    except errors.FailedPreconditionError:
        raise pytest.UsageError(
            "--gpuconf=simulate: PyTorch was imported before gpuconf's plugin could simulate GPUs, by another plugin "
            f"or by what starts pytest. Start the run with gpuconf run --simulate {spec} -- "
            f"{os.path.basename(sys.executable)} -m pytest"
        ) from None
    variables = {"GPUCONF_SIMULATE": spec, **(shared.environment if shared is not None else {})}
    config.stash[_SHARED] = shared
    config.stash[_BEFORE] = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)


def _is_shared(spec: str) -> bool:
    """Whether this process has the cards of its parent, of which it may see a part: it is a worker, say."""
    from .. import errors
    from ..jobs.simulated_cards import current

    try:
        return os.environ.get("GPUCONF_SIMULATE") == spec and current() is not None
    except errors.UnavailableError:
        return False  # the job has ended


def stop_simulating(config: pytest.Config) -> None:
    """Restore the environment."""
    if _BEFORE not in config.stash:
        return
    before: dict[str, str | None] = config.stash[_BEFORE]
    set_variables(before)
    del config.stash[_BEFORE]
    shared = config.stash[_SHARED]
    if shared is not None:
        shared.close()


def show_gpu(node: Any, uuid: str) -> None:
    """Let a worker see its GPU alone before it loads its first conftest, which may use CUDA."""
    node.gateway.remote_exec(f"import os; os.environ['CUDA_VISIBLE_DEVICES'] = {uuid!r}").waitclose()


# The worker's side

_GENERATION = pytest.StashKey[int]()


def take_share(config: pytest.Config) -> None:
    """Make its share this process's visible device and limit. A run without workers has what the option says."""
    given: Any = getattr(config, "workerinput", None)
    if given is not None:
        share = given.get("gpuconf")
    elif SHARE in config.stash:
        share = config.stash[SHARE]
    elif config.getoption("dist", "no") == "no" and may_have_gpus():
        chosen = settings(config)
        share = {"limit": f"{chosen.fraction:%}" if chosen.fraction else chosen.per_worker}
    else:
        share = None
    config.stash[SHARE] = share
    if share is not None and "uuid" in share:
        os.environ["CUDA_VISIBLE_DEVICES"] = share["uuid"]
    apply_share(config)


def masks(config: pytest.Config) -> set[str]:
    """Return the values of CUDA_VISIBLE_DEVICES that this process had for its own GPUs: the run's, and its share's."""
    found = {config.stash[MASK], (config.stash.get(SHARE, None) or {}).get("uuid")}
    return {mask for mask in found if mask is not None}


def apply_share(config: pytest.Config) -> None:
    """Set the limit of this worker's share, if a reset or a simulation dropped it. Does nothing without a share."""
    share = config.stash.get(SHARE, None)
    if share is None:
        return
    from .. import errors
    from .._core import runtime
    from ..allocators._configure import configure

    if config.stash.get(_GENERATION, -1) == runtime.current.generation or runtime.initialized():
        return
    chosen = settings(config)
    try:
        # Other libraries are routed only if the run says how much they get: their own allocator may be what is tested.
        libraries = "auto" if chosen.fraction or chosen.per_worker else []
        configure(share["limit"], True, libraries, missing_ok="uuid" not in share)
    except errors.GpuconfError as error:
        whose = f"of worker {share['worker']}" if "worker" in share else "that --gpuconf-memory requests"
        raise pytest.UsageError(f"gpuconf cannot set the memory {whose}: {error}") from None
    config.stash[_GENERATION] = runtime.current.generation
