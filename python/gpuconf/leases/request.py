# SPDX-License-Identifier: Apache-2.0
"""A request for memory on some GPUs: which cards could serve it, and what of them is taken by others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from .. import errors
from .._core import settings, sizes
from .._core.devices import VisibleDevice
from .._core.generated.cards import CardMemory
from .._core.table import human_bytes
from .._typing import Any, NamedTuple
from ..machine.cards import Survey, survey
from .contexts import MOST, context_bytes, largest_lease, most_leasable, reserve_of
from .ledger import POLICIES, Card, CardLease, Claim, Ledger, open_ledger
from .proc import below

_LEAST = 1 << 20


class Request(NamedTuple):
    """What to lease:
    ``memory`` on each of ``gpus`` cards, as bytes, text or a percentage; None is all that a card can give. Up to
    ``most`` is lent while no other program needs it; None: nothing is.

    ``contexts`` processes use each card at the same time. The lease takes room for their CUDA contexts beside the
    memory.
    """

    memory: int | str | None
    gpus: int
    timeout: float | None
    name: str
    policy: str
    contexts: int
    most: str | None = None

    def bytes_of(self, device: VisibleDevice) -> int:
        """Return the bytes that are requested of a device: of a percentage, no more than a lease can have, and never
        more than the process may use.

        Raises InvalidArgumentError above the ceiling of the administrator or the container.
        """
        return _within_own_limit(self._asked(self.memory, device))

    def most_of(self, device: VisibleDevice) -> int:
        """Return the bytes of a device that the program may have at most, with what is lent."""
        return self.bytes_of(device) if self.most is None else _within_own_limit(self._asked(self.most, device))

    def _asked(self, memory: int | str | None, device: VisibleDevice) -> int:
        """Return the bytes that are requested of a device, whatever the process may use."""
        if memory is None:
            most = settings.ceiling()
            # At least that, which does not fit beside more contexts than the card has room for.
            whole = max(largest_lease(device, self.contexts), _LEAST)
            return whole if most is None else min(whole, most.bytes)
        wanted = sizes.size("memory", memory, device.total_memory)
        if isinstance(memory, str) and memory.rstrip().endswith("%"):
            wanted = min(wanted, max(most_leasable(device, self.contexts), _LEAST))
        settings.refuse_above_ceiling(wanted)
        return wanted

    def lowered(self, devices: Sequence[VisibleDevice]) -> str:
        """Return that the process's own limit makes this less on one of the devices, as a sentence; "" if not."""
        own = _own_limit()
        asked = max(self._asked(self.most or self.memory, device) for device in devices)
        if not own.value or asked <= int(own.value):
            return ""
        return self._sentence(asked, settings.who_limits(own), int(own.value))

    def within(self, configured: int, devices: Sequence[VisibleDevice]) -> tuple[Request, str]:
        """Return a request for no more than the program has configured, and that it is less, as a sentence.

        To configure loads the driver, after which nothing is lent: there is no MIN..MAX.
        """
        asked = max(self._asked(self.memory, device) for device in devices)
        if asked <= configured:
            return self, ""
        return self._replace(memory=configured), self._sentence(asked, "the program's configuration", configured)

    def _sentence(self, asked: int, who: str, allowed: int) -> str:
        what = "all memory" if self.memory is None else human_bytes(asked)
        return f"{what} of each GPU was requested, and {who} allows {human_bytes(allowed)}: that is the limit"

    def charge_of(self, device: VisibleDevice) -> int:
        """Return the bytes that the lease takes of a device: its memory and its contexts, or all that can be leased."""
        needed = self.bytes_of(device) + self.contexts * context_bytes(device)
        if self.memory is None and settings.ceiling() is None and not _own_limit().value:
            return max(needed, device.total_memory - reserve_of(device))
        return needed


def _own_limit() -> settings.Origin:
    """Return the limit that the user has set for this process; none in a job, whose lease has set the variable."""
    return settings.Origin("", "default", "") if os.environ.get("GPUCONF_LEASE") else settings.limit(os.environ)


def _within_own_limit(wanted: int) -> int:
    """Return no more than this process may use: more would be leased in vain."""
    own = _own_limit().value
    return min(wanted, int(own)) if own else wanted


def checked(memory: Any, gpus: Any, timeout: Any, name: Any, policy: Any, contexts: Any = 1) -> Request:
    """Return a request. Raises InvalidArgumentError or InvalidTypeError for an invalid argument."""
    memory, most = checked_memory(memory)
    if isinstance(gpus, bool) or not isinstance(gpus, int):
        which = "; CUDA_VISIBLE_DEVICES chooses which" if isinstance(gpus, (list, tuple, str)) else ""
        raise errors.InvalidTypeError(f"gpus must be a number of GPUs, but got {gpus!r}{which}")
    if gpus < 1:
        raise errors.InvalidArgumentError(f"gpus must be at least 1, but got {sizes.shown(gpus)}")
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
            raise errors.InvalidTypeError(f"timeout must be a number of seconds or None, but got {timeout!r}")
        if not 0 <= timeout < 1e9:
            raise errors.InvalidArgumentError(
                f"timeout must be a number of seconds, at least 0, or None to wait forever, but got {timeout}"
            )
    if not isinstance(name, str):
        raise errors.InvalidTypeError(f"name must be text, but got {name!r}")
    if policy not in POLICIES:
        raise errors.InvalidArgumentError(f"policy must be 'spread' or 'pack', but got {policy!r}")
    if isinstance(contexts, bool) or not isinstance(contexts, int):
        raise errors.InvalidTypeError(f"contexts must be a number of processes, but got {contexts!r}")
    if not 1 <= contexts <= MOST:
        raise errors.InvalidArgumentError(
            f"contexts must be at least 1 and at most {MOST}, the processes that use each GPU, but got "
            f"{sizes.shown(contexts)}"
        )
    return Request(memory, gpus, timeout, name, policy, contexts, most)


def checked_memory(memory: Any, what: str = "memory") -> tuple[Any, str | None]:
    """Return a size, and of MIN..MAX both. ``what`` is its name. Raises as ``checked``."""
    if isinstance(memory, str) and ".." in memory:
        memory, most = (part.strip() for part in memory.split("..", 1))
        if not (memory and most):
            raise errors.InvalidArgumentError(f"{what} is a size or MIN..MAX, but got '{memory}..{most}'")
        if _least_size(most, what) < _least_size(memory, what):
            raise errors.InvalidArgumentError(f"{what} is MIN..MAX, but {memory} is more than {most}")
        return memory, most
    if isinstance(memory, bool):
        raise errors.InvalidTypeError(
            f"{what} must be a number of bytes or text such as '6GiB', but got bool: {memory}"
        )
    if isinstance(memory, str) and "-" in memory.strip()[1:]:
        meant = "..".join(part.strip() for part in memory.split("-", 1))
        raise errors.InvalidArgumentError(f"{what} is a size or MIN..MAX, but got {memory!r}; did you mean '{meant}'?")
    if memory is not None:
        _least_size(memory, what)
    return memory, None


def checked_default(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return what `gpuconf run` leases without options, and who says so. Raises InvalidArgumentError."""
    memory, who = settings.memory_of_run(environ)
    checked_memory(memory or None, who)
    return memory, who


def _least_size(memory: Any, what: str) -> int:
    wanted = sizes.size(what, memory, 1 << 40)
    if wanted < _LEAST:
        hint = sizes.unit_hint(memory, wanted)
        raise errors.InvalidArgumentError(f"{what} must be at least 1 MiB, but got {memory!r}{hint}")
    return wanted


def claim(
    request: Request, devices: Sequence[VisibleDevice], command: str = "", waiting: Callable[[], None] | None = None
) -> Claim:
    """Wait until the request fits on the devices, and claim it. Raises DeadlineExceededError after its timeout.

    ``waiting`` is called about once a second meanwhile.
    """
    ledger = open_ledger()
    looked = False

    def look() -> list[Card]:
        nonlocal looked
        if looked and waiting is not None:
            waiting()
        looked = True
        return _cards(request, devices, ledger)

    return ledger.claim(
        look,
        request.gpus,
        policy=request.policy,
        timeout=request.timeout,
        name=request.name,
        command=command,
        contexts=request.contexts,
    )


def cards_again(leases: Sequence[CardLease], devices: Sequence[VisibleDevice], ledger: Ledger) -> list[Card]:
    """Return what the ledger must know of cards that a claim had, and that its program needs again."""
    foreign = _foreign(survey(), ledger)
    known = {device.uuid: device for device in devices}
    return [_card(known[one.uuid], one.bytes, one.charge, foreign) for one in leases]


def _card(device: VisibleDevice, nbytes: int, charge: int, foreign: Mapping[str, int], source: str = "") -> Card:
    reserve, others, kind = reserve_of(device), foreign.get(device.uuid, 0), device.memory_kind
    return Card(device.uuid, device.total_memory, nbytes, reserve, others, kind, source, charge)


def refuse_too_few(request: Request, devices: Sequence[VisibleDevice]) -> None:
    """Raise if there are not as many devices as requested."""
    if not devices:
        raise errors.NotFoundError(f"there is no GPU to lease{_why_none()}")
    if len(devices) < request.gpus:
        raise errors.InvalidArgumentError(
            f"{request.gpus} GPUs are requested, but only {len(devices)} {'is' if len(devices) == 1 else 'are'} visible"
        )


def refuse_never_lent(request: Request, devices: Sequence[VisibleDevice]) -> None:
    """Raise if no device can ever have as much as is to be lent at most."""
    largest = max(devices, key=lambda device: most_leasable(device, request.contexts))
    most = most_leasable(largest, request.contexts)
    if request.most is not None and request.most_of(largest) > most:
        raise errors.InvalidArgumentError(
            f"{request.most} can never be lent: a lease has at most {human_bytes(most)} of a card. Request less memory"
        )


def _why_none() -> str:
    """Return why no GPU is visible, and what to do."""
    machine = survey()
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if machine.cards and shown is not None:
        entries = [entry.strip() for entry in shown.split(",")]
        twice = next((entry for entry in entries if entry and entries.count(entry) > 1), None)
        why = f"names {twice} twice, so CUDA hides all GPUs" if twice else "shows none"
        return f": CUDA_VISIBLE_DEVICES={shown!r} {why}. Correct it, or unset it"
    why = f": {machine.why_none_shortly}" if machine.why_none else ""
    return f"{why}. Simulate one: --simulate, GPUCONF_SIMULATE or gpuconf.simulate, such as H100-80GB"


def _cards(request: Request, devices: Sequence[VisibleDevice], ledger: Ledger) -> list[Card]:
    """Return what the ledger must know of each device."""
    now = survey()
    foreign, known = _foreign(now, ledger), memories(now)
    sources = {uuid: memory.source or "" for uuid, memory in known.items()}
    return [
        _card(one, request.bytes_of(one), request.charge_of(one), foreign, sources.get(one.uuid, "")) for one in devices
    ]


def _foreign(now: Survey, ledger: Ledger) -> dict[str, int]:
    """Return the bytes in use on each card by processes that are not in the ledger."""
    if now.simulated:
        return {}
    claims = ledger.claims()
    leased: dict[str, int] = {}
    for held in (one for row in claims if row.state == "granted" for one in row.cards):
        leased[held.uuid] = leased.get(held.uuid, 0) + held.charge
    ours = below({row.pid for row in claims if row.local}) | {row.pid for row in ledger.processes() if row.local}
    usage = {}
    for card in now.cards:
        known = (
            not now.host_pids and card.processes_error is None and all(one.bytes is not None for one in card.processes)
        )
        instances = [(one.uuid, one.memory, one.uuid) for one in card.instances]
        for uuid, memory, instance in [(card.uuid, card.memory, None), *instances]:
            if known:
                theirs = (one for one in card.processes if one.pid not in ours and instance in (None, one.instance))
                usage[uuid] = sum(one.bytes or 0 for one in theirs)
            else:  # who uses it is unknown: whatever exceeds the leases
                usage[uuid] = max(0, (memory.used or 0) - leased.get(uuid, 0))
    return usage


def memories(now: Survey) -> dict[str, CardMemory]:
    """Return the memory of each card and MIG instance, by UUID."""
    found = {card.uuid: card.memory for card in now.cards}
    found.update((one.uuid, one.memory) for card in now.cards for one in card.instances)
    return found
