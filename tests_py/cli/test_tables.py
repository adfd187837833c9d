"""Results that are tables of numbers: each becomes a dictionary with ``to_dict``, which JSON accepts.

Some had only ``_asdict``, some ``to_dict``, and ``plan`` used other names than ``memory.stats`` for the same numbers.
"""

from __future__ import annotations

import json
from typing import Any

import gpuconf
import pytest
from gpuconf import memory

pytestmark = pytest.mark.usefixtures("one_gpu")


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


def test_every_table_becomes_a_dictionary() -> None:
    for name, table in every_table().items():
        told = table.to_dict()
        assert json.loads(json.dumps(told)) == told, name
        if isinstance(table, tuple):
            assert list(told) == list(table._fields), name


def test_tables_within_tables_are_dictionaries_too() -> None:
    with memory.allocate(1000):
        told = memory.memory_map().to_dict()
    assert told["regions"][0]["chunks"][0]["requested"] == 1000
    assert gpuconf.visible_devices()[0].to_dict()["compute_capability"] == [9, 0]


def test_a_number_has_one_name() -> None:
    """Numbers that ``memory.stats`` has a name for have the same name in every other table."""
    tables = every_table()
    words = set(memory.MemoryStats._fields)
    assert {"peak_bytes_in_use", "peak_bytes_reserved", "bytes_limit"} == words & set(tables["result"]._fields)
    assert {"bytes_in_use", "bytes_reserved", "largest_free_block_bytes"} == words & set(tables["failure"]._fields)
    assert {"bytes_in_use", "bytes_reserved"} == words & set(tables["point"]._fields)
    assert {"num_allocs", "peak_bytes_in_use"} == words & set(tables["usage"]._fields)
    assert {"bytes_limit", "oversubscribed_bytes"} == words & set(tables["memory_map"]._fields)


def test_a_measurement_has_numbers_when_it_has_ended() -> None:
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
