"""One name for one thing in all tables, JSON objects, metrics and Python objects that show memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gpuconf
import pytest
from holder import holder
from script import environment, execute

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
