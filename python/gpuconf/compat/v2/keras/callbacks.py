# SPDX-License-Identifier: Apache-2.0
"""``tf.keras.callbacks``: ``Callback``, as a base of a program's own. Nothing calls it here."""

from __future__ import annotations

from ...._missing import watch
from ...._typing import Any

__all__ = ["Callback"]


class Callback:
    """The base of callbacks, whose methods do nothing."""

    def __init__(self) -> None:
        self.params: Any = None
        self.validation_data: Any = None
        self._model: Any = None

    @property
    def model(self) -> Any:
        """The model that ``set_model`` set."""
        return self._model

    def set_params(self, params: Any) -> None:
        """Keep the parameters."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Keep the model."""
        self._model = model


def _nothing(self: Callback, *_: Any, **__: Any) -> None:
    """Do nothing."""


for _part in ("train", "test", "predict"):
    for _name in (f"on_{_part}_begin", f"on_{_part}_end", f"on_{_part}_batch_begin", f"on_{_part}_batch_end"):
        setattr(Callback, _name, _nothing)
for _name in ("on_epoch_begin", "on_epoch_end", "on_batch_begin", "on_batch_end"):
    setattr(Callback, _name, _nothing)


def __dir__() -> list[str]:
    return __all__


watch(globals())
