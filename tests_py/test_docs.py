"""The documentation: its examples print what they say, its commands too, and the site builds without a warning."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from gpuconf import errors

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEED_LIBRARIES = ("torch", "cupy", "cuda")  # tests_py/frameworks runs these
OWN = ("docs/getting-started.md", "docs/howto/", "docs/concepts/")  # pages whose every block is run


def blocks(page: str, language: str) -> list[str]:
    return [code for kind, code in BLOCK.findall((ROOT / page).read_text()) if kind == language]


@pytest.mark.parametrize("page", [page for page in PAGES if any(">>>" in block for block in blocks(page, "python"))])
def test_examples(page: str) -> None:
    result = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=FLAGS)
    assert result.attempted > 0
    assert result.failed == 0


def plain() -> list[str]:
    found = [block for page in PAGES if page.startswith(OWN) for block in blocks(page, "python") if ">>>" not in block]
    return [block for block in found if not re.search(rf"\b({'|'.join(NEED_LIBRARIES)})\b", block)]


@pytest.mark.parametrize("program", plain())
def test_programs(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")])
def test_commands(page: str, tmp_path: Path) -> None:
    """A line that begins with a dollar is run by the shell, and what follows is its output. ``cat FILE`` makes the file instead."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "PYTEST_"))}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment["GPUCONF_LEDGER"] = str(tmp_path / "ledger")  # the default one is this user's
    for block in blocks(page, "console"):
        steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
        assert steps
        for command, expected in steps:
            made = re.fullmatch(r"cat (\S+)", command)
            if made and not (tmp_path / made[1]).exists():
                (tmp_path / made[1]).write_text(expected)
                continue
            done = subprocess.run(
                ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path, env=environment
            )
            assert doctest.OutputChecker().check_output(expected, done.stdout, FLAGS), f"$ {command}\n{done.stdout}{done.stderr}"


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="Sphinx needs Python 3.11")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", ROOT / "docs", tmp_path / "site"]
    done = subprocess.run([*command, "-d", tmp_path / "trees"], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    site = tmp_path / "site"
    inside = re.compile(r'href="(?!https?:)([^"#?]+)[^"]*"')
    links = [(page, link) for page in site.rglob("*.html") for link in inside.findall(page.read_text())]
    assert len(links) > 1000
    assert [str(page) + ": " + link for page, link in links if not (page.parent / link).exists()] == []
    assert "gpuconf.memory.allocate" in (site / "reference" / "memory.html").read_text()


def test_each_error_class_has_cause_and_fix() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[0] != "error"]
    assert all(len(row) == 3 and all(row) for row in rows)
    described = {name for row in rows for name in re.findall(r"\w+Error", re.sub(r"\(\w+\)", "", row[0]))}
    classes = {name for name in errors.__all__ if name.endswith("Error")}
    assert described == classes - {"GpuconfError", "OpError"}
    reference = re.findall(r"\w+Error\b", page.rpartition(":members:")[2])
    assert sorted(reference) == sorted(classes - {"OutOfMemoryError"}), "each class, once; the alias is in the table"


HOW_TO = """
find-what-holds-memory fit-on-a-smaller-card four-workers-a-card-with-dask limit-pytorch-and-cupy run-a-tensorflow-1-script
share-a-card-between-two-services split-a-card test-gpu-code-in-ci
"""


def test_each_task_has_its_page() -> None:
    assert {path.stem for path in (ROOT / "docs" / "howto").glob("*.md")} == set(HOW_TO.split())
