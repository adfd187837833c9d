"""``gpuconf run --memory`` and ``gpuconf lease``: programs that share simulated GPUs, each within its bytes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import COMMAND
from gpuconf.leases.ledger import Ledger, open_ledger
from script import environment, execute, start_in_a_terminal

GIB = 1 << 30
LIMIT_OF_POOLS = (
    "import gpuconf; print([gpuconf.memory.stats(d).bytes_limit for d in gpuconf.config.list_logical_devices('GPU')])"
)


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """A ledger of the test's own, which is empty at the end."""
    monkeypatch.setenv("GPUCONF_LEDGER", str(tmp_path / "ledger"))
    opened = open_ledger()
    yield opened
    wait_until(lambda: opened.claims() == [])
    assert opened.check() == []
    opened.close()


def wait_until(holds: Any, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def env(**more: str) -> dict[str, str]:
    return {**environment({"GPUCONF_LEDGER": os.environ["GPUCONF_LEDGER"], "GPUCONF_SIMULATE": "2xT4:16GiB"}), **more}


def run(
    *words: str, command: str = "run", variables: dict[str, str] | None = None, **more: Any
) -> tuple[int, str, str]:
    words = tuple(textwrap.dedent(word) for word in words)
    done = execute([COMMAND, command, *words], env=env(**variables or {}), **more)
    return done.returncode, done.stdout, done.stderr


def start(*words: str, **more: Any) -> subprocess.Popen[str]:
    words = tuple(textwrap.dedent(word) for word in words)
    return subprocess.Popen(
        [COMMAND, "run", *words], env=env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


# What the program gets


def test_the_limit_is_exact_and_the_card_is_visible_by_its_uuid() -> None:
    show = (
        LIMIT_OF_POOLS + "; import os; print(gpuconf.visible_devices()[0].uuid == os.environ['CUDA_VISIBLE_DEVICES'])"
    )
    assert run("--memory", "1234567890", "python", "-c", show) == (0, "[1234567890]\nTrue\n", "")
    assert run("--memory=25%", "--gpus=2", "--growth", "-c", LIMIT_OF_POOLS) == (0, f"{[4 * GIB, 4 * GIB]}\n", "")
    whole = 16 * GIB - (1050 << 20)  # less what TensorFlow leaves to the system
    assert run("--gpus", "1", "--simulate", "T4:16GiB", "--", "python", "-c", LIMIT_OF_POOLS) == (0, f"{[whole]}\n", "")


def test_a_lease_of_cards_of_different_sizes_says_what_the_program_may_use_of_each() -> None:
    """The largest part stood in the lists for all cards, and the limit was that of the smallest one."""
    cards = {"GPUCONF_SIMULATE": "T4:8GiB,T4:16GiB"}
    show = ("sh", "-c", f"{COMMAND} lease --list; {COMMAND} ledger list; python -c {shlex.quote(LIMIT_OF_POOLS)}")
    code, out, err = run("--memory=25%", "--gpus=2", *show, variables=cards)
    assert (code, out.splitlines()[-1], out.count(" 2.00GiB 4.00GiB ")) == (0, f"{[2 * GIB, 2 * GIB]}", 2)
    assert err == (
        "gpuconf run: the lease has 2.00GiB or 4.00GiB of a card, and one limit for all: the program may use 2.00GiB "
        "of each\n"
    )


def test_a_command_gets_the_variables_and_its_own_options() -> None:
    show = "echo $CUPY_GPU_MEMORY_LIMIT $XLA_PYTHON_CLIENT_MEM_FRACTION $TF_FORCE_GPU_ALLOW_GROWTH $@"
    code, out, err = run("--memory", "4GiB", "--no-growth", "sh", "-c", show, "name", "--memory", "1", "--", "x")
    assert (code, out, err) == (0, f"{4 * GIB} 1.000000 false --memory 1 -- x\n", "")


LEASED = "import gpuconf; (one,) = gpuconf.leases.ledger.open_ledger().claims(); print(one.cards[0].bytes)"


@pytest.mark.parametrize(
    ("asked", "what"),
    [(("--memory", "4GiB"), "4.00GiB"), (("--gpus", "1"), "all memory"), (("--memory", "2GiB..4GiB"), "4.00GiB")],
    ids=["--memory", "--gpus", "MIN..MAX"],
)
@pytest.mark.parametrize("of_file", [False, True], ids=["variable", "file"])
def test_a_lease_does_not_raise_the_users_own_limit(
    tmp_path: Path, asked: tuple[str, str], what: str, of_file: bool
) -> None:
    """It did, and no message said so, although the variable is the most memory of a process."""
    if of_file:
        (tmp_path / "gpuconf.toml").write_text('limit = "1GiB"\n')
    code, out, err = run(
        *asked,
        *("python", "-c", LIMIT_OF_POOLS + "; from gpuconf.leases import ledger; " + LEASED),
        variables={} if of_file else {"GPUCONF_LIMIT": "1GiB"},
        cwd=tmp_path,
    )
    by = f"limit in {tmp_path / 'gpuconf.toml'}" if of_file else "GPUCONF_LIMIT"
    note = f"gpuconf run: {what} of each GPU was requested, and {by} allows 1.00GiB: that is the limit\n"
    assert (code, out, err) == (0, f"[{GIB}]\n{GIB}\n", note)
    assert run("--memory", "512MiB", "python", "-c", LIMIT_OF_POOLS, variables={"GPUCONF_LIMIT": "1GiB"}) == (
        *(0, f"[{GIB // 2}]\n"),
        "",
    )


def test_a_program_that_fails_at_its_own_limit_is_told_which() -> None:
    """--memory does not raise it."""
    code = "import ctypes, sys; d = ctypes.CDLL('libcuda.so.1'); p = ctypes.c_void_p(); d.cuInit(0); "
    code += "d.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0); d.cuCtxPushCurrent_v2(p); "
    code += "sys.exit(d.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(2 << 30)))"
    words = ("--simulate", "T4:16GiB", "--guard=proxy", "--memory", "4GiB", "python", "-c", code)
    status, _, err = run(*words, variables={"GPUCONF_LIMIT": "1GiB"})
    assert (status, err.endswith("at its limit of 1.00GiB. GPUCONF_LIMIT sets it\n")) == (2, True), err


def test_the_error_at_a_limit_names_what_would_raise_it() -> None:
    """It was --memory of gpuconf run, also where a lease in the program or a variable had set less."""
    code = """
    import os, subprocess, sys, gpuconf
    def said():
        try:
            gpuconf.memory.allocate("4GiB")
        except MemoryError as error:
            print(str(error).partition(" or ")[2].split(" (")[0], flush=True)
        gpuconf.reset()
    if os.environ["GPUCONF_LIMIT"] != "1GiB":
        said()
        with gpuconf.lease("2GiB"):
            said()
        with gpuconf.lease():
            said()
        os.environ["GPUCONF_LIMIT"] = "1GiB"
        subprocess.run([sys.executable, "-c", sys.argv[1]])
    else:
        said()
    """
    sets = "which sets this limit"
    job, inner, own = f"--memory of gpuconf run, {sets}.", f"the memory of gpuconf.lease, {sets}.", "GPUCONF_LIMIT"
    words = ("--memory", "3GiB", "python", "-c", code, code)
    assert run(*words)[1].splitlines() == [f"raise {job}", f"raise {inner}", f"raise {job}", f"raise {own}, {sets}"]
    lowered = [f"raise {own}, {sets}.", f"raise {inner}", f"raise {own}, {sets}.", f"raise {own}, {sets}"]
    assert run(*words, variables={"GPUCONF_LIMIT": "2500MiB"})[1].splitlines() == lowered
    assert run(*words[2:], variables={"GPUCONF_MEMORY": "3GiB"})[1].startswith(f"raise GPUCONF_MEMORY, {sets}.\n")


def test_other_simulated_cards_in_a_job_are_hidden_with_a_warning() -> None:
    """The program saw no GPU, and no message said why."""
    show = "import gpuconf; gpuconf.simulate('A100-40GB'); print(gpuconf.config.list_logical_devices('GPU'))"
    code, out, err = run("--simulate", "T4", "--memory", "4GiB", "--guard=off", "python", "-c", show)
    (said,) = err.splitlines()
    assert (code, out) == (0, "[]\n")
    assert "which the lease has set, names none of the simulated GPUs (A100-40GB" in said
    same = show.replace("A100-40GB", "T4")
    assert run("--simulate", "T4", "--memory", "4GiB", "--guard=off", "python", "-c", same)[2] == ""


def test_ranks_share_a_card() -> None:
    """As torchrun starts them."""
    code, out, err = run(
        "--memory=6GiB",
        "-c",
        f"""
        import os, subprocess, sys
        for rank in range(3):
            variables = dict(os.environ, LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="3")
            subprocess.run([sys.executable, "-c", {LIMIT_OF_POOLS!r}], env=variables, check=True)
        """,
    )
    assert (code, out, err) == (0, f"{[2 * GIB]}\n" * 3, "")


def test_a_run_inside_a_run_is_a_part_of_it(ledger: Ledger) -> None:
    code, out, err = run("--memory=3GiB", "--", COMMAND, "run", "--memory=1GiB", "-c", LIMIT_OF_POOLS)
    assert (code, out, err) == (0, f"{[GIB]}\n", "")
    code, out, err = run("--memory=3GiB", "--", COMMAND, "run", "--memory=4GiB", "-c", "print(1)")
    assert (code, out) == (1, "")
    assert "4.00GiB are requested inside lease" in err


# Waiting


def test_without_a_gpu_the_program_does_not_start() -> None:
    for command, more in (("run", []), ("lease", [])):
        code, out, err = run(
            "--memory", "1GiB", *more, "echo", "started", command=command, variables={"GPUCONF_SIMULATE": ""}
        )
        assert (code, out) == (3, "")
        assert err.startswith(f"gpuconf {command}: there is no GPU to lease: ")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ("0,0", "CUDA_VISIBLE_DEVICES='0,0' names 0 twice, so CUDA hides all GPUs"),
        ("7", "CUDA_VISIBLE_DEVICES='7' shows none"),
    ],
)
def test_a_hidden_gpu_is_not_a_missing_one(shown: str, why: str) -> None:
    code, out, err = run("--memory", "1GiB", "echo", "started", variables={"CUDA_VISIBLE_DEVICES": shown})
    assert (code, out) == (3, "")
    assert err == f"gpuconf run: there is no GPU to lease: {why}. Correct it, or unset it\n"


def test_a_timeout_lists_who_holds_the_memory(ledger: Ledger) -> None:
    holder = start("--memory=12GiB", "--gpus=2", "--name=training", "-c", "input()", stdin=subprocess.PIPE)
    wait_until(ledger.claims)
    for patience in ("--timeout=0.2", "--no-wait"):
        code, out, err = run("--memory=4GiB", patience, "-c", "print(1)")
        assert (code, out) == (124, "")
        assert f"process {holder.pid} training" in err
    assert err.startswith(
        "gpuconf run: 4.00GiB, with 320.00MiB for CUDA contexts, is not available on 1 of 2 cards.\n"
    ), "it used to add: within 0 s"
    waiting = start("--memory=4GiB", "-c", "print('my turn')")
    wait_until(lambda: len(ledger.claims()) == 2)
    assert holder.communicate("\n")[0] == ""
    assert waiting.communicate(timeout=30) == ("my turn\n", "")


def test_an_unknown_program_ends_the_wait(ledger: Ledger) -> None:
    """It was found missing when its turn came."""
    holder = start("--memory=12GiB", "--gpus=2", "-c", "input()", stdin=subprocess.PIPE)
    wait_until(ledger.claims)
    for program, why in (("no-such-program", "command not found"), ("no_such.py", "there is no such file")):
        assert run("--memory=4GiB", program) == (127, "", f"gpuconf run: {program}: {why}\n")
    assert holder.communicate("\n")[0] == ""


def test_a_wait_is_shown_on_a_terminal_until_it_ends(ledger: Ledger) -> None:
    """It used to look like a program that hangs."""
    with ledger.claim(cards(15 * GIB), 2):
        pid, terminal = start_in_a_terminal([COMMAND, "run", "--memory=4GiB", "-c", "print('my turn')"], env())
        line = b"\r\033[Kgpuconf run: waiting for 4GiB on 1 GPU (see gpuconf lease --list)"
        seen = b""
        while line not in seen:
            assert select.select([terminal], [], [], 30)[0], seen
            seen += os.read(terminal, 4096)
    with contextlib.suppress(OSError):  # it has ended
        while select.select([terminal], [], [], 30)[0]:
            seen += os.read(terminal, 4096)
    os.close(terminal)
    assert seen == line + b"\r\033[Kmy turn\r\n"
    assert os.waitpid(pid, 0)[1] == 0


def test_ctrl_c_ends_the_wait(ledger: Ledger) -> None:
    with ledger.claim(cards(15 * GIB), 2):
        waiting = start("--memory=4GiB", "-c", "print(1)")
        wait_until(lambda: len(ledger.claims()) == 2)
        time.sleep(0.1)
        waiting.send_signal(signal.SIGINT)
        assert (waiting.wait(10), waiting.communicate()) == (130, ("", ""))
        wait_until(lambda: len(ledger.claims()) == 1)


def cards(nbytes: int) -> list[Any]:
    import gpuconf
    from gpuconf.leases.ledger import Card

    with gpuconf.simulate("2xT4:16GiB"):
        return [Card(device.uuid, device.total_memory, nbytes) for device in gpuconf.visible_devices()]


# As if the shell had started it

TERMINAL = """
import os, signal, sys
print(sys.stdin.isatty(), os.getpgrp() == os.tcgetpgrp(0), os.get_terminal_size(), sys.stdin.readline())
print([s for s in range(1, 32) if signal.getsignal(s) != signal.SIG_DFL], signal.pthread_sigmask(0, ()), flush=True)
try:
    signal.pause()
except KeyboardInterrupt:
    print("interrupted once")
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGINT)
"""


def in_a_terminal(words: list[str]) -> tuple[str, int]:
    """Run a command in a terminal of its own, with a line of input and Ctrl-C.

    Returns the output and the wait status.
    """
    pid, terminal = start_in_a_terminal(words, env())
    os.write(terminal, b"a line\n")
    seen = b""
    pressed = False
    while True:
        assert select.select([terminal], [], [], 30)[0], seen
        try:
            more = os.read(terminal, 4096)
        except OSError:  # it has ended
            break
        if not more:
            break
        seen += more
        if seen.count(b"\r\n") >= 3 and not pressed:
            pressed = True
            time.sleep(0.2)
            os.write(terminal, b"\x03")
    os.close(terminal)
    return seen.decode(), os.waitpid(pid, 0)[1]


def test_in_a_terminal_it_is_as_bare() -> None:
    bare = in_a_terminal([sys.executable, "-c", TERMINAL])
    assert "interrupted once" in bare[0]
    assert os.WTERMSIG(bare[1]) == signal.SIGINT
    assert in_a_terminal([COMMAND, "run", "--memory", "1GiB", "python", "-c", TERMINAL]) == bare


def test_it_stops_and_continues_with_the_program() -> None:
    code = "print('ready', flush=True); input(); print('done')"
    process = start("--memory=1GiB", "-c", code, stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    os.killpg(process.pid, signal.SIGCONT)
    assert process.communicate("\n", timeout=30) == ("done\n", "")


def test_a_program_that_stops_itself_stops_the_command() -> None:
    process = start(
        "--memory=1GiB",
        "-c",
        "import os, signal; os.kill(os.getpid(), signal.SIGTSTP); print('on')",
        start_new_session=True,
    )
    # In a session without a terminal the kernel ignores SIGTSTP; SIGSTOP it does not.
    assert process.communicate(timeout=30) == ("on\n", "")
    process = start(
        "--memory=1GiB",
        "-c",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); print('on')",
        start_new_session=True,
    )
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    os.killpg(process.pid, signal.SIGCONT)
    assert process.communicate(timeout=30) == ("on\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT, signal.SIGRTMIN + 3])
def test_signals_are_passed_on(number: int) -> None:
    code = f"""
        import signal
        signal.signal({number:d}, lambda *_: None)
        print("ready", flush=True)
        signal.pause()
        print("taken", flush=True)
        signal.signal({number:d}, signal.SIG_DFL)
        signal.pause()
        """
    process = start("--memory=1GiB", "-c", code)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(number)
    assert process.stdout.readline() == "taken\n"
    time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(20) == -number
    process.communicate()


@pytest.mark.parametrize(
    ("end", "code"), [("exit 7", 7), ("kill -9 $$", -9), ("kill -SEGV $$", -11), ("kill -37 $$", -37)]
)
def test_exit_codes(end: str, code: int) -> None:
    assert run("--memory", "1GiB", "sh", "-c", end) == (code, "", "")


def test_a_parent_that_ignores_its_children() -> None:
    """The command inherits that, and would not learn how the program ended."""
    words = [COMMAND, "run", "--memory=1GiB", "--", "sh", "-c", "exit 7"]
    script = (
        "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.execv(sys.argv[1], sys.argv[1:])"
    )
    assert subprocess.run([sys.executable, "-c", script, *words], env=env(), check=False, timeout=60).returncode == 7


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("lease", ["--memory=1GiB", "--growth"], ids=["lease", "no lease"])
def test_exit_codes_with_closed_streams(closed: str, lease: str) -> None:
    for end in ("exit 7", "kill -9 $$"):
        codes = []
        for before in ("", f"{COMMAND} run {lease} -- "):
            done = subprocess.run(
                ["bash", "-c", f"exec {before}sh -c '{end}' {closed}"], env=env(), check=False, timeout=60
            )
            codes.append(done.returncode)
        assert codes[0] == codes[1]


def test_standard_input_and_open_files_are_the_programs(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+") as file:
        os.set_inheritable(file.fileno(), True)
        copy = f"import os; os.write({file.fileno()}, input().encode())"
        words = [COMMAND, "run", "--memory=1GiB", "python", "-c", copy]
        assert execute(words, env=env(), input="in\n", check=True, close_fds=False).stdout == ""
        assert (tmp_path / "file").read_text() == "in"


# Who keeps the memory


def test_children_keep_the_lease_when_everything_above_them_is_killed(ledger: Ledger) -> None:
    """As a worker of torchrun: started by subprocess, which closes the descriptors that it does not know."""
    code = """
        import os, subprocess, sys
        worker = subprocess.Popen([sys.executable, "-c", "input()"])
        print(os.getpid(), flush=True)
        worker.wait()
        """
    process = start("--memory=10GiB", "-c", code, stdin=subprocess.PIPE)
    assert process.stdout is not None
    middle = int(process.stdout.readline())
    process.kill()
    os.kill(middle, signal.SIGKILL)
    process.wait()
    time.sleep(0.3)
    assert [row.gone for row in ledger.claims()] == [True]
    process.communicate("\n", timeout=20)  # the worker ends
    wait_until(lambda: ledger.claims() == [])


def test_a_daemon_keeps_the_lease_after_the_program(ledger: Ledger) -> None:
    code = """
        import subprocess, sys
        worker = subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], stdout=subprocess.PIPE)
        worker.stdout.readline()
        """
    process = start("--memory=10GiB", "-c", code, stdin=subprocess.PIPE)
    assert process.wait(20) == 0
    assert [row.gone for row in ledger.claims()] == [True]
    process.communicate("\n", timeout=20)
    wait_until(lambda: ledger.claims() == [])


# The report


def test_the_report(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    code = "import gpuconf; b = gpuconf.memory.allocate(1 << 30); b.free(); gpuconf.memory.allocate(4 << 30)"
    done = run("--memory=3GiB", "--report", "--json-report", str(file), "python", "-c", code)
    assert done[0] == 1
    line = done[2].splitlines()[-1]
    assert line.startswith("gpuconf run: ")
    assert "; peak gpuconf 1.00GiB of 3.00GiB; guard (preload): peak 3.00GiB; OOM when allocating 4.00GiB" in line
    report = json.loads(file.read_text())
    assert report["schema"] == 1
    assert (report["exit_code"], report["signal"], report["peak_bytes"]) == (1, None, {"gpuconf": GIB})
    assert report["lease"]["memory_limit"] == 3 * GIB
    assert (report["lease"]["memory_kinds"], report["lease"]["memory_sources"]) == (["dedicated"], ["simulation"])
    assert report["not_limited"] == []
    assert len(report["out_of_memory"]) == 1


def test_the_report_of_several_gpus() -> None:
    """The peak is that of all GPUs, and exceeded the limit of one."""
    code = "import gpuconf; kept = [gpuconf.memory.allocate(1 << 30, f'GPU:{i}') for i in range(2)]"
    done = run(
        "--memory=1GiB", "--gpus=2", "--report", "python", "-c", code, variables={"GPUCONF_SIMULATE": "2xT4:16GiB"}
    )
    assert (done[0], "; peak gpuconf 2.00GiB of 1.00GiB on each of 2 GPUs" in done[2]) == (0, True), done


def test_the_report_of_a_real_time_signal(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    number = signal.SIGRTMIN + 3
    assert run("--memory=1GiB", f"--json-report={report}", "sh", "-c", f"kill -{number} $$") == (-number, "", "")
    assert json.loads(report.read_text())["signal"] == "SIGRTMIN+3"


def test_no_room_for_files_is_not_an_error_of_standard_output() -> None:
    done = execute(["bash", "-c", f"ulimit -n 6; exec {COMMAND} run --memory=1GiB -- true"], env=env())
    assert (done.returncode, done.stderr) == (1, "gpuconf run: Too many open files\n")


def test_pythons_that_skip_the_startup_code_are_reported() -> None:
    code, out, err = run("--memory=1GiB", sys.executable, "-I", "-c", "print(1)")
    assert (code, out) == (0, "1\n")
    assert "is limited, but did not get gpuconf's settings: Python's option -I disables startup code" in err
    use = "import gpuconf, time; gpuconf.visible_devices(); time.sleep(0.7)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {use!r}], env={{}})"
    code, out, err = run("--memory=1GiB", "python", "-c", child)
    assert (code, out) == (0, "")
    assert "is limited, but did not get gpuconf's settings: its environment was cleared" in err
    assert err.count("\n") == 1
    assert run("--memory=1GiB", "python", "-I", "-c", "", variables={"GPUCONF_DISABLE": "1"}) == (0, "", "")


# gpuconf lease


@pytest.mark.parametrize("guard", ["off", "auto"])
def test_looking_for_processes_without_a_limit_does_not_disturb_the_others(guard: str) -> None:
    """The list of 20,000 mappings is a megabyte, which the kernel writes while the process can make no other
    mapping.
    """
    code = """
        import mmap, time
        kept = [mmap.mmap(-1, 8192, prot=mmap.PROT_READ | (mmap.PROT_WRITE if i % 2 else 0)) for i in range(20000)]
        print("ready", flush=True)
        time.sleep(3)
        """
    process = start("--memory=1GiB", f"--guard={guard}", "-c", code)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    bytes_read = []
    for _ in range(2):
        bytes_read.append(int(Path(f"/proc/{process.pid}/io").read_text().split()[1]))
        time.sleep(2)
    assert process.communicate(timeout=30)[1] == ""
    assert bytes_read[1] - bytes_read[0] < 4_000_000


def test_a_folder_for_temporary_files_that_may_not_be_listed() -> None:
    code = """
        import os, sys
        from gpuconf.jobs.budget import budgets
        from gpuconf.jobs.job import Job
        os.chmod(sys.argv[1], 0o333)
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        with Job() as job:
            print(os.path.dirname(job.folder) == sys.argv[1], budgets())
        """
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", textwrap.dedent(code), folder]
        done = execute(words, env={**env(TMPDIR=folder), "XDG_RUNTIME_DIR": ""})
        os.chmod(folder, 0o700)
    assert (done.stdout, done.stderr) == ("True []\n", "")


def test_a_ledger_that_is_removed_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCONF_LEDGER", str(tmp_path / "other"))
    ledger = open_ledger()
    running = start("--memory=1GiB", "-c", "input()", stdin=subprocess.PIPE)
    wait_until(ledger.claims)
    assert running.stderr is not None
    for name in os.listdir(ledger.folder):
        os.unlink(os.path.join(ledger.folder, name))
    assert running.stderr.readline().startswith(
        f"gpuconf run: the ledger {ledger.folder}, or the file in it with lease "
    )
    assert running.communicate("\n")[1] == ""
    assert running.returncode == 0


def test_a_shell_holds_a_lease(ledger: Ledger) -> None:
    listing = f"{COMMAND} lease --list --json"
    code, out, err = run("--memory=2GiB", "--name=me", command="lease", input=listing, variables={"SHELL": "/bin/sh"})
    assert (code, err) == (0, "")
    leases = json.loads(out)["leases"]
    assert [(one["name"], one["state"], one["command"], one["cards"][0]["bytes"]) for one in leases] == [
        ("me", "granted", "/bin/sh", 2 * GIB)
    ]
    assert run("--list", command="lease") == (0, "no leases\n", "")
    code, out, err = run("--list", "extra", command="lease")
    assert (code, out, "--list takes no command, but got 'extra'" in err) == (2, "", True)
    code, out, err = run("--memory=2GiB", "--", COMMAND, "lease", "--list", command="lease")
    assert out.splitlines()[0].split() == ["PID", "user", "name", "state", "GPU", "memory", "time", "command"]
    assert " 2.00GiB " in out.splitlines()[1]
    assert run(command="lease")[0] == 2


# Many programs

PROGRAM = """
import random, sys, time
import gpuconf
need, seconds = int(sys.argv[1]), float(sys.argv[2])
limit = gpuconf.memory.stats("GPU:0").bytes_limit
held = [gpuconf.memory.allocate(need // 8) for _ in range(8)]
time.sleep(seconds)
try:
    gpuconf.memory.allocate(limit - need + (1 << 20))
    print("more than its bytes")
except MemoryError:
    print(limit)
[one.free() for one in held]
"""


def test_programs_of_different_needs_share_the_cards(ledger: Ledger, tmp_path: Path) -> None:
    """A sample of integrations/test_many_programs.py."""
    (tmp_path / "program.py").write_text(PROGRAM)
    needs = [8, 6, 12, 5, 9, 3]
    processes = {}
    for gib in needs:
        words = ["--memory", f"{gib}GiB", "python", str(tmp_path / "program.py"), str((gib - 1) << 30), "0.3"]
        processes[gib] = start(*words)
    killed = processes.pop(3)
    time.sleep(0.2)
    killed.kill()
    killed.communicate()
    while any(process.poll() is None for process in processes.values()):
        leased: dict[str, int] = {}
        for row in ledger.claims():
            for card in row.cards if row.state == "granted" else ():
                leased[card.uuid] = leased.get(card.uuid, 0) + card.bytes
        assert all(count <= 16 * GIB for count in leased.values())
        time.sleep(0.05)
    for gib, process in processes.items():
        assert process.communicate() == (f"{gib << 30}\n", "")


def test_a_python_below_a_pid_namespace_that_is_limited_is_not_reported() -> None:
    """Its own report has its PID in there. A container is one process that lives for seconds, as here."""
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--map-root-user", "--user", "--mount"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make namespaces")
    program = "import os, time; print(os.getpid(), os.environ['GPUCONF_LIMIT']); time.sleep(4)"
    assert run("--memory=1GiB", *inside, sys.executable, "-c", program) == (0, f"1 {1 << 30}\n", "")
    code, _, err = run("--memory=1GiB", *inside, sys.executable, "-I", "-c", program)
    assert code == 0
    assert "is limited, but did not get gpuconf's settings: Python's option -I disables startup code" in err


def test_a_program_that_leases_gets_a_part_of_the_jobs_lease(tmp_path: Path) -> None:
    """As a nested ``gpuconf run`` does. It was a NestingError."""
    (tmp_path / "x.py").write_text("""
import os, gpuconf
from gpuconf.leases.ledger import open_ledger

def state():
    (claim,) = open_ledger().claims()
    published = [(one.claim_id == claim.id, one.pid == os.getpid()) for one in open_ledger().processes()]
    return os.environ["GPUCONF_LEASE"] == claim.id, os.environ["GPUCONF_LIMIT"], published

before = state()
for memory, limit in (("1GiB", 1 << 30), ("2GiB", 2 << 30), (None, 3 << 30)):
    with gpuconf.lease(memory=memory, timeout=0) as leased:
        assert leased.memory == gpuconf.memory.stats("GPU:0").bytes_limit == limit
        assert leased.gpus == [os.environ["CUDA_VISIBLE_DEVICES"]]
        assert state() == (True, str(limit), [(True, True)]), state()
        try:
            gpuconf.lease(memory="1GiB").__enter__()
        except gpuconf.errors.NestingError:
            print("nested")
    assert state() == before == (True, str(3 << 30), [(True, True)]), (before, state())
try:
    gpuconf.lease(memory="4GiB").__enter__()
except gpuconf.errors.FailedPreconditionError as error:
    print(error)
assert gpuconf.memory.stats("GPU:0").bytes_limit == 3 << 30
""")
    code, out, err = run("--memory=3GiB", "python", str(tmp_path / "x.py"))
    assert (code, err) == (0, "")
    assert out.startswith("nested\n" * 3 + "4.00GiB are requested inside lease ")
    assert "which has 3.00GiB of each GPU: request less memory" in out
