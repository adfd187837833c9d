"""What a package index and a release show of gpuconf: links, URLs, versions, the bill of materials, and the Go that
builds it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import gpuconf
import parts
import pytest
from gpuconf._core import native

sys.path.insert(0, str(Path(__file__).parents[2] / "pybind" / "build"))  # as the build has it
import hatch_build
import hatch_metadata
import sbom
from requirements import lock

del sys.path[0]

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://example.org/owner/gpuconf"
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\(([^)]*)\)")


def test_readme_has_no_dead_links_on_a_page_that_knows_no_repository() -> None:
    text = hatch_metadata.readme(README, None, "1.2.3")
    assert [target for target in LINK.findall(text) if not target.startswith(("https://", "#"))] == []
    assert "![" not in text
    assert hatch_metadata.readme(
        "See [the `run` page](docs/run.md) and [PEP](https://peps.python.org/).", None, "1"
    ) == ("See the `run` page and [PEP](https://peps.python.org/).")


def test_readme_links_to_the_files_of_its_version() -> None:
    text = hatch_metadata.readme(
        "[run](docs/run.md#top) ![a picture](docs/plan.png) [above](#install)", REPOSITORY, "1.2.3"
    )
    assert text == (
        f"[run]({REPOSITORY}/blob/v1.2.3/docs/run.md#top) ![a picture]({REPOSITORY}/raw/v1.2.3/docs/plan.png) "
        "[above](#install)"
    )
    targets = {target.partition("#")[0] for target in LINK.findall(README) if not target.startswith(("https://", "#"))}
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_urls_are_those_that_the_maintainer_names() -> None:
    assert hatch_metadata.urls(None, None) == {}
    assert hatch_metadata.urls(REPOSITORY, None)["Issues"] == f"{REPOSITORY}/issues"
    with pytest.raises(SystemExit, match="GPUCONF_REPOSITORY is 'gpuconf'"):
        hatch_metadata.urls("gpuconf", None)


def test_the_bill_of_materials_names_what_is_linked_in() -> None:
    go = hatch_build.suitable_go(ROOT)
    assert go
    bill = json.loads(sbom.document(go, Path(native.__file__).parent / "_gpuconf.abi3.so", "1.2.3"))
    parts = {part["name"]: part for part in bill["components"]}
    assert parts.keys() == {"stdlib", *sbom.LICENSES}
    sums = (ROOT / "go.sum").read_text(encoding="utf-8")
    for name, part in parts.items():
        assert re.fullmatch(r"v?\d+\.\d+.*", part["version"])
        assert name == "stdlib" or f"{name} {part['version']} h1:" in sums
        assert name == "stdlib" or re.fullmatch("[0-9a-f]{64}", part["hashes"][0]["content"])
    assert set(bill["dependencies"][0]["dependsOn"]) == {part["bom-ref"] for part in parts.values()}


def test_a_module_of_unknown_license_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    go = hatch_build.suitable_go(ROOT)
    assert go
    monkeypatch.delitem(sbom.LICENSES, "gonum.org/v1/gonum")
    with pytest.raises(SystemExit, match=r"gonum\.org/v1/gonum is linked in"):
        sbom.document(go, Path(native.__file__).parent / "_gpuconf.abi3.so", "1.2.3")


def fake_go(folder: Path, version: str) -> str:
    folder.mkdir()
    program = folder / "go"
    program.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


def test_an_older_go_that_comes_first_on_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = fake_go(tmp_path / "old", "go1.19.8"), fake_go(tmp_path / "new", "go1.99.1")
    monkeypatch.setenv("PATH", f"{Path(old).parent}:{Path(new).parent}")
    assert hatch_build.suitable_go(ROOT) == new
    monkeypatch.setenv("GPUCONF_PINNED_GO", "1")
    assert hatch_build.suitable_go(ROOT) != new  # only the version of the wheel counts


def test_make_runs_the_go_that_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older Go on PATH hid the one that `make` had installed from `go test`."""
    old, new = fake_go(tmp_path / "old", "go1.19.8"), fake_go(tmp_path / "new", "go1.99.1")
    first, second = str(Path(old).parent), str(Path(new).parent)
    for path, suitable, before in (
        (f"{second}:{first}", new, ""),
        (f"{first}:{second}", new, second),
        (first, None, "/venv/bin"),
        (str(tmp_path), None, ""),
    ):
        monkeypatch.setenv("PATH", path)
        monkeypatch.setattr(hatch_build, "suitable_go", {ROOT: suitable}.get)
        assert hatch_build.before_path(ROOT, "/venv/bin") == before


def test_go_mod_names_the_go_of_the_wheel() -> None:
    assert f"\ntoolchain go{hatch_build.GO_WHEEL.partition('==')[2]}\n" in (ROOT / "go.mod").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["build.txt", "release.txt"])
def test_the_build_downloads_what_has_a_hash(name: str) -> None:
    """Of the versions that pyproject.toml and the build hook name, and of all that these need."""
    listed = (
        (ROOT / "pybind" / "build" / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    )
    assert [
        line for line in listed if not re.fullmatch(r"[\w-]+==\S+( ;[^-]*)?( +--hash=sha256:[0-9a-f]{64})+", line)
    ] == []
    versions = {line.partition(" ")[0] for line in listed}
    assert set(lock.chosen()[name]) <= versions
    assert hatch_build.GO_WHEEL in versions
    assert "--require-hashes" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_one_sentence_says_what_it_is() -> None:
    said = re.findall('^description = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert README.splitlines()[2] == f"gpuconf {said[0][0].lower()}{said[0][1:]}."


def test_pre_commit_has_the_tools_of_make_lint() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    pinned = re.findall(r'"(ruff==[\d.]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert re.findall(r'\["(ruff==[\d.]+)"\]', hooks) == pinned * 2


def test_the_version_is_one_everywhere() -> None:
    """README and the front page name the minor version; the changelog has a dated section for each version, this one
    first.
    """
    version = gpuconf.__version__
    minor = version.rpartition(".")[0]
    for page in ("README.md", "docs/index.md"):
        assert re.findall(r"Status: ([\d.]+),", (ROOT / page).read_text(encoding="utf-8")) == [minor]
    shown = re.findall(r"^ {4}gpuconf ([\d.]+)  simulated", (ROOT / "docs/commands.md").read_text(), re.M)
    assert shown == [version]
    sections = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert sections[0] == "Unreleased"
    releases = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert [text.splitlines()[0] for text in releases if len(text.strip().splitlines()) > 17] == [], "at most 15 lines"
    assert all(re.fullmatch(r"([\d.]+) - (\d{4}-\d\d-\d\d)", section) for section in sections[1:])
    assert sections[1].startswith(version)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {version}\n" in citation
    assert f'\ndate-released: "{sections[1].rpartition(" - ")[2]}"' in citation


def test_the_parts_of_makes_targets_name_files_that_exist() -> None:
    commands = [command for target in parts.PARTS.values() for _, command in target.values()]
    named = {
        path for command in commands for path in re.findall(r"(?:tests_\w+|benchmarks|pybind|gocore)/[\w./-]+", command)
    }
    assert len(named) > 30
    assert [path for path in sorted(named) if not (ROOT / path.removesuffix("/...")).exists()] == []
    for target, names in parts.DEFAULT.items():
        assert set(names) <= set(parts.PARTS[target])
