"""The commands of docs/tutorial.md print what it says, with the real PyTorch."""

from __future__ import annotations

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
PAGE = (Path(__file__).parents[3] / "docs" / "tutorial.md").read_text(encoding="utf-8")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_each_command(tmp_path: Path) -> None:
    """``cat FILE`` makes the file; of any other command, what it prints is compared."""
    if not importlib.metadata.version("torch").startswith(no_gpu.NEWEST_TORCH + "."):
        pytest.skip(f"docs/tutorial.md has the figures of PyTorch {no_gpu.NEWEST_TORCH}")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = environment({"PATH": path, "GPUCONF_LEDGER": str(tmp_path / "ledger")})
    blocks = re.findall(r"^```shell-session\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    steps = [step for block in blocks for step in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]
    assert len(steps) > 10
    for command, expected in steps:
        made = re.fullmatch(r"cat (\S+)", command)
        if made:
            (tmp_path / made[1]).write_text(expected, encoding="utf-8")
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            check=False,
            timeout=170,
            cwd=tmp_path,
            env=variables,
        )
        assert doctest.OutputChecker().check_output(expected, done.stdout, FLAGS), (
            f"$ {command}\n{done.stdout}{done.stderr}"
        )
