# SPDX-License-Identifier: Apache-2.0
"""Each test of a situation that this machine does not allow is skipped with the reason."""

from collections.abc import Callable
from typing import Any

import adapter
import pytest


@pytest.fixture(params=sorted(adapter.SITUATIONS))
def name(request: pytest.FixtureRequest) -> str:
    """Each situation."""
    if why := adapter.refused(adapter.SITUATIONS[request.param]):
        pytest.skip(why)
    return str(request.param)


@pytest.fixture(scope="module")
def in_each() -> Callable[..., Any]:
    """What a function of `stages` returns, run once for all situations."""
    results: dict[str, dict[str, Any]] = {}

    def result(function: str, name: str, *, at_once: int, **arguments: Any) -> Any:
        if function not in results:
            results[function] = adapter.stages(function, at_once, **arguments)
        found = results[function][name]
        if isinstance(found, BaseException):
            raise found
        return found

    return result
