"""A step of the work on a GPU ends in time, with everything that it started, and what it said is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import evidence
import pytest
import steps
import unattended
from results import Results

HERE = Path(__file__).resolve().parent


def step(code: str, name: str = "a step") -> steps.Step:
    return steps.Step(name, [sys.executable, "-c", code])


def gone(pid: int) -> bool:
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_figures_are_kept_where_a_step_fails() -> None:
    found = steps.run(step("print('canary 7 died'); print('{\"rounds\": 12}'); raise SystemExit(1)"), os.environ)
    assert (found["result"], found["figures"], found["exit_code"]) == ("FAILED", {"rounds": 12}, 1)
    assert "canary 7 died" in found["output"]


def test_a_crash_says_where_and_by_which_signal() -> None:
    found = steps.run(step("import ctypes; ctypes.string_at(1)"), os.environ)
    assert (found["result"], found["exit_code"]) == ("FAILED", -signal.SIGSEGV)
    assert "string_at" in found["output"]


def test_what_the_driver_logs_is_kept_where_a_step_fails() -> None:
    log = "import os; open(os.environ['CUDA_LOG_FILE'], 'a').write('[E] an address is not aligned'); "
    found = steps.run(step(log + "raise SystemExit(1)"), os.environ)
    assert found["driver_log"] == "[E] an address is not aligned"
    assert "driver_log" not in steps.run(step(log), os.environ)
    assert (
        steps.run(step("import os; os.environ['CUDA_LOG_FILE']", "bench 1: a pair"), os.environ)["result"] == "FAILED"
    )


def test_a_command_that_cannot_be_ended_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess.Popen, "kill", lambda _: None)  # as for a process that waits for a GPU that hangs
    begin = time.monotonic()
    assert "timed out after 0.5 seconds" in evidence.said(["sleep", "20"], 0.5)
    assert time.monotonic() - begin < 15
    monkeypatch.undo()
    process = evidence.left_behind.pop()
    process.kill()
    process.wait()  # else Python says at its end that it still runs


def test_what_the_kernel_says_of_the_card_is_kept() -> None:
    reader, writer = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)  # as of /dev/kmsg, each read is a record
    for seconds, text in (
        (9, "NVRM: Xid 13"),
        (20, "NVRM: Xid 31, name=python"),
        (21, "eth0: link up"),
        (22, "python[7]: segfault at 8"),
    ):
        os.write(writer, f"3,{seconds},{seconds}000000,-;{text}\n SUBSYSTEM=pci\n".encode())
    assert evidence.lines_of(reader, since=15.0) == ["NVRM: Xid 31, name=python", "python[7]: segfault at 8"]
    os.close(reader)
    os.close(writer)


def test_a_step_beyond_its_time_ends_with_what_it_started(tmp_path: Path) -> None:
    child = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    )
    child += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid)); print('so far', flush=True); time.sleep(600)"
    found = steps.run(step(child), os.environ, limit=8)
    assert found["result"] == "timed out"
    assert found["output"].startswith("so far\nFatal Python error: Aborted")
    assert "line 1 in <module>" in found["output"]
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_process_that_is_left_over_does_not_keep_the_step_waiting(tmp_path: Path) -> None:
    child = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    child += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid)); print('{{}}')"
    found = steps.run(step(child), os.environ, limit=60)
    assert found["result"] == "passed"
    assert found["seconds"] < 50
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_step_ends_when_its_caller_is_killed(tmp_path: Path) -> None:
    slow = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    code = f"import os, sys; sys.path.insert(0, {str(HERE)!r}); import steps; "
    code += f"steps.run(steps.Step('slow', [sys.executable, '-c', {slow!r}]), os.environ)"
    caller = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(1000):
            if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
                break
            time.sleep(0.02)
    finally:
        caller.kill()
        caller.wait()
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_step_that_a_call_ended_in_runs_after_the_others(tmp_path: Path) -> None:
    path, todo = tmp_path / "results.json", [step("", "first"), step("", "second")]
    Results(path, None, "a card").begin("first")
    again = Results(path, None, "a card")
    assert [one.name for one in again.order(todo)] == ["second", "first"]
    again.begin("second")
    again.done("second", {"result": "passed", "seconds": 1.0})
    assert json.loads(path.read_text())["cut"] == {"first": 1}


def test_a_step_that_the_time_cut_short_is_the_next_calls_first(tmp_path: Path) -> None:
    path, slow = (
        tmp_path / "results.json",
        steps.Step("slow", [sys.executable, "-c", "import time; time.sleep(600)"], 100.0, 0.1),
    )
    unattended.run_all([slow], Results(path, None, "a card"), dict(os.environ), time.monotonic() + 1, [], lambda: None)
    again = Results(path, None, "a card")
    assert again.steps == {}
    assert [one.name for one in again.order([slow, step("", "second")])] == ["slow", "second"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1, "wheel": ""}'])
def test_a_file_of_something_else_is_kept_beside(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    assert Results(path, None, "a card").steps == {}
    (aside,) = tmp_path.glob("results-*.json")
    assert aside.read_text() == text


def test_the_page_tells_machines_apart(tmp_path: Path) -> None:
    class Benchmark:
        @staticmethod
        def lines_of(rounds: dict[str, list[dict[str, float]]], limit: object) -> list[str]:
            return [f"{rounds} {limit}"]

    path = tmp_path / "results.json"
    for card, names in {
        "card A": ["bench 1: x", "bench 2: x", "a case"],
        "card B": ["bench 3: x", "bench: limit"],
    }.items():
        results = Results(path, None, card)
        for name in names:
            results.begin(name)
            results.done(name, {"result": "passed", "seconds": 1.0, "figures": {"of": card}})
    page = Results(path, None, "card B").page(Benchmark)
    assert "1. card A\n2. card B\n" in page
    assert "| a case | 1 | passed | 1.0 | of card A |" in page
    assert "machine 1.\n\n{'x': [{'of': 'card A'}, {'of': 'card A'}]} None" in page
