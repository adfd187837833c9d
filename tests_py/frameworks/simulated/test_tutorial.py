"""The commands of README and of the pages with PyTorch print what these say, with the real PyTorch."""

import doctest
import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import no_gpu
import pytest
from script import environment

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]
ROOT = Path(__file__).parents[3]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def steps(page: str) -> list[tuple[str, str]]:
    """The commands of a page, with what each prints."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```shell-session\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [step for block in blocks for step in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]


@pytest.mark.parametrize(("page", "least"), [("README.md", 3), ("docs/simulation.md", 1), ("docs/tutorial.md", 11)])
def test_each_command(tmp_path: Path, page: str, least: int) -> None:
    """``cat FILE`` makes the file; of any other command, what it prints is compared.

    README runs the tutorial's first program on a simulated card, and shows standard error, too.
    """
    if not importlib.metadata.version("torch").startswith(no_gpu.NEWEST_TORCH + "."):
        pytest.skip(f"{page} has the figures of PyTorch {no_gpu.NEWEST_TORCH}")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = environment({"PATH": path, "GPUCONF_LEDGER": str(tmp_path / "ledger")})
    before: list[tuple[str, str]] = []
    if page == "README.md":
        before = steps("docs/tutorial.md")[:1]
        variables["GPUCONF_SIMULATE"] = "T4"
    commands = steps(page)
    assert len(commands) >= least
    for command, expected in before + commands:
        made = re.fullmatch(r"cat (\S+)", command)
        if made:
            (tmp_path / made[1]).write_text(expected, encoding="utf-8")
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if before else subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
            cwd=tmp_path,
            env=variables,
        )
        assert doctest.OutputChecker().check_output(expected, done.stdout, FLAGS), (
            f"$ {command}\n{done.stdout}{done.stderr or ''}"
        )
