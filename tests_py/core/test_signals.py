"""Signals and fault handlers belong to the Python program, before and after the core is loaded."""

from __future__ import annotations

import pytest
from script import run, run_well

USE = """
def use():
    gpuconf.simulate("H100-80GB")
    with gpuconf.memory.allocate(1000) as buffer:
        buffer.copy_from_host(b"x")
    gpuconf.memory.stats()
    try:
        gpuconf.memory.stats("GPU:7")
    except ValueError:
        pass
"""


def test_handlers_stay_as_they_were() -> None:
    run_well("""
        import signal
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: None)
        before = {s: signal.getsignal(s) for s in signal.valid_signals()}
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        import gpuconf
        gpuconf.simulate("T4")
        gpuconf.memory.allocate(1000).free()
        assert before == {s: signal.getsignal(s) for s in signal.valid_signals()}
        assert before[signal.SIGINT] is signal.default_int_handler
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
        """)


def test_an_alarm_that_rings_all_the_time_disturbs_nothing() -> None:
    run_well("""
        import signal, time
        import gpuconf
        rings = 0
        def ring(*_):
            global rings
            rings += 1
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)  # even while the core is being loaded
        gpuconf.simulate("H100-80GB")
        calls = 0
        while calls < 100 or rings < 100:
            with gpuconf.memory.allocate(1000) as buffer:
                buffer.copy_from_host(b"data")
                assert buffer.copy_to_host()[:4] == b"data"
            try:
                gpuconf.memory.allocate(1 << 50, wait=0.001)
            except MemoryError:
                pass
            calls += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert gpuconf.memory.stats().live_blocks == 0
        """)


def test_an_alarms_handler_may_use_gpuconf() -> None:
    run_well("""
        import signal, time
        import gpuconf
        inside = 0
        def ring(*_):
            global inside
            gpuconf.memory.allocate(500).free()
            gpuconf.config.list_logical_devices()
            inside += 1
        gpuconf.simulate("H100-80GB")
        gpuconf.memory.allocate(1000).free()  # an import cannot be interrupted by an import of the same module
        gpuconf.config.list_logical_devices()
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        while inside < 20:
            gpuconf.memory.allocate(1000).free()
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert gpuconf.memory.stats().live_blocks == 0
        """)


@pytest.mark.parametrize("when", ["sleeps", "computes", "joins a thread"])
def test_ctrl_c_interrupts_a_program_that(when: str) -> None:
    what = {
        "sleeps": "time.sleep(60)",
        "computes": "while True: gpuconf.memory.stats()",
        "joins a thread": "thread.join()",
    }[when]
    run_well(f"""
        import os, signal, threading, time
        import gpuconf
        gpuconf.simulate("T4")
        gpuconf.memory.allocate(1000).free()
        thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)
        thread.start()
        def send():
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=send).start()
        try:
            {what}
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("not interrupted")
        """)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGALRM", "SIGHUP", "SIGINT"])
def test_a_signals_default_still_ends_the_program(name: str) -> None:
    done = run(f"""
        import os, signal, time
        import gpuconf
        gpuconf.simulate("T4")
        buffer = gpuconf.memory.allocate(1000)
        signal.signal(signal.{name}, signal.SIG_DFL)
        os.kill(os.getpid(), signal.{name})
        time.sleep(10)
        """)
    import signal

    assert (done.code, done.stderr) == (-getattr(signal, name), "")


def test_ctrl_c_while_the_command_is_imported_shows_no_traceback() -> None:
    done = run("""
        import runpy, signal, sys
        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == "gpuconf.cli.main":
                    signal.raise_signal(signal.SIGINT)
        sys.meta_path.insert(0, Finder())
        runpy.run_module("gpuconf", run_name="__main__")
        """)
    assert (done.code, done.stdout, done.stderr) == (130, "", "")


def test_a_signal_that_is_blocked_waits_for_sigwait() -> None:
    """The core's own threads do not receive it; otherwise it would end the process."""
    out = run_well("""
        import os, signal
        import gpuconf
        gpuconf.simulate("T4")
        gpuconf.memory.allocate(1000).free()
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGHUP, signal.SIGRTMIN + 5):
            signal.pthread_sigmask(signal.SIG_BLOCK, {number})
            for _ in range(20):
                os.kill(os.getpid(), number)
                assert signal.sigwait({number}) == number
        print("all came")
        """)
    assert out == "all came\n"


def test_a_broken_pipe_is_pythons_error() -> None:
    run_well("""
        import os
        import gpuconf
        gpuconf.config.list_physical_devices()
        read, write = os.pipe()
        os.close(read)
        try:
            os.write(write, b"x")
        except BrokenPipeError:
            pass
        else:
            raise AssertionError("no error")
        """)


def test_a_program_whose_reader_goes_away_ends_as_python_does() -> None:
    done = run("""
        import subprocess, sys
        program = "import gpuconf; gpuconf.simulate('T4'); gpuconf.memory.allocate(1)\\nwhile True: print('x' * 1000)"
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        child.stdout.read(10)
        child.stdout.close()
        print(child.wait(20), b"BrokenPipeError" in child.stderr.read())
        """)
    # Not by a signal. The code is 120 where Python, at its end, still has something to write.
    assert done.stdout in ("1 True\n", "120 True\n")


@pytest.mark.parametrize("order", ["before", "after", "before and after"])
def test_faulthandler_works_when_enabled(order: str) -> None:
    """A crash in another library shows Python's traceback, and the process dies of it."""
    enable = "import faulthandler; faulthandler.enable()"
    done = run(
        (enable if "before" in order else "")
        + "\nimport gpuconf\n"
        + USE
        + "\nuse()\n"
        + (enable if "after" in order else "")
        + """
use()
import ctypes
def crash():
    ctypes.string_at(0)
crash()
"""
    )
    assert done.code == -11
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert " in crash\n" in done.stderr
    assert "goroutine" not in done.stderr


def test_a_crash_without_faulthandler_ends_the_process() -> None:
    done = run("import gpuconf, ctypes\n" + USE + "use()\nctypes.string_at(0)", timeout=20)
    assert done.code in (-11, 2, -6)


def test_faulthandler_can_dump_all_threads_while_the_core_works() -> None:
    """By a call, which holds the GIL. dump_traceback_later does not, and can crash a busy CPython by itself."""
    out = run_well("""
        import faulthandler, tempfile, threading
        import gpuconf
        gpuconf.simulate("H100-80GB")
        stop = threading.Event()
        running = threading.Barrier(3)
        def work():
            running.wait()
            while not stop.is_set():
                gpuconf.memory.allocate(1000).free()
        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads: t.start()
        running.wait()
        with tempfile.TemporaryFile("w+") as log:
            for _ in range(20):
                faulthandler.dump_traceback(file=log)
            log.seek(0)
            text = log.read()
        stop.set()
        for t in threads: t.join()
        print(text.count(" in work") >= 20)
        """)
    assert out == "True\n"
