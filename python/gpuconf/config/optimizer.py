"""``tf.config.optimizer``: settings of TensorFlow's graph compiler, kept and given back. gpuconf compiles nothing."""

from __future__ import annotations

from .. import _runtime, errors
from . import _switch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


__all__ = ["get_experimental_options", "get_jit", "set_experimental_options", "set_jit"]


def get_jit() -> str:
    """Give back ``'autoclustering'`` or ``''``. Raises ValueError where the configuration contradicts itself."""
    return "autoclustering" if _switch.get("jit") else ""


def set_jit(enabled: bool | str) -> None:
    """Keep whether operations are compiled: ``'autoclustering'`` or ``True`` is yes, anything else is no."""
    _switch.put("jit", enabled is True or enabled == "autoclustering")


def get_experimental_options() -> dict[str, Any]:
    """Give back the options in force. Raises ValueError where the configuration contradicts itself."""
    told = _switch.get("optimizer_options")
    return {name: value if name == _COUNT else bool(value) for name, value in told.items()}


def set_experimental_options(options: dict[str, Any]) -> None:
    """Merge ``options`` into those that were set before; ``None`` unsets one. Raises TypeError for what is no mapping."""
    try:
        items = dict(options).items()
    except (TypeError, ValueError) as error:
        raise errors.InvalidTypeError(f"options must be a dict, but got {type(options).__name__}: {options!r}") from error
    _switch.put("optimizer_options", {_name(name): _value(name, value) for name, value in items})


_COUNT = "min_graph_nodes"  # the one option that is a number


def _name(name: object) -> str:
    return _runtime.check_text("an option's name", name)


def _value(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if name != _COUNT:
        return int(bool(value))
    if not isinstance(value, int):
        raise errors.InvalidTypeError(f"{_COUNT} must be an int, but got {type(value).__name__}: {value!r}")
    if not -(2**31) <= value < 2**31:
        raise errors.InvalidArgumentError(f"{_COUNT} must fit in 32 bits, but got {value}")
    return int(value)
