"""Workspaces that PyTorch only tries are left out of what a program needs (gpuconf/rehearsal/tried.py)."""

from __future__ import annotations

from gpuconf.rehearsal.tried import is_tried, without_tried

MIB = 1 << 20
MARKED = 64 * MIB + 435


def event(action: str, address: int, size: int) -> dict[str, int | str]:
    return {"action": action, "addr": address, "size": size}


def block(address: int, size: int) -> list[dict[str, int | str]]:
    return [event("alloc", address, size), event("free_requested", address, size), event("free_completed", address, size)]


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
