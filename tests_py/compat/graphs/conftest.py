from __future__ import annotations

from typing import TYPE_CHECKING

import gpuconf.compat.v1 as tf
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def fresh_graph() -> Iterator[None]:
    """Start with an empty default graph."""
    tf.reset_default_graph()
    yield
    tf.reset_default_graph()
