"""Workspaces that PyTorch only tries are no part of what a program needs (plans/programs/parts.py)."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import gpuconf
from gpuconf.plans.programs.parts import PARAMETERS, WORKSPACES, Seen, is_tried, parts, without_tried

MIB = 1 << 20
MARKED = 64 * MIB + 435


def event(action: str, address: int, size: int) -> dict[str, int | str]:
    return {"action": action, "addr": address, "size": size}


def block(address: int, size: int) -> list[dict[str, int | str]]:
    return [
        event("alloc", address, size),
        event("free_requested", address, size),
        event("free_completed", address, size),
    ]


def test_a_marked_workspace_that_is_freed_at_once_is_left_out() -> None:
    kept = [event("alloc", 1, MIB), *block(2, 3 * MIB)]
    assert without_tried([kept[0], *block(9, MARKED), *kept[1:], *block(9, MARKED)]) == kept


def test_the_address_of_a_workspace_serves_others() -> None:
    other = block(9, MIB)
    assert without_tried([*block(9, MARKED), *other]) == other


def test_tensors_stay_whatever_their_size() -> None:
    held = [event("alloc", 1, MARKED), event("alloc", 2, MIB), event("free_requested", 1, MARKED)]
    small = block(3, 512 + 435)
    unmarked = block(4, 64 * MIB)
    for events in (held, small, unmarked):
        assert not any(is_tried(events, number) for number in range(len(events)))
        assert without_tried(events) == events


# What PyTorch's record has beside blocks. An "oom" has no address, and newer versions add actions.
BESIDE: list[dict[str, Any]] = [
    {"action": "segment_alloc", "addr": 1, "size": 2 * MIB, "stream": 0, "time_us": 1, "frames": []},
    {"action": "oom", "device_free": MIB, "size": 1 << 52, "stream": 0, "time_us": 2, "frames": []},
    {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": 3, "frames": []},
    {"action": "annotate", "addr": 1, "size": 0, "stream": 0, "time_us": 4, "user_metadata": "packed", "frames": []},
    {"action": "user_defined", "addr": 0, "size": 0, "stream": 0, "time_us": 5, "frames": []},
    {"action": "segment_map", "addr": 1, "size": 2 * MIB, "stream": 0, "time_us": 6, "frames": []},
    {"action": "segment_unmap", "addr": 1, "size": 2 * MIB, "stream": 0, "time_us": 7, "frames": []},
    {"action": "segment_free", "addr": 1, "size": 2 * MIB, "stream": 0, "time_us": 8, "frames": []},
    {"action": "of a later PyTorch"},
]


def test_events_of_all_actions_are_read(tmp_path: Path) -> None:
    """A caught out-of-memory error ended the rehearsal with KeyError: 'addr'."""

    def at(time: int, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [one | {"stream": 0, "time_us": time, "frames": []} for one in events]

    held, workspace = at(1, [event("alloc", 1, 3 * MIB)]), at(9, block(9, MARKED))
    events = [*held, *BESIDE, workspace[0], *BESIDE, *workspace[1:], *BESIDE]
    needed = without_tried(events)
    assert needed == [*held, *BESIDE, *BESIDE, *BESIDE]
    assert parts(needed, [Seen(9, PARAMETERS, {1: ""})], [], []) == {PARAMETERS: 3 * MIB}
    assert parts(events, [Seen(9, PARAMETERS, {1: ""})], [], []) == {PARAMETERS: 3 * MIB, WORKSPACES: 64 * MIB + 512}
    snapshot = {"segments": [], "device_traces": [needed]}
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(snapshot))
    trace = gpuconf.memory.load_trace(tmp_path / "snapshot.pickle")
    assert [one.nbytes for one in trace.events if one.action == "allocate"] == [3 * MIB]
