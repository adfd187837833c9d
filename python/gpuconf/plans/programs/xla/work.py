# SPDX-License-Identifier: Apache-2.0
"""How much work a function of JAX is, at most, from its jaxpr: decides whether the CPU computes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod

from ...._typing import Any, NamedTuple
from .card_memory import sizes

_MOST_BYTES, _MOST_FLOPS = 16 << 20, 200_000_000
_TRIFLE, _PLAIN = 1 << 20, 16 << 20
# Operations that XLA does not fuse, so that there may be temporaries as large as arguments and results, or larger.
_UNFUSED = {
    "dot_general",
    "conv_general_dilated",
    "sort",
    "fft",
    "scan",
    "while",
    "top_k",
    "custom_call",
    "ffi_call",
    "pallas_call",
}
_UNFUSED |= {
    "cholesky",
    "eigh",
    "eig",
    "svd",
    "qr",
    "geqrf",
    "lu",
    "triangular_solve",
    "householder_product",
    "schur",
    "cumsum",
}


class Work(NamedTuple):
    """Bytes of all values, and multiplications of matrices and convolutions; whether a loop's length depends on values.

    ``plain`` is the bytes of arguments and results of a function that XLA fuses to one kernel or a few; None of others.
    """

    nbytes: int
    flops: int
    loops: bool
    plain: int | None = None

    @property
    def is_small(self) -> bool:
        """Whether the CPU computes it in no time."""
        return self.is_trifle or (self.nbytes <= _MOST_BYTES and self.flops <= _MOST_FLOPS)

    @property
    def is_trifle(self) -> bool:
        """Whether its temporaries can't matter for the memory of a card."""
        return self.nbytes <= _TRIFLE or (self.plain is not None and self.plain <= _PLAIN)


def work_of(jaxpr: Any) -> Work:
    """Return the work of a function from its jaxpr."""
    plain = None if primitives(jaxpr) & _UNFUSED else _bytes(jaxpr.invars) + _bytes(jaxpr.outvars)
    return _work_in(jaxpr)._replace(plain=plain)


def _work_in(jaxpr: Any) -> Work:
    nbytes, flops, loops = _bytes(jaxpr.invars) + _bytes(jaxpr.constvars), 0, False
    for equation in jaxpr.eqns:
        times = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        loops = loops or equation.primitive.name == "while"
        nbytes += _bytes(equation.outvars)
        flops += _flops(equation)
        for inner in _inner(equation.params.values()):
            more = _work_in(inner)
            nbytes, flops, loops = nbytes + times * more.nbytes, flops + times * more.flops, loops or more.loops
    return Work(nbytes, flops, loops)


def primitives(jaxpr: Any) -> set[str]:
    """Return the names of all operations of a jaxpr."""
    found = {equation.primitive.name for equation in jaxpr.eqns}
    for equation in jaxpr.eqns:
        for inner in _inner(equation.params.values()):
            found |= primitives(inner)
    return found


def updates(jaxpr: Any, arguments: Sequence[Any], results: Sequence[Any], *, donates: bool) -> list[int]:
    """Return which results of a step take the place of arguments; none if the function is no step of a training.

    A step has a gradient, or is an optimizer without matrices, or takes over memory of its arguments. And most of its
    results have the shapes and types of arguments. A layer of a model may have these, too, but nothing of the rest.
    """
    matched = _matched(arguments, results)
    whole, got = sum(map(_size, results)), sum(_size(results[number]) for number in matched)
    if not got or 2 * got < whole:
        return []
    names = primitives(jaxpr)
    given = sum(map(_size, arguments))
    optimizes = not names & _MATRICES and 5 * got <= 4 * given <= 12 * got  # it gets gradients beside what it updates
    return matched if donates or optimizes or has_gradient(jaxpr) else []


_MATRICES = {"dot_general", "conv_general_dilated", "custom_vjp_call", "pallas_call"}


def has_gradient(jaxpr: Any) -> bool:
    """Whether a jaxpr has a backward pass: JAX notes for each operation what it comes from."""
    for equation in jaxpr.eqns:
        if "transpose(" in str(equation.source_info.name_stack):
            return True
    return any(has_gradient(inner) for equation in jaxpr.eqns for inner in _inner(equation.params.values()))


def _matched(arguments: Sequence[Any], results: Sequence[Any]) -> list[int]:
    left = Counter((one.shape, one.dtype) for one in arguments)
    found = []
    for number, one in enumerate(results):
        if left[one.shape, one.dtype]:
            left[one.shape, one.dtype] -= 1
            found.append(number)
    return found


def places_of(results: Sequence[Any], arguments: Sequence[Any]) -> list[int]:
    """Return for each result that has the shape and type of an argument the first such argument that no other result
    has.
    """
    left: dict[Any, list[int]] = {}
    for number, one in enumerate(arguments):
        left.setdefault((one.shape, one.dtype), []).append(number)
    return [left[one.shape, one.dtype].pop(0) for one in results if left.get((one.shape, one.dtype))]


def _inner(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if hasattr(value, "eqns"):
            yield value
        elif hasattr(value, "jaxpr") and hasattr(value.jaxpr, "eqns"):
            yield value.jaxpr
        elif isinstance(value, (list, tuple)):
            yield from _inner(value)


def _size(aval: Any) -> int:
    return sizes(aval.shape, getattr(aval.dtype, "itemsize", 4))


def _bytes(variables: Iterable[Any]) -> int:
    return sum(_size(one.aval) for one in variables if hasattr(one.aval, "shape") and hasattr(one.aval, "dtype"))


def _flops(equation: Any) -> int:
    name = equation.primitive.name
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        left = equation.invars[0].aval.shape
        return 2 * int(prod(equation.outvars[0].aval.shape) * prod(left[one] for one in contracted))
    if name == "conv_general_dilated":
        kernel, numbers = equation.invars[1].aval.shape, equation.params["dimension_numbers"]
        return 2 * int(prod(equation.outvars[0].aval.shape) * prod(kernel) // max(kernel[numbers.rhs_spec[0]], 1))
    return 0
