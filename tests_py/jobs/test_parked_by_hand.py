"""``gpuconf park`` and ``resume``, turns by default, what doctor says of them, and signals to parked programs."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpuconf._core.generated.cards import Card, CardMemory
from gpuconf.jobs import turns
from gpuconf.machine.cards import Survey
from turning import PAIR, SERVER, Job, agents, in_use, rows, states, until


def gpuconf(environment: dict[str, str], *words: object, code: int = 0, folder: Path | None = None) -> str:
    command = [sys.executable, "-m", "gpuconf", *map(str, words)]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def waits_at_the_gate(job: Job) -> None:
    job.say("values()")
    time.sleep(1)


def test_a_program_is_parked_by_hand_until_it_is_resumed(environment: dict[str, str]) -> None:
    with Job(environment, "--turns", "--name", "mine") as job:
        assert job.ask("begin(7)") == 0
        before = job.ask("values()")
        until(lambda: agents(job.pid))
        for target in (job.pid, "mine", job.ask("os.getpid()")):
            said = gpuconf(environment, "park", target)
            assert f"of PID {job.pid} are in the host's memory. It goes on with: gpuconf resume {job.pid}" in said
            assert states(environment) == ["parked"]
            assert in_use(environment) == 0
            job.say("values()")
            time.sleep(3)
            assert states(environment) == ["parked"]  # although it waits for its turn
            assert f"PID {job.pid} goes on" in gpuconf(environment, "resume", target)
            assert job.hear() == before
            assert states(environment) == ["granted"]
        assert gpuconf(environment, "ledger", "check")


def test_a_program_goes_on_whose_agent_and_command_were_killed(environment: dict[str, str]) -> None:
    with Job(environment, "--turns") as job:
        assert job.ask("begin(7)") == 0
        before, program = job.ask("values()"), job.ask("os.getpid()")
        until(lambda: agents(job.pid))
        gpuconf(environment, "park", job.pid)
        (agent,) = agents(job.pid)
        os.kill(job.pid, signal.SIGKILL)
        os.kill(agent, signal.SIGKILL)
        assert "its agent" not in gpuconf(environment, "park", "nobody", code=3)
        job.say("values()")
        said = gpuconf(environment, "resume", program)
        assert "goes on. Its agent had ended: it has another one" in said
        assert job.hear() == before
        assert states(environment) == ["granted"]
        os.kill(program, signal.SIGKILL)
    until(lambda: states(environment) == [])


def test_a_job_is_found_by_each_of_its_processes(environment: dict[str, str]) -> None:
    """A server that does not use the GPU itself, and a child that it has forked, were unknown without the command."""
    with Job(environment, "--turns", code=SERVER) as job:
        kernel, server = job.ask("start()"), job.ask("__import__('os').getpid()")
        assert job.ask("ask(0, 'begin(7)')") == 0
        before = job.ask("ask(0, 'values()')")
        fork = job.ask("(lambda os: os.fork() or os.execvp('sleep', ['sleep', '60']))(__import__('os'))")
        until(lambda: agents(job.pid))
        (agent,) = agents(job.pid)
        os.kill(job.pid, signal.SIGKILL)
        os.kill(agent, signal.SIGKILL)
        job.process.wait()
        try:
            assert "it has another one" in gpuconf(environment, "resume", server)
            for target in (server, fork, kernel):
                gpuconf(environment, "park", target)
                assert states(environment) == ["parked"]
                gpuconf(environment, "resume", target)
            assert job.ask("ask(0, 'values()')") == before
        finally:
            for pid in (fork, kernel, server):
                os.kill(pid, signal.SIGKILL)
    until(lambda: states(environment) == [])


@pytest.mark.parametrize("removed", ["ledger", "slots", "budget"])
def test_a_program_goes_on_that_resume_cannot_find(environment: dict[str, str], removed: str) -> None:
    """Parked by hand it waited for ever, and without that its agent ended, and no other one could serve it."""
    with Job(environment, "--turns", "--name", "mine") as job:
        assert job.ask("begin(7)") == 0
        before, program, guard = (job.ask(one) for one in ("values()", "os.getpid()", "os.environ['GPUCONF_GUARD']"))
        until(lambda: agents(job.pid))
        gpuconf(environment, "park", "mine")
        ledger = Path(environment["GPUCONF_LEDGER"])
        for path in ledger.glob("slots-*") if removed == "slots" else ():
            path.unlink()
        if removed != "slots":
            shutil.rmtree(ledger if removed == "ledger" else os.path.dirname(guard))
        job.say("values()")
        heard = select.select([job.stdout], [], [], 60)[0]
        if not heard:
            os.kill(program, signal.SIGKILL)  # else the end of the test waits for it
        assert heard
        assert job.hear() == before
        assert states(environment) == ["granted"]  # in the new ledger, too
        assert [row["name"] for row in rows(environment)] == ["mine"]
        job.end()
    until(lambda: states(environment) == [])


def test_a_program_that_is_stopped_before_its_memory_comes_back_gives_its_place_up(
    environment: dict[str, str],
) -> None:
    """The driver waited for it, and others for its lease, until it was continued."""
    with Job(environment, "--turns") as job, Job(environment, command=[sys.executable]) as unleased:
        assert job.ask("begin(7)") == 0
        before, program = job.ask("values()"), job.ask("os.getpid()")
        until(lambda: agents(job.pid))
        gpuconf(environment, "park", job.pid)
        assert unleased.ask("begin(9, 250)") == 0  # so that the memory has no room once it is leased
        job.say("values()")
        assert "waits for its turn" in gpuconf(environment, "resume", job.pid)
        assert states(environment) == ["granted", "parked"]
        os.kill(program, signal.SIGSTOP)
        try:
            until(lambda: states(environment) == ["parked"])
            unleased.end()
            with Job(environment) as other:
                assert other.ask("begin(8)") == 0
                other.end()
        finally:
            os.kill(program, signal.SIGCONT)
            os.kill(job.pid, signal.SIGCONT)
        assert job.hear() == before
        assert states(environment) == ["granted"]


def test_the_command_starts_no_agent_beside_that_of_resume(environment: dict[str, str]) -> None:
    with Job(environment, "--turns") as job:
        assert job.ask("begin(7)") == 0
        before = job.ask("values()")
        until(lambda: agents(job.pid))
        os.kill(job.pid, signal.SIGSTOP)  # else it starts one
        (agent,) = agents(job.pid)
        os.kill(agent, signal.SIGKILL)
        assert "it has another one" in gpuconf(environment, "resume", job.pid)
        os.kill(job.pid, signal.SIGCONT)
        until(lambda: not agents(job.pid))  # that of before, a zombie, is gone
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert not agents(job.pid)
        gpuconf(environment, "park", job.pid)
        assert states(environment) == ["parked"]
        gpuconf(environment, "resume", job.pid)
        assert job.ask("values()") == before
        assert job.end() == ""


def test_what_cannot_be_parked(environment: dict[str, str]) -> None:
    with Job(environment) as job:
        assert job.ask("begin(7)") == 0
        said = gpuconf(environment, "park", job.pid, code=3)
        assert f"PID {job.pid} takes no turns: gpuconf run --turns starts a program that does" in said
        for nobody in (1, ""):  # the lease has no name
            assert f"no lease has the name or PID '{nobody}'" in gpuconf(environment, "resume", nobody, code=3)
        job.end()
    with Job(environment, "--turns") as job:
        assert job.ask("begin(7)") == 0
        until(lambda: agents(job.pid))
        program = job.ask("os.getpid()")
        os.kill(program, signal.SIGSTOP)  # as Ctrl-Z: the driver would wait for it
        try:
            until(lambda: rows(environment)[0]["keeps"] == "it is stopped")
            assert f"PID {job.pid} keeps its memory: it is stopped" in gpuconf(environment, "park", job.pid, code=3)
            assert f"PID {job.pid} keeps its memory: it is stopped" in gpuconf(environment, "lease", "--list")
        finally:
            os.kill(program, signal.SIGCONT)
            os.kill(job.pid, signal.SIGCONT)
        assert job.ask("values()")[0] == [7]
        gpuconf(environment, "park", job.pid)
        gpuconf(environment, "resume", job.pid)


def test_the_ranks_of_a_job_are_never_parked_and_who_waits_is_told(environment: dict[str, str]) -> None:
    with Job(environment, "--turns", "--contexts", "2", memory="200MiB", code=PAIR, words=["ranks"]) as job:
        assert job.ask("begin(7, 80)") == [0, 0]
        until(lambda: agents(job.pid))
        why = "2 of its processes use the GPU, and are the ranks of one program"
        until(lambda: rows(environment)[0]["keeps"] == why)
        keeps = f"PID {job.pid} keeps its memory: {why}"
        assert keeps in gpuconf(environment, "park", job.pid, code=3)
        assert keeps in gpuconf(environment, "lease", "--list")
        said = gpuconf(environment, "run", "--memory", "250MiB", "--timeout", "15", "--turns", "true", code=124)
        assert "was not available on 1 of 1 card within 15 s" in said  # although they are idle
        assert states(environment) == ["granted"]
        assert [values for values, _ in job.ask("values()")] == [[7], [7]]
        job.end()


def test_several_processes_of_a_job_give_way_together(environment: dict[str, str]) -> None:
    """Such as the kernels of a JupyterLab: idle, all of them are suspended, and all go on with their values."""
    with Job(environment, "--turns", "--contexts", "2", memory="200MiB", code=PAIR) as job:
        assert job.ask("begin(7, 80)") == [0, 0]
        before = job.ask("values()")
        with Job(environment, memory="250MiB") as other:
            assert other.ask("begin(9)") == 0  # the idle ones have left for it
            assert states(environment) == ["granted", "parked"]
            job.say("values()")
            other.end()
        assert job.hear() == before
        job.end()
    assert in_use(environment) == 0


def test_another_agent_keeps_the_slice_and_what_was_counted(environment: dict[str, str]) -> None:
    words = ["--turns", "--slice", "90", "--idle", "20"]
    with Job(environment, *words) as job:
        assert job.ask("begin(7)") == 0
        program = job.ask("os.getpid()")
        until(lambda: agents(job.pid))
        for swaps in (1, 2):
            gpuconf(environment, "park", job.pid)
            parked = re.search(r"gpuconf_lease_parked_bytes{.*} (.*)", gpuconf(environment, "export", "--once"))
            assert parked is not None
            assert float(parked[1]) == rows(environment)[0]["host"]
            if swaps == 1:
                (agent,) = agents(job.pid)
                os.kill(job.pid, signal.SIGKILL)
                os.kill(agent, signal.SIGKILL)
            gpuconf(environment, "resume", program)
            until(lambda: states(environment) == ["granted"])
            until(lambda n=swaps: rows(environment)[0]["swaps"] == n)  # type: ignore[misc]
        (row,) = rows(environment)
        assert (row["slice"], row["idle_time"]) == (90 * 10**9, 20 * 10**9)
        assert 0 < float(str(row["waited"])) < 60
        metrics = gpuconf(environment, "export", "--once")
        assert re.search(r"gpuconf_lease_swaps_total{.*} 2\.0", metrics)
        assert re.search(r"gpuconf_lease_waited_seconds_total{.*} 0\.", metrics)
        assert re.search(r"gpuconf_lease_parked_bytes{.*} 0\.0", metrics)
        os.kill(program, signal.SIGKILL)
    until(lambda: states(environment) == [])


@pytest.mark.parametrize("waits", [False, True], ids=["idle", "in_a_call"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["sigterm", "sighup"])
def test_a_parked_program_ends_at_once_by_a_signal_that_it_does_not_handle(
    environment: dict[str, str], number: int, waits: bool
) -> None:
    with Job(environment, "--turns") as job:
        assert job.ask("begin(7)") == 0
        until(lambda: agents(job.pid))
        gpuconf(environment, "park", job.pid)
        if waits:
            waits_at_the_gate(job)
        os.kill(job.pid, number)  # the command passes it on, and ends as the program does
        assert job.process.wait(30) == -number
    assert states(environment) == []
    assert in_use(environment) == 0


def test_ctrl_c_is_handled_after_the_call_that_waits(environment: dict[str, str]) -> None:
    with Job(environment, "--turns") as job:
        assert job.ask("begin(7)") == 0
        until(lambda: agents(job.pid))
        gpuconf(environment, "park", job.pid)
        waits_at_the_gate(job)
        os.kill(job.pid, signal.SIGINT)
        time.sleep(1)
        assert job.process.poll() is None
        gpuconf(environment, "resume", job.pid)
        assert job.process.wait(30) == -signal.SIGINT
        assert "KeyboardInterrupt" in job.process.communicate()[1]
    assert states(environment) == []


def test_a_parked_program_can_be_stopped_and_continued(environment: dict[str, str]) -> None:
    with Job(environment, "--turns") as job:
        assert job.ask("begin(7)") == 0
        before = job.ask("values()")
        until(lambda: agents(job.pid))
        gpuconf(environment, "park", job.pid)
        waits_at_the_gate(job)
        program = next(int(pid) for pid in Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
                       if "begin(value" in Path(f"/proc/{pid}/cmdline").read_text())  # fmt: skip
        os.kill(program, signal.SIGSTOP)
        time.sleep(1)
        assert states(environment) == ["parked"]
        os.kill(program, signal.SIGCONT)
        os.kill(job.pid, signal.SIGCONT)
        gpuconf(environment, "resume", job.pid)
        assert job.hear() == before


@pytest.mark.parametrize("where", ["variable", "file", "administrator"])
def test_turns_by_default(environment: dict[str, str], tmp_path: Path, where: str) -> None:
    (tmp_path / "gpuconf.toml").write_text("turns = true\n" if where == "file" else "")
    given = {**environment, "GPUCONF_TURNS": "true"} if where == "variable" else environment
    code = "import sys, gpuconf._core.settings as s; s.ADMINISTRATOR = sys.argv.pop(1);"
    code += "from gpuconf.cli.main import main; sys.exit(main(sys.argv[1:]))"
    (tmp_path / "etc.toml").write_text("turns = true\n" if where == "administrator" else "")
    for option, takes in (("--turns", True), ("--no-turns", False), ("--memory=250MiB", True)):
        words = [sys.executable, "-c", code, str(tmp_path / "etc.toml"), "run", "--memory=250MiB", option]
        words += [sys.executable, "-c", "import os; print(os.path.exists(os.environ['GPUCONF_GUARD'][:-6] + 'gate'))"]
        done = subprocess.run(words, env=given, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
        assert (done.stdout.strip(), done.stderr) == (str(takes), "")


MEMORY = CardMemory("dedicated", 1 << 30, 0, 1 << 30, "NVML")
A100 = Card(0, "GPU-a", "NVIDIA A100", "", (8, 0), "off", MEMORY, (), None, (), ())
REAL = Survey(None, None, "580.65.06", (13, 0), False, (A100, A100._replace(index=1, compute_capability=(9, 0))))


def test_no_file_turns_on_what_is_experimental(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gpuconf.toml").write_text("turns = true\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUCONF_TURNS", raising=False)
    assert "has not been tested on a real GPU" in turns.why_not("--turns", REAL)
    monkeypatch.setenv("GPUCONF_TURNS", "true")
    assert "GPUCONF_TURNS=experimental turns it on" in turns.why_not("--turns", REAL)
    monkeypatch.setenv("GPUCONF_TURNS", "experimental")
    assert turns.why_not("--turns", REAL) == ""


@pytest.mark.parametrize(
    ("tested", "works"),
    [
        ({((8, 0), "580"), ((9, 0), "580")}, True),
        ({((8, 0), "580")}, False),
        ({((8, 0), "580"), ((9, 0), "590")}, False),
    ],
)
def test_turns_work_where_each_card_has_been_tested_with_this_driver(
    monkeypatch: pytest.MonkeyPatch, tested: set[tuple[tuple[int, int], str]], works: bool
) -> None:
    monkeypatch.delenv("GPUCONF_TURNS", raising=False)
    monkeypatch.setattr(turns, "_TESTED", tested)
    assert (turns.why_not("--turns", REAL) == "") is works


@pytest.mark.parametrize(
    ("driver", "level", "text"),
    [
        ("13.0", "ok", "programs can take turns: gpuconf run --turns"),
        ("12.4", "note", "no program can take turns: the driver has no process checkpoints"),
    ],
)
def test_doctor_says_whether_programs_can_take_turns(
    environment: dict[str, str], driver: str, level: str, text: str
) -> None:
    given = {**environment, "GPUCONF_SIMULATE": f"A100-40GB:driver={driver}"}
    words = [sys.executable, "-m", "gpuconf", "doctor", "--json"]
    done = subprocess.run(words, env=given, capture_output=True, text=True, check=False, timeout=60)
    (row,) = [one for one in json.loads(done.stdout)["findings"] if one["subject"] == "turns"]
    assert row["level"] == level
    assert text in row["text"]


def test_memory_of_a_settings_file(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "gpuconf.toml").write_text("memory = '100MiB..300MiB'\n")
    words = [sys.executable, "-m", "gpuconf", "run", "--json-report", str(tmp_path / "report"), "true"]
    subprocess.run(words, env=environment, cwd=tmp_path, check=True, timeout=60)
    lease = json.loads((tmp_path / "report").read_text())["lease"]
    assert (lease["memory_limit"] >> 20, lease["memory_most"] >> 20) == (100, 300)
