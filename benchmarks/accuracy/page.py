"""The text of benchmarks/reports/accuracy.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.accuracy import compiled, nanogpt_peaks, peft_peaks, public, timm_fits, xmem
from benchmarks.accuracy.drawn import page as drawn
from benchmarks.accuracy.drawn_jax import page as drawn_jax

MOST_ALLOCATED, MOST_RESERVED = 0.005, 0.02

PAGE = """# How accurate a rehearsal is

Written by `make accuracy`, on {machine}. Predictions of `gpuconf plan -- PROGRAM` ([plan.md](../../docs/plan.md))
beside runs recorded on real GPUs. *First*: before a set's recordings led to a change. *Unseen*: predicted once after.

| set (benchmarks/accuracy) | within 0.5 % allocated and 2 % reserved: first | last | unseen | peers |
|---|---|---|---|---|
| published programs (runs.json), eager, then compiled | {runs} | {whole} allocated | - | {tools} |
| their scripts under torch.compile (compiled.py) | - | {compiled} peaks | - | - |
| 120 drawn programs, H200 (drawn) | {drawn_first} | {drawn_last} | {drawn_unseen} | - |
| 40 programs of JAX, H200, 14 of which ended (drawn_jax) | {jax_first} | {jax_last} | {jax_unseen} | - |
| public snapshots of PyTorch (public.py) | - | {public} | - | - |

## The runs of xMem: RTX 3060 and 4060, PyTorch 2.6, cuDNN 9.1 (xmem.py, xmem_draw.py)

What NVML counted at most on the card, less its first sample; a prediction is the reserved memory, and a constant for
each card and family, fitted to the runs that are not unseen. xMem and DNNMem have the framework's own memory measured
in the same run. Relative error, median / mean / worst; in parentheses how many were predicted, if not all. The
given runs' last is of the rule for workspaces before the change. *After*: the change holds on 8.6 only, which the seen
runs of the RTX 4060 say, too, but was found by the unseen ones.

{xmem}

## timm's limits: RTX 4090, PyTorch 2.9.1 (timm_fits.py)
timm's benchmark.py sets `torch.backends.cudnn.benchmark`.{timm}

## PEFT's trainings of Llama-3.2-3B: L40S, PyTorch 2.13 (peft_peaks.py)
Reserved memory at the end of a step, with all texts at the limit of 768 tokens, which bounds what the runs had.{peft}

## modded-nanogpt's logs: eight H100s, PyTorch 2.7 and 2.8 (nanogpt_peaks.py)
The first rank's peaks with `--compile`, for three steps, with tokens of our own and a process group that sends
nothing. Ten programs were drawn, seven of which download a compiled kernel (FlashAttention 3), and are left out.
{nanogpt}

## What is off, and which fact is missing
- Workspaces of cuDNN 9.1. On the RTX 4060 (compute capability 8.9) *last* had the rule of the RTX 3060, and MnasNet's
  last gradients have no sums there, MobeNetV3Small's first one copies; RegNet is 6 % off still. On the RTX 3060
  RegNet (grouped convolutions) is up to 9 % off. Which engine takes a convolution is not published: the fact that is
  missing is what these cards request for each. `make gpu-workspaces` records it on one in a quarter of an hour.
- VGG, by up to 12 %: which of its 3x3 convolutions copy is not known. ConvNeXt, by 7 %: NVML's first sample has the
  model. Small batches of Transformers: repeats differ by 16 %.
- PEFT: of C3A (+16 %) the first step reserves 2 % more than was recorded, and a second one of the same length 3 GiB
  in fragments; the published run's texts have mixed lengths, which are not published. FRoD computes its matrices on
  the CPU for longer than the 300 s of a plan, WaveFT did not end in them on two busy cores: they have no figure.
- timm: the context of an RTX 4090 is known to 0.5 GiB only, so that what reserves 22.5 to 23.4 of its 23.6 GiB is
  *depends*. `nvidia-smi` on one says how large it is. *First* was of a program that took each model's default size of
  images, which for six is not that of the row, and knew nothing of the try before: benchmark.py tries ever smaller
  batches in one process. *Last* is the first prediction with both. The four that *fit* where they failed need 21 to
  23.6 GiB (VOLO, SAM's and PE's ViT, MaxViT): fragments that a failed try leaves are not known. 21 models of the
  development half have not been predicted again.
- Published programs: three scripts differ from the commit that published them (distill_jsd_loss, embedding,
  fused_linear_orpo_loss), one has a workspace of 49 MiB (multi_token_attention). Drawn: convolutions with
  `cudnn.benchmark`, and sizes that depend on values.
- JAX: XLA's autotuning tries kernels with workspaces of up to 35 GiB, which no plan counts. A log of
  `--xla_gpu_autotune_level` on the card would give them.
"""


def text(runs: Sequence[dict[str, Any]], machine: str) -> str:
    """Return the page."""
    ran = [run for run in runs if "failed" not in run["rehearsed"]]
    peaks, whole = compiled.text(runs)
    return PAGE.format(
        machine=machine,
        runs=_rate(ran),
        whole=whole,
        compiled=peaks,
        tools=_tools([run for run in ran if "tracked" in run]),
        public=public.text(),
        xmem=xmem.text(),
        timm=timm_fits.text(),
        peft=peft_peaks.text(),
        nanogpt=nanogpt_peaks.text(),
        **drawn.rates(),
        **drawn_jax.rates(),
    )


def _is_near(run: dict[str, Any], what: str, most: float) -> bool:
    return bool(abs(run["rehearsed"][what] / run[f"recorded_{what}"] - 1) <= most)


def _rate(ran: Sequence[dict[str, Any]]) -> str:
    allocated = sum(_is_near(run, "allocated", MOST_ALLOCATED) for run in ran)
    exact = sum(_is_near(run, "allocated", 1e-6) for run in ran)
    both = [run for run in ran if "recorded_reserved" in run]
    reserved = sum(_is_near(run, "reserved", MOST_RESERVED) for run in both)
    return f"{allocated} of {len(ran)} allocated ({exact} to the byte), {reserved} of {len(both)} reserved"


def _tools(tried: Sequence[dict[str, Any]]) -> str:
    found = [run for run in tried if "mib" in run["tracked"]]
    near = sum(abs(run["tracked"]["mib"] / run["recorded_allocated"] - 1) <= MOST_ALLOCATED for run in found)
    return f"MemTracker: {len(found)} of {len(tried)} answered, {near} within 0.5 %"
