# SPDX-License-Identifier: Apache-2.0
"""``gpuconf.lease``: a share of some GPUs for this process, queued with others."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from .. import config, errors
from .._core import runtime
from .._core.block import Block, refuse_copy
from .._core.devices import VisibleDevice
from .._core.fork import module_lock
from .._core.message import warn
from .._core.native import core, loaded, refuse_in_child
from .._core.settings import limit, set_variables, who_limits
from .._core.table import Made, human_bytes, make
from .._core.texts import refuse_unknown
from .._typing import Any, NoReturn
from ..machine.cards import survey, visible_devices
from ..memory import stats
from ..simulation.simulate import reset
from .environment import of_process
from .grant import Grant, grant
from .ledger import open_ledger, unpublish
from .request import Request, checked, refuse_too_few

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..jobs.lent import Loan

# The switches of gpuconf.config that a reset discards.
_SETTINGS = (
    "soft_device_placement",
    "log_device_placement",
    "synchronous_execution",
    "intra_op_parallelism_threads",
    "inter_op_parallelism_threads",
)


class KeptConfiguration:
    """Growth, limits and visibility of each GPU by its UUID, and the switches.

    Takes them from devices that are listed already.
    """

    def __init__(self) -> None:
        self._growth: dict[str, bool] = {}
        self._logical: dict[str, list[Any]] = {}
        self._visible: list[str] | None = None
        self._settings: dict[str, str] = {}
        self.overrides = dict(runtime.current.overrides)
        if not runtime.enumerated():
            return
        uuids = _uuids()
        self._settings = {name: core.pybind_Setting(name) for name in _SETTINGS}
        shown = config.get_visible_devices("GPU")
        if len(shown) != len(uuids):
            self._visible = [uuids[gpu.name] for gpu in shown]
        for gpu in config.list_physical_devices("GPU"):
            growth, logical = config.experimental.get_memory_growth(gpu), config.get_logical_device_configuration(gpu)
            if growth is not None:
                self._growth[uuids[gpu.name]] = bool(growth)
            if logical is not None:
                self._logical[uuids[gpu.name]] = logical

    def limit(self) -> int:
        """Return the least limit of a GPU in bytes, 0 unless each has one, as after ``configure(limit=...)``."""
        limits = [[one.memory_limit for one in logical] for logical in self._logical.values()]
        if len(limits) < len(config.list_physical_devices("GPU") if limits else ()):
            return 0
        return min((int(sum(each)) << 20 for each in limits if None not in each), default=0)

    def adopt(self) -> None:
        """Apply the switches to the devices that are listed now, and growth, if it was the same for all GPUs that had a
        value.
        """
        self._put_switches()
        values = set(self._growth.values())
        for gpu in config.list_physical_devices("GPU") if len(values) == 1 else ():
            config.experimental.set_memory_growth(gpu, *values)

    def restore(self) -> None:
        """Apply all of it to the devices that are listed now, as far as they were listed before."""
        self._put_switches()
        if self._visible is None and not self._growth and not self._logical:
            return
        names = {uuid: name for name, uuid in _uuids().items()}
        gpus = {uuid: gpu for gpu in config.list_physical_devices("GPU") for uuid in names if names[uuid] == gpu.name}
        if self._visible is not None:
            config.set_visible_devices([gpus[uuid] for uuid in self._visible if uuid in gpus], "GPU")
        for uuid in gpus.keys() & self._growth.keys():
            config.experimental.set_memory_growth(gpus[uuid], self._growth[uuid])
        for uuid in gpus.keys() & self._logical.keys():
            config.set_logical_device_configuration(gpus[uuid], self._logical[uuid])

    def _put_switches(self) -> None:
        runtime.current.overrides.update(self.overrides)
        for name, value in self._settings.items():
            core.pybind_SetSetting(name, value)


def _uuids() -> dict[str, str]:
    """Return the UUID of each physical GPU by its name."""
    return {device.physical_device: device.uuid for device in visible_devices() if device.physical_device is not None}


# What can be known of CUDA without starting it in this process: whether it has started, and which GPUs it would see.
#
# CUDA reads CUDA_VISIBLE_DEVICES when it starts, and never again.

_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED

_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_CODE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from gpuconf.machine.cards import visible_devices
print(json.dumps([device.to_dict() for device in visible_devices()]))
"""
_PATIENCE_S = 60.0


def _loaded_driver() -> Any:
    """Return the CUDA driver that some library in this process has loaded, None if none has."""
    import ctypes

    try:
        return ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return None


def cuda_started() -> bool:
    """Whether any library in this process has initialized the CUDA driver."""
    import ctypes

    driver, count = _loaded_driver(), ctypes.c_int()
    return driver is not None and int(driver.cuDeviceGetCount(ctypes.byref(count))) != _NOT_INITIALIZED


def devices_elsewhere() -> list[VisibleDevice]:
    """Return ``gpuconf.visible_devices()`` of a new process. Raises UnavailableError if that fails."""
    import json
    import subprocess

    from .._core.command import run

    command = [sys.executable, "-I", "-c", _CODE, _PACKAGES]
    try:
        listed = json.loads(run(command, check=True, timeout=_PATIENCE_S).stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise errors.UnavailableError(f"another process could not list the GPUs: {said.strip()}") from None
    return [VisibleDevice(**{**one, "compute_capability": tuple(one["compute_capability"])}) for one in listed]


_lock = module_lock(globals(), "_lock")
_current: Lease | None = None  # guarded by _lock
_releasing = module_lock(globals(), "_releasing")


class Lease(Block, metaclass=Made):
    """The result of :func:`lease`. The memory is leased from the start of its ``with`` block to the end."""

    __module__ = "gpuconf"

    _made_by = "use gpuconf.lease()"
    __reduce_ex__ = refuse_copy

    def __init__(self, request: Request) -> None:
        self._request = request
        self._grant: Grant | None = None
        self._environ: dict[str, str | None] = {}  # what the variables were before
        self._kept: KeptConfiguration | None = None
        self._loan: Loan | None = None
        self._pending = [True]  # until the block begins

    @property
    def gpus(self) -> list[str]:
        """The UUIDs of the leased GPUs, in the order of the logical devices. Empty while nothing is leased."""
        return [] if self._grant is None else [card.uuid for card in self._grant.cards]

    @property
    def memory(self) -> int:
        """The leased bytes of each GPU; of ``MIN..MAX`` the most, with what is lent. 0 while nothing is leased."""
        return 0 if self._grant is None else self._grant.most

    @property
    def memory_kinds(self) -> list[str]:
        """The kind of each leased GPU's memory:
        "dedicated", "unified" (the host's) or "coherent". Empty without a lease.
        """
        return [] if self._grant is None else [card.kind for card in self._grant.cards]

    @property
    def memory_sources(self) -> list[str | None]:
        """What reported the free memory of each leased GPU:
        "NVML", "/proc/meminfo" or "simulation"; None if nothing did.
        """
        return [] if self._grant is None else [card.source for card in self._grant.cards]

    def __enter__(self) -> Lease:
        refuse_in_child()
        self._pending.clear()
        global _current
        taking = False
        try:
            with _lock:
                if _current is not None:
                    raise errors.NestingError(f"leases cannot be nested: this process has {_current!r}. Leave it first")
                taking = True  # first: a signal's exception may come between the two
                _current = self
            self._take()
        except BaseException:
            if taking:
                _current = None
            raise
        return self

    def _take(self) -> None:
        request = self._request
        lends = request.most is not None and not os.environ.get("GPUCONF_LEASE")
        if lends and (why := _why_none_lent()):
            _warn(f"{why}. The lease has {request.memory}")
            request, lends = request._replace(most=None), False
        from ..jobs import limited

        limited.suspend()
        devices, whole = _candidates(request)
        configured = 0 if whole else KeptConfiguration().limit()
        if configured:
            request, text = request.within(configured, devices)
            if text:
                _note(text)
        begun, timeout = time.monotonic(), request.timeout
        granted = grant(request, devices, " ".join(sys.orig_argv))
        for text in granted.notes():
            _note(text)
        lends = lends and granted.most > granted.limit
        try:
            self._kept = KeptConfiguration()
            if lends:
                from ..jobs.lent import Loan

                self._loan = Loan(granted, {device.uuid: device.total_memory for device in devices})
            if not whole:
                self._use(granted)
            limited.follow()
            open_ledger().publish(
                granted.id, timeout=None if timeout is None else max(0, begun + timeout - time.monotonic())
            )
            limited.resume(KeptConfiguration)
        except BaseException:
            self._put_back()
            granted.release()
            raise
        self._grant = granted

    def _use(self, granted: Grant) -> None:
        """Make the leased cards and bytes those of this process."""
        found = self._loan and self._loan.variables
        found = found or of_process(granted.cards, granted.limit, survey().simulated)
        if found["GPUCONF_LIMIT"] != os.environ.get("GPUCONF_LIMIT"):
            setter = who_limits(limit(os.environ)) if granted.lowered else "the memory of gpuconf.lease"
            found = {**found, "GPUCONF_LIMIT_FROM": f"{found['GPUCONF_LIMIT']} {setter}"}
        for name, value in found.items():
            self._environ[name] = os.environ.get(name)
            os.environ[name] = value
        self._environ["GPUCONF_LEASE"] = os.environ.get("GPUCONF_LEASE")  # of the job that this process is in, if any
        os.environ["GPUCONF_LEASE"] = granted.id
        if self._loan is not None:
            self._loan.begin()
        reset()
        assert self._kept is not None
        self._kept.adopt()

    def release(self) -> None:
        """End the lease: release the memory, and restore the environment and the configuration.

        A second call does nothing.

        The end of the ``with`` block calls it. Raises FailedPreconditionError while device memory is in use; the
        message lists what uses it. The memory then stays leased: free it and call ``release`` again, or end the
        process.
        """
        if not loaded():  # in a forked child
            return
        with _releasing:  # the second of two threads must not undo the next lease
            if self._grant is not None:
                self._release()

    def _release(self) -> None:
        global _current
        from ..jobs import limited

        limited.return_caches()
        try:
            reset()
        except errors.FailedPreconditionError as error:
            what = f"cannot end the lease of {human_bytes(self.memory)} on {', '.join(self.gpus)}"
            text = str(error).replace("cannot reset", what)
            raise errors.FailedPreconditionError(
                f"{text}\nThe memory stays leased until then: call release() again"
            ) from None
        unpublish()
        seen = ",".join(self.gpus)
        self._put_back()
        granted, self._grant = self._grant, None
        try:
            if granted is not None and (text := granted.why_lost()):
                _warn(text)
            if granted is not None:  # else a signal handler has called release() meanwhile
                granted.release()
                if granted.claim is None:
                    _publish_in_job(granted.id)
        finally:  # also if that was interrupted, or a copy has released it: nothing is leased, and another may be
            with _lock:
                if _current is self:
                    _current = None
        try:
            limited.resume(KeptConfiguration, seen)
        except errors.GpuconfError as error:  # the lease has ended all the same
            _note(f"PyTorch cannot use the GPU after the lease: {error}")

    def _put_back(self) -> None:
        if self._loan is not None:
            self._loan.end()
            self._loan = None
        set_variables(self._environ)
        self._environ.clear()
        if self._kept is not None:
            kept, self._kept = self._kept, None
            reset()
            kept.restore()

    def _leave(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.release()
        except errors.FailedPreconditionError:
            if kind is None:
                raise  # otherwise the block's own error takes precedence

    def __repr__(self) -> str:
        if self._grant is None:
            return "<gpuconf.lease: nothing is leased>"
        gpus = [f"{uuid} ({kind} memory)" for uuid, kind in zip(self.gpus, self.memory_kinds, strict=True)]
        return f"<gpuconf.lease: {human_bytes(self.memory)} on {', '.join(gpus)}>"


def held() -> Lease | None:
    """Return the lease of its own that this process holds, or is about to."""
    return _current


def sure(leased: Lease) -> int:
    """Return the bytes of each GPU that a lease has for sure, without what is lent."""
    return 0 if leased._grant is None else leased._grant.limit


def _warn_if_pending(pending: list[bool], file: str, line: int) -> None:
    """Warn of a lease without a block, which leases nothing, when it ends: at the latest with the process."""
    if pending:
        import warnings

        text = "this lease was never entered, so nothing was leased: write `with gpuconf.lease(...):`"
        warnings.warn_explicit(text, UserWarning, file, line)


def _why_none_lent() -> str:
    """Return why nothing can be lent to this process; "" if it can.

    Raises FailedPreconditionError if it is too late.
    """
    from ..jobs import lent

    why = lent.why_none()
    if not why and (runtime.initialized() or not (lent.has_guard() or _loaded_driver() is None)):
        raise errors.FailedPreconditionError(
            "gpuconf.lease('MIN..MAX') was called too late: this process has loaded the CUDA driver, and the guard "
            "must come before it. Call it before anything lists or uses the GPUs (on simulated GPUs before import "
            "torch), or start the program with gpuconf run --memory MIN..MAX"
        )
    return why


def _warn(text: str) -> None:
    import logging

    logging.getLogger("gpuconf").warning("gpuconf.lease: %s", text)


def _note(text: str) -> None:
    """Warn of a limit that is lower than requested."""
    warn(f"gpuconf.lease: {text}")


def _publish_in_job(lease: str) -> None:
    """Publish this process's figures as before its part of a job's lease. It can do without."""
    try:  # noqa: SIM105 - contextlib takes time to import
        open_ledger(create=False).publish(lease)
    except errors.GpuconfError:
        pass


def _candidates(request: Request) -> tuple[Sequence[VisibleDevice], bool]:
    """Return the devices that this process could lease, and whether it must lease all of them and change nothing.

    Raises FailedPreconditionError if it is too late.
    """
    if runtime.initialized():
        return _in_use(request), True
    if survey().simulated and (request.most is None or _loaded_driver() is not None):
        return visible_devices(), False
    if not cuda_started():
        # Here, listing them would start CUDA, which then ignores CUDA_VISIBLE_DEVICES.
        return devices_elsewhere(), False
    devices = visible_devices()
    refuse_too_few(request, devices)
    if len(devices) != request.gpus:
        raise errors.FailedPreconditionError(
            f"gpuconf.lease(gpus={request.gpus}) was called too late: CUDA has already started in this process, which "
            f"sees {len(devices)} GPUs. Call it before anything lists or uses the GPUs, or set CUDA_VISIBLE_DEVICES"
        )
    return devices, False


def _in_use(request: Request) -> Sequence[VisibleDevice]:
    """Return the devices that are initialized, if they have just the limits that are requested."""
    shown = {gpu.name for gpu in config.get_visible_devices("GPU")}
    devices = [device for device in visible_devices() if device.physical_device in shown]
    limits: dict[int, int] = {}
    for number, ordinal in enumerate(runtime.ordinals()):
        limits[ordinal] = limits.get(ordinal, 0) + stats(runtime.logical_gpu(number).name).bytes_limit
    wanted = {request.bytes_of(device) for device in devices}
    if len(devices) != request.gpus or wanted != set(limits.values()):
        have = f"{len(devices)} GPUs with limits of {', '.join(map(human_bytes, sorted(set(limits.values()))))}"
        by = runtime.origin()
        raise errors.FailedPreconditionError(
            f"gpuconf.lease() was called too late: the devices are already initialized{f' by {by}' * bool(by)}, "
            f"{have}, and the lease requests different ones. Call it before anything uses the GPUs, request the same, "
            "or free all GPU memory and call gpuconf.reset() first"
        )
    return devices


# What other functions and tools call it.
_MEANT = {"limit": "memory", "mem": "memory", "size": "memory", "num_gpus": "gpus", "count": "gpus", "wait": "timeout"}


def lease(
    memory: int | str | None = None,
    gpus: int = 1,
    timeout: float | None = None,
    name: str = "",
    policy: str = "spread",
    contexts: int = 1,
    **unknown: NoReturn,
) -> Lease:
    """Lease ``memory`` bytes of each of ``gpus`` GPUs for a ``with`` block, and wait until they are free.

    ``memory`` is in bytes, or text such as ``"10GiB"`` or ``"25%"``; None leases all of a GPU's memory that can be
    leased. Of ``"10GiB..30GiB"`` 10 GiB are leased, and up to 30 are lent while no other program needs them: a child of
    this process takes them back, and suspends this process if it must (see docs/run.md). ``timeout`` is in seconds;
    None waits without limit, and Ctrl-C ends the wait. Other processes see ``name``. Policy "spread" chooses the GPUs
    with the most room, "pack" those with the least. ``contexts`` is the number of processes that use each GPU at the
    same time: the lease also takes room for their CUDA contexts (see docs/ledger.md). Memory that other programs use is
    not leased. Processes see each other's leases through the ledger (``GPUCONF_LEDGER``), simulated GPUs included.

    Inside the block only the leased GPUs are visible, in ``CUDA_VISIBLE_DEVICES`` (by UUID) and
    ``gpuconf.visible_devices()``, and the limit of each is ``memory``. At the end the environment and the configuration
    are as before: another lease can follow.

    ``GPUCONF_LIMIT``, or ``limit`` in gpuconf.toml, lowers ``memory`` to what this process may use, with a warning.

    In a program of ``gpuconf run`` or ``gpuconf lease``, it is a part of that lease, which waits for nothing and takes
    nothing from other programs, as for a nested ``gpuconf run``. FailedPreconditionError: that lease has less. The
    parts of several processes are not added up: the job's lease and its guard limit them together.

    The lease is cooperative: it binds programs that take part. It ends with the process, however that ends.

    Raises DeadlineExceededError after ``timeout``: the message lists who holds the memory. Raises NotFoundError without
    a GPU, ValueError if the GPUs could never satisfy the request, NestingError inside another lease of this process,
    and FailedPreconditionError if the GPUs are already in use with another configuration, and at the end of the block
    while device memory is in use: the memory then stays leased until it is freed and :meth:`Lease.release` is called.

    >>> with gpuconf.lease(memory="10GiB", name="training") as leased:
    ...     [device.uuid for device in gpuconf.visible_devices()] == leased.gpus
    True
    """
    refuse_unknown("lease", unknown, ("memory", "gpus", "timeout", "name", "policy", "contexts"), _MEANT)
    import weakref

    made = make(Lease, checked(memory, gpus, timeout, name, policy, contexts))
    caller = sys._getframe(1)
    weakref.finalize(made, _warn_if_pending, made._pending, caller.f_code.co_filename, caller.f_lineno)
    return made
