"""Workspaces that PyTorch only tries are no part of what a program needs (plans/programs/parts.py). What XLA's
autotuning takes while it compiles, from the text of a module.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import gpuconf
from gpuconf.plans.programs.parts import PARAMETERS, WORKSPACES, Seen, is_tried, parts, without_tried
from gpuconf.plans.programs.xla.card_memory import TUNING, Ledger
from gpuconf.plans.programs.xla.tuning import Tuned, tuned

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


MATMUL = "__cublas$lt$matmul"
KIND = 'kind=kCustom, calls=%fused, backend_config={"kind":"__triton'
MODULE = f"""HloModule jit_step, is_scheduled=true

%fused (p.1: bf16[1024,1024], p.2: bf16[1024,512]) -> bf16[1024,512] {{
  %p.1 = bf16[1024,1024]{{1,0}} parameter(0)
  %p.2 = bf16[1024,512]{{1,0}} parameter(1)
  ROOT %dot.1 = bf16[1024,512]{{1,0}} dot(%p.1, %p.2), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}

ENTRY %main.1 (a.1: bf16[1024,1024], b.1: bf16[1024,512]) -> f32[2,64,64,16] {{
  %a.1 = bf16[1024,1024]{{1,0}} parameter(0), metadata={{op_name="a"}}
  %b.1 = bf16[1024,512]{{1,0}} parameter(1), metadata={{op_name="b"}}
  %gemm_fusion_dot.1 = bf16[1024,512]{{1,0}} fusion(%a.1, %b.1), {KIND}_nested_gemm_fusion"}}
  %gemm_fusion_dot.2 = bf16[1024,512]{{1,0}} fusion(%a.1, %b.1), {KIND}_gemm"}}
  %call.1 = (f32[1024,512]{{1,0}}, s8[4194304]{{0}}) custom-call(%a.1, /*index=1*/%b.1), custom_call_target="{MATMUL}"
  %conv.1 = (f32[2,64,64,16]{{3,2,1,0}}, u8[512]{{0}}) custom-call(%a.1), custom_call_target="__cudnn$convForward"
  %add.1 = bf16[1024,512]{{1,0}} fusion(%b.1, %b.1), kind=kLoop, calls=%other
  ROOT %get-tuple-element.1 = f32[2,64,64,16]{{3,2,1,0}} get-tuple-element(%conv.1), index=0
}}
"""


def test_products_and_convolutions_are_tuned_once_with_red_zones() -> None:
    a, b = 18 * MIB, 17 * MIB
    assert tuned(MODULE) == [
        Tuned((a, b), (1 * MIB,), False, True),
        Tuned((a, b), (2 * MIB,), True, True),
        Tuned((a,), (512 << 10, 512), False, False),
    ]


def test_two_results_are_there_at_a_time() -> None:
    assert Tuned((17 * MIB,), (1 * MIB,), False, True).sizes(32 * MIB) == [17 * MIB, MIB, MIB, 32 * MIB]
    assert Tuned((17 * MIB,), (1 * MIB,), True, True).sizes(32 * MIB) == [17 * MIB, MIB, 32 * MIB, MIB, 32 * MIB]


def test_tuning_is_beside_the_parts_of_the_peak() -> None:
    ledger = Ledger()
    kept = ledger.allocate(0, MIB, "array", ())
    assert not ledger.is_tuned
    ledger.free([ledger.allocate(0, 8 * MIB, TUNING, ())])
    ledger.allocate(0, MIB, "array", ())
    ledger.free([kept])
    assert ledger.is_tuned
    assert ledger.parts(0) == {"array": 2 * MIB}
    assert ledger.statistics(0)["peak_bytes_in_use"] == 9 * MIB
    assert ledger.largest[0] == MIB
