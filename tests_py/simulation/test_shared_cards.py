"""Simulated cards that the processes of a job share: one process has what another left, and all agree on how much that
is.
"""

import json
import os
import random
import re
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import script
from asked_program import AskedProgram
from fake_nvml import fake_nvml
from gpuconf import errors
from gpuconf.jobs import budget_file, simulated_cards

ROOT = Path(__file__).resolve().parents[2]
CARDS = [
    f"GPU-{0xF0 - 3 * i:02x}ced00d-1234-4567-89ab-cdef012345{i:02x}" for i in range(2)
]  # of tests_go/machine/fakecuda
MIB = 1 << 20
SIZE = 1024 * MIB
PRELUDE = """
import ctypes, json, os, socket, sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
cu = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
assert cu.cuInit(0) == 0
contexts = [c_void_p(), c_void_p()]
for gpu in range(2):
    assert cu.cuDevicePrimaryCtxRetain(byref(contexts[gpu]), gpu) == 0
def on(gpu):
    assert cu.cuCtxSetCurrent(contexts[gpu]) == 0
def allocate(mib):
    at = c_uint64()
    result = cu.cuMemAlloc_v2(byref(at), c_size_t(mib * MIB))
    return at.value if result == 0 else -result
def free(at):
    return cu.cuMemFree_v2(c_uint64(at))
def left():
    available, total = c_size_t(), c_size_t()
    assert cu.cuMemGetInfo_v2(byref(available), byref(total)) == 0
    return available.value // MIB
on(0)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the driver and NVML."""
    folder = tmp_path_factory.mktemp("driver")
    runpy.run_path(str(ROOT / "tests_go/machine/fakecuda/build.py"))["build"](folder, 13000)
    return fake_nvml(folder)


@pytest.fixture
def cards() -> Iterator[simulated_cards.OwnedCards]:
    with simulated_cards.share(dict.fromkeys(CARDS, SIZE)) as made:
        yield made


def environment(library: Path, path: str) -> dict[str, str]:
    ours = {"LD_LIBRARY_PATH": str(library), "FAKECUDA_GPUS": "2", "FAKECUDA_MEMORY": str(SIZE)}
    return {**script.plain(), **ours, simulated_cards.VARIABLE: path}


class Program(AskedProgram):
    """A process that uses the cards."""

    def __init__(self, library: Path, path: str) -> None:
        super().__init__(PRELUDE, env=environment(library, path))


def eventually(program: Program, ask: str) -> None:
    """A question looks for processes that have ended every 20 ms."""
    deadline = time.monotonic() + 60
    while program.ask(ask) is not True:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def used(cards: simulated_cards.SimulatedCards, gpu: int = 0) -> dict[int, int]:
    """MiB by process."""
    return {one.pid: one.used // MIB for one in cards.usage()[CARDS[gpu]].processes if one.used}


def test_a_second_process_has_what_the_first_left(library: Path, cards: simulated_cards.OwnedCards) -> None:
    with Program(library, cards.path) as a, Program(library, cards.path) as b:
        assert (a.ask("left()"), b.ask("left()")) == (1024, 1024)
        at = a.ask("allocate(800)")
        assert (a.ask("left()"), b.ask("left()")) == (224, 224)
        assert b.ask("allocate(300)") == -2
        assert isinstance(b.ask("allocate(200)"), int)
        assert (a.ask("left()"), b.ask("left()")) == (24, 24)
        assert b.ask("[on(1), left(), on(0)][1]") == 1024  # the other card is free
        assert used(cards) == {a.process.pid: 800, b.process.pid: 200}
        assert a.ask(f"free({at})") == 0
        assert (a.ask("left()"), b.ask("left()"), b.ask("allocate(300)") > 0) == (824, 824, True)  # type: ignore[operator]


def test_a_process_that_is_limited_in_the_size_of_its_files(library: Path, cards: simulated_cards.OwnedCards) -> None:
    """Memory lies in blocks, each below the one before; with a limit, as low as possible.

    The limit counts when the cards start.
    """
    limit = "__import__('resource').setrlimit(1, (256 * MIB, -1))"
    again = "[cu.fakecuda_restart(), cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(contexts[0]), 0), on(0)][1:]"
    with Program(library, cards.path) as a:
        first = a.ask("allocate(40)")
        assert a.ask(limit) is None
        assert 0 < first - a.ask("allocate(40)") < 128 * MIB  # type: ignore[operator]
        assert a.ask(again) == [0, 0, None]
        first = a.ask("allocate(40)")
        assert a.ask("allocate(40)") == first + 40 * MIB  # type: ignore[operator]


KINDS = {
    "cuMemAlloc": "allocate(512) > 0",
    "a pool": "cu.cuMemAllocAsync(byref(c_uint64()), c_size_t(512 * MIB), None) == 0",
    "an array": "cu.cuArray3DCreate_v2(byref(c_void_p()), (c_uint64 * 5)(8192, 16384, 0, 1 << 32 | 0x20, 0)) == 0",
    "physical memory": "cu.cuMemCreate(byref(c_uint64()), c_size_t(512 * MIB), (c_int * 8)(1, 0, 1), c_uint64(0)) == 0",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_memory_counts(library: Path, cards: simulated_cards.OwnedCards, kind: str) -> None:
    with Program(library, cards.path) as a, Program(library, cards.path) as b:
        assert a.ask(KINDS[kind]) is True
        assert (a.ask("left()"), b.ask("left()")) == (512, 512)
        assert b.ask("allocate(513)") == -2
        a.kill()
        eventually(b, "left() == 1024")


def test_managed_memory_gives_way(library: Path, cards: simulated_cards.OwnedCards) -> None:
    """It may be larger than the card, and stands in no other process's way; free memory is without it, everywhere."""
    with Program(library, cards.path) as a, Program(library, cards.path) as b:
        assert a.ask("cu.cuMemAllocManaged(byref(c_uint64()), c_size_t(600 * MIB), 1)") == 0
        assert (a.ask("left()"), b.ask("left()")) == (424, 424)
        assert isinstance(b.ask("allocate(1000)"), int)
        assert (a.ask("left()"), b.ask("left()")) == (0, 0)
        a.kill()
        eventually(b, "left() == 24")


def test_a_killed_process_gives_its_memory_back(library: Path, cards: simulated_cards.OwnedCards) -> None:
    """At the next request, and soon at a question: within a second, where the machine is not too busy for a program to
    answer.
    """
    seconds = []
    with Program(library, cards.path) as b:
        for ask in ("allocate(1000) > 0", *["left() == 1024"] * 5):
            with Program(library, cards.path) as a:
                assert isinstance(a.ask("allocate(900)"), int)
                assert b.ask("left()") == 124
                a.kill()
                since = time.monotonic()
                eventually(b, ask)
                seconds.append(time.monotonic() - since)
            if "allocate" in ask:
                assert used(cards) == {b.process.pid: 1000}
                assert (
                    b.ask("cu.cuDevicePrimaryCtxReset_v2(0) or cu.cuDevicePrimaryCtxRetain(byref(c_void_p()), 0)") == 0
                )
        assert cards.usage()[CARDS[0]].used == 0
    assert sorted(seconds)[len(seconds) // 2] < 1, seconds


def test_freed_memory_is_the_hosts_again(library: Path, cards: simulated_cards.OwnedCards) -> None:
    """A shared card's memory is a file, whose pages stay until they are punched out of it."""
    held = "int([l for l in open('/proc/self/status') if l.startswith('RssShmem:')][0].split()[1]) // 1024"
    with Program(library, cards.path) as a:
        at = a.ask("allocate(256)")
        assert a.ask(f"cu.cuMemsetD8_v2(c_uint64({at}), 1, c_size_t(256 * MIB)) or cu.cuCtxSynchronize()") == 0
        assert a.ask(f"{held} >= 256") is True
        assert a.ask(f"[free({at}), {held} < 64]") == [0, True]


def test_a_program_that_starts_another_one_keeps_its_memory_apart(
    library: Path, cards: simulated_cards.OwnedCards
) -> None:
    """A forked child has nothing of the card: it cannot give its parent's memory back, and its end changes nothing."""
    with Program(library, cards.path) as a, Program(library, cards.path) as b:
        at = a.ask("allocate(500)")
        assert (
            a.ask(
                f"[os.fork() or (free({at}), cu.cuDevicePrimaryCtxReset_v2(0), os._exit(7)), os.waitpid(-1, 0)[1]][1]"
            )
            == 7 << 8
        )
        assert used(cards) == {a.process.pid: 500}
        assert (b.ask("left()"), a.ask(f"free({at})"), b.ask("left()")) == (524, 0, 1024)


def test_processes_that_take_and_give_at_random_agree(library: Path, cards: simulated_cards.OwnedCards) -> None:
    """The cards are never overdrawn, and nothing is left at the end."""
    loop = """[__import__("random").seed(%d), [free(h.pop(0)) if len(h) > 4 else
        (lambda at: h.append(at) if at > 0 else [free(x) for x in h] and h.clear())(
            allocate(__import__("random").randint(1, 200)))
        for h in [[]] for _ in range(400)], left()][2]"""
    with Program(library, cards.path) as a, Program(library, cards.path) as b, Program(library, cards.path) as c:
        programs = [a, b, c]
        for seed, one in enumerate(programs):
            one.stdin.write(" ".join((loop % seed).split()) + "\n")
            one.stdin.flush()
        for one in programs:
            assert 0 <= json.loads(one.stdout.readline()) <= 1024
        card = cards.usage()[CARDS[0]]
        assert card.peak <= SIZE
        assert card.used == sum(process.used for process in card.processes)
        assert {one.ask("left()") for one in programs} == {(SIZE - card.used) // MIB}
        for one in programs:
            one.ask("cu.cuDevicePrimaryCtxReset_v2(0)")
        assert cards.usage()[CARDS[0]].used == 0


# What exports and imports memory between processes by descriptors


def test_exported_memory_is_charged_once_and_outlives_its_exporter(
    library: Path, cards: simulated_cards.OwnedCards, tmp_path: Path
) -> None:
    address = str(tmp_path / "socket")
    send = (
        "[h := c_uint64(), cu.cuMemCreate(byref(h), c_size_t(512 * MIB), (c_int * 8)(1, 1, 1, 0, 0, 0, 0, 0), "
        "c_uint64(0)),"
        " d := c_int(), cu.cuMemExportToShareableHandle(byref(d), h, 1, c_uint64(0)),"
        " s := socket.socket(socket.AF_UNIX), "
        f"s.connect({address!r}), socket.send_fds(s, [b'x'], [d.value]), os.close(d.value)][3]"
    )
    receive = (
        "[c := s.accept()[0], d := socket.recv_fds(c, 1, 1)[1][0], h := c_uint64(),"
        " cu.cuMemImportFromShareableHandle(byref(h), c_void_p(d), 1), os.close(d), globals().update(h=h)][3]"
    )
    with Program(library, cards.path) as a, Program(library, cards.path) as b:
        assert (
            b.ask(f"[s := socket.socket(socket.AF_UNIX), s.bind({address!r}), s.listen(), globals().update(s=s), 1][4]")
            == 1
        )
        assert a.ask(send) == 0
        assert b.ask(receive) == 0
        assert cards.usage()[CARDS[0]].shared == 512 * MIB
        assert (a.ask("left()"), b.ask("left()")) == (512, 512)
        assert a.ask("allocate(100) > 0") is True  # ends with the process, so its end can be waited for
        assert b.ask("left()") == 412
        a.kill()
        eventually(b, "left() == 512")
        assert b.ask("cu.cuMemRelease(h)") == 0
        assert b.ask("left()") == 1024


# NVML, without a CUDA driver in its process


NVML = """
import json, pynvml as n
n.nvmlInit()
cards = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
def processes(card):
    return {p.pid: p.usedGpuMemory >> 20 for p in n.nvmlDeviceGetComputeRunningProcesses(card)}
print(json.dumps([[n.nvmlDeviceGetMemoryInfo(c).used >> 20, processes(c)] for c in cards]))
"""
MODELS = (ROOT / "gocore/machine/models/models.h").read_text()
T4 = re.findall(r'X."([^"]*)', MODELS).index("T4") + 1  # its place in the table, from 1
OPENED = (
    f"T4 = {T4}"
    + """
import ctypes, json, os, sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
class Card(ctypes.Structure):
    _fields_ = [("model", c_int), ("slot", c_int), ("memory", c_uint64), ("others", c_uint64), ("profile", c_uint),
                ("lacks", c_uint)]
class Options(ctypes.Structure):
    _fields_ = [("to_the_byte", c_int), ("lenient", c_int), ("version", c_int), ("shared", c_char_p),
                ("of_process", c_int)]
cu = ctypes.CDLL(sys.argv[1])
cu.gpuconf_simulator.restype = c_void_p
table = ctypes.cast(cu.gpuconf_simulator(5), ctypes.POINTER(c_void_p))
open_machine = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_size_t)(table[0])
bind = ctypes.CFUNCTYPE(c_void_p, c_void_p)(table[2])
def machine(slots, path, of_process=0):
    cards = (Card * len(slots))(*(Card(T4, slot, 1 << 30, 0, 0, 0) for slot in slots))
    complaint = ctypes.create_string_buffer(512)
    made = open_machine(cards, len(slots), byref(Options(1, 0, 0, path.encode() if path else None, of_process)),
                        complaint, 512)
    return made or complaint.value.decode()
def take(made, mib):
    bind(made)
    context, at, available, total = c_void_p(), c_uint64(), c_size_t(), c_size_t()
    assert cu.cuDevicePrimaryCtxRetain(byref(context), 0) == 0 and cu.cuCtxSetCurrent(context) == 0
    result = cu.cuMemAlloc_v2(byref(at), c_size_t(mib << 20))
    assert cu.cuMemGetInfo_v2(byref(available), byref(total)) == 0
    return result, available.value >> 20
"""
)


def opened(library: Path, program: str, *words: str) -> str:
    """Run a program with machines that it opens itself, as gpuconf's core does."""
    command = [sys.executable, "-c", OPENED + program, str(library / "libcuda.so.1"), *words]
    done = script.completed(command, timeout=120, env=environment(library, ""))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_a_machine_that_a_library_has_started_on_stays(library: Path) -> None:
    """PyTorch keeps its contexts and addresses, whatever gpuconf's core resets."""
    program = """
close, use = (ctypes.CFUNCTYPE(None, c_void_p)(table[i]) for i in (1, 3))
first = machine([0], None, 1)
use(first)
cu.gpuconf_simulator_keep()
print(take(first, 8)[1])
close(first)
print(take(first, 8)[1], machine([0], None, 1) == first, machine([0], None) == first)
print(machine([0, 1], None, 1))
"""
    assert opened(library, program).splitlines() == [
        "1016",
        "1008 True False",
        "a library of this process, such as PyTorch, has started on other simulated GPUs, which it keeps until the "
        "process ends: "
        "simulate these in another process",
    ]


def t4s(library: Path) -> tuple[list[str], dict[str, str]]:
    """Return the UUIDs of the cards that a program opens, and an environment with these cards."""
    ask = {**environment(library, ""), "GPUCONF_SIMULATE": "2xT4:1GiB"}
    names = (
        "import pynvml as n; n.nvmlInit(); print(*(n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(i)) for i in "
        "(0, 1)))"
    )
    return script.completed([sys.executable, "-c", names], env=ask, check=True).stdout.split(), ask


def test_nvml_says_who_has_what(library: Path) -> None:
    """In a process without a CUDA driver. The cards are those of the spec."""
    uuids, ask = t4s(library)
    with simulated_cards.share(dict.fromkeys(uuids, SIZE)) as cards:
        ask[simulated_cards.VARIABLE] = cards.path
        hold = OPENED + "print(*take(machine([0, 1], sys.argv[2]), 300), flush=True); sys.stdin.read()"
        command = [sys.executable, "-c", hold, str(library / "libcuda.so.1"), cards.path]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as a:
            assert a.stdout is not None
            assert a.stdout.readline().split() == ["0", "724"]
            said = json.loads(script.completed([sys.executable, "-c", NVML], env=ask, check=True).stdout)
            a.kill()
        assert said == [[300, {str(a.pid): 300}], [0, {}]]
        said = json.loads(script.completed([sys.executable, "-c", NVML], env=ask, check=True).stdout)
        assert said == [[0, {}], [0, {}]]


def test_two_machines_of_a_process_share_a_card(library: Path) -> None:
    program = """
a, b = (machine([0, 1], sys.argv[2]) for _ in range(2))
print(take(a, 600), take(b, 600), take(b, 400))
ctypes.CFUNCTYPE(None, c_void_p)(table[1])(a)
print(take(b, 600))
"""
    uuids, _ = t4s(library)
    with simulated_cards.share(dict.fromkeys(uuids, SIZE)) as cards:
        assert opened(library, program, cards.path).splitlines() == ["(0, 424) (2, 424) (0, 24)", "(0, 24)"]
        assert cards.usage()[uuids[0]].processes == ()


# A file that is not what it should be


def damaged(path: str, kind: str) -> str:
    """Return the path of a file that is wrong in one way, and for how it is refused."""
    if kind == "too short":
        os.truncate(path, 100)
    elif kind == "empty":
        os.truncate(path, 0)
    elif kind == "cut":
        os.truncate(path, os.path.getsize(path) - 8)
    elif kind == "longer":
        os.truncate(path, os.path.getsize(path) + 4096)
    elif kind == "other users can open it":
        os.chmod(path, 0o644)
    elif kind == "other users can open its folder":
        os.chmod(os.path.dirname(path), 0o755)
    elif kind == "a link":
        os.rename(path, path + "0")
        os.symlink(path + "0", path)
    elif kind == "a fifo":
        os.unlink(path)
        os.mkfifo(path, 0o600)
    elif kind == "a folder":
        os.unlink(path)
        os.mkdir(path, 0o700)
    elif kind == "gone":
        os.unlink(path)
    elif kind == "relative":
        return os.path.relpath(path)
    elif kind == "not a budget":
        with open(path, "r+b") as file:
            file.write(b"SOMETHING")
    return path


REASONS = {
    "too short": "it is too short",
    "empty": "it is too short",
    "cut": "its size is wrong",
    "longer": "its size is wrong",
    "other users can open it": "other users can open it",
    "other users can open its folder": "other users can open its folder",
    "a link": "cannot be opened: Too many levels",
    "a fifo": "it is not a file",
    "a folder": "cannot be opened: Is a directory",
    "gone": "cannot be opened: No such file",
    "relative": "its path is not an absolute one",
    "not a budget": "it is not a budget",
}


@pytest.mark.parametrize("kind", REASONS)
def test_a_wrong_file_is_refused_with_its_path_and_the_reason(
    library: Path, cards: simulated_cards.OwnedCards, kind: str
) -> None:
    path = damaged(cards.path, kind)
    complaint = opened(library, "print(machine([0, 1], sys.argv[2]))", path, *CARDS)
    assert f"{path}, cannot be used: " in complaint
    assert REASONS[kind] in complaint
    start = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    done = script.completed([sys.executable, "-c", start], env=environment(library, path), check=True, timeout=60)
    assert done.stdout == "304\n"
    assert f"GPUCONF_SIMULATED_CARDS: {path} cannot be used: " in done.stderr
    assert REASONS[kind] in done.stderr
    nvml = {**environment(library, path), "GPUCONF_SIMULATE": "T4"}
    done = script.completed([sys.executable, "-c", NVML], env=nvml, timeout=60)
    assert "NVMLError_DriverNotLoaded" in done.stderr
    assert REASONS[kind] in done.stderr
    if kind not in ("relative", "other users can open it", "other users can open its folder"):
        with pytest.raises(errors.UnavailableError, match=cards.path):
            simulated_cards.SimulatedCards(cards.path).usage()
    shutil.rmtree(os.path.dirname(cards.path))  # what is damaged does not go by itself


def test_another_machine_than_the_job_s_has_its_cards_alone(library: Path) -> None:
    """A card that the file does not have, or that has another size there."""
    program = """
print(take(machine([0, 2], sys.argv[2]), 600))
print(take(machine([0, 1], sys.argv[3]), 400))
print(take(machine([0, 1], sys.argv[2]), 700))
"""
    uuids, _ = t4s(library)
    with (
        simulated_cards.share(dict.fromkeys(uuids, SIZE)) as cards,
        simulated_cards.share(dict.fromkeys(uuids, SIZE // 2)) as smaller,
    ):
        assert opened(library, program, cards.path, smaller.path).splitlines() == ["(0, 424)", "(0, 624)", "(0, 324)"]


def test_garbage_is_refused_or_harmless(library: Path, cards: simulated_cards.OwnedCards) -> None:
    """Random bytes in the file, before it is opened and while it is used: no crash, no hang."""
    with open(cards.path, "rb") as file:
        good = file.read()
    rng = random.Random(7)
    for _ in range(12):
        data = bytearray(good)
        for _ in range(rng.randint(1, 40)):
            at = rng.choice((rng.randrange(64), rng.randrange(budget_file.HEADER_BYTES), rng.randrange(len(data))))
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        with open(cards.path, "r+b") as file:
            file.write(data)
        opened(
            library,
            "made = machine([0, 1], sys.argv[2])\nif type(made) is int: take(made, 10)",
            cards.path,
            *CARDS,
        )
        with suppress(errors.UnavailableError):
            simulated_cards.SimulatedCards(cards.path).usage()


def test_a_privileged_program_ignores_the_variable() -> None:
    """The libraries read it by secure_getenv, which finds nothing in a program with rights that its caller lacks."""
    for path in sorted((ROOT / "gocore/sim").rglob("*.c")):
        for line in path.read_text().splitlines():
            assert (
                "SHARED_CARDS" not in line
                or "getenv(SHARED_CARDS)" not in line
                or "secure_getenv(SHARED_CARDS)" in line
            ), path


def test_the_folder_is_private_and_ends_with_the_last_process(library: Path) -> None:
    cards = simulated_cards.share(dict.fromkeys(CARDS, SIZE), "2xT4:1GiB")
    folder = os.path.dirname(cards.path)
    assert (os.stat(folder).st_mode & 0o7777, os.stat(cards.path).st_mode & 0o7777) == (0o700, 0o600)
    with Program(library, cards.path) as a:
        assert isinstance(a.ask("allocate(1)"), int)
        cards.close()
        assert os.path.exists(cards.path)  # a process has a part of a card
        assert cards.path in [one.path for one in simulated_cards.all_shared()]
    with pytest.raises(errors.FailedPreconditionError, match="the simulated cards are closed"):
        cards.keep_descriptor()
    simulated_cards.share(dict.fromkeys(CARDS, SIZE)).close()
    assert not os.path.exists(folder)


def test_threads_that_use_a_shared_card_at_once(library: Path, cards: simulated_cards.OwnedCards) -> None:
    with Program(library, cards.path) as a:
        turns = "[free(x) for _ in range(200) if (x := allocate(100)) > 0]"
        work = f"[__import__('threading').Thread(target=lambda: [on(0), {turns}]) for _ in range(4)]"
        assert a.ask(f"[ts := {work}, [t.start() for t in ts], [t.join() for t in ts], left()][3]") == 1024


SESSION = """
import os, subprocess, sys
CHILD = "import gpuconf; print(gpuconf.memory.allocate(600 << 20, 'GPU:0').nbytes)"
def test_a_process_of_a_session_has_what_the_session_left(gpu):
    import gpuconf
    kept = gpuconf.memory.allocate(600 << 20, "GPU:0")
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True)
    assert "ResourceExhaustedError" in done.stderr, done.stderr + done.stdout
    assert os.path.exists(os.environ["GPUCONF_SIMULATED_CARDS"])
    open("where", "w").write(os.environ["GPUCONF_SIMULATED_CARDS"])
"""


@pytest.mark.parametrize("more", [[], ["-n", "1"]])
def test_the_processes_of_a_pytest_session_share_its_cards(tmp_path: Path, more: list[str]) -> None:
    (tmp_path / "test_it.py").write_text(SESSION)
    words = ["-q", "--gpuconf=simulate", "--gpuconf-simulate=T4:1GiB", "-p", "no:cacheprovider", *more]
    done = script.completed(
        [sys.executable, "-m", "pytest", *words, str(tmp_path)],
        timeout=120,
        env={**script.plain(), "GPUCONF_LEDGER": str(tmp_path / "ledger")},
        cwd=tmp_path,
    )
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout
    assert not Path((tmp_path / "where").read_text()).parent.exists()


# The commands


FIRST = """
import json, subprocess, sys
import gpuconf
for gpu in gpuconf.config.list_physical_devices("GPU"):
    gpuconf.config.experimental.set_memory_growth(gpu, True)
kept = gpuconf.memory.allocate(600 << 20, "GPU:0")
ps = json.loads(subprocess.run([sys.executable, "-m", "gpuconf", "ps", "--json"], stdout=subprocess.PIPE,
                               check=True).stdout)
text = subprocess.run([sys.executable, "-m", "gpuconf", "ps"], stdout=subprocess.PIPE, check=True, text=True).stdout
second = subprocess.run([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, check=True, text=True).stdout
print(json.dumps([__import__("os").getpid(), ps["simulated_cards"], text, second.splitlines()]))
"""
SECOND = """
import gpuconf
for gpu in gpuconf.config.list_physical_devices("GPU"):
    gpuconf.config.experimental.set_memory_growth(gpu, True)
for size, gpu in ((600, 0), (150, 0), (600, 1)):
    try:
        print(gpuconf.memory.allocate(size << 20, f"GPU:{gpu}").nbytes >> 20)
    except MemoryError as error:
        print(type(error).__name__)
__import__("os").environ.pop("CUDA_VISIBLE_DEVICES", None)  # a lease's
with gpuconf.simulate("L4:1GiB"):  # of its own
    print(gpuconf.memory.allocate(700 << 20, "GPU:0").nbytes >> 20)
"""


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--simulate", "2xT4:1GiB", "--"),
        ("simulate", "2xT4:1GiB", "--"),
        # The guard would refuse the memory of the program's own machine, which the lease does not name.
        ("run", "--simulate", "2xT4:1GiB", "--memory", "790MiB", "--gpus", "2", "--guard=off", "--"),
    ],
    ids=lambda words: " ".join(words[:6:3]),
)
def test_the_programs_of_a_command_share_its_cards(tmp_path: Path, words: tuple[str, ...]) -> None:
    clean = script.plain()
    clean |= {"GPUCONF_LEDGER": str(tmp_path / "ledger"), "GPUCONF_CONTEXT_MEMORY": "0"}
    command = [sys.executable, "-m", "gpuconf", *words, sys.executable, "-c", FIRST, SECOND]
    out = script.printed(command, timeout=120, env=clean)
    pid, cards, text, second = json.loads(out)
    assert second == ["ResourceExhaustedError", "150", "600", "700"]
    ours = [card for card in cards if [one["pid"] for one in card["processes"]] == [pid]]
    assert [(card["index"], card["simulated"], card["total"]) for card in ours[:1]] == [(0, "2xT4:1GiB", SIZE)]
    assert 600 * MIB <= ours[0]["used"] == ours[0]["processes"][0]["bytes"] < SIZE
    assert "simulated cards" in text
    assert str(pid) in text
