# SPDX-License-Identifier: Apache-2.0
"""What XLA's autotuning takes on a card while it compiles, from the text of a compiled module.

XLA tries several kernels for each product of matrices and each convolution: with inputs of their own, each between two
red zones, the result of the first kernel, and that of the one that it tries. What kernels need beside that is known
only on the card: cuDNN's workspaces, and the parts of a sum that is computed in parts.
"""

from __future__ import annotations

import re

from ...._typing import NamedTuple
from .card_memory import sizes

_RED_ZONES = 16 << 20  # of an input: 8 MiB before it and after it
_BYTES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4, "f32": 4, "c64": 8}
_BYTES |= {"s64": 8, "u64": 8, "f64": 8, "c128": 16, "f8e4m3fn": 1, "f8e5m2": 1}
_SHAPE = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_LINE = re.compile(r"^\s+(?:ROOT )?%(\S+) = (.*?) ([a-z][\w-]*)\(([^)]*)\)(.*)$")
_CUBLAS, _CUDNN = 'custom_call_target="__cublas', 'custom_call_target="__cudnn$conv'
_FUSION = re.compile(r'"kind":"__triton(?:_nested)?_gemm')


class Tuned(NamedTuple):
    """A product or a convolution: bytes of its inputs with their red zones, and of its results."""

    inputs: tuple[int, ...]
    results: tuple[int, ...]
    keeps_workspace: bool  # of cuBLAS, as one of its results
    is_product: bool  # of matrices

    def sizes(self, workspace: int) -> list[int]:
        """Return the sizes of what is there at a time, with so much of a workspace for cuBLAS."""
        result = [*self.results, workspace] if self.keeps_workspace else [*self.results]
        return [*self.inputs, *result, *result, *([] if self.keeps_workspace else [workspace])]


def tuned(text: str) -> list[Tuned]:
    """Return what XLA tries kernels for, each kind once."""
    known: dict[str, int] = {}
    searches: dict[Tuned, None] = {}
    for line in text.splitlines():
        matched = _LINE.match(line)
        if matched is None:
            continue
        name, kind, operation, arguments, rest = matched.groups()
        results = _results(kind)
        known[name] = sum(results)
        is_cublas = operation == "custom-call" and _CUBLAS in rest
        is_product = is_cublas or (operation == "fusion" and _FUSION.search(rest) is not None)
        if is_product or (operation == "custom-call" and _CUDNN in rest):
            inputs = [known.get(one, 0) + _RED_ZONES for one in re.findall(r"%([\w.-]+)", arguments)]
            kept = results[:-1] if is_cublas and len(results) > 1 else results
            searches[Tuned(tuple(inputs), kept, is_cublas, is_product)] = None
    return list(searches)


def _results(kind: str) -> tuple[int, ...]:
    shapes = ((_BYTES[name], shape) for name, shape in _SHAPE.findall(kind) if name in _BYTES)
    return tuple(sizes([int(one) for one in shape.split(",") if one], itemsize) for itemsize, shape in shapes)
