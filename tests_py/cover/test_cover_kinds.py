# SPDX-License-Identifier: Apache-2.0
"""Kinds of writes in each cover: nothing real changes, and programs see what they see without one.

`make test` runs the kinds that need the standard library only; `make test-cover` all, in an environment with their
libraries, and more random programs. Nothing may be skipped in silence: a machine that allows no cover fails.
"""

import json
import os
from collections.abc import Callable
from typing import Any

import adapter
import kinds
import known
import library_kinds
import pytest

FULL = "COVER_FULL" in os.environ
# PyTorch is in an environment of its own; other libraries are in this one.
PYTORCH = os.environ.get("COVER_PYTORCH", "")


def check(name: str, result: dict[str, Any]) -> None:
    """No real thing changed, and what is different has a known reason."""
    assert result["changed"] == {}
    unknown = {kind: how for kind, how in result["failed"].items() if not known.reason(name, kind)}
    assert not unknown, json.dumps(unknown, indent=1)[:20_000]
    passed = len(result["names"]) - len(result["failed"])
    assert passed >= len(result["names"]) * known.AT_LEAST[name] / 100, sorted(result["failed"])


def test_there_are_a_hundred_kinds() -> None:
    assert library_kinds
    assert len(kinds.KINDS) >= 100
    assert sum(not each.modules for each in kinds.KINDS.values()) >= 75


def test_the_machine_allows_a_cover() -> None:
    refused = {name: adapter.refused(each) for name, each in adapter.SITUATIONS.items()}
    assert not all(refused.values()), refused


def test_each_known_difference_is_of_a_kind_and_a_situation() -> None:
    for situations, names in known.KNOWN.values():
        assert set(situations) <= adapter.SITUATIONS.keys()
        for name in names.split():
            assert any(known.fnmatch.fnmatchcase(kind, name) for kind in kinds.KINDS), name


def test_kinds_of_writes(name: str, in_each: Callable[..., Any]) -> None:
    result = in_each("kinds_in", name, at_once=3)
    assert len(result["names"]) >= 100, result["missing"]
    check(name, result)


def test_random_programs(name: str, in_each: Callable[..., Any]) -> None:
    result = in_each("programs_in", name, at_once=2, seeds=list(range(1000 if FULL else 40)))
    assert result["changed"] == {}
    assert result["differing"] == [], json.dumps(result["shrunk"], indent=1)


@pytest.mark.skipif(not FULL, reason="make test-cover checks it")
def test_kinds_are_the_same_each_time(name: str) -> None:
    """Two runs without a cover are equal; else a cover could not be judged by them."""
    assert adapter.stage("kinds_in", adapter.SITUATIONS[name], covered=False)["failed"] == {}


@pytest.mark.skipif(not FULL, reason="make test-cover installs the libraries")
def test_kinds_of_libraries(name: str) -> None:
    situation = adapter.SITUATIONS[name]
    result = adapter.stage("kinds_in", situation, libraries=True)
    if PYTORCH:
        more = adapter.stage("kinds_in", situation, python=PYTORCH, libraries=True, only="torch")
        result = {
            "names": [*result["names"], *more["names"]],
            "missing": {kind: why for kind, why in result["missing"].items() if kind not in more["names"]},
            "failed": {**result["failed"], **more["failed"]},
            "changed": {**result["changed"], **more["changed"]},
        }
    assert result["missing"] == {}
    check(name, result)
