"""The gate: once it counts as closed no call passes, by any way to the functions, and none is lost."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import script
from conftest_guard import ROOT
from driver import functions
from driver.answers import Answers
from gpuconf.jobs import budget, gate
from gpuconf.leases.environment import of_simulation

# The functions that wait at the gate, or have another hook.
WAITING = {form.exported for form, _ in functions.gated()}
HOOKED = set(
    re.findall(
        r"^\tX\((cu\w+),", (ROOT / "gocore/lease/guard/functions.h").read_text().partition("CUDA_CALLS(X)")[0], re.M
    )
)
THREADS = 8
# Each thread counts its calls in a word of its own: those by name, by dlsym() and by cuGetProcAddress, in turns.
PROGRAM = """
import ctypes, mmap, os, sys, threading
from ctypes import byref, c_size_t, c_uint64, c_void_p
cu = ctypes.CDLL("libcuda.so.1")
own, got = c_void_p(), c_void_p()
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(byref(own), 0) == 0
file = os.open(sys.argv[1], os.O_RDWR)
counts = (c_uint64 * 64).from_buffer(mmap.mmap(file, 512))
assert cu.cuGetProcAddress_v2(b"cuMemsetD8Async", byref(got), 12000, c_uint64(0), None) == 0
resolved = ctypes.CFUNCTYPE(ctypes.c_int, c_uint64, ctypes.c_ubyte, c_size_t, c_void_p)(got.value)
def work(number):
    assert cu.cuCtxSetCurrent(own) == 0
    at, stream = c_uint64(), c_void_p()
    assert cu.cuStreamCreate(byref(stream), 1) == 0
    while True:
        assert cu.cuMemAlloc_v2(byref(at), c_size_t(4096)) == 0
        assert cu.cuMemsetD8_v2(at, 1, c_size_t(4096)) == 0
        assert resolved(at.value, 2, 4096, stream) == 0
        assert cu.cuMemcpyDtoDAsync_v2(at, at, c_size_t(64), stream) == 0
        assert cu.cuStreamSynchronize(stream) == 0
        assert cu.cuMemFree_v2(at) == 0
        counts[number] += 1
threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(8)]
for thread in threads:
    thread.start()
threads[0].join()
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[tuple[gate.Gate, Path, subprocess.Popen[bytes]]]:
    """A job with a gate whose program calls the driver in eight threads, and what they have counted."""
    counts = tmp_path / "counts"
    counts.write_bytes(bytes(512))
    simulated = {**os.environ, "GPUCONF_SIMULATE": "A100-40GB:driver=13.0", **of_simulation()}
    code = "import gpuconf.machine.cards as machine; print(machine.visible_devices()[0].uuid)"
    listed = script.completed([sys.executable, "-c", code], env=simulated, check=True)
    words = [sys.executable, "-c", PROGRAM, str(counts)]
    limits = {listed.stdout.strip(): 1 << 30}
    with budget.prepare(limits, "proxy", command=words, environment=simulated, turns=True) as made:
        program = subprocess.Popen(words, env={**simulated, **made.environment})
        try:
            yield gate.Gate(os.path.dirname(made.path)), counts, program
        finally:
            program.kill()
            program.wait()


def numbers(counts: Path) -> list[int]:
    data = counts.read_bytes()
    return [int.from_bytes(data[8 * at : 8 * at + 8], "little") for at in range(THREADS)]


def until_all_go_on(counts: Path, after: list[int]) -> None:
    end = time.monotonic() + 60
    while not all(now > before for now, before in zip(numbers(counts), after, strict=True)):
        assert time.monotonic() < end, (after, numbers(counts))
        time.sleep(0.01)


def test_no_call_passes_a_closed_gate_and_none_is_lost(job: tuple[gate.Gate, Path, subprocess.Popen[bytes]]) -> None:
    closed, counts, _ = job
    until_all_go_on(counts, [0] * THREADS)
    for _ in range(20):
        assert closed.close(30)
        before = closed.activity()
        assert before.inside == 0
        time.sleep(0.02)
        assert closed.is_wanted()
        # A call that begins counts before it looks, and takes that back: made grows once for each thread that waits.
        assert closed.activity().calls - before.calls <= THREADS
        assert closed.activity().inside == 0
        first = there = numbers(counts)
        time.sleep(0.02)
        # On a busy machine, a thread counts later the round whose last call was before the gate closed: one at most.
        while (now := numbers(counts)) != there:
            assert all(last - begin <= 1 for last, begin in zip(now, first, strict=True))
            there = now
            time.sleep(0.02)
        closed.open()
        until_all_go_on(counts, there)
    assert closed.why_blind() == ""


def test_a_process_that_is_killed_in_a_call_does_not_keep_the_gate_open(
    job: tuple[gate.Gate, Path, subprocess.Popen[bytes]],
) -> None:
    closed, counts, program = job
    until_all_go_on(counts, [0] * THREADS)
    while not closed.activity().inside:
        time.sleep(0)
    program.send_signal(signal.SIGKILL)
    program.wait()
    assert closed.close(10)
    assert closed.close(10)  # also with the words that it left


def test_a_process_that_is_stopped_in_a_call_keeps_it_open(
    job: tuple[gate.Gate, Path, subprocess.Popen[bytes]],
) -> None:
    closed, counts, program = job
    until_all_go_on(counts, [0] * THREADS)
    for _ in range(1000):
        program.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, program.pid, os.WSTOPPED)  # until then its threads may still run
        if closed.activity().inside:
            break
        program.send_signal(signal.SIGCONT)
        time.sleep(0.001)
    assert not closed.close(0.2)
    assert not closed.is_closed()
    program.send_signal(signal.SIGCONT)
    until_all_go_on(counts, numbers(counts))
    assert closed.close(30)


def test_every_function_of_the_driver_waits_or_is_known_not_to() -> None:
    """Those that pass a closed gate ask for what does not change, or have no prototype: those of CUDA 2 and 3.0, of
    graphics, and logical endpoints.
    """
    forms, _ = functions.table(Answers.load())
    waiting = WAITING | HOOKED
    unseen = {
        form.exported for form in forms if form.exported not in waiting and not functions.PASSES.match(form.exported)
    }
    known = {name for name, *_ in functions.headers()["parameters"]}
    assert unseen.isdisjoint(known)
    expected = re.compile(r"cu(EGL|GL|VDPAU|Graphics|LogicalEndpoint)")
    later = {form.exported for form in forms if form.version > 3000 and form.exported in unseen}
    assert {name for name in later if not expected.match(name)} == set()


def test_every_function_that_the_core_calls_waits() -> None:
    """A call of the core's that waits in the driver keeps its program suspended for good: its agent does not see it."""
    symbols = (ROOT / "gocore/machine/cuda/symbols.h").read_text()
    called = set(re.findall(r'"cu\w+", "(cu\w+)", \d+', symbols))
    assert len(called) > 50
    passing = called - WAITING - HOOKED
    assert {name for name in passing if not functions.PASSES.match(name)} == set()


def test_what_passes_a_closed_gate_does_not_wait_in_the_driver() -> None:
    """A call that waits in the driver of a suspended process never says that it wants a turn."""
    waits = set()
    for source in (ROOT / "gocore/sim/cuda").glob("*.c"):
        for name, body in re.findall(r"EXPORT CUresult (cu\w+)\([^{]*\) \{(.*?)\n\}", source.read_text(), re.S):
            if re.search(r"\bLOCK(ED)?\b", body):
                waits.add(name)
    assert len(waits) > 50
    # cuInit is called before a process can be suspended.
    assert {name for name in waits if functions.PASSES.match(name)} == {"cuInit"}
