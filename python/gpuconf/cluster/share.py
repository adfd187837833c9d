# SPDX-License-Identifier: Apache-2.0
"""The share of a GPU that one process of a cluster has: its limit, growth and libraries, and how a process takes it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from .. import errors
from .._core import devices, runtime, sizes, texts
from .._core.devices import PhysicalDevice
from .._core.fork import module_lock
from .._core.table import counted, human_bytes
from .._typing import Any, NamedTuple
from ..allocators._configure import checked_libraries, configure
from ..leases import request
from ..machine.cards import visible_devices
from ..simulation import prepare_simulated_libraries
from .cards import Card

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..leases.lease import Lease


# Left on the card for each process's CUDA context and for what its libraries allocate themselves, where a card is
# divided evenly.
_RESERVE = 512 << 20
_RESERVE_PART = 8  # but never more than this part of the share


class Share(NamedTuple):
    """The configuration of a process of a cluster. ``memory`` limits each GPU that it sees; None is no limit."""

    memory: int | str | None
    growth: bool | None
    libraries: Any
    pre_import: tuple[str, ...]
    simulate: str | None


def checked(
    memory: Any, growth: Any, libraries: Any, pre_import: Any = None, simulate: str | None = None, leases: bool = False
) -> Share:
    """Return a share, or raise InvalidArgumentError or InvalidTypeError for what a process could not configure.

    ``leases``: the process leases its share, which may be ``MIN..MAX`` then.
    """
    if is_range(memory):
        if not leases:
            raise errors.InvalidArgumentError(
                f"memory MIN..MAX is lent to processes that lease their memory, such as Dask's workers with "
                f"lease=True: give it {memory.partition('..')[0]}"
            )
        request.checked(memory, 1, None, "", "spread")
    elif memory is not None:
        sizes.limit_bytes(memory, 1 << 40, "memory")  # a percentage is of the card, which the process knows
    if growth is not None and not isinstance(growth, bool):
        raise errors.InvalidTypeError(f"growth must be True, False or None, but got {texts.shown(growth)}")
    if libraries != "auto":
        libraries = checked_libraries(libraries)
    return Share(memory, growth, libraries, _names(pre_import), simulate)


def is_range(memory: Any) -> bool:
    """Whether memory is text of the form ``MIN..MAX``."""
    return isinstance(memory, str) and ".." in memory


def _names(pre_import: Any) -> tuple[str, ...]:
    """Return module names: a list, or text with commas, as dask-cuda's option of that name."""
    if pre_import is None:
        return ()
    given = pre_import.split(",") if isinstance(pre_import, str) else pre_import
    names: list[Any] = list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(name, str) for name in names):
        raise errors.InvalidTypeError(f"pre_import must be a list of module names, but got {texts.shown(pre_import)}")
    stripped = tuple(name.strip() for name in names)
    wrong = [name for name in stripped if not all(part.isidentifier() for part in name.split("."))]
    if wrong:
        raise errors.InvalidArgumentError(f"pre_import: {texts.shown(wrong[0])} is not the name of a module")
    return stripped


def take(share: Share, who: str) -> int:
    """Configure this process, and return its budget in bytes on the smallest GPU that it sees, without what is lent; 0
    without a limit or a GPU.

    ``who`` names the process in errors. Raises FailedPreconditionError if it is too late, and ImportError of
    ``pre_import``.
    """
    if share.simulate is not None and os.environ.get("GPUCONF_SIMULATE") != share.simulate:
        os.environ["GPUCONF_SIMULATE"] = share.simulate
        if runtime.enumerated():  # with another machine
            from ..simulation.simulate import reset

            _explained(who, reset)
    if share.simulate is not None:
        _explained(who, prepare_simulated_libraries)  # gpuconf may have been imported before the variable was set
    limits: dict[str, int] = _explained(who, lambda: _configure(share))
    import importlib

    for name in share.pre_import:
        importlib.import_module(name)
    least = min(limits.values(), default=0)
    if _held is not None:
        from ..leases.lease import sure

        least = min(least, sure(_held[1]))
    return least


def _configure(share: Share) -> dict[str, int]:
    gpus = any(device.device_type == "GPU" for device in runtime.physical_devices())
    # A library that is named explicitly cannot be routed on simulated GPUs. A cluster's program should run on both
    # kinds.
    libraries = "auto" if runtime.simulated() else share.libraries
    if share.memory is not None:
        for card in visible_devices():
            fitting(Card(card.cuda_ordinal, card.uuid, card.name, card.total_memory, 0), share.memory, 1)
    return configure(share.memory if gpus else None, share.growth, libraries, missing_ok=True).limits


def _explained(who: str, step: Any) -> Any:
    try:
        return step()
    except errors.FailedPreconditionError as error:
        used = " has already used the GPU" if runtime.initialized() else ""
        raise errors.FailedPreconditionError(f"{who}{used}: {error.message}") from error
    except errors.GpuconfError as error:
        raise errors.from_code(error.code, f"{who}: {error.message}") from error


def even(card: Card, processes: int, leased: bool = False) -> int:
    """Return the bytes of each of several processes that divide a card, less a reserve, in whole MiB.

    ``leased``: each leases its part, which takes room for its CUDA context.
    """
    part = card.total_memory // processes
    reserve = max(min(_RESERVE, part // _RESERVE_PART), card.context if leased else 0)
    each = (part - reserve) >> 20 << 20
    if each <= 0:
        raise errors.InvalidArgumentError(
            f"{processes} processes are too many for {human_bytes(card.total_memory)} of {card.name}"
        )
    return each


def fitting(card: Card, memory: int | str, processes: int, leased: bool = False) -> int:
    """Return the bytes of ``memory`` on a card. Raises InvalidArgumentError if that many processes do not fit.

    ``leased``: each leases them, which takes room for its CUDA context.
    """
    each = sizes.limit_bytes(memory, card.total_memory, "memory")
    beside = card.context if leased else 0
    if (each + beside) * processes > card.total_memory:
        fit, verb = card.total_memory // (each + beside), "does" if processes == 1 else "do"
        contexts = f", with {human_bytes(beside)} for the CUDA context," if beside else ""
        raise errors.InvalidArgumentError(
            f"{counted(processes, 'process', 'processes')} of {human_bytes(each)}{contexts} {verb} not fit "
            f"in the {human_bytes(card.total_memory)} of {card.name} ({card.uuid}): {fit} would"
        )
    return each


def limit_of(gpu: PhysicalDevice) -> int:
    """Return the configured limit of a GPU in bytes, 0 for no limit."""
    from ..config import get_logical_device_configuration

    configured = get_logical_device_configuration(gpu) or ()
    return sum(map(devices.limit_of, configured))


# A process's share, leased from the machine's ledger: processes of other clusters and users share the cards with
# it.

_lock = module_lock(globals(), "_lock")
_held: tuple[Share, Lease] | None = None  # guarded by _lock; until the process ends


def checked_timeout(wanted: Any, timeout: Any) -> float | None:
    """Return the seconds to wait for a lease, None for no lease. Raises InvalidTypeError or InvalidArgumentError."""
    if not isinstance(wanted, bool):
        raise errors.InvalidTypeError(f"lease must be True or False, but got {texts.shown(wanted)}")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise errors.InvalidTypeError(f"lease_timeout must be a number of seconds, but got {texts.shown(timeout)}")
    if not 0 <= timeout < float("inf"):
        raise errors.InvalidArgumentError(f"lease_timeout must be at least 0 seconds and finite, but got {timeout}")
    return float(timeout) if wanted else None


def take_lease(share: Share, timeout: float, who: str) -> Share:
    """Lease a share's memory on one of the GPUs that this process sees, and return the share in bytes.

    The lease lasts as long as the process. Raises DeadlineExceededError after ``timeout`` seconds, and
    FailedPreconditionError if the process has leased another share.
    """
    global _held
    from ..leases.lease import lease

    with _lock:
        if _held is not None:
            before, holding = _held
            if before != share:
                raise errors.FailedPreconditionError(
                    f"{who}: this process has a lease already, {holding!r}: restart it to change that"
                )
            return share._replace(memory=holding.memory)
        if share.simulate is not None:
            os.environ["GPUCONF_SIMULATE"] = share.simulate
        try:
            holding = lease(share.memory, timeout=timeout, name=who).__enter__()
        except errors.GpuconfError as error:
            raise type(error)(f"{who}: {error.message}") from error
        _held = share, holding
        return share._replace(memory=holding.memory)
