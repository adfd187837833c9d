"""The end of a program that used gpuconf: its own exit code, nothing on stderr, at once."""

from __future__ import annotations

import pytest
from script import Done, run

BEGIN = """
import atexit, os, sys, threading, time
import gpuconf
gpuconf.simulate("2xH100-80GB")
buffer = gpuconf.memory.allocate(1000)

def churn(until=lambda: False):
    while not until():
        gpuconf.memory.allocate(5000, "GPU:1").free()

def wait_forever():
    gpuconf.memory.allocate(gpuconf.memory.stats().bytes_limit, wait=1000)
"""

# Code that a program runs at its end, its exit code, and its output.
ENDS = {
    "with live buffers": ("", 0, ""),
    "with live buffers in a cycle": ("cycle = [buffer]; cycle.append(cycle); del buffer, cycle", 0, ""),
    "with a live view": ("view = buffer.view(); view[:5] = b'hello'", 0, ""),
    "with a view of freed memory": ("view = buffer.view(); buffer.free()", 0, ""),
    "with an open scope and measurement": (
        "gpuconf.device('GPU:1').__enter__(); m = gpuconf.memory.measure(); m.__enter__()",
        0,
        "",
    ),
    "with a simulation that nobody ended": ("s = gpuconf.simulate('T4') if buffer.free() is None else None", 0, ""),
    "with a code": ("sys.exit(3)", 3, ""),
    "with a code out of a with block": (
        "with gpuconf.memory.allocate(5) as b, gpuconf.device('GPU:1'): sys.exit(4)",
        4,
        "",
    ),
    "at once": ("os._exit(5)", 5, ""),
    "with daemon threads that allocate": (
        "for _ in range(4): threading.Thread(target=churn, daemon=True).start()\ntime.sleep(0.05); sys.exit(6)",
        6,
        "",
    ),
    "with daemon threads that wait for memory": (
        "for _ in range(4): threading.Thread(target=wait_forever, daemon=True).start()\ntime.sleep(0.05); sys.exit(7)",
        7,
        "",
    ),
    "with a thread that goes on for a while": (
        "t = time.monotonic() + 0.2\n"
        "threading.Thread(target=churn, args=(lambda: time.monotonic() > t,)).start()\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('worked', "
        "gpuconf.memory.stats().live_blocks))).start()\n"
        "sys.exit(8)",
        8,
        "worked",
    ),
    "at once with threads that allocate": (
        "for _ in range(4): threading.Thread(target=churn).start()\ntime.sleep(0.05); os._exit(9)",
        9,
        "",
    ),
    "with handlers that use gpuconf": (
        "atexit.register(lambda: print(gpuconf.memory.stats().live_blocks))\n"
        "atexit.register(lambda: gpuconf.memory.allocate(10))\n"
        "atexit.register(buffer.free)\n"
        "sys.exit(10)",
        10,
        "",
    ),
    "with handlers that start over": ("buffer.free()\natexit.register(gpuconf.reset)\nsys.exit(11)", 11, ""),
    "with a handler that loads gpuconf": ("buffer.free()", 0, ""),
    "after an interrupt that was caught": (
        "try: signal = __import__('signal'); signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt: "
        "sys.exit(12)",
        12,
        "",
    ),
    "with a buffer held by a thread local": ("local = threading.local(); local.buffer = buffer; del buffer", 0, ""),
    "with an object that frees its memory when it goes": (
        "class Holder:\n"
        "    def __init__(self): self.memory = gpuconf.memory.allocate(100)\n"
        "    def __del__(self): self.memory.free()\n"
        "gpuconf.holder = Holder()",  # is dropped as late as possible
        0,
        "",
    ),
}


def check_end(done: Done, code: int, stderr: str = "") -> None:
    assert (done.code, done.stderr) == (code, stderr), done
    assert done.seconds < 15  # a busy machine may need most of this; a hang takes 30


@pytest.mark.parametrize("end", ENDS)
def test_a_program_that_ends(end: str) -> None:
    program, code, shown = ENDS[end]
    done = run(BEGIN + program)
    check_end(done, code)
    assert shown in done.stdout


@pytest.mark.parametrize("end", ["with daemon threads that allocate", "with daemon threads that wait for memory"])
def test_threads_in_the_core_never_disturb_the_end(end: str) -> None:
    """Threads are stopped anywhere, so a crash would show in only some runs."""
    program, code, _ = ENDS[end]
    for _ in range(12):
        check_end(run(BEGIN + program), code)


def test_an_error_that_nobody_catches_is_all_that_stderr_shows() -> None:
    done = run(BEGIN + "gpuconf.memory.allocate(1 << 50)")
    lines = done.stderr.splitlines()
    assert done.code == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert any(line.startswith("gpuconf.errors.ResourceExhaustedError: OOM when allocating 1.00PiB") for line in lines)
    assert len([line for line in lines if line.startswith("Traceback")]) == 1
    assert "Exception ignored" not in done.stderr
    assert "__del__" not in done.stderr
    assert "_native" not in lines[-1]


def test_an_error_in_a_thread_is_all_that_stderr_shows() -> None:
    done = run(BEGIN + "threading.Thread(target=lambda: gpuconf.memory.stats('GPU:9')).start()")
    assert done.code == 0
    assert done.stderr.startswith("Exception in thread Thread-1")
    assert done.stderr.count("Traceback") == 1


def test_a_program_that_imports_and_does_not_use_it_ends() -> None:
    check_end(run("import gpuconf, atexit; atexit.register(lambda: gpuconf.config.list_physical_devices())"), 0)


def test_nothing_is_written_in_a_whole_life() -> None:
    """No notice, no warning: the core's messages go to a logger, and are shown only if the program configures
    logging.
    """
    done = run(
        """
        import gpuconf
        gpuconf.simulate("4xT4:8GiB")
        gpus = gpuconf.config.list_physical_devices("GPU")
        for gpu in gpus:
            gpuconf.config.experimental.set_memory_growth(gpu, True)
        with gpuconf.memory.allocate(1 << 20) as buffer:
            buffer.copy_from_host(b"x")
        gpuconf.reset()
        """,
        flags=["-W", "default", "-X", "dev"],
    )
    assert (done.code, done.stdout, done.stderr) == (0, "", "")


def test_a_leaked_buffer_is_reported_in_development_mode_and_only_there() -> None:
    program = (
        "import "
        "gpuconf\ngpuconf.simulate('T4')\ngpuconf.memory.allocate(1000)\nprint(gpuconf.memory.stats().live_blocks)"
    )
    assert run(program).stderr == ""
    done = run(program, flags=["-X", "dev"])
    assert done.stdout == "0\n"
    assert "ResourceWarning: <gpuconf.Buffer of 1000 bytes on /device:GPU:0" in done.stderr
