"""What XLA's autotuning takes while it compiles, from the text of a module."""

from __future__ import annotations

from gpuconf.plans.programs.xla.card_memory import TUNING, Ledger
from gpuconf.plans.programs.xla.tuning import Tuned, tuned

MIB = 1 << 20
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
