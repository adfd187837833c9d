# SPDX-License-Identifier: Apache-2.0
"""What a rehearsal and the processes of its program tell each other, and what is known of each in the end.

These cross as JSON; the fields have the same names there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..._typing import Any

# Changes of a program of PyTorch, and those of which it makes one.
CHECKPOINT, OFFLOAD, ATTENTION, BF16, FUSED, SINGLE = "checkpoint", "offload", "attention", "bf16", "fused", "foreach"
EIGHT_BITS, ON_HOST, FP16, ACCUMULATE = "8bit", "states", "fp16", "accumulate"
EITHER = ((CHECKPOINT, OFFLOAD), (FUSED, SINGLE, EIGHT_BITS, ON_HOST))
MEMORY, FREE, NAME, CAPABILITY = "memory", "free", "name", "capability"  # what a program asks of its card


@dataclass
class Request:
    """What a rehearsal wants of each process of a program."""

    card: str = ""  # the model that the program sees
    command: str = ""  # the program's words
    steps: int | None = None  # after how many it ends
    seconds: float | None = None  # after how long; None: at its end
    cuts: bool = False  # whether loops over loaders end early once they repeat
    longest: bool = False  # whether loops over loaders begin with the batch of the largest items
    until_repeated: bool = False  # whether the program ends once its steps repeat
    stacks: bool = True  # whether allocations are recorded with the lines that led to them
    cpu_values: bool = False  # whether random numbers for large CPU tensors are drawn
    computes: bool = False  # whether all values are
    compiles: bool = False  # whether torch.compile compiles
    change: str = ""  # of the program, to try; several of PyTorch are joined by "+"
    helps: bool = False  # whether changes of a program of PyTorch are looked for
    jax: dict[str, Any] = field(default_factory=dict)  # of the card, for XLA: xla/share.py


@dataclass
class OfGPU:
    """A process's memory on one GPU, in bytes."""

    gpu: int
    uuid: str
    parts: dict[str, int]  # at the peak
    growth: int  # with each step
    largest: int  # allocation
    modules: dict[str, dict[str, int]] = field(default_factory=dict)  # at the peak, the parts of each
    phases: list[tuple[float, str]] = field(default_factory=list)  # after a part of all events, what it does then


@dataclass
class Report:
    """What a process says of itself. A field that a framework does not have keeps its default."""

    pid: int
    rank: int | None
    world: int | None
    gpus: list[OfGPU]
    counts: dict[str, int]  # how often something ran: watching.py and xla/jax_recording.py have the names
    paths: dict[str, int]  # attention and convolutions, and how often each ran
    torch: str | None = None  # versions
    jax: str | None = None
    batch: int | None = None
    waits_for: str = ""  # the part of the program that the answer is for, if it was not reached

    changes: dict[str, str] = field(default_factory=dict)  # that may save memory

    # of PyTorch
    eager: bool = False  # whether torch.compile ran eagerly
    sized_by_values: dict[str, int] = field(default_factory=dict)  # operations whose results have sizes not computed
    tried: bool = False  # whether cuDNN tried kernels
    cudnn: str = ""  # its version
    workspaces: dict[str, int] = field(default_factory=dict)  # by the bytes by which one is known: its most
    sizes: int = 0  # how these are known: workspaces.KNOWN
    unknown: list[str] = field(default_factory=list)  # versions of PyTorch and cuBLAS that are not known
    host: int = 0  # bytes of the host's memory that the process had at most, whether used or not
    pinned: int = 0  # bytes of it that were pinned at most
    cut: dict[str, tuple[int, int | None]] = field(default_factory=dict)  # loops.Loops.cut
    unseen: dict[str, str] = field(default_factory=dict)  # by the place of a loop
    remarks: dict[str, str] = field(default_factory=dict)  # by the place of a loop

    # of JAX
    products: bool = False  # whether XLA tuned products of matrices
    functions: list[dict[str, Any]] = field(default_factory=list)
    collectives: bool = False
    decisions: dict[str, int] = field(default_factory=dict)  # of Python, by arrays that were not computed
    skipped_callbacks: bool = False
    fraction: float = 0.0  # of the card, for JAX
    grows: bool = False  # whether JAX takes its share as it needs it
    cuda: int = 0

    @staticmethod
    def read(fields: dict[str, Any]) -> Report:
        """Return the report of JSON."""
        return Report(**{**fields, "gpus": [OfGPU(**one) for one in fields["gpus"]]})
