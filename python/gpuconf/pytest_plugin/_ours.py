# SPDX-License-Identifier: Apache-2.0
"""Which fixtures of a test are gpuconf's: a suite or another plugin may have fixtures and parameters of the same
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import pytest

FIXTURES = frozenset(("gpu", "gpus", "gpu_simulate", "gpu_memory", "gpu_oom_after", "gpu_oom_each"))
_PLUGIN = __name__.rpartition(".")[0]


def fixtures(item: pytest.Item) -> frozenset[str]:
    """Return the names of gpuconf's fixtures that a test uses."""
    names: Iterable[str] = getattr(item, "fixturenames", ())
    if FIXTURES.isdisjoint(names):
        return frozenset()
    return frozenset(name for name in FIXTURES.intersection(names) if _is_ours(name, definitions(item, name)))


def taken(config: pytest.Config) -> set[str]:
    """Return the names of our fixtures that a plugin has which pytest loaded before this one, so that ours would
    override it.
    """
    found: set[str] = set()
    for name, plugin in config.pluginmanager.list_name_plugin():
        if getattr(plugin, "__name__", name) == _PLUGIN:
            break
        found |= FIXTURES.intersection(getattr(plugin, "__dict__", ()))
    return found


def definitions(item: pytest.Item, name: str) -> Sequence[pytest.FixtureDef[Any]]:
    """Return the definitions of a test's fixture, the one in force last."""
    known: Any = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    manager: Any = getattr(item.session, "_fixturemanager", None)
    # A name that a hook has added to item.fixturenames is looked up when the test runs, as pytest does.
    return known.get(name) or (manager.getfixturedefs(name, item) if manager is not None else None) or ()


def _is_ours(name: str, found: Sequence[pytest.FixtureDef[Any]]) -> bool:
    for each in reversed(found):
        if getattr(each.func, "__module__", None) == _PLUGIN:
            return True
        if name not in each.argnames:  # a fixture that extends ours requests it by its own name
            return False
    return False


def simulates(item: pytest.Item) -> bool:
    """Whether one of a test's fixtures, ``setup_module`` and the like included, calls ``gpuconf.simulate``.

    Then it is too early to say that there is no GPU. Looks into the functions that fixtures call in their own module,
    too.
    """
    found: Any = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return any(_names_simulate(each.func, set()) for each in (one for all_ in found.values() for one in all_))


def _names_simulate(function: object, seen: set[int]) -> bool:
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen:
        return False
    seen.add(id(code))
    if "simulate" in code.co_names:
        return True
    reached = [getattr(function, "__globals__", {}).get(name) for name in code.co_names]
    for cell in getattr(function, "__closure__", None) or ():  # where pytest keeps setup_module and the like
        with suppress(ValueError):  # an empty cell
            reached.append(cell.cell_contents)
    module = getattr(function, "__module__", None)
    return any(
        _names_simulate(each, seen)
        for each in reached
        if hasattr(each, "__code__") and (getattr(each, "__module__", None) == module or module == "_pytest.python")
    )
