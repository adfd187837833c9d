# SPDX-License-Identifier: Apache-2.0
"""``tf.config.optimizer``: settings of TensorFlow's graph compiler, stored without effect: gpuconf compiles nothing."""

from __future__ import annotations

from .._core import texts
from .._core.built_in_errors import raise_built_in
from .._missing import watch
from .._typing import Any
from . import _execution

__all__ = ["get_experimental_options", "get_jit", "set_experimental_options", "set_jit"]


def get_jit() -> str:
    """Return ``'autoclustering'`` or ``''``. Raises ValueError for an inconsistent configuration."""
    return "autoclustering" if _execution.get("jit") else ""


def set_jit(enabled: bool | str) -> None:
    """Store whether operations are compiled:
    ``'autoclustering'`` or ``True`` enables it, any other value disables it.
    """
    try:
        enables = bool(enabled in (True, "autoclustering"))
    except ArithmeticError as error:  # of a signalling number, which cannot be compared
        raise ValueError(f"enabled cannot be compared: {error!r}") from None
    _execution.put("jit", enables)


def get_experimental_options() -> dict[str, Any]:
    """Return the options in effect. Raises ValueError for an inconsistent configuration."""
    options = _execution.get("optimizer_options")
    names = [*(name for name in _ORDER if name in options), *sorted(options.keys() - {*_ORDER})]
    return {name: options[name] if name == _COUNT else bool(options[name]) for name in names}


def set_experimental_options(options: dict[str, Any]) -> None:
    """Merge ``options`` into the current options.

    The value ``None`` unsets an option. Raises TypeError for a non-mapping.
    """
    try:
        items = dict(options).items()
    except TypeError as error:
        raise TypeError(f"{error}: options must be a dict, but got {texts.shown(options)}") from error
    except ValueError as error:
        raise ValueError(f"{error}: options must be a dict, but got {texts.shown(options)}") from error
    _execution.put("optimizer_options", {name: _value(name, value) for name, value in items if isinstance(name, str)})


_COUNT = "min_graph_nodes"  # the only numeric option
_ORDER = (  # TensorFlow's
    "layout_optimizer",
    "constant_folding",
    "shape_optimization",
    "remapping",
    "arithmetic_optimization",
    "dependency_optimization",
    "loop_optimization",
    "function_optimization",
    "debug_stripper",
    "disable_model_pruning",
    "scoped_allocator_optimization",
    "pin_to_host_optimization",
    "implementation_selector",
    "auto_mixed_precision",
    "use_plugin_optimizers",
    "disable_meta_optimizer",
    "auto_mixed_precision_onednn_bfloat16",
    "auto_mixed_precision_mkl",
    "min_graph_nodes",
)
_FLAGS = ("disable_model_pruning", "disable_meta_optimizer")  # stored in, and validated by, protobuf


def _value(name: str, value: Any) -> int | None:
    if name == _COUNT:
        return _execution.integer(_COUNT, value)
    flag = _execution.switch(name, value) if name in _FLAGS else value
    return None if flag is None else int(bool(flag))


raise_built_in(__name__, __all__)

watch(globals())
