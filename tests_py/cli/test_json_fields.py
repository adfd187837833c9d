"""``--json``: each field of 0.2 is still there. The number of the schema is the same, so that scripts go on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from holder import holder
from script import environment, execute

if TYPE_CHECKING:
    from collections.abc import Iterator

GIB = 1 << 30

# What 0.2 printed, by command. A field is added here when a version is released, and leaves with the number of the
# schema.
FIELDS = {
    "devices": (
        "devices devices[].compute_capability devices[].cuda_ordinal devices[].memory_kind devices[].memory_source "
        "devices[].name devices[].nvml_index devices[].pci_bus_id devices[].physical_device devices[].total_memory "
        "devices[].uuid simulated"
    ),
    "ps": (
        "driver errors gpus gpus[].gpu gpus[].in_use gpus[].leased gpus[].memory gpus[].memory.free gpus[].memory.kind "
        "gpus[].memory.source gpus[].memory.total gpus[].memory.used gpus[].name gpus[].pci_bus_id gpus[].reserved "
        "gpus[].uuid jobs ledger processes processes[].bytes processes[].claim processes[].command processes[].gpu "
        "processes[].in_use processes[].job processes[].lease processes[].libraries processes[].limit processes[].name "
        "processes[].notes processes[].peak processes[].pid processes[].pools processes[].pools[].device "
        "processes[].pools[].in_use processes[].pools[].libraries processes[].pools[].limit processes[].pools[].peak "
        "processes[].pools[].reserved processes[].reserved processes[].user processes[].uuid simulated"
    ),
    "stats": (
        "jobs pools pools[].command pools[].device pools[].gpu pools[].in_use pools[].libraries pools[].limit "
        "pools[].peak pools[].pid pools[].reserved pools[].uuid"
    ),
    "visible": (
        "devices devices[].compute_capability devices[].cuda_ordinal devices[].memory_kind devices[].memory_source "
        "devices[].name devices[].nvml_index devices[].pci_bus_id devices[].physical_device devices[].total_memory "
        "devices[].uuid notices value"
    ),
    "doctor": "findings findings[].fix findings[].level findings[].number findings[].subject findings[].text problems",
    "config": (
        "settings settings[].ceiling settings[].key settings[].source settings[].text settings[].value "
        "settings[].variable"
    ),
    "lease --list": (
        "leases leases[].cards leases[].cards[].bytes leases[].cards[].memory_kind leases[].cards[].memory_source "
        "leases[].cards[].uuid leases[].command leases[].count leases[].gone leases[].id leases[].job leases[].local "
        "leases[].name leases[].pid leases[].seconds leases[].start_time leases[].state leases[].ticket leases[].uid"
    ),
    "ledger list": (
        "claims claims[].cards claims[].cards[].bytes claims[].cards[].uuid claims[].command claims[].count "
        "claims[].gone claims[].id claims[].job claims[].local claims[].name claims[].pid claims[].seconds "
        "claims[].start_time claims[].state claims[].ticket claims[].uid claims[].user folder processes "
        "processes[].claim_id processes[].command processes[].gone processes[].job processes[].local processes[].name "
        "processes[].pid processes[].pools processes[].pools[].in_use processes[].pools[].libraries "
        "processes[].pools[].limit processes[].pools[].number processes[].pools[].peak processes[].pools[].reserved "
        "processes[].pools[].uuid processes[].start_time processes[].uid processes[].user shared"
    ),
    "ledger check": "findings folder shared",
    "env --memory 1GiB": "environment",
    "simulate --models": "models models[].compute_capability models[].memory models[].memory_kind models[].name "
    "models[].product",
}


def fields(value: Any, at: str = "") -> Iterator[str]:
    """The names of all fields, from the outside in."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield f"{at}.{name}".removeprefix(".")
        yield from fields(inner, f"{at}.{name}")
    for inner in value if isinstance(value, list) else ():
        yield from fields(inner, f"{at}[]")


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A process with a lease and a pool."""
    ledger = tmp_path_factory.mktemp("ledger") / "ledger"
    variables = {"GPUCONF_SIMULATE": "T4", "GPUCONF_LEDGER": str(ledger)}
    with holder(variables, 5 * GIB, 4 * GIB, GIB):
        yield variables


@pytest.mark.parametrize("command", FIELDS)
def test_no_field_is_gone(command: str, env: dict[str, str]) -> None:
    program = [Path(sys.executable).with_name("gpuconf"), *command.split(), "--json"]
    done = execute(program, env=environment(env))
    printed = json.loads(done.stdout)
    assert printed["schema"] == 1
    assert set(FIELDS[command].split()) - set(fields(printed)) == set()
