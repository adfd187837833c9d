"""Workers of different users' clusters on one machine share its cards through the ledger."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="Dask is not installed: make test-integrations installs it")

from collections.abc import Iterator

from script import environment

# A user's program: it holds the cluster until standard input ends.
PROGRAM = """
import sys
import distributed, gpuconf.dask

def card():
    import gpuconf
    return [device.uuid for device in gpuconf.visible_devices()], gpuconf.memory.stats().bytes_limit >> 30

if __name__ == "__main__":
    try:
        with gpuconf.dask.LocalCluster(
            workers_per_gpu=2, memory="16GiB", lease=True, lease_timeout=float(sys.argv[2]), simulate="2xA100-40GB",
            n_workers=int(sys.argv[1]), dashboard_address="127.0.0.1:0", silence_logs="CRITICAL",
        ) as cluster, distributed.Client(cluster) as client:
            print(sorted(client.run(card).values()), gpuconf.dask.memory(client).bytes_in_use, flush=True)
            sys.stdin.read()
    except Exception as error:
        texts = []
        while error is not None:
            texts.append(f"{type(error).__name__}: {error}".splitlines()[0])
            error = error.__cause__
        print("refused:", *texts, flush=True)
"""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[object]:
    """Starts a user's program."""
    (tmp_path / "program.py").write_text(PROGRAM)
    running = []

    def start(workers: int, timeout: float = 60) -> subprocess.Popen[str]:
        words = [sys.executable, str(tmp_path / "program.py"), str(workers), str(timeout)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen(words, env=environment({"GPUCONF_LEDGER": str(tmp_path / "ledger")}), **pipes))
        return running[-1]

    yield start
    for program in running:
        with program:
            program.stdin.close()
            assert program.wait(60) == 0


def cards(line: str) -> list[str]:
    return re.findall(r"GPU-[0-9a-f-]+", line)


def test_two_users_share_two_cards_and_a_third_waits_for_room(user: object) -> None:
    ann, ben = user(3), user(1)  # type: ignore[operator]
    lines = [program.stdout.readline() for program in (ann, ben)]
    found = cards("".join(lines))
    assert sorted(found.count(card) for card in set(found)) == [2, 2], lines
    assert all("16)" in line for line in lines)
    late = user(1, 1)  # type: ignore[operator]
    refusal = late.stdout.readline()
    refused = (
        r"DeadlineExceededError: Dask worker 'leased-0' at tcp://.*: 16\.00GiB.* was not available on 1 of 2 "
        r"cards within 1 s"
    )
    assert re.search(refused, refusal), refusal
    patient = user(1, 60)  # type: ignore[operator]
    ben.stdin.close()  # it leaves, and its lease ends with its worker
    assert len(cards(patient.stdout.readline())) == 1
