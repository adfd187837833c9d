# SPDX-License-Identifier: Apache-2.0
"""``tf.keras.mixed_precision``: policies, and the settings of an optimizer that scales the loss.

No layer here follows them.
"""

from __future__ import annotations

from ...._missing import watch
from ...._typing import Any
from . import backend
from .optimizers import LossScaleOptimizer

__all__ = [
    "DTypePolicy",
    "LossScaleOptimizer",
    "Policy",
    "dtype_policy",
    "global_policy",
    "set_dtype_policy",
    "set_global_policy",
]

_MIXED = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}
_TYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")


class DTypePolicy:
    """The types in which layers compute and keep variables: by default those of ``backend.floatx()``.

    Raises ValueError for an unknown name, and TypeError for anything else.

    >>> DTypePolicy("mixed_float16").compute_dtype
    'float16'
    """

    keras_module = "keras"

    def __init__(self, name: str | None = None) -> None:
        name = backend.floatx() if name is None else name
        if not isinstance(name, str):
            raise TypeError(
                f"'name' must be a string, such as 'mixed_float16'. Received: name={name} (of type {type(name)})"
            )
        if name not in _MIXED and name not in _TYPES:
            raise ValueError(
                f"Cannot convert '{name}' to a mixed precision DTypePolicy. Valid policies include 'mixed_float16', "
                "'mixed_bfloat16', and the name of any float dtype such as 'float32'."
            )
        self._name = name

    @property
    def name(self) -> str:
        """The name, such as ``"mixed_float16"``."""
        return self._name

    @property
    def compute_dtype(self) -> str:
        """The type in which layers compute."""
        return _MIXED.get(self._name, self._name)

    @property
    def variable_dtype(self) -> str:
        """The type of variables."""
        return "float32" if self._name in _MIXED else self._name

    def get_config(self) -> dict[str, Any]:
        """Return the name, as a dict."""
        return {"name": self._name}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTypePolicy) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f'<DTypePolicy "{self._name}">'


Policy = DTypePolicy


def dtype_policy() -> DTypePolicy:
    """Return the policy that was set, else that of ``backend.floatx()``."""
    found = backend.settings.get("policy")
    return found if isinstance(found, DTypePolicy) else DTypePolicy(backend.floatx())


def set_dtype_policy(policy: Any) -> None:
    """Set the policy, or that of a name. Stored but has no effect. Raises ValueError for an unknown name."""
    backend.settings["policy"] = policy if isinstance(policy, DTypePolicy) else DTypePolicy(policy)


global_policy = dtype_policy
set_global_policy = set_dtype_policy


def __dir__() -> list[str]:
    return __all__


watch(globals())
