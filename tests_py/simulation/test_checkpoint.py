# SPDX-License-Identifier: Apache-2.0
"""One process suspends another on simulated cards: cuCheckpointProcess* across processes, with what CUDA's
documentation says, what programs have seen, and what goes wrong.
"""

import json
import os
import runpy
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import script
from asked_program import AskedProgram
from fake_nvml import fake_nvml
from gpuconf.jobs import simulated_cards

ROOT = Path(__file__).resolve().parents[2]
CARD = "GPU-f0ced00d-1234-4567-89ab-cdef01234500"  # of tests_go/machine/fakecuda
MIB = 1 << 20
SIZE = 400 * MIB
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, OPERATING_SYSTEM = 0, 1, 2, 3, 304
ILLEGAL_STATE, NOT_FOUND, NOT_READY, NOT_SUPPORTED = 401, 500, 600, 801
RUNNING, LOCKED, CHECKPOINTED = 0, 1, 2
PRELUDE = """
import ctypes, json, os, sys, threading
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
cu = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
HOST = ctypes.CFUNCTYPE(None, c_void_p)
ends = threading.Event()
@HOST
def until_it_ends(data):
    ends.wait()
def context():
    current = c_void_p()
    assert cu.cuDevicePrimaryCtxRetain(byref(current), 0) == 0
    return cu.cuCtxSetCurrent(current)
def allocate(mib):
    at = c_uint64()
    result = cu.cuMemAlloc_v2(byref(at), c_size_t(mib * MIB))
    return at.value if result == 0 else -result
def left():
    available, total = c_size_t(), c_size_t()
    assert cu.cuMemGetInfo_v2(byref(available), byref(total)) == 0
    return available.value // MIB
def state(pid):
    answer = c_int(-1)
    result = cu.cuCheckpointProcessGetState(pid, byref(answer))
    return answer.value if result == 0 else -result
def thread(pid):
    answer = c_int(-1)
    result = cu.cuCheckpointProcessGetRestoreThreadId(pid, byref(answer))
    return answer.value if result == 0 else -result
def words(*values):
    return (c_uint * 16)(*values)
def lock(pid, ms=0):
    return cu.cuCheckpointProcessLock(pid, words(ms) if ms else None)
def checkpoint(pid):
    return cu.cuCheckpointProcessCheckpoint(pid, None)
def restore(pid):
    return cu.cuCheckpointProcessRestore(pid, None)
def unlock(pid):
    return cu.cuCheckpointProcessUnlock(pid, None)
if len(sys.argv) == 1:
    assert cu.cuInit(0) == 0
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The folder of a driver of each version, and NVML."""
    build = runpy.run_path(str(ROOT / "tests_go/machine/fakecuda/build.py"))["build"]
    folders = {}
    for version in (12060, 12080, 13000, 13040):
        folders[version] = tmp_path_factory.mktemp(f"driver{version}")
        build(folders[version], version)
    fake_nvml(folders[13000])
    return folders


@pytest.fixture
def cards() -> Iterator[simulated_cards.OwnedCards]:
    with simulated_cards.share({CARD: SIZE}) as made:
        yield made


def environment(library: Path, path: str, mode: str = "", spec: str = "") -> dict[str, str]:
    ours = {"LD_LIBRARY_PATH": str(library), "FAKECUDA_MEMORY": str(SIZE), "FAKECUDA_CHECKPOINT": mode}
    return {
        **script.plain(),
        **ours,
        **({simulated_cards.VARIABLE: path} if path else {}),
        **({"GPUCONF_SIMULATE": spec} if spec else {}),
    }


class Program(AskedProgram):
    """A process that uses the cards."""

    def __init__(self, library: Path, path: str = "", mode: str = "", start: bool = True, spec: str = "") -> None:
        words = () if start else ("without cuInit",)
        super().__init__(PRELUDE, *words, env=environment(library, path, mode, spec))
        self.ask("None")  # it has begun


def test_a_program_of_the_documentation(libraries: dict[int, Path], tmp_path: Path) -> None:
    """Values, addresses, streams, events and graphs are the same after each round."""
    source, target = Path(__file__).parent / "c" / "suspended.c", tmp_path / "suspended"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1"]
    subprocess.run([*compiler, *flags, "-o", target, source, "-ldl"], check=True)
    for version in (12080, 13000):
        done = script.completed([target, "20"], env=environment(libraries[version], ""), timeout=60)
        assert (done.returncode, done.stdout) == (0, "the same after 20 rounds\n"), done.stderr


def test_its_memory_leaves_the_card_and_comes_back(
    libraries: dict[int, Path], cards: simulated_cards.OwnedCards
) -> None:
    """All of it or nothing, with the context; NVML and the other processes see it."""

    def seen() -> list[object]:
        for one in cards.usage()[CARD].processes:
            if one.pid == target.pid and (one.used or one.contexts):
                return [one.used // MIB, one.contexts]
        return [0, 0]

    library = libraries[13000]
    with Program(library, cards.path) as target, Program(library, cards.path) as other:
        assert (target.ask("context()"), other.ask("context()")) == (0, 0)
        at = target.ask("allocate(300)")
        assert seen() == [300, 1]
        assert [other.ask(f"{step}({target.pid})") for step in ("lock", "checkpoint")] == [0, 0]
        assert seen() == [0, 0]
        assert other.ask("left()") == 400
        theirs = other.ask("allocate(200)")
        assert other.ask(f"restore({target.pid})") == OUT_OF_MEMORY
        assert other.ask(f"state({target.pid})") == CHECKPOINTED
        assert other.ask("left()") == 200  # a restore that fails takes nothing
        assert other.ask(f"cu.cuMemFree_v2(c_uint64({theirs}))") == 0
        assert [other.ask(f"{step}({target.pid})") for step in ("restore", "unlock")] == [0, 0]
        assert seen() == [300, 1]
        assert other.ask("left()") == 100
        assert target.ask(f"cu.cuMemFree_v2(c_uint64({at}))") == 0
        assert other.ask("left()") == 400


NVML = """
import json, pynvml as n
n.nvmlInit()
card = n.nvmlDeviceGetHandleByIndex(0)
used = n.nvmlDeviceGetMemoryInfo(card).used >> 20
print(json.dumps([n.nvmlDeviceGetUUID(card), used, [p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(card)]]))
"""


def test_its_context_leaves_the_card_too(libraries: dict[int, Path]) -> None:
    """As NVML sees it from a third process."""
    library, spec = libraries[13000], "A100-40GB:2GiB:contexts:driver=13.0"

    def asked(path: str) -> list[object]:
        command = [sys.executable, "-c", NVML]
        done = script.completed(command, env=environment(library, path, spec=spec), check=True)
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    with (
        simulated_cards.share({str(asked("")[0]): 2048 * MIB}) as made,
        Program(library, made.path, spec=spec) as target,
        Program(library, made.path, spec=spec) as caller,
    ):
        assert (target.ask("context()"), target.ask("allocate(300) > 0")) == (0, True)
        assert asked(made.path)[1:] == [556, [target.pid]]
        assert caller.ask(f"(lock({target.pid}), checkpoint({target.pid}))") == [0, 0]
        assert asked(made.path)[1:] == [0, []]
        assert caller.ask(f"(restore({target.pid}), unlock({target.pid}))") == [0, 0]
        assert asked(made.path)[1:] == [556, [target.pid]]


STEPS = {"lock": (RUNNING, LOCKED), "checkpoint": (LOCKED, CHECKPOINTED), "restore": (CHECKPOINTED, LOCKED)}
STEPS["unlock"] = (LOCKED, RUNNING)


def test_every_order_of_calls(libraries: dict[int, Path]) -> None:
    """Each call in each state: the right ones change it, the wrong ones are refused and change nothing."""
    with Program(libraries[12080]) as target, Program(libraries[12080]) as caller:
        target.ask("context()")
        state, pid = RUNNING, target.pid
        ways = {RUNNING: ["lock"], LOCKED: ["checkpoint", "unlock"], CHECKPOINTED: ["restore"]}
        for turn in range(8):
            assert caller.ask(f"state({pid})") == state
            for step in STEPS:
                if step not in ways[state]:
                    assert caller.ask(f"{step}({pid})") == ILLEGAL_STATE
                    assert caller.ask(f"state({pid})") == state
            step = ways[state][turn // 4 % len(ways[state])]
            assert caller.ask(f"{step}({pid})") == SUCCESS
            state = STEPS[step][1]


def test_a_locked_process_waits_and_answers_what_needs_no_card(libraries: dict[int, Path]) -> None:
    """Calls that were made while it was suspended are done after the unlock, and none before."""
    with Program(libraries[12080]) as target, Program(libraries[12080]) as caller:
        target.ask("context()")
        at = target.ask("allocate(8)")
        for steps in (["unlock"], ["checkpoint", "restore", "unlock"]):
            assert caller.ask(f"lock({target.pid})") == SUCCESS
            assert target.ask("cu.cuDriverGetVersion(byref(c_int()))") == SUCCESS
            assert target.ask("cu.cuDeviceGetCount(byref(c_int()))") == SUCCESS
            target.say(f"cu.cuMemsetD8_v2(c_uint64({at}), 1, c_size_t(1))")
            answered = threading.Event()
            reader = threading.Thread(target=lambda done=answered: target.hear() is None or done.set())
            reader.start()
            assert not answered.wait(0.2)
            for step in steps:
                assert not answered.is_set()
                assert caller.ask(f"{step}({target.pid})") == SUCCESS
            reader.join(30)
            assert answered.is_set()
            assert target.ask("left()") == 392


def test_a_lock_finishes_what_is_queued(libraries: dict[int, Path]) -> None:
    """Callbacks, too. If it takes longer than the time-out, the process goes on as before."""
    with Program(libraries[12080]) as target, Program(libraries[12080]) as caller:
        target.ask("context()")
        stream = target.ask("[s := c_void_p(), cu.cuStreamCreate(byref(s), 1)][0].value")
        assert target.ask(f"cu.cuLaunchHostFunc(c_void_p({stream}), until_it_ends, None)") == SUCCESS
        assert caller.ask(f"lock({target.pid}, 100)") == NOT_READY
        assert caller.ask(f"state({target.pid})") == RUNNING
        assert target.ask("allocate(1) > 0") is True
        caller.say(f"lock({target.pid}, 20000)")
        time.sleep(0.2)
        target.ask("ends.set()")
        assert caller.hear() == SUCCESS
        assert caller.ask(f"unlock({target.pid})") == SUCCESS
        assert target.ask(f"cu.cuStreamQuery(c_void_p({stream}))") == SUCCESS


def test_who_is_meant(libraries: dict[int, Path]) -> None:
    """Any thread's number; what is no process, has not started or has no context; oneself."""
    with Program(libraries[12080]) as target, Program(libraries[12080]) as caller:
        assert caller.ask(f"(state({target.pid}), lock({target.pid}))") == [RUNNING, NOT_INITIALIZED]
        target.ask("context()")
        thread = target.ask(
            "[threading.Thread(target=ends.wait, daemon=True).start(), max(map(int, os.listdir('/proc/self/task')))][1]"
        )
        assert thread != target.pid
        assert caller.ask(f"(lock({thread}), state({target.pid}), unlock({thread}))") == [SUCCESS, LOCKED, SUCCESS]
        control = caller.ask(f"thread({target.pid})")
        assert str(control) in os.listdir(f"/proc/{target.pid}/task")
        assert caller.ask("(state(0), state(-1), state(1 << 22))") == [-INVALID_VALUE] * 3
        assert caller.ask(f"state({os.getpid()})") == -NOT_INITIALIZED
        assert target.ask("(lock(os.getpid()), state(os.getpid()), unlock(os.getpid()))") == [SUCCESS, LOCKED, SUCCESS]
        assert caller.ask(f"cu.cuCheckpointProcessGetState({target.pid}, None)") == INVALID_VALUE
        target.kill()
        assert caller.ask(f"state({target.pid})") == -INVALID_VALUE
    with Program(libraries[12080], start=False) as early:
        assert early.ask("(state(os.getpid()), lock(os.getpid()))") == [-NOT_INITIALIZED, NOT_INITIALIZED]


def test_the_arguments_of_each_version(libraries: dict[int, Path]) -> None:
    calls = {
        "reserved of Lock": "cu.cuCheckpointProcessLock({pid}, words(0, 1))",
        "reserved of Checkpoint": "cu.cuCheckpointProcessCheckpoint({pid}, words(0, 0, 1))",
        "custom storage of Checkpoint": "cu.cuCheckpointProcessCheckpoint({pid}, words(1))",
        "reserved of Restore": "cu.cuCheckpointProcessRestore({pid}, words(*[0] * 15, 1))",
        "padding of Restore": "cu.cuCheckpointProcessRestore({pid}, words(0, 0, 0, 1))",
        "custom storage of Restore": "cu.cuCheckpointProcessRestore({pid}, words(0, 0, 0, 0, 1))",
        "two pairs for one card": "cu.cuCheckpointProcessRestore({pid}, words(1, 1, 2))",
        "reserved of Unlock": "cu.cuCheckpointProcessUnlock({pid}, words(1))",
    }
    for version, storage in ((12080, INVALID_VALUE), (13000, INVALID_VALUE), (13040, NOT_SUPPORTED)):
        with Program(libraries[version]) as target, Program(libraries[version]) as caller:
            target.ask("context()")
            assert caller.ask(f"lock({target.pid})") == SUCCESS
            answers = {name: caller.ask(call.format(pid=target.pid)) for name, call in calls.items()}
            expected = dict.fromkeys(calls, INVALID_VALUE)
            expected |= {name: storage for name in calls if "storage" in name}
            assert answers == expected
            assert caller.ask(f"state({target.pid})") == LOCKED
            assert caller.ask(f"checkpoint({target.pid})") == SUCCESS
            given = "[u := (c_uint64 * 4)(), cu.cuDeviceGetUuid_v2(u, 0), u.__setitem__(slice(2, 4), u[:2]), "
            given += "a := ctypes.addressof(u), "
            given += f"cu.cuCheckpointProcessRestore({target.pid}, words(a & 0xffffffff, a >> 32, 1))][-1]"
            assert caller.ask(given) == (SUCCESS if version >= 13000 else INVALID_VALUE)


def test_a_driver_before_12_8_has_no_such_function(libraries: dict[int, Path]) -> None:
    names = [
        f"cuCheckpointProcess{step}"
        for step in ("GetState", "GetRestoreThreadId", "Lock", "Checkpoint", "Restore", "Unlock")
    ]
    exported = f"[hasattr(cu, name) for name in {names}]"
    found = f"[cu.cuGetProcAddress(n.encode(), byref(c_void_p()), 12080, c_uint64(0)) for n in {names}]"
    with Program(libraries[12060]) as older, Program(libraries[12080]) as newer:
        assert (older.ask(exported), older.ask(found)) == ([False] * 6, [NOT_FOUND] * 6)
        assert (newer.ask(exported), newer.ask(found)) == ([True] * 6, [SUCCESS] * 6)
        older.ask("context()")
        assert newer.ask(f"state({older.pid})") == -NOT_INITIALIZED


MANAGED = "cu.cuMemAllocManaged(byref(c_uint64()), c_size_t(MIB), 1)"
EXPORTED = "[at := allocate(4), cu.cuIpcGetMemHandle((ctypes.c_char * 64)(), c_uint64(at))][1]"
DESCRIPTOR = (
    "[h := c_uint64(), cu.cuMemCreate(byref(h), c_size_t(2 * MIB), (c_int * 8)(1, 1, 1), c_uint64(0)), "
    "f := c_int(), cu.cuMemExportToShareableHandle(byref(f), h, 1, c_uint64(0))][3]"
)
UNFIT = {
    "managed memory, driver 570": (12080, "", MANAGED, NOT_SUPPORTED),
    "managed memory, driver 580": (13000, "", MANAGED, SUCCESS),
    "memory for other processes": (13000, "", EXPORTED, NOT_SUPPORTED),
    "a descriptor of memory": (13000, "", DESCRIPTOR, NOT_SUPPORTED),
    "an instance of a card": (13000, "A100-40GB:mig-container:driver=13.0", "0", OUT_OF_MEMORY),
    "memory that the CPU shares": (13000, "A100-40GB:unified:driver=13.0", "0", NOT_SUPPORTED),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_cannot_be_suspended(libraries: dict[int, Path], cards: simulated_cards.OwnedCards, name: str) -> None:
    """The checkpoint is refused, and the program goes on after the unlock."""
    version, spec, makes, refusal = UNFIT[name]
    path = cards.path if not spec else ""
    with Program(libraries[version], path, spec=spec) as target, Program(libraries[version], path, spec=spec) as caller:
        assert (target.ask("context()"), target.ask(makes)) == (0, 0)
        before = target.ask("left()")
        assert caller.ask(f"(lock({target.pid}), checkpoint({target.pid}))") == [SUCCESS, refusal]
        rest = [SUCCESS, SUCCESS] if refusal == SUCCESS else [ILLEGAL_STATE, SUCCESS]
        assert caller.ask(f"(restore({target.pid}), unlock({target.pid}))") == rest
        assert target.ask("left()") == before


def test_a_client_of_mps_is_not_locked(libraries: dict[int, Path]) -> None:
    spec = "A100-40GB:mps:driver=13.0"
    with Program(libraries[13000], spec=spec) as target, Program(libraries[13000], spec=spec) as caller:
        target.ask("context()")
        assert caller.ask(f"(lock({target.pid}), state({target.pid}))") == [NOT_SUPPORTED, RUNNING]
        assert target.ask("allocate(1) > 0") is True


def test_a_restore_that_nothing_repairs(libraries: dict[int, Path], cards: simulated_cards.OwnedCards) -> None:
    with Program(libraries[13000], cards.path, "ruin") as target, Program(libraries[13000], cards.path) as other:
        assert (target.ask("context()"), other.ask("context()")) == (0, 0)
        target.ask("allocate(300)")
        assert other.ask(f"(lock({target.pid}), checkpoint({target.pid}))") == [0, 0]
        theirs = other.ask("allocate(200)")
        assert other.ask(f"restore({target.pid})") == OUT_OF_MEMORY
        assert other.ask(f"cu.cuMemFree_v2(c_uint64({theirs}))") == 0
        assert other.ask(f"(restore({target.pid}), unlock({target.pid}))") == [OPERATING_SYSTEM, ILLEGAL_STATE]
        assert other.ask(f"state({target.pid})") == CHECKPOINTED
        target.kill()
        assert other.ask("left()") == 400


@pytest.mark.parametrize("step", ["state", *STEPS])
def test_a_target_that_crashes_or_is_killed_in_a_step(
    libraries: dict[int, Path], cards: simulated_cards.OwnedCards, step: str
) -> None:
    """The caller gets an error, and what the target had is free."""
    path, library = cards.path, libraries[13000]
    for mode in (f"crash-{step}", f"hang-{step}"):
        with Program(library, path, mode) as target, Program(library, path) as caller:
            assert (target.ask("context()"), caller.ask("context()")) == (0, 0)
            target.ask("allocate(300)")
            before = {"state": [], "lock": [], "checkpoint": ["lock"], "restore": ["lock", "checkpoint"]}
            for one in before.get(step, ["lock"]):
                assert caller.ask(f"{one}({target.pid})") == SUCCESS
            caller.say(f"{step}({target.pid})")
            if mode.startswith("hang"):
                time.sleep(0.1)
                target.kill()
            answer = caller.hear()
            assert answer == (-OPERATING_SYSTEM if step == "state" else OPERATING_SYSTEM)
            target.process.wait(30)
            assert caller.ask("left()") == 400


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("mode", ["", ",out-of-step"])
def test_a_caller_that_is_killed_in_a_step(
    libraries: dict[int, Path], cards: simulated_cards.OwnedCards, step: str, mode: str
) -> None:
    """The target finishes the step. Out of step, it does nothing any more that it is asked."""
    path, library = cards.path, libraries[13000]
    with Program(library, path, "fixed=400" + mode) as target, Program(library, path) as last:
        assert target.ask("context()") == 0
        target.ask("allocate(300)")
        stream = target.ask("[s := c_void_p(), cu.cuStreamCreate(byref(s), 1)][0].value")
        before = {"lock": [], "checkpoint": ["lock"], "restore": ["lock", "checkpoint"], "unlock": ["lock"]}[step]
        for one in before:
            assert last.ask(f"{one}({target.pid})") == SUCCESS
        with Program(library, path) as caller:
            if step == "lock":  # which waits for the callback
                target.ask(f"cu.cuLaunchHostFunc(c_void_p({stream}), until_it_ends, None)")
            caller.say(f"{step}({target.pid})")
            time.sleep(0.1)
            caller.kill()
        target.ask("ends.set()")
        expected = STEPS[step][1]
        answer = last.ask(f"state({target.pid})")
        if not mode or step == "unlock":  # which is done before the kill
            assert answer == expected
        else:
            assert answer == -OPERATING_SYSTEM


def test_times_of_a_test(libraries: dict[int, Path]) -> None:
    with Program(libraries[13000], mode="fixed=50,out=1000,in=2000") as target, Program(libraries[13000]) as caller:
        target.ask("context()")
        target.ask("allocate(300)")
        seconds = {}
        for step in STEPS:
            since = time.monotonic()
            assert caller.ask(f"{step}({target.pid})") == SUCCESS
            seconds[step] = time.monotonic() - since
        assert seconds["checkpoint"] >= 0.35
        assert seconds["restore"] >= 0.2
