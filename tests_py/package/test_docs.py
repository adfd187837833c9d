"""The documentation: its examples print what they say, its commands too, and the site builds without a warning."""

from __future__ import annotations

import doctest
import itertools
import os
import re
import shlex
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
import script
from command import COMMAND
from doc_blocks import ELSEWHERE, PAGES, ROOT, Block, block, blocks
from gpuconf import errors
from gpuconf.cli.parser import parsed
from ray_jobs import PATIENT
from script import execute

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# Names that a page leaves to the reader, by page and first line of the block, and what follows the block.
CLIENT = """
import dask, distributed, gpuconf.dask
client = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None).get_client()
train, config = str, 1
futures = client.map(train, [1, 2])
"""
AROUND = {
    ("docs/clusters.md", "import distributed"): ("configs = [1, 2]", ""),
    ("docs/clusters.md", "client.register_plugin("): (CLIENT, "client.shutdown()"),
    ("docs/clusters.md", "client.submit("): (
        CLIENT + 'client.register_plugin(gpuconf.dask.WorkerSetup("8GiB"))',
        "client.shutdown()",
    ),
    ("docs/clusters.md", "running = distributed.as_completed(futures)"): (CLIENT, "client.shutdown()"),
    ("docs/clusters.md", "import gpuconf.ray"): (PATIENT + "model = 1", "ray.get(larger)\nray.shutdown()"),
    ("docs/plan.md", "import gpuconf"): ("def train_a_few_steps(): gpuconf.memory.allocate('1GiB').free()", ""),
}


def plain() -> list[Block]:
    found = [block for block in blocks("python") if ">>>" not in block.code and "def test_" not in block.code]
    return [block for block in found if not any(block.starts(*key) for key in ELSEWHERE)]


def environment(tmp_path: Path, gpus: int = 4) -> dict[str, str]:
    """Simulated GPUs, and a ledger of its own: the default one is this user's."""
    return script.environment({"GPUCONF_SIMULATE": f"{gpus}xA100-80GB", "GPUCONF_LEDGER": str(tmp_path / "ledger")})


@pytest.mark.parametrize("page", sorted({block.page for block in blocks("python") if ">>>" in block.code}))
def test_examples(page: str) -> None:
    result = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=FLAGS)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("block", plain(), ids=lambda block: f"{block.page} {block.code.splitlines()[0]}")
def test_programs(block: Block, tmp_path: Path) -> None:
    """Each is a program's file: processes that Dask starts import it."""
    before, after = next((around for key, around in AROUND.items() if block.starts(*key)), ("", ""))
    code = f"{before}\n{block.code}\n{after}"
    if before and "__main__" not in code:
        code = "def main():\n" + textwrap.indent(code, "    ") + "\nif __name__ == '__main__': main()\n"
    (tmp_path / "program.py").write_text(code)
    gpus = 1 if "workers_per_gpu" in code else 4  # one process for each
    variables = environment(tmp_path, gpus) | {"RAY_USAGE_STATS_ENABLED": "0"}
    done = script.run_with_children([sys.executable, "program.py"], env=variables, cwd=tmp_path, timeout=400)
    assert done.code == 0, done.stderr
    if not re.search(r"\b(dask|ray)\b", code):  # they log what ends with their cluster
        assert done.stderr == ""


@pytest.mark.parametrize(
    "block", [block for block in blocks("python") if "def test_" in block.code], ids=lambda block: block.page
)
def test_examples_of_tests(block: Block, tmp_path: Path) -> None:
    names = "import contextlib, gpuconf, pytest\ndef load_model(): return gpuconf.memory.allocate('1GiB')\n"
    (tmp_path / "test_it.py").write_text(names + block.code)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--gpuconf=simulate",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "test_it.py",
    ]
    done = execute(command, cwd=tmp_path, env=environment(tmp_path))
    assert done.returncode == 0, done.stdout
    assert f"{block.code.count('def test_')} passed" in done.stdout


def test_each_block_is_run_or_has_its_reason() -> None:
    """The three tests above run each block of Python that is not in ELSEWHERE, whose entries say where theirs run."""
    for (page, beginning), place in ELSEWHERE.items():
        assert block(page, beginning)
        where, _, reason = place.partition(": ")
        assert reason or page in (ROOT / where).read_text()
    assert all(sum(one.starts(*key) for one in plain()) == 1 for key in AROUND)


def shown() -> list[tuple[str, list[str]]]:
    """The lines of indented blocks that call the command, as words, up to what the shell does with it."""
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text().partition("<!-- help -->")[0]  # what follows is made from the commands
        for line in re.findall(r"^ {4,}(?:\$ |sudo )?(gpuconf (?!\d).*)$", text, re.MULTILINE):
            words = shlex.split(re.split(r" [|>#<]| \.\.\.", line)[0])
            found.append((page, words[1:]))
    return found


@pytest.mark.parametrize(
    ("page", "words"), shown(), ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_commands_that_are_only_shown_have_these_options(page: str, words: list[str]) -> None:
    assert parsed(words).command.split()[0] == words[0]


@pytest.mark.parametrize("page", sorted({block.page for block in blocks("console")}))
def test_commands(page: str, tmp_path: Path) -> None:
    """A line that begins with a dollar is run by the shell, and what follows is its output.

    ``cat FILE`` makes the file instead.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = script.environment({"PATH": path, "GPUCONF_LEDGER": str(tmp_path / "ledger")})
    for code in (one.code for one in blocks("console") if one.page == page):
        steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", code, re.MULTILINE)
        assert steps
        for command, expected in steps:
            made = re.fullmatch(r"cat (\S+)", command)
            if made and not (tmp_path / made[1]).exists():
                (tmp_path / made[1]).write_text(expected)
                continue
            done = execute(["bash", "-c", command], cwd=tmp_path, env=variables)
            assert doctest.OutputChecker().check_output(expected, done.stdout, FLAGS), (
                f"$ {command}\n{done.stdout}{done.stderr}"
            )


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="Sphinx needs Python 3.11")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-b",
        "html",
        "-q",
        "-W",
        "--keep-going",
        ROOT / "docs",
        tmp_path / "site",
    ]
    done = execute([*command, "-d", tmp_path / "trees"], timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    site = tmp_path / "site"
    pages = [page for page in site.rglob("*.html") if "_modules" not in page.parts]  # those have the sources
    assert [page.name for page in pages if "\n\n</pre>" in page.read_text()] == [], "examples end without an empty line"
    inside = re.compile(r'href="(?!https?:)([^"#?]+)[^"]*"')
    links = [(page, link) for page in site.rglob("*.html") for link in inside.findall(page.read_text())]
    assert len(links) > 1000
    assert [str(page) + ": " + link for page, link in links if not (page.parent / link).exists()] == []
    assert "gpuconf.memory.allocate" in (site / "python.html").read_text()


def test_each_error_class_has_cause_and_fix() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")
    ]
    rows = [row for row in rows if row[0] != "error"]
    assert all(len(row) == 3 and all(row) for row in rows)
    described = {name for row in rows for name in re.findall(r"\w+Error", re.sub(r"\(\w+\)", "", row[0]))}
    classes = {name for name in errors.__all__ if name.endswith("Error")}
    assert described == classes - {"GpuconfError", "OpError"}
    reference = re.findall(r"\w+Error\b", (ROOT / "docs" / "python.md").read_text().rpartition(":members:")[2])
    assert sorted(reference) == sorted(classes - {"OutOfMemoryError"}), "each class, once; the alias is in the table"


# Pages that only point to others or to reports, or compare.
WITHOUT_EXAMPLE = {"docs/comparison.md", "docs/measurements.md"}


@pytest.mark.parametrize("page", sorted(set(PAGES) - {"README.md", "docs/index.md"}))
def test_a_page_begins_with_its_aim_and_has_an_example_that_runs(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    title, _, rest = text.partition("\n\n")
    assert re.fullmatch(r"# [^\n]+", title)
    assert re.match(r"[A-Z`]", rest), "a sentence, before any list, block or heading"
    runs = [block for block in [*blocks("python"), *blocks("console")] if block.page == page]
    assert runs or "```shell-session\n" in text or "```c\n" in text or page in WITHOUT_EXAMPLE


def test_the_messages_of_troubleshooting_are_messages_of_gpuconf() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    terms = [line for line, after in itertools.pairwise(page.splitlines()) if after.startswith(": ")]
    messages = [message for line in terms for message in re.findall(r"\*\*(.*?)\*\*", line)]
    sources = [
        path
        for part in ("gocore", "pybind", "python")
        for path in (ROOT / part).rglob("*")
        if path.suffix in {".c", ".go", ".py"}
    ]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    assert len(messages) > 10
    assert [message for message in messages if message not in text] == []


def test_the_page_on_rehearsals_has_each_known_difference() -> None:
    table = execute([sys.executable, str(ROOT / "tests_py/cover/known.py")], check=True).stdout
    assert table.count("\n") > 4
    assert table in (ROOT / "docs/plan.md").read_text()


UNITS = {
    name: text
    for page in PAGES
    for text, name in re.findall(
        r"^```ini\n(# /etc/systemd/system/(\S+)\n.*?)^```$", (ROOT / page).read_text(), re.M | re.S
    )
}


def test_the_pages_have_units_of_systemd() -> None:
    assert {"chat.service", "gpuconf-export.service"} <= set(UNITS)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_a_unit(name: str, tmp_path: Path) -> None:
    """With the command of this installation in place of the page's; the command takes the options, too."""
    (line,) = re.findall(r"^ExecStart=(\S+) (.*)$", UNITS[name], re.M)
    assert line[0] == "/opt/gpuconf/bin/gpuconf"
    assert parsed(shlex.split(line[1]))
    (tmp_path / name).write_text(UNITS[name].replace(line[0], COMMAND))
    ran = execute(
        ["systemd-analyze", "verify", "--man=no", tmp_path / name],
        env={**script.environment({}), "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )
    assert (ran.returncode, ran.stderr) == (0, "")
