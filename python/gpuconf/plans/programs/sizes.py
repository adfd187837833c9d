# SPDX-License-Identifier: Apache-2.0
"""The parts of an expression from which the size of a tensor is made, such as ``n`` in ``torch.zeros(n)``.

Which arguments of a function of PyTorch are sizes is read from PyTorch: those whose type has integers in its operators'
schemas or in its annotations. NumPy's functions of the same name count as PyTorch's.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import sys
from collections.abc import Iterator, Set

from ..._typing import Any, NamedTuple

_NO_SIZE = ("Tensor", "float", "bool", "str", "Device", "dtype", "Generator")


class Parameter(NamedTuple):
    """A parameter of an operator, and whether it is a size."""

    name: str
    is_size: bool
    only_by_name: bool = False


def of_call(call: ast.Call, imported: Set[str]) -> Iterator[ast.expr]:
    """Yield the arguments from which a call makes the size of a tensor.

    ``imported`` are the names of modules and what was imported from them: other names before a dot are of tensors.
    """
    root: Any = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    is_method = getattr(root, "id", "") not in imported
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name.endswith("Tensor") and not is_method:  # FloatTensor(2, 3) takes sizes, FloatTensor([2]) none
        yield from (one for one in call.args if not isinstance(one, ast.List))
        return
    for schema in _schemas(name) if isinstance(call.func, ast.Attribute) or not is_method else ():
        sizes = [one.is_size for one in schema if not one.only_by_name][is_method:]
        for number, argument in enumerate(call.args):
            rest = sizes[number:] or sizes[-1:]  # repeat(2, 3) has one parameter
            if any(rest if isinstance(argument, ast.Starred) else rest[:1]):
                yield argument
        of_name = {one.name: one.is_size for one in schema}
        yield from (one.value for one in call.keywords if one.arg is None or of_name.get(one.arg))


@functools.cache
def _schemas(name: str) -> list[list[Parameter]]:
    """Return the parameters of an operator, function or module of PyTorch: one list for each form it has."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return []
    if name in _operators():
        return _operators()[name]
    for holder in (torch.nn, torch.nn.functional):
        found = getattr(holder, name, None)
        if isinstance(found, type) or inspect.isfunction(found):
            with contextlib.suppress(ValueError):  # a type of C has no signature
                parameters = inspect.signature(found).parameters.values()
                return [[Parameter(one.name, _is_size(str(one.annotation))) for one in parameters]]
    return []


@functools.cache
def _operators() -> dict[str, list[list[Parameter]]]:
    torch: Any = sys.modules["torch"]
    dispatched = set(torch._C._dispatch_get_all_op_names())  # the others compute with Python's numbers
    parameters: dict[str, list[list[Parameter]]] = {}
    for schema in torch._C._jit_get_all_schemas():
        full = f"{schema.name}.{schema.overload_name}".rstrip(".")
        if not schema.name.startswith("aten::") or full not in dispatched:
            continue
        arguments = [(one, str(one.type)) for one in schema.arguments if one.name not in ("dtype", "layout", "out")]
        has_others = any("int" in kind or "Tensor" in kind for _, kind in arguments)
        parameters.setdefault(schema.name[len("aten::") :], []).append(
            [
                Parameter(one.name, "int" in kind or (kind == "number" and not has_others), one.kwarg_only)
                for one, kind in arguments
            ]
        )
    return parameters


def _is_size(annotation: str) -> bool:
    return "int" in annotation or "list" in annotation.lower() or not any(one in annotation for one in _NO_SIZE)
