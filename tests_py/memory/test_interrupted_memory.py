"""Exceptions of signal handlers, as on Ctrl-C, while memory is allocated and freed, tensors are computed, recordings
run, and scopes are entered and left.

No memory is lost, no recording runs on without a handle, and a thread is in the scopes whose blocks it is in, wherever
the exception comes, even in a ``__del__``.
"""

from __future__ import annotations

import pytest
from script import run_well
from tripwire import PATH

USES = """
import json, signal, sys, time, warnings
import numpy as np
import gpuconf
from gpuconf._core.native import core
from tripwire import Interrupt, interrupted

def plain():
    gpuconf.memory.allocate(1000).free()

def in_a_block():
    with gpuconf.memory.allocate(1000, "GPU:0"):
        pass

def dropped():
    gpuconf.memory.allocate(1000)

def freed_twice():
    buffer = gpuconf.memory.allocate(1000)
    buffer.free()
    buffer.free()

def with_text():
    gpuconf.memory.allocate("1KiB", gpuconf.config.list_logical_devices("GPU")[0], wait=0.001).free()

def too_large():
    try:
        gpuconf.memory.allocate(1 << 50)
    except MemoryError:
        pass

def copied():
    with gpuconf.memory.allocate(1000) as buffer:
        buffer.copy_from_host(b"x")
        buffer.copy_to_host()

def lent():
    buffer = gpuconf.memory.allocate(1000)
    array = np.from_dlpack(buffer)
    buffer.free()
    del array

def in_a_scope():
    with gpuconf.device("GPU:1"):
        gpuconf.memory.allocate(1000).free()

def in_a_new_scope():
    global number
    number += 1
    with gpuconf.device(f"/job:localhost/replica:0/task:0/device:GPU:{number % 2}"), gpuconf.device(None):
        pass

def in_a_scope_of_a_device():
    scope = gpuconf.device(gpuconf.config.list_logical_devices("GPU")[1])
    with scope, scope:
        gpuconf.memory.allocate(1000).free()

def in_a_wrong_scope():
    try:
        with gpuconf.device("GPU:9"):
            gpuconf.memory.allocate(1000)
    except ValueError:
        pass

ones = np.ones((2, 2), np.float32)

def computed():
    x = gpuconf.constant(ones)
    gpuconf.matmul(x, x) + x

def recorded():
    recording = gpuconf.memory.record(events=100)
    with recording:
        gpuconf.memory.allocate(1000).free()
    return recording

def recorded_and_dropped():
    with gpuconf.memory.record(events=100):
        gpuconf.memory.allocate(1000).free()

def recorded_by_hand():
    recording = gpuconf.memory.record(events=100)
    try:
        recording.start()
    finally:
        recording.stop() if recording.running else None

number = 0
ALL = [plain, in_a_block, dropped, freed_twice, with_text, too_large, copied, lent, in_a_scope, in_a_new_scope,
       in_a_scope_of_a_device, in_a_wrong_scope, computed, recorded, recorded_and_dropped, recorded_by_hand]

def no_recording_runs():
    gpuconf.memory.record(events=100).start().stop()  # no other one could start

def check(what):
    "Nothing is in use but what a frame holds, and that can be freed."
    no_recording_runs()
    with gpuconf.device("CPU:0"):
        gpuconf.constant(1)  # what was cut short is completed before the next operation
    live = json.loads(core.pybind_LiveTensors())
    assert (live["tensors"], live["host_blocks"]) == ([], 0), (what, live)
    assert gpuconf.current_scope() == "", (what, gpuconf.current_scope())
    for buffer in gpuconf.memory.live_buffers():
        buffer.free()
    for gpu in ("GPU:0", "GPU:1"):
        assert gpuconf.memory.stats(gpu).live_blocks == 0, (what, gpu)
    buffer = gpuconf.memory.allocate(1)
    assert buffer.device.name == "/device:GPU:0", what  # the core, too, is in no scope
    buffer.free()

warnings.simplefilter("ignore")
sys.unraisablehook = id  # for what is raised in a __del__; a function in C, which no signal interrupts
"""


def test_at_any_step_of_the_interpreter() -> None:
    """Each step inside gpuconf in turn, with the frames of the exception held, and not."""
    out = run_well(
        USES
        + """
steps = {}
for first_time in (True, False):
    for use in ALL:
        at = 0
        while True:
            at += 1
            if first_time:  # also the first use of the devices, which connects Python's half with C's
                if at > 60:
                    break
                gpuconf.simulate(None)
                gpuconf.simulate("2xT4")
                gpuconf.config.list_logical_devices()
            where, caught = interrupted(use, at)
            if where is None:
                break  # the use has fewer steps
            steps[use.__name__] = at
            if at % 2:  # the frames hold a buffer that the program can list and free; a loan of it may end with them
                for buffer in gpuconf.memory.live_buffers():
                    buffer.free()
                buffer = None
            if use is not recorded_by_hand:  # the frames have a recording that runs
                no_recording_runs()
            caught = None
            check((use.__name__, at))
gpuconf.reset()
print(len(steps), sum(steps.values()) > 1000)
""",
        env=PATH,
        timeout=120,
    )
    assert out == "16 True\n"


RESETS = """
import sys, warnings
import gpuconf
from tripwire import interrupted

def reset():
    gpuconf.reset()

def simulated():
    gpuconf.simulate("T4")

def in_a_simulation():
    with gpuconf.simulate("A100-40GB"):
        gpuconf.memory.allocate(1000).free()

warnings.simplefilter("ignore")
sys.unraisablehook = id
for use, stride in ((reset, 1), (simulated, 7), (in_a_simulation, 101)):  # thousands of steps
    gpuconf.simulate("2xT4")
    at = 0
    while True:
        at += stride
        gpuconf.memory.allocate(1).free()
        where, caught = interrupted(use, at)
        caught = None
        for buffer in gpuconf.memory.live_buffers():
            buffer.free()
        gpuconf.memory.allocate(1).free()  # the devices that are listed are those that the core has
        gpuconf.reset()
        gpuconf.simulate("2xT4")
        assert len(gpuconf.visible_devices()) == 2, (use.__name__, at)
        if where is None:
            break
    print(use.__name__, at > 500)
"""


def test_resets_at_any_step_of_the_interpreter() -> None:
    """An exception just after the core's own reset left devices listed that it no longer had: each further call failed,
    gpuconf.reset() too. Ctrl-C comes there, because Python handles signals when the core returns.
    """
    out = run_well(RESETS, env=PATH, timeout=120)
    assert out == "reset True\nsimulated True\nin_a_simulation True\n"


def test_between_enter_and_the_block() -> None:
    """From Python 3.14 on, a with statement handles signals there.

    The tuple has looked up and called the same at its exception.
    """
    out = run_well("""
        import contextlib, gpuconf
        gpuconf.simulate("2xT4")
        scope, other = gpuconf.device("GPU:1"), gpuconf.device("GPU:0")

        def fails(*entered):
            try:
                with contextlib.ExitStack() as stack:
                    [stack.enter_context(each) for each in entered]
                    before = gpuconf.current_scope()
                    (scope.__exit__, scope.__enter__(), 1 / 0)
            except ZeroDivisionError:
                assert not gpuconf.current_scope(), gpuconf.current_scope()
            return before[-5:]

        print(fails(), fails(other), fails(scope), fails(scope, other, scope))
        (scope.__exit__, scope.__enter__())  # without an exception, as by a program that enters by hand
        print(gpuconf.current_scope()[-5:])
        try:
            (scope.__exit__, 1 / 0, scope.__enter__())  # not entered
        except ZeroDivisionError:
            print(gpuconf.current_scope()[-5:])
        scope.__exit__(None, None, None)
        print(gpuconf.current_scope())
        try:
            scope.__exit__(None, None, None)
        except IndexError as error:
            print(error)
        """)
    assert out.splitlines() == [" GPU:0 GPU:1 GPU:1", "GPU:1", "GPU:1", "", "list index out of range"]


@pytest.mark.parametrize("interval", [0.0001, 0.0007])
def test_at_any_time(interval: float) -> None:
    """A timer that rings all the time: C code is interrupted, too, and its exception comes when it returns."""
    out = run_well(
        USES
        + f"""
armed = False
def ring(*_):
    if armed:
        raise Interrupt

gpuconf.simulate("2xT4")
for use in ALL:
    use()
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, {interval}, {interval})
caught, end = 0, time.monotonic() + 1.5
while time.monotonic() < end:
    for use in ALL:
        try:
            armed = True
            use()
            use()
            armed = False
        except Interrupt:
            armed = False
            caught += 1
        check(use.__name__)
signal.setitimer(signal.ITIMER_REAL, 0)
gpuconf.reset()
print(caught > 20)
""",
        env=PATH,
    )
    assert out == "True\n"


def test_warnings_that_are_errors_lose_nothing() -> None:
    out = run_well(
        USES
        + """
raised = []
sys.unraisablehook = lambda unraisable: raised.append(unraisable.exc_type)
gpuconf.simulate("2xT4")
with warnings.catch_warnings():
    warnings.simplefilter("error")
    dropped()
with warnings.catch_warnings(record=True) as recorded:
    warnings.simplefilter("always")
    dropped()
    line = recorded[0]
    assert line.source is not None and "dropped without free" in str(line.message)
    assert line.lineno == dropped.__code__.co_firstlineno + 1, line
    check("recorded")  # the record holds the block, whose memory is free
del recorded, line
gpuconf.reset()
print(raised)
""",
        env=PATH,
    )
    assert out == "[<class 'ResourceWarning'>]\n"
