"""Environment variables: those that Go and C read come from Python, and users find them in the commands and in the
docs.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from gpuconf._core import runtime
from gpuconf._core.settings import OWN, SETTINGS

ROOT = Path(__file__).resolve().parents[2]
VARIABLES = {setting.variable for setting in SETTINGS}
PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")

# What Go looks up in a config.Env: a text, or a constant of the same file.
LOOKUP = re.compile(r'(?:\b(?:e|env)\[|\blookup\(env, )("?\w+"?)[\])]')


def sources(*folders: str, suffixes: tuple[str, ...]) -> list[str]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes]
    assert paths
    return [path.read_text(encoding="utf-8") for path in paths]


def read_by_go() -> set[str]:
    found = set()
    for source in sources("gocore", "pybind", suffixes=(".go",)):
        constants = dict(re.findall(r'(?m)^\t(?:const )?(\w+) += ("[A-Z_]+")$', source))
        found |= {constants.get(name, name) for name in LOOKUP.findall(source)}
    assert {name for name in found if name[0] != '"' and not name.isdigit()} == {
        "name",
        "containerLimit",
        "containerRequest",
    }, "a parameter; the others are known here"
    return {name.strip('"') for name in found if name[0] == '"'}


def passed(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> set[str]:
    """The variables that the core gets from Python."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", variables)
        return set(json.loads(runtime.environment()))


def test_go_gets_each_variable_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"GPUCONF_GROWTH": "true", "GPUCONF_LEDGER": "/1", "GPUCONF_LIMIT": "1GiB"}
    read = read_by_go()
    assert {"CUDA_VISIBLE_DEVICES", "GPUCONF_LIMIT", "GPUCONF_PYTHON", "LOCAL_RANK", "TF_ENABLED_DEVICE_TYPES"} <= read
    # Python sets the others itself, and a program that sets them has a warning that there is no such variable.
    given = {name for name in read if not name.startswith("GPUCONF_") or name in VARIABLES | {*OWN}}
    assert read - passed(monkeypatch, {name: values.get(name, "1") for name in given}) == set()


def test_each_variable_of_gpuconf_is_a_setting_or_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """``gpuconf doctor`` takes all others for mistakes, as it did with GPUCONF_SIMULATE_PLAIN_NAMES."""
    texts = sources("python/gpuconf", "gocore", "pybind", suffixes=(".py", ".go", ".c", ".h"))
    named = {name for text in texts for name in re.findall(r'"(GPUCONF_[A-Z_]+)"', text)}
    assert named - VARIABLES - passed(monkeypatch, {}) == set(OWN)


def test_the_table_has_each_setting() -> None:
    rows = [[f"`{one.variable}`", f"`{one.key}`" if one.key else "", one.default, one.text] for one in SETTINGS]
    assert re.findall(r"(?m)^\| `.*$", PAGE) == [f"| {' | '.join(row)} |" for row in rows]


def test_the_page_has_each_variable_of_others_that_go_reads() -> None:
    of_others = {name for name in read_by_go() if not name.startswith("GPUCONF_")}
    assert {name for name in of_others if f"`{name}`" not in PAGE} == set()
