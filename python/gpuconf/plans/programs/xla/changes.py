# SPDX-License-Identifier: Apache-2.0
"""Changes of a JAX program that may save memory, each of which a rehearsal tries in a run of its own.

JAX is imported.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable

import jax

from ...._typing import Any
from .compiling import Function

DONATE, LOSS, PRODUCTS, BODIES = "donate", "checkpoint the loss", "checkpoint all but products", "checkpoint bodies"
_POLICY = "dots_with_no_batch_dims_saveable"
_MOST_NAMES = 3


def worth_trying(functions: Iterable[Function]) -> dict[str, str]:
    """Return the changes that may save memory in these functions, with the largest peak first, and how a program makes
    each.
    """
    changes = {}
    giving = [one for one in functions if one.replaced]
    if giving:
        one = giving[0]
        names = list(dict.fromkeys(name for name in map(_root, one.replaced.values()) if name))
        what = f"donate_argnames={names}" if 0 < len(names) <= _MOST_NAMES else "donate_argnums"
        others = f", and of {len(giving) - 1} more" if len(giving) > 1 else ""
        changes[DONATE] = f"{what} in jax.jit of {one.name} ({os.path.basename(one.place)}){others}"
    plain = [one for one in functions if one.has_gradient and not one.has_checkpoints]
    if any(one.has_scans for one in plain):
        changes[BODIES] = "jax.checkpoint of the bodies of jax.lax.scan"
    elif plain:
        changes[LOSS] = "jax.checkpoint of the loss"
        changes[PRODUCTS] = f"jax.checkpoint of the loss, with policy=jax.checkpoint_policies.{_POLICY}"
    return changes


def _root(name: str) -> str:
    """Return the parameter that an argument belongs to: ``params`` of ``params['w']``."""
    start = re.match(r"[A-Za-z_]\w*", name)
    return start[0] if start else ""


def make(change: str) -> None:
    """Make a change to what the program will do. Donating is the compiler's."""
    if change in (LOSS, PRODUCTS):
        policy = getattr(jax.checkpoint_policies, _POLICY) if change == PRODUCTS else None
        for name in ("grad", "value_and_grad"):
            setattr(jax, name, _of_checkpointed(getattr(jax, name), policy))
    elif change == BODIES:
        scan = jax.lax.scan
        jax.lax.scan = functools.wraps(scan)(
            lambda f, *args, **named: scan(jax.checkpoint(f, prevent_cse=False), *args, **named)
        )


def _of_checkpointed(differentiate: Callable[..., Any], policy: Any) -> Callable[..., Any]:
    @functools.wraps(differentiate)
    def of_checkpointed(fun: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return differentiate(_checkpointed(fun, policy), *args, **named)

    return of_checkpointed


def _checkpointed(fun: Callable[..., Any], policy: Any) -> Callable[..., Any]:
    """Return a function that forgets what it can compute again. Only arrays are traced: a flag stays a flag."""

    @functools.wraps(fun)
    def checkpointed(*args: Any, **named: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, named))
        traced = [isinstance(one, jax.Array) for one in leaves]

        def of_arrays(arrays: list[Any]) -> Any:
            rest = iter(arrays)
            whole = [next(rest) if is_traced else one for one, is_traced in zip(leaves, traced, strict=True)]
            args, named = jax.tree.unflatten(tree, whole)
            return fun(*args, **named)

        return jax.checkpoint(of_arrays, policy=policy)(
            [one for one, is_traced in zip(leaves, traced, strict=True) if is_traced]
        )

    return checkpointed
