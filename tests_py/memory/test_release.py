"""release(): what errors, outputs and caches keep goes back, what variables hold stays, and the rest has a name."""

from __future__ import annotations

import gc
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import gpuconf
import pytest
from gpuconf.memory import allocate, release, stats
from script import execute, run_well

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of the buffers that the tests leave to it
    pytest.mark.usefixtures("one_gpu"),
]

kept: Any = None


@pytest.fixture
def modules_are_looked_through() -> Iterator[None]:
    """What is frozen (conftest.py), as this module's variables, is no referrer of anything."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_stored() -> Iterator[None]:
    """Pytest sets and deletes these names, too."""
    yield
    for name in ("last_exc", "last_value", "last_traceback"):
        vars(sys).pop(name, None)


def fail(cause: bool = False, context: bool = False, group: bool = False) -> Exception:
    """An error whose frames, or those of an error that led to it, hold 64 MiB."""

    def hold() -> None:
        held = allocate(64 * MIB)
        raise ValueError(held.nbytes)

    try:
        if cause or context or group:
            try:
                hold()
            except ValueError as error:
                if group:
                    raise ExceptionGroup("several", [error]) from None  # noqa: F821 - Python 3.11
                raise KeyError("outer") from (error if cause else None)
        hold()
    except Exception as error:
        return error
    raise AssertionError


@pytest.mark.parametrize("name", ["last_exc", "last_value", "last_traceback"])
def test_the_last_error(name: str) -> None:
    error = fail()
    setattr(sys, name, error.__traceback__ if name == "last_traceback" else error)
    del error
    assert stats().bytes_in_use == 64 * MIB
    released = release()
    assert stats().bytes_in_use == 0
    assert {step.step: step.bytes_freed for step in released.steps}["tracebacks"] == released.bytes_freed == 64 * MIB
    assert released.bytes_in_use == 0
    assert released.holders == ()


@pytest.mark.parametrize("how", ["cause", "context", "group"])
def test_errors_that_led_to_it(how: str) -> None:
    if how == "group" and sys.version_info < (3, 11):
        pytest.skip("exception groups came with Python 3.11")
    sys.last_value = fail(**{how: True})
    assert release().bytes_freed == 64 * MIB


def test_locals_that_somebody_has_looked_at() -> None:
    """Up to Python 3.12, reading f_locals leaves a copy in the frame, which clear() alone does not empty."""
    error = fail()
    at = error.__traceback__
    while at is not None:
        assert at.tb_frame.f_locals is not None
        at = at.tb_next
    sys.last_value = error
    assert release().bytes_freed == 64 * MIB


def test_the_error_that_is_being_handled() -> None:
    def hold() -> None:
        held = allocate(64 * MIB)
        raise ValueError(held.nbytes)

    mine = allocate(MIB)
    try:
        hold()
    except ValueError:
        assert release().bytes_freed == 64 * MIB
    assert not mine.freed, "this frame has not finished"
    mine.free()


def test_a_generator_that_handled_an_error_goes_on() -> None:
    def count() -> Any:
        held = allocate(MIB)
        try:
            yield 1
        except ValueError as error:
            sys.last_value = error
            yield 2
        yield held.nbytes
        held.free()

    counter = count()
    assert next(counter) == 1
    assert counter.throw(ValueError("thrown in")) == 2
    release()
    assert next(counter) == MIB
    assert next(counter, None) is None


def test_memory_in_a_cycle() -> None:
    gc.disable()
    try:
        cycle: list[Any] = [allocate(64 * MIB)]
        cycle.append(cycle)
        del cycle
        assert {step.step: step.bytes_freed for step in release().steps}["garbage"] == 64 * MIB
    finally:
        gc.enable()


def test_pools_return_idle_memory() -> None:
    gpuconf.simulate("H100-80GB")
    gpuconf.config.experimental.set_memory_growth(gpuconf.config.list_physical_devices("GPU")[0], True)
    allocate(64 * MIB).free()
    assert stats().bytes_reserved == 64 * MIB
    released = release()
    assert released.bytes_unreserved == 64 * MIB
    assert (released.bytes_freed, stats().bytes_reserved) == (0, 0)


class Model:
    def __init__(self) -> None:
        self.layers = [allocate(2 * MIB)]


class Slotted:
    __slots__ = ("weight",)


@pytest.mark.usefixtures("modules_are_looked_through")
def test_what_variables_hold_stays_and_has_their_names() -> None:
    global kept
    kept = {"weights": [allocate(4 * MIB)]}
    model, local, slotted = Model(), allocate(MIB), Slotted()
    slotted.weight = allocate(3 * MIB)
    captured = allocate(5 * MIB)

    def inner() -> int:
        return captured.nbytes

    sys.last_value = fail()
    released = release()
    assert released.bytes_freed == 64 * MIB
    assert released.bytes_in_use == 15 * MIB
    found = {holder.nbytes // MIB: holder for holder in released.holders}
    assert list(found) == [5, 4, 3, 2, 1]
    assert found[4].what == "gpuconf.Buffer on GPU:0"
    here = f"in {sys._getframe().f_code.co_name}() at {__file__}:"
    assert f"{__name__}.kept['weights'][0]" in found[4].referrers
    assert any(name.startswith(f"model.layers[0] {here}") for name in found[2].referrers)
    assert any(name.startswith(f"local {here}") for name in found[1].referrers)
    assert any(name.startswith(f"slotted.weight {here}") for name in found[3].referrers)
    assert any(name.startswith(f"captured {here}") for name in found[5].referrers)
    lines = str(released).splitlines()
    assert "total" in lines[6]
    assert lines[6].split()[1] == "64.00MiB"
    assert "still in use: 15.00MiB" in lines
    assert "  gpuconf  (untagged)  15.00MiB       5" in lines
    assert any("4.00MiB gpuconf.Buffer on GPU:0: " in line and "kept['weights'][0]" in line for line in lines)
    assert repr(released) == f"<gpuconf.Released: {64 * MIB} bytes freed, {15 * MIB} bytes still in use>"
    assert released.to_dict()["holders"][0]["nbytes"] == 5 * MIB
    inner()
    for buffer in (kept["weights"][0], model.layers[0], slotted.weight, captured):
        buffer.free()
    kept = None
    del local  # reading the frame's variables did not keep it alive
    gc.collect()
    assert stats().bytes_in_use == 0


def test_tensors_count_too() -> None:
    pytest.importorskip("numpy")
    with gpuconf.device("GPU:0"):
        tensor = gpuconf.constant([[1.0, 2.0]] * 1024)
    (holder,) = release().holders
    assert (holder.nbytes, holder.what) == (8192, "gpuconf.Tensor (1024, 2) float32")
    assert any(name.startswith("tensor in ") for name in holder.referrers)
    del tensor


def test_one_gpu_is_counted() -> None:
    gpuconf.simulate("2xH100-80GB")
    other = allocate(MIB, "GPU:1")
    sys.last_value = fail()
    assert release("GPU:1").bytes_freed == 0
    assert release("GPU:1").bytes_in_use == MIB
    assert release("GPU:0").bytes_in_use == 0
    with pytest.raises(ValueError, match="GPU:9"):
        release("GPU:9")
    with pytest.raises(TypeError):
        release(3)  # type: ignore[arg-type]
    other.free()


def python(program: str) -> str:
    done = execute([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_without_devices_it_initializes_nothing() -> None:
    out = python("""
        import sys, gpuconf
        released = gpuconf.memory.release()
        print(released.bytes_in_use, [step.step for step in released.steps], "gpuconf._core._gpuconf" in sys.modules)
    """)
    assert out == "0 ['garbage', 'tracebacks', 'outputs', 'caches', 'pools'] False\n"


SHELL = """
    import sys, gpuconf
    from IPython.core.interactiveshell import InteractiveShell
    gpuconf.simulate("H100-80GB")
    MIB = 1 << 20
    ip = InteractiveShell.instance()
    ip.history_manager.enabled = False
    sys.stdout, out = open("/dev/null", "w"), sys.stdout
    def run(*cells):
        for cell in cells:
            ip.run_cell(cell, store_history=True)
    def used():
        return gpuconf.memory.stats().bytes_in_use // MIB
    run("import gpuconf", "allocate, MIB = gpuconf.memory.allocate, 1 << 20")
"""


@pytest.fixture
def in_ipython() -> Any:
    pytest.importorskip("IPython")
    return lambda program: python(textwrap.dedent(SHELL) + textwrap.dedent(program))


def test_ipythons_outputs_that_hold_device_memory(in_ipython: Any) -> None:
    out = in_ipython("""
        run("allocate(64 * MIB)", "[1, {'batch': allocate(32 * MIB)}]", "'text'", "mine = allocate(16 * MIB)", "mine",
            "42")
        before = used()
        released = gpuconf.memory.release()
        step = {s.step: s for s in released.steps}["outputs"]
        print(before, used(), step.bytes_freed // MIB, step.count, file=out)
        names = ip.user_ns
        print(sorted(names["Out"].values(), key=str), [n for n in names if n[1:].isdigit()], file=out)
        print([names[n] for n in ("_", "__", "___")], file=out)
        print(not names["mine"].freed, [h.referrers[0] for h in released.holders], file=out)
        run("'after'")
        print(names["_"], names["__"], file=out)
    """)
    assert out.splitlines() == [
        "112 16 96 3",
        "[42, 'text'] ['_5', '_8']",
        "[42, '', 'text']",
        "True ['__main__.mine']",
        "after 42",
    ]


def test_a_name_that_the_user_assigned_is_the_users(in_ipython: Any) -> None:
    out = in_ipython("""
        run("_ = allocate(MIB)", "Out[99] = mine = allocate(MIB)", "_7 = allocate(MIB)")
        gpuconf.memory.release()
        print(used(), ip.user_ns["_"].freed, ip.user_ns["mine"].freed, ip.user_ns["_7"].freed, 99 in ip.user_ns["Out"],
              file=out)
    """)
    assert out.split() == ["3", "False", "False", "False", "False"]


def test_the_error_of_an_ipython_cell(in_ipython: Any) -> None:
    out = in_ipython('''
        run("""
        def train():
            batch = allocate(64 * MIB)
            try:
                allocate(1 << 40)
            except MemoryError as error:
                raise RuntimeError("training failed") from error
        """, "train()")
        before = used()
        run("result = gpuconf.memory.release()")
        print(before, used(), ip.user_ns["result"].bytes_freed // MIB, file=out)
        run("%tb")
    ''')
    assert out.split() == ["64", "0", "64"]


def test_the_interactive_interpreters_last_result(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    monkeypatch.setattr(builtins, "_", [allocate(MIB)], raising=False)
    assert release().bytes_freed == MIB
    assert builtins._ is None  # type: ignore[attr-defined]
    monkeypatch.setattr(builtins, "_", 42)
    release()
    assert builtins._ == 42  # type: ignore[attr-defined]


def test_a_tuple_that_another_thread_builds() -> None:
    """It failed with SystemError while the search for holders referred to it.

    In a small process a search takes little time.
    """
    run_well("""
        import sys, threading, time
        import gpuconf

        gpuconf.simulate("1x T4")
        held, ended = gpuconf.memory.allocate(1 << 20), threading.Event()

        def search():
            while not ended.is_set():
                gpuconf.memory.release()

        searcher = threading.Thread(target=search)
        searcher.start()
        sys.setswitchinterval(1e-5)
        try:
            for _ in range(20):
                assert len(tuple(time.sleep(0.002) for _ in range(40))) == 40  # it grows several times
        finally:
            ended.set()
            searcher.join()
            held.free()
    """)
