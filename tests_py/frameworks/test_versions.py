"""The tested sets of versions are those of the requirement files, and any other version causes one warning."""

import re
from pathlib import Path
from typing import Any

import pytest
from gpuconf.allocators import _share

ROOT = Path(__file__).parents[2]
REQUIREMENTS = Path(__file__).with_name("requirements")
DISTRIBUTIONS = {"torch": "torch", "cupy": "cupy-cuda{cuda}x", "numba-cuda": "numba-cuda"}


def test_every_set_is_a_file_of_exact_requirements() -> None:
    assert sorted(path.stem for path in REQUIREMENTS.glob("*.txt")) == sorted(_share.SETS)
    for name, versions in _share.SETS.items():
        text = (REQUIREMENTS / f"{name}.txt").read_text()
        assert all(re.match(r"[\w.-]+==[\w.]+( ; .*)?$", line) for line in text.splitlines()), f"{name} has a range"
        for library, distribution in DISTRIBUTIONS.items():
            pinned = re.search(rf"^{distribution.format(**versions)}==([\d.]+)", text, re.M)
            assert pinned is not None, f"{name} has no {library}"
            assert pinned[1].startswith(versions[library] + "."), f"{name} has {library} {pinned[1]}"
        cuda = re.search(r"^nvidia-cuda-runtime(?:-cu12)?==(\d+)\.", text, re.M)
        assert cuda is not None
        assert cuda[1] == versions["cuda"]


def test_every_place_with_versions_agrees_with_the_sets() -> None:
    first, last = (list(_share.SETS.values())[at] for at in (0, -1))
    newest = f"torch-{last['torch']}-cuda{last['cuda']}"
    spans = {library: f"{first[library]} to {last[library]}" for library in ("torch", "cupy", "numba-cuda")}
    numbers = [[tuple(map(int, each[library].split("."))) for each in _share.SETS.values()] for library in spans]
    assert numbers[0] == sorted(numbers[0]), "the newest PyTorch is last"
    assert all((min(each), max(each)) == (each[0], each[-1]) for each in numbers)
    places = {
        "docs/frameworks.md": f"PyTorch {spans['torch']}, CuPy {spans['cupy']} and numba-cuda {spans['numba-cuda']},",
        "pyproject.toml": f'torch = ["torch>={first["torch"]}"]',
        "python/gpuconf/_core/injected.py": f"use {spans['torch']}",
        "Makefile": f"SET ?= {newest}\n",
        "benchmarks/simulated_torch.py": f'"{newest}"',
        "tests_py/integrations/suites/foreign_suites.py": f'"{newest}.txt"',
    }
    for place, text in places.items():
        assert text in (ROOT / place).read_text(), place
    rows = re.findall(
        r"^\| `(torch-.+?)` \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", (ROOT / "docs/frameworks.md").read_text(), re.M
    )
    assert [name for name, *_ in rows] == list(_share.SETS)
    for name, torch, cupy, numba, cuda in rows:
        text = (REQUIREMENTS / f"{name}.txt").read_text()
        for distribution, version in (("torch", torch), (r"cupy-cuda\d+x", cupy), ("numba-cuda", numba)):
            assert re.search(rf"^{distribution}=={re.escape(version)}( |$)", text, re.M), (
                f"{name}: {distribution} {version}"
            )
        assert re.search(rf"^nvidia-cuda-runtime(-cu12)?=={re.escape(cuda)}\.", text, re.M), f"{name}: CUDA {cuda}"


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(_share, "_checked", set())
    caplog.set_level("WARNING", "gpuconf")
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("library", "version"),
    [("torch", "2.9.1+cu128"), ("torch", "2.15.0"), ("cupy", "13.6.0"), ("numba-cuda", "0.30.4")],
)
def test_a_version_of_a_set_is_not_mentioned(told: Any, library: str, version: str) -> None:
    _share.check(library, version)
    assert told() == []


@pytest.mark.parametrize(
    ("library", "version"), [("torch", "2.10.0+cu130"), ("torch", "2.1"), ("cupy", "15.0.0a1"), ("numba-cuda", None)]
)
def test_another_version_gets_one_warning_that_names_the_sets(told: Any, library: str, version: Any) -> None:
    _share.check(library, version)
    _share.check(library, version)
    (text,) = told()
    assert f"{version} is routed, but gpuconf is not tested with this version" in text
    assert all(name in text for name in _share.SETS)
    assert "(PyTorch 2.15, CuPy 14.2, numba-cuda 0.30, CUDA 13)" in text
