# SPDX-License-Identifier: Apache-2.0
"""Random programs of several processes and threads on simulated cards, which fork and are killed: crowd.c.

``make soak`` runs them for longer, with CROWD_SECONDS and SEED.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import script

SOURCE = Path(__file__).parent / "c" / "crowd.c"
SECONDS, SEED = os.environ.get("CROWD_SECONDS", "3"), os.environ.get("SEED", "1")
MIB = 1 << 20
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-strict-prototypes", "-O1", "-g"]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("crowd") / "crowd"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, *FLAGS, "-o", target, SOURCE, "-lpthread", "-ldl"], check=True)
    return target


def run(crowd: Path, options: list[str], mib: int, processes: int, threads: int) -> subprocess.CompletedProcess[str]:
    shell = f'"{crowd}" {SECONDS} {SEED} {processes} {threads} {mib * MIB} && "{crowd}" last {mib * MIB}'
    command = [sys.executable, "-m", "gpuconf", "run", *options, "--", "/bin/sh", "-c", shell]
    timeout = 2 * float(SECONDS) + 100
    return script.completed(command, env=script.plain(), timeout=timeout)


@pytest.mark.parametrize(
    ("options", "mib", "processes", "threads"),
    [
        (["--simulate", "2xA100-40GB:256MiB"], 256, 4, 2),
        (["--simulate", "A100-40GB:64MiB"], 64, 2, 6),
        (["--simulate", "A100-40GB:2GiB", "--memory", "256MiB"], 256, 3, 3),
        (["--simulate", "A100-40GB:2GiB", "--memory", "128MiB", "--guard", "preload"], 128, 4, 2),
    ],
    ids=["two cards", "a full card", "under the guard", "under the guard, preloaded"],
)
def test_what_processes_hold_never_exceeds_the_card_and_comes_back(
    crowd: Path, options: list[str], mib: int, processes: int, threads: int
) -> None:
    done = run(crowd, options, mib, processes, threads)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    assert json.loads(done.stdout)["taken"] > 0


def test_a_wrong_sum_is_noticed(crowd: Path) -> None:
    """The same program that believes the card to be smaller than it is."""
    done = run(crowd, ["--simulate", "A100-40GB:64MiB"], 32, 1, 1)
    assert done.returncode == 9
    assert "total == bytes_of_card" in done.stderr or "bytes are held" in done.stderr, done.stderr
