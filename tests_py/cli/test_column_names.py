"""One name for one thing in all tables, JSON objects, metrics and Python objects that show memory.

Each field of ``--json`` of 0.2 is still there: the number of the schema is the same, so that scripts go on. Results
that are tables of numbers become dictionaries with ``to_dict``, which JSON accepts. Some had only ``_asdict``, some
``to_dict``, and ``plan`` used other names than ``memory.stats`` for the same numbers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpuconf
import pytest
from gpuconf import memory
from holder import holder
from script import environment, execute

if TYPE_CHECKING:
    from collections.abc import Iterator

GIB = 1 << 30

# Every column of the tables that show processes, pools and leases. A second word for one of them does not belong here.
COLUMNS = {
    "GPU": "a card, by its number or the beginning of its UUID",
    "PID": "a process",
    "command": "its command line",
    "contexts": "what a lease takes of a card for CUDA contexts",
    "device": "the pool, a logical GPU",
    "in use": "memory in live blocks of pools",
    "lease": "what the process's lease has on the card",
    "lease PID": "the process that leased it",
    "limit": "the most that a pool takes",
    "memory": "in ps and top of a process, as the driver counts it; in lists of leases, of each card",
    "name": "of the job",
    "notes": "",
    "of limit": "in use, as a part of the limit",
    "peak": "the most that was in use",
    "reserved": "what pools have taken of the card",
    "state": "of a lease",
    "time": "since when",
    "user": "whose process it is",
}

POOL = {"limit": 4 * GIB, "reserved": GIB, "in_use": GIB, "peak": GIB}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"GPUCONF_SIMULATE": "T4", "GPUCONF_LEDGER": str(tmp_path / "ledger"), "COLUMNS": "200"}


def gpuconf_says(env: dict[str, str], *arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("gpuconf")), *arguments]
    return execute(command, env=environment(env), check=True).stdout


def test_tables_share_their_columns(env: dict[str, str]) -> None:
    with holder(env, 5 * GIB, 4 * GIB, GIB):
        for command, first in (
            (["ps"], "GPU"),
            (["top", "--iterations", "1"], "GPU"),
            (["stats"], "GPU"),
            (["lease", "--list"], "PID"),
            (["ledger", "list"], "PID"),
        ):
            headers = [
                line
                for line in gpuconf_says(env, *command).splitlines()
                if line.split()[:1] == [first] and "command" in line
            ]
            assert headers, command
            for header in headers:
                columns = {column.strip() for column in header.split("  ") if column.strip()}
                # A wide column's name touches its neighbor's.
                assert columns <= COLUMNS.keys() or {word for column in columns for word in column.split(" ")} <= {
                    word for name in COLUMNS for word in name.split()
                }, (command, header)


def test_json_has_the_same_fields_for_pools(env: dict[str, str]) -> None:
    with holder(env, 5 * GIB, 4 * GIB, GIB):
        listed = {
            command: json.loads(gpuconf_says(env, *command.split(), "--json"))
            for command in ("ps", "stats", "ledger list")
        }
        (card,) = listed["ps"]["gpus"]
        pools = [
            *listed["stats"]["pools"],
            *(pool for process in listed["ps"]["processes"] for pool in process["pools"]),
            *(pool for process in listed["ledger list"]["processes"] for pool in process["pools"]),
        ]
    assert len(pools) == 3
    for pool in pools:
        assert {name: pool[name] for name in POOL} == POOL
    assert (card["reserved"], card["in_use"]) == (GIB, GIB)


def test_metrics_and_python_have_the_same_words() -> None:
    prometheus = pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    gpuconf.simulate("T4")
    gpuconf.configure("4GiB", growth=True)
    registry = prometheus.CollectorRegistry()
    gpuconf.metrics.register(registry)
    with gpuconf.memory.allocate(GIB):
        lines = prometheus.generate_latest(registry).decode().splitlines()
        pool = gpuconf.memory.stats()
    found = {
        line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith("gpuconf_memory_")
    }
    assert {name: found[f"gpuconf_memory_{name}_bytes"] for name in POOL} == POOL
    assert (pool.bytes_limit, pool.bytes_reserved, pool.bytes_in_use, pool.peak_bytes_in_use) == tuple(POOL.values())


def test_env_says_the_limit(env: dict[str, str]) -> None:
    said = json.loads(gpuconf_says(env, "env", "--memory", "25%", "--json"))
    assert said["limit"] == 15_636_365_312 // 4
    assert said["environment"]["GPUCONF_LIMIT"] == str(15_636_365_312 // 4)


def every_table() -> dict[str, Any]:
    with memory.record() as recording, memory.measure() as measured:
        buffer = memory.allocate(1000)
        picture = memory.memory_map()
        buffer.free()
    planned = gpuconf.plan(recording, limit="1MiB")
    failed = gpuconf.plan(_too_much(), limit="1MiB")
    return {
        "stats": memory.stats(),
        "memory_map": picture,
        "memory usage": memory.usage(),
        "region": picture.regions[0],
        "chunk": picture.regions[0].chunks[0],
        "measure": measured,
        "measured row": measured.rows[0],
        "event": recording.events[0],
        "plan": planned,
        "result": planned.results[0],
        "usage": planned.usages[0],
        "point": planned.timeline()[0],
        "failure": failed.results[0].failure,
        "visible device": gpuconf.visible_devices()[0],
        "configuration": gpuconf.configure(libraries=[]),
    }


def _too_much() -> memory.Trace:
    with memory.record() as recording:
        memory.allocate("3MiB").free()
    return recording.trace


def test_every_table_becomes_a_dictionary(one_gpu: None) -> None:
    for name, table in every_table().items():
        told = table.to_dict()
        assert json.loads(json.dumps(told)) == told, name
        if isinstance(table, tuple):
            assert list(told) == list(table._fields), name


def test_tables_within_tables_are_dictionaries_too(one_gpu: None) -> None:
    with memory.allocate(1000):
        told = memory.memory_map().to_dict()
    assert told["regions"][0]["chunks"][0]["requested"] == 1000
    assert gpuconf.visible_devices()[0].to_dict()["compute_capability"] == [9, 0]


def test_a_number_has_one_name(one_gpu: None) -> None:
    """Numbers that ``memory.stats`` has a name for have the same name in every other table."""
    tables = every_table()
    words = set(memory.MemoryStats._fields)
    assert {"peak_bytes_in_use", "peak_bytes_reserved", "bytes_limit"} == words & set(tables["result"]._fields)
    assert {"bytes_in_use", "bytes_reserved", "largest_free_block_bytes"} == words & set(tables["failure"]._fields)
    assert {"bytes_in_use", "bytes_reserved"} == words & set(tables["point"]._fields)
    assert {"num_allocs", "peak_bytes_in_use"} == words & set(tables["usage"]._fields)
    assert {"bytes_limit", "oversubscribed_bytes"} == words & set(tables["memory_map"]._fields)


def test_a_measurement_has_numbers_when_it_has_ended(one_gpu: None) -> None:
    with memory.measure() as measured:
        with pytest.raises(RuntimeError, match="has not finished"):
            measured.to_dict()
        memory.allocate(1000).free()
    row = {"library": "gpuconf", "tag": "", "before": 0, "after": 0, "peak": 1024}
    assert measured.to_dict() == {
        "before": 0,
        "after": 0,
        "peak": 1024,
        "increase": 0,
        "peak_increase": 1024,
        "rows": [row],
    }


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
def fields_env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A process with a lease and a pool."""
    ledger = tmp_path_factory.mktemp("ledger") / "ledger"
    variables = {"GPUCONF_SIMULATE": "T4", "GPUCONF_LEDGER": str(ledger)}
    with holder(variables, 5 * GIB, 4 * GIB, GIB):
        yield variables


@pytest.mark.parametrize("command", FIELDS)
def test_no_field_is_gone(command: str, fields_env: dict[str, str]) -> None:
    program = [Path(sys.executable).with_name("gpuconf"), *command.split(), "--json"]
    done = execute(program, env=environment(fields_env))
    printed = json.loads(done.stdout)
    assert printed["schema"] == 1
    assert set(FIELDS[command].split()) - set(fields(printed)) == set()
