# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this machine, listed in a process of its own, and the parts of Dask and Ray that are not in their
documentation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

from .. import errors
from .._core import runtime, texts
from .._core.command import run
from .._core.native import loaded
from .._core.table import counted
from .._typing import Any, NamedTuple

# The parts of Dask and Ray that are not in their documentation.
#
# A version without one of them is refused with its name.

_MODULES = {"Dask": "distributed", "Ray": "ray"}  # by library: the one with its version


def need(library: str, owner: object, attribute: str, what: str) -> Any:
    """Return an attribute of one of a library's objects, or raise UnavailableError that names it and what needs it."""
    try:
        return getattr(owner, attribute)
    except AttributeError:
        kind = owner.__name__ if isinstance(owner, type) else type(owner).__name__
        version = sys.modules[_MODULES[library]].__version__
        raise errors.UnavailableError(
            f"{what} needs {kind}.{attribute}, which {library} {version} does not have: "
            f"pip install -U 'gpuconf[{library.lower()}]', or report the version"
        ) from None


# Prints the cards, or the error of listing them.
_PROBE = """
import json, sys
import gpuconf
from gpuconf.leases.contexts import context_bytes
try:
    found = [[d.cuda_ordinal, d.uuid, d.name, d.total_memory, context_bytes(d)] for d in gpuconf.visible_devices()]
    print(json.dumps({"cards": found}))
except gpuconf.errors.GpuconfError as error:
    print(json.dumps({"code": error.code, "message": error.message}))
"""
_PROBE_S = 120


class Card(NamedTuple):
    """One GPU.

    ``total_memory`` is in bytes, and so is ``context``, what a lease takes for the CUDA context of each process.
    """

    ordinal: int
    uuid: str
    name: str
    total_memory: int
    context: int


def simulation(spec: object = None) -> str | None:
    """Return the simulated machine that a new process should have:
    ``spec``, or this process's own. None: as the environment says.

    Raises InvalidTypeError or InvalidArgumentError for a spec that is not text.
    """
    if spec is not None:
        if not texts.check_text("simulate", spec).strip():
            raise errors.InvalidArgumentError("simulate must not be empty: pass a machine such as '4xA100-40GB'")
        return str(spec)
    return (runtime.simulated() or None) if loaded() else None


def list_cards(simulate: str | None = None) -> list[Card]:
    """Return the GPUs that a new process sees, with ``simulate`` those of a simulated machine.

    Raises InvalidArgumentError for an invalid machine, and UnavailableError if the GPUs cannot be listed.
    """
    variables = dict(os.environ) if simulate is None else {**os.environ, "GPUCONF_SIMULATE": simulate}
    try:
        done = run([sys.executable, "-c", _PROBE], timeout=_PROBE_S, env=variables)
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        raise errors.UnavailableError(
            f"cannot list the GPUs in a new process: {type(error).__name__}: {error}"
        ) from error
    if "code" in answer:
        raise errors.from_code(answer["code"], answer["message"])
    return [Card(*row) for row in answer["cards"]]


def choose(cards: Sequence[Card], chosen: Any) -> list[Card]:
    """Return the chosen cards, in that order:
    ``"all"``, a number of cards, or numbers and UUIDs in a list or separated by commas.

    Raises InvalidArgumentError for a card that does not exist or is chosen twice, and if there is no GPU at all.
    """
    if not cards:
        raise errors.FailedPreconditionError("this machine has no GPU: pass simulate='4xA100-40GB' for simulated ones")
    if chosen is None or (isinstance(chosen, str) and chosen.strip().lower() == "all"):
        return list(cards)
    if isinstance(chosen, int) and not isinstance(chosen, bool):
        if not 1 <= chosen <= len(cards):
            raise errors.InvalidArgumentError(
                f"gpus={texts.shown(chosen)}, but this machine has {counted(len(cards), 'GPU')}"
            )
        return list(cards[:chosen])
    entries = chosen.split(",") if isinstance(chosen, str) else chosen
    if not isinstance(entries, (list, tuple)) or not entries:
        raise errors.InvalidTypeError(
            f"gpus must be 'all', a number of GPUs, or a list of their numbers or UUIDs, but got {texts.shown(chosen)}"
        )
    found = [_find(cards, entry) for entry in entries]
    if len(set(found)) < len(found):
        raise errors.InvalidArgumentError(f"gpus={texts.shown(chosen)} names a GPU twice")
    return found


def _find(cards: Sequence[Card], entry: Any) -> Card:
    wanted = str(entry).strip()
    matches = [card for card in cards if wanted in (str(card.ordinal), card.uuid)]
    if not matches and wanted.startswith(("GPU-", "MIG-")):  # CUDA accepts a unique beginning
        matches = [card for card in cards if card.uuid.startswith(wanted)]
    if len(matches) != 1:
        known = ", ".join(f"{card.ordinal} ({card.uuid})" for card in cards)
        raise errors.InvalidArgumentError(f"there is no GPU {texts.shown(entry)} here; this machine has {known}")
    return matches[0]
