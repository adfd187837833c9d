"""The ledger, from Python: claims across processes, Ctrl-C, forks, figures."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import pwd
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import gpuconf
import pytest
from gpuconf import errors
from gpuconf._core import settings
from gpuconf.cli.main import main
from gpuconf.leases import ledger as _ledger
from gpuconf.leases.ledger import Card, CardLease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GIB = 1 << 30
CARD = "GPU-4d1ee11c-4cd2-4b5c-8a6d-6a2bfd9a3ba1"


def card(gib: int, uuid: str = CARD, **fields: int) -> Card:
    return Card(uuid, 40 * GIB, gib * GIB, **fields)


@pytest.fixture
def ledger(tmp_path: Path) -> _ledger.Ledger:
    return _ledger.open_ledger(str(tmp_path / "ledger"))


_HOLD = """
import sys, time
from gpuconf.leases import ledger as _ledger
from gpuconf.leases.ledger import Card
claim = _ledger.open_ledger(sys.argv[1]).claim([Card(sys.argv[2], 40 << 30, int(sys.argv[3]) << 30)], name="holder")
print("granted", flush=True)
sys.stdin.read()
"""


def hold(ledger: _ledger.Ledger, gib: int, wait: bool = True) -> subprocess.Popen[str]:
    """Start a process that holds bytes of the card until its standard input ends."""
    command = [sys.executable, "-c", _HOLD, ledger.folder, CARD, str(gib)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if wait:
        assert process.stdout is not None
        assert process.stdout.readline() == "granted\n"
    return process


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_claim_is_listed_and_released(ledger: _ledger.Ledger) -> None:
    with ledger.claim([card(10)], name="mine", job="job 7", command="train.py") as claim:
        assert claim.cards == (CardLease(CARD, 10 * GIB, 10 * GIB),)
        (row,) = ledger.claims()
        assert (row.id, row.pid, row.uid, row.state) == (claim.id, os.getpid(), os.geteuid(), "granted")
        assert (row.name, row.job, row.command) == ("mine", "job 7", "train.py")
        assert row.cards == claim.cards
        assert row.local
        assert not row.gone
        assert row.start_time == int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    assert ledger.claims() == []
    assert ledger.check() == []
    with pytest.raises(errors.FailedPreconditionError, match="released"):
        claim.fileno()
    claim.release()


def test_a_dropped_claim_is_released(ledger: _ledger.Ledger) -> None:
    claim = ledger.claim([card(10)])
    assert len(ledger.claims()) == 1
    del claim
    gc.collect()
    assert ledger.claims() == []


def test_a_timeout_names_who_holds_the_memory(ledger: _ledger.Ledger) -> None:
    holder = hold(ledger, 30)
    try:
        with pytest.raises(errors.DeadlineExceededError) as raised:
            ledger.claim([card(20, reserve=2 * GIB, foreign=GIB)], timeout=0.2)
    finally:
        end(holder)
    text = str(raised.value)
    assert "20.00GiB was not available on 1 of 1 card within 0.2 s" in text
    assert f"process {holder.pid} holder, user {pwd.getpwuid(os.geteuid()).pw_name}: 30.00GiB" in text
    assert f"{CARD}: 7.00GiB of 38.00GiB left, 30.00GiB leased, 1.00GiB in use outside the ledger" in text
    assert ledger.claims() == []


def test_a_timeout_names_the_ten_largest_holders(ledger: _ledger.Ledger) -> None:
    with contextlib.ExitStack() as held:

        def holders() -> list[str]:
            with pytest.raises(errors.DeadlineExceededError) as raised:
                ledger.claim([Card(CARD, 80 * GIB, 70 * GIB)], timeout=0)
            return re.findall(r"^  (?:process .*: )?([\d.]+GiB(?= for)|and .*)", str(raised.value), re.MULTILINE)

        for gib in range(2, 12):
            held.enter_context(ledger.claim([Card(CARD, 80 * GIB, gib * GIB)]))
        assert holders() == [f"{gib}.00GiB" for gib in range(11, 1, -1)]
        held.enter_context(ledger.claim([Card(CARD, 80 * GIB, GIB)]))
        assert holders() == [*(f"{gib}.00GiB" for gib in range(11, 1, -1)), "and 1 more"]


def test_a_stopped_waiter_is_in_nobodys_way(
    ledger: _ledger.Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each new process used to wait 5 s for it, and with a shorter timeout it failed, on empty cards."""
    holder = hold(ledger, 30)
    waiter = hold(ledger, 20, wait=False)
    try:
        eventually(lambda: len(ledger.claims()) == 2)
        with pytest.raises(errors.DeadlineExceededError) as raised:  # 10 GiB are left, which it waits for
            ledger.claim([card(5)], timeout=0)
        user = pwd.getpwuid(os.geteuid()).pw_name
        text = f"process {waiter.pid} holder, user {user}: waits before this one for 20.00GiB on 1 of 1 card"
        assert text in str(raised.value)
        waiter.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{waiter.pid}/task")
        eventually(lambda: all(task.read_text().rsplit(") ", 1)[1][0] == "T" for task in tasks.glob("*/stat")))
        end(holder)
        eventually(lambda: ledger.claims()[0].stopped)
        monkeypatch.setenv("GPUCONF_LEDGER", ledger.folder)
        for command in (["lease", "--list"], ["ledger", "list"]):
            assert main(command) == 0
            assert " stopped " in capsys.readouterr().out
        claims = "_ledger.open_ledger(sys.argv[1]).claim([Card(sys.argv[2], 40 << 30, 30 << 30)], timeout={})"
        for timeout in (0, 1):  # of a process that has never seen it
            code = "import sys; from gpuconf.leases import ledger as _ledger; from gpuconf.leases.ledger import Card; "
            subprocess.run([sys.executable, "-c", code + claims.format(timeout), ledger.folder, CARD], check=True)
        waiter.send_signal(signal.SIGCONT)
        eventually(lambda: ledger.claims()[0].state == "granted")
        assert ledger.check() == []
    finally:
        end(holder)
        end(waiter)


def test_a_claim_waits_for_the_end_of_a_killed_process(ledger: _ledger.Ledger) -> None:
    holder = hold(ledger, 30)
    threading.Timer(0.2, holder.kill).start()
    with ledger.claim([card(20)], timeout=60) as claim:
        assert claim.cards == (CardLease(CARD, 20 * GIB, 20 * GIB),)
    end(holder)


def test_a_function_is_asked_again_while_waiting(ledger: _ledger.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ledger, "_REFRESH_S", 0.01)
    asked: list[Card] = []

    def cards() -> list[Card]:
        asked.append(card(20, foreign=0 if len(asked) > 3 else 30 * GIB))
        return asked[-1:]

    with ledger.claim(cards, timeout=60):
        assert len(asked) == 5


def test_ctrl_c_ends_the_wait_and_withdraws_the_request(ledger: _ledger.Ledger) -> None:
    holder = hold(ledger, 30)
    try:
        waiter = hold(ledger, 20, wait=False)
        eventually(lambda: len(ledger.claims()) == 2)
        waiter.send_signal(signal.SIGINT)
        assert waiter.wait(timeout=30) == -signal.SIGINT
        assert len(ledger.claims()) == 1
        end(waiter)
    finally:
        end(holder)


def test_a_child_that_inherits_the_descriptor_keeps_the_claim(ledger: _ledger.Ledger) -> None:
    code = f"""
import subprocess, sys
from gpuconf.leases import ledger as _ledger
from gpuconf.leases.ledger import Card
claim = _ledger.open_ledger({ledger.folder!r}).claim([Card({CARD!r}, {40 * GIB}, {30 * GIB})])
subprocess.Popen(["cat"], pass_fds=[claim.fileno()], stdout=subprocess.DEVNULL)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert parent.wait() == 0
    (row,) = ledger.claims()
    assert row.gone
    assert row.pid == parent.pid
    assert row.holders == (), "agents read the rows all the time, and do not look at all processes"
    assert ledger.check() == []
    ((child,),) = [row.holders for row in ledger.claims(holders=True)]
    assert Path(f"/proc/{child}/comm").read_text() == "cat\n"
    with pytest.raises(errors.DeadlineExceededError, match=f"ended; process {child} holds the lease"):
        ledger.claim([card(20)], timeout=0)
    parent.communicate()  # ends cat's input
    with ledger.claim([card(20)], timeout=60):
        pass


def _nap(pipe: object) -> None:
    pipe.recv()  # type: ignore[attr-defined]


def test_a_forked_child_does_not_keep_the_claim(ledger: _ledger.Ledger) -> None:
    ours, theirs = multiprocessing.Pipe()
    claim = ledger.claim([card(30)])
    ledger.publish(claim.id)
    child = multiprocessing.get_context("fork").Process(target=_nap, args=(theirs,))
    child.start()
    claim_fd, ledger_claims = claim.fileno(), ledger.claims()
    assert len(ledger_claims) == 1
    os.close(claim_fd)  # as at the end of this process, which the child outlives
    _ledger._descriptors.discard(claim_fd)
    _ledger.unpublish()
    eventually(lambda: ledger.claims() == [])  # when the child has run its hooks
    assert ledger.processes() == []
    ours.send(None)
    child.join()
    with open(os.devnull) as taken:  # the number, which release closes
        os.dup2(taken.fileno(), claim_fd)
    claim.release()


def test_a_forked_child_keeps_a_file_that_has_a_dropped_claims_number(ledger: _ledger.Ledger) -> None:
    claim = ledger.claim([card(1)])
    number = claim.fileno()
    del claim
    gc.collect()
    os.dup2(2, number)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if os.path.exists(f"/proc/self/fd/{number}") else 1)
    assert os.waitpid(pid, 0)[1] == 0
    os.close(number)


def test_a_forked_child_refuses(ledger: _ledger.Ledger) -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ledger.claims()
        except errors.ForkedProcessError:
            os.write(write, b"refused")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 10) == b"refused"
    os.close(read)
    os.close(write)


def test_figures_follow_the_pools(ledger: _ledger.Ledger) -> None:
    ledger.publish(command="figures")
    (row,) = ledger.processes()
    assert (row.pid, row.command, row.claim_id, row.pools) == (os.getpid(), "figures", "", ())
    gpuconf.simulate("2xT4")
    gpuconf.configure(limit="4GiB", growth=True)
    buffer = gpuconf.memory.allocate("1GiB", "GPU:1")
    stats = gpuconf.memory.stats("GPU:1")
    (row,) = ledger.processes()
    first, second = row.pools
    assert (second.number, second.uuid) == (1, gpuconf.visible_devices()[1].uuid)
    assert (first.limit, first.reserved, first.in_use, first.peak) == (4 * GIB, 0, 0, 0)
    assert (second.limit, second.reserved, second.in_use, second.peak) == (4 * GIB, stats.bytes_reserved, GIB, GIB)
    abi = ctypes.CDLL(gpuconf.library_path())
    abi.gpuconf_malloc.restype = ctypes.c_void_p
    with gpuconf.device("GPU:1"):
        address = abi.gpuconf_malloc(ctypes.c_size_t(5000), 1, None)
    (row,) = ledger.processes()
    assert row.pools[1].libraries == {"gpuconf": GIB, "c": 5120}
    assert row.pools[0].libraries == {}
    abi.gpuconf_free(ctypes.c_void_p(address), ctypes.c_size_t(5000), 1, None)
    buffer.free()
    (row,) = ledger.processes()
    assert (row.pools[1].in_use, row.pools[1].peak, row.pools[1].libraries) == (0, GIB + 5120, {})
    gpuconf.reset()
    assert ledger.processes()[0].pools == ()
    _ledger.unpublish()
    assert ledger.processes() == []


def test_a_process_of_a_claim_names_it(ledger: _ledger.Ledger) -> None:
    with ledger.claim([card(1)]) as claim:
        ledger.publish(claim.id)
        assert ledger.processes()[0].claim_id == claim.id
        _ledger.unpublish()
    with pytest.raises(errors.InvalidArgumentError, match="32 hexadecimal digits"):
        ledger.publish("x")


@pytest.mark.parametrize(
    ("cards", "count", "text"),
    [
        ([], 1, "1 to 64 cards"),
        ([card(41)], 1, "on 1 card can never be leased"),
        ([card(40, reserve=GIB)], 1, "can never be leased"),
        (
            [card(20), card(20, CARD[:-1] + "2", reserve=30 * GIB)],
            2,
            "each of 2 cards can never be leased: only 1 of the 2 cards can hold",
        ),
        ([card(1)], 2, "2 cards requested, but there are only 1"),
        ([card(1), card(1)], 1, "named twice"),
        ([Card(CARD, -1, 1)], 1, "must be 0 to"),
        ([Card(CARD, 1 << 60, 1)], 1, "must be 0 to"),
    ],
)
def test_invalid_requests(ledger: _ledger.Ledger, cards: list[Card], count: int, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        ledger.claim(cards, count)
    assert ledger.claims() == []


def test_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="there is no ledger"):
        _ledger.open_ledger(str(tmp_path / "none"), create=False)
    assert not (tmp_path / "none").exists()
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(errors.FailedPreconditionError, match="not a ledger, and not empty"):
        _ledger.open_ledger(str(tmp_path))


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "MACHINE_FOLDER", str(tmp_path / "machine"))
    user = os.geteuid()
    assert settings.default_folder({"GPUCONF_LEDGER": str(tmp_path)}) == str(tmp_path)
    # A login has them, and cron has not.
    for variables in ({}, {"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}):
        assert settings.default_folder(variables) == f"/var/tmp/gpuconf-{user}"
    _ledger.init_shared(str(tmp_path / "machine"))
    assert settings.default_folder({}) == str(tmp_path / "machine")
    assert _ledger.open_ledger(str(tmp_path / "machine")).shared


HOLDER = """
import sys
from gpuconf.leases.ledger import open_ledger
from gpuconf.leases.ledger import Card
claim = open_ledger(sys.argv[1]).claim([Card(sys.argv[2], 40 << 30, 30 << 30)])
print(1, flush=True)
input()
claim.release()
"""


@pytest.fixture(params=[0, 3000])
def open_files(request: pytest.FixtureRequest) -> Iterator[None]:
    """More open files than the core looks at before it asks whether any has a lock."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[0] != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], request.param + 1000), limits[1]))
    with contextlib.ExitStack() as files:
        for _ in range(request.param):
            files.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("removed", ["all", "slots-*"])
def test_a_ledger_that_is_removed_in_use_leases_nothing_twice(open_files: None, tmp_path: Path, removed: str) -> None:
    """As a logout does with a run-time directory. The next ledger used to lease the whole card again."""
    folder = tmp_path / "ledger"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), CARD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "1\n"
    for path in folder.glob("*" if removed == "all" else removed):
        path.unlink()
    who = rf"process {holder.pid} \(python.*\) has a lease in {folder}, in a file that was removed while it was in use"
    with pytest.raises(errors.FailedPreconditionError, match=who + ". A lease here could take the same memory again"):
        _ledger.open_ledger(str(folder)).claim([card(20)])
    assert [re.search(who, text) is not None for text in _ledger.lost(str(folder))] == [True]
    holder.communicate("\n")
    with _ledger.open_ledger(str(folder)).claim([card(20)]):
        assert _ledger.lost(str(folder)) == []


def test_a_process_publishes_by_itself_where_there_is_a_ledger(
    ledger: _ledger.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCONF_LEDGER", ledger.folder)
    gpuconf.simulate("2xT4")
    assert ledger.processes() == []
    with ledger.claim([card(1)]) as claim:
        monkeypatch.setenv("GPUCONF_LEASE", claim.id)
        buffer = gpuconf.memory.allocate("1GiB")
        (row,) = ledger.processes()
        assert (row.pid, row.claim_id) == (os.getpid(), claim.id)
        assert "python" in row.command
        assert [pool.in_use for pool in row.pools] == [GIB, 0]
        buffer.free()
        gpuconf.reset()
        assert ledger.processes() == []


def test_a_forked_child_does_not_keep_what_was_published(ledger: _ledger.Ledger) -> None:
    code = """
import os, gpuconf
gpuconf.simulate("T4")
gpuconf.config.list_logical_devices()
if os.fork() == 0:
    os.execvp("cat", ["cat"])
"""
    environment = {**os.environ, "GPUCONF_LEDGER": ledger.folder}
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, env=environment)
    assert parent.wait() == 0
    eventually(lambda: ledger.processes() == [])  # when the child has run its hooks
    parent.communicate()


def test_a_damaged_ledger_does_not_stop_a_program(
    ledger: _ledger.Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GPUCONF_LEDGER", ledger.folder)
    Path(ledger.folder, "ledger").write_text("damaged")
    gpuconf.simulate("T4")
    gpuconf.memory.allocate("1GiB").free()
    assert "the ledger does not show this process's use of GPUs" in caplog.text
    assert f"{ledger.folder}/ledger is damaged" in caplog.text
