"""Whose memory it is: tags, usage() by library and tag, the split of a measurement."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import threading
from collections.abc import Iterator
from typing import Any

import gpuconf
import pytest
from gpuconf import memory
from gpuconf._core.native import by_hand
from script import run_well


@pytest.fixture(autouse=True)
def machine(one_gpu: None) -> None:
    """What most tests need; others simulate their own."""


MIB = 1 << 20


@pytest.fixture(scope="module")
def c() -> Any:
    library = ctypes.CDLL(gpuconf.library_path())
    library.gpuconf_malloc.restype = ctypes.c_void_p
    library.gpuconf_malloc.argtypes = (ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    library.gpuconf_free.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    library.gpuconf_last_error.restype = ctypes.c_char_p
    return library


def rows(device: str | None = None) -> dict[tuple[str, str], tuple[int, int, int]]:
    return {(r.library, r.tag): r[2:] for r in memory.usage(device)}


def in_use() -> dict[str, int]:
    """Bytes in use by tag."""
    return {row.tag: row.bytes_in_use for row in memory.usage() if row.bytes_in_use}


def test_the_innermost_tag_counts() -> None:
    kept = []
    with memory.tag("outer"):
        kept.append(memory.allocate(1000))
        with memory.tag("inner"), memory.tag("innermost"):
            kept.append(memory.allocate(2000))
        kept.append(memory.allocate(3000))
    kept.append(memory.allocate(4000))
    assert rows() == {
        ("gpuconf", "outer"): (1024 + 3072, 4096, 2),
        ("gpuconf", "innermost"): (2048, 2048, 1),
        ("gpuconf", ""): (4096, 4096, 1),
    }
    for buffer in kept:
        with memory.tag("another"):  # a block keeps its tag
            buffer.free()
    assert in_use() == {}


def test_tensors_and_sessions_count_under_the_tag_of_their_call() -> None:
    with memory.tag("weights"):
        tensor = gpuconf.constant([1.0] * 1000)
    with memory.tag("product"):
        product = gpuconf.add(tensor, tensor)
    assert rows() == {("gpuconf", "weights"): (4096, 4096, 1), ("gpuconf", "product"): (4096, 4096, 1)}
    del tensor, product
    v1 = gpuconf.compat.v1
    with v1.Graph().as_default():
        node = v1.constant([1.0] * 3000)
        with v1.Session() as session, memory.tag("run"):
            session.run(node + node)
    assert rows()["gpuconf", "run"][1] >= 12288


def test_memory_from_c_has_a_tag_too(c: Any) -> None:
    gpuconf.config.list_logical_devices()
    with memory.tag("python"):
        first = c.gpuconf_malloc(1000, 0, None)
        assert c.gpuconf_tag_push(b"from C") == 1
        second = c.gpuconf_malloc(1000, 0, None)
        assert c.gpuconf_tag_push("größer".encode()) == 1
        third = c.gpuconf_malloc(1000, 0, None)
        with memory.tag("python again"):
            fourth = memory.allocate(1000)
        assert (c.gpuconf_tag_pop(), c.gpuconf_tag_pop()) == (1, 1)
        fifth = c.gpuconf_malloc(1000, 0, None)
    one = (1024, 1024, 1)
    assert rows() == {
        ("c", "python"): (2048, 2048, 2),
        ("c", "from C"): one,
        ("c", "größer"): one,
        ("gpuconf", "python again"): one,
    }
    fourth.free()
    for block in (first, second, third, fifth):
        c.gpuconf_free(block, 0, 0, None)


def test_c_tags_that_are_invalid_change_nothing(c: Any) -> None:
    assert c.gpuconf_tag_push(b"kept") == 1
    for name, why in (
        (None, "empty"),
        (b"", "empty"),
        (b"x" * 201, "200 bytes"),
        (b"\xff", "UTF-8"),
        (b"a\tb", "control"),
    ):
        assert c.gpuconf_tag_push(name) == 0
        assert why in c.gpuconf_last_error().decode()
    with memory.allocate(1000):
        assert in_use() == {"kept": 1024}
    assert (c.gpuconf_tag_pop(), c.gpuconf_tag_pop()) == (1, 0)
    assert "no tag" in c.gpuconf_last_error().decode()
    for _ in range(1000):
        assert c.gpuconf_tag_push(b"deep") == 1
    assert [c.gpuconf_tag_pop() for _ in range(1001)] == [1] * 1000 + [0]


def test_a_decorator_tags_each_call() -> None:
    @memory.tag("model")
    def build(nbytes: int, *, scale: int = 1) -> memory.Buffer:
        """Build it."""
        if nbytes > MIB:
            raise KeyError(nbytes)
        return memory.allocate(nbytes * scale)

    assert (build.__name__, build.__doc__) == ("build", "Build it.")
    kept = [build(500, scale=2), build(500)]
    with pytest.raises(KeyError):
        build(2 * MIB)
    with memory.allocate(1000):
        assert in_use() == {"model": 1024 + 512, "": 1024}
    for buffer in kept:
        buffer.free()


def test_what_a_tag_cannot_decorate() -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def coroutine() -> None: ...

    async def asynchronous_generator() -> Any:
        yield 1

    for function in (generator, coroutine, asynchronous_generator):
        with pytest.raises(TypeError, match=r"with gpuconf.memory.tag\('x'\):` inside it"):
            memory.tag("x")(function)
    with pytest.raises(TypeError, match="decorates a function, but got type"):  # it would no longer be a class
        memory.tag("x")(threading.Thread)
    with pytest.raises(TypeError, match="decorates a function, but got int"):
        memory.tag("x")(1)  # type: ignore[type-var]
    memory.tag("x")(functools.partial(int))


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("", ValueError, "must not be empty"),
        ("a\0b", ValueError, "NUL"),
        ("a\nb", ValueError, "control characters"),
        ("a\x85b", ValueError, "control characters"),
        ("\udc80", ValueError, "lone surrogate"),
        ("x" * 201, ValueError, "at most 200 bytes long, but got 201"),
        ("é" * 101, ValueError, "at most 200 bytes long, but got 202"),
        (None, TypeError, "must be a string, but got NoneType"),
        (b"x", TypeError, "must be a string, but got bytes"),
        (len, TypeError, "must be a string, but got builtin_function_or_method"),
    ],
    ids=repr,
)
def test_bad_tags(name: Any, kind: type[Exception], why: str) -> None:
    with pytest.raises(kind, match=why) as caught:
        memory.tag(name)
    assert isinstance(caught.value, gpuconf.errors.GpuconfError)


@pytest.mark.parametrize("name", ['a, "b"', "(untagged)", "é" * 100, " ", "%s {0} \x1bnot"[:6], "🧮"])
def test_any_text_is_a_tag(name: str) -> None:
    with memory.tag(name), memory.allocate(1000):
        assert in_use() == {name: 1024}
        assert name in str(memory.usage())


def test_a_tag_is_its_threads_and_can_be_used_in_several() -> None:
    shared, seen = memory.tag("shared"), []

    def work(nested: bool) -> None:
        buffer = memory.allocate(256)
        with shared:
            tagged = memory.allocate(512)
            if nested:
                with shared:
                    memory.allocate(512).free()
        seen.append(in_use())
        buffer.free()
        tagged.free()

    with shared:
        for nested in (False, True):
            thread = threading.Thread(target=work, args=(nested,))
            thread.start()
            thread.join()
    assert seen == [{"": 256, "shared": 512}] * 2


def test_a_thread_may_end_inside_a_tag(c: Any) -> None:
    kept = []

    def work() -> None:
        memory.tag("never left").__enter__()
        c.gpuconf_tag_push(b"nor this")
        kept.append(memory.allocate(1000))

    for _ in range(20):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    with memory.allocate(256):
        assert in_use() == {"nor this": 20 * 1024, "": 256}
    for buffer in kept:
        buffer.free()


def test_coroutines_leave_tags_in_any_order() -> None:
    async def work(name: str, seconds: float) -> None:
        with memory.tag(name):
            await asyncio.sleep(seconds)

    async def both() -> None:
        await asyncio.gather(work("long", 0.05), work("short", 0.01))
        with memory.allocate(1000):
            assert in_use() == {"": 1024}

    asyncio.run(both())


def test_a_generator_that_another_thread_ends_leaves_the_others_alone() -> None:
    def tagged() -> Iterator[None]:
        with memory.tag("generator"):
            yield

    generator = tagged()
    thread = threading.Thread(target=generator.__next__)
    thread.start()
    thread.join()
    with memory.tag("mine"):
        generator.close()
        with memory.allocate(1000):
            assert in_use() == {"mine": 1024}


def test_tags_survive_a_reset() -> None:
    with memory.tag("kept"):
        with memory.allocate(1000):
            pass
        gpuconf.simulate("T4")
        assert len(memory.usage()) == 0
        with memory.allocate(1000):
            assert in_use() == {"kept": 1024}


def test_a_tag_does_not_initialize_the_runtime() -> None:
    run_well("""
        import sys, gpuconf
        decorated = gpuconf.memory.tag("early")(lambda: gpuconf.memory.usage().to_dict())
        assert "gpuconf._core._gpuconf" not in sys.modules
        with gpuconf.memory.tag("early"):
            gpuconf.simulate("T4")
            gpuconf.config.set_logical_device_configuration(
                gpuconf.config.list_physical_devices("GPU")[0],
                [gpuconf.config.LogicalDeviceConfiguration(memory_limit=64)])
        assert decorated()["rows"] == []
    """)


def test_more_names_than_there_are_numbers() -> None:
    run_well("""
        import gpuconf
        gpuconf.simulate("H100-80GB")
        kept = []
        for step in range(9000):
            with gpuconf.memory.tag(f"step {step}"):
                kept.append(gpuconf.memory.allocate(256))
        usage = gpuconf.memory.usage()
        assert len(usage) == 8191, len(usage)
        rest = usage.rows[0]
        assert (rest.tag, rest.live_blocks) == ("(other)", 9000 - 8190), rest
        assert sum(row.bytes_in_use for row in usage) == usage.bytes_in_use == gpuconf.memory.stats().bytes_in_use
        with gpuconf.memory.measure() as measured:
            kept.append(gpuconf.memory.allocate(256))
        assert len(measured.rows) == 8192
        for buffer in kept:
            buffer.free()
    """)


# usage()


def test_usage_reads_as_a_table(two_gpus: None) -> None:
    assert str(memory.usage("GPU:1")) == "GPU:1: 0B in use in 0 blocks, peak 0B"
    with memory.tag("weights"):
        weights = memory.allocate(3 * MIB, "GPU:1")
    with memory.allocate(1000, "GPU:1"):
        usage = memory.usage("GPU:1")
    assert str(usage) == (
        "GPU:1: 3.00MiB in use in 2 blocks, peak 3.00MiB\n"
        "  library  tag          in use     peak  blocks\n"
        "  gpuconf  weights     3.00MiB  3.00MiB       1\n"
        "  gpuconf  (untagged)   1.0KiB   1.0KiB       1"
    )
    assert repr(usage) == "<gpuconf.MemoryUsage of GPU:1: 3146752 bytes in 2 blocks, 2 rows>"
    assert usage.to_dict() == {
        "device": "GPU:1",
        "bytes_in_use": 3146752,
        "peak_bytes_in_use": 3146752,
        "live_blocks": 2,
        "rows": [row.to_dict() for row in usage],
    }
    assert usage.rows[0].to_dict() == {
        "library": "gpuconf",
        "tag": "weights",
        "bytes_in_use": 3 * MIB,
        "peak_bytes_in_use": 3 * MIB,
        "live_blocks": 1,
    }
    assert usage != memory.usage("GPU:1")
    weights.free()
    assert [row.tag for row in memory.usage("GPU:1")] == ["weights", ""]  # freed rows stay, for their peaks
    gpuconf.config.experimental.reset_memory_stats("GPU:1")
    assert (memory.usage("GPU:1").rows, memory.usage("GPU:1")) == ((), memory.usage("GPU:1"))


def test_what_describes_a_pool_follows_the_scope(two_gpus: None) -> None:
    with gpuconf.device("GPU:1"), memory.allocate(1000) as buffer:
        assert buffer.device.name.endswith("GPU:1")
        assert memory.usage().device == memory.memory_map().device == "GPU:1"
        assert memory.usage().bytes_in_use == memory.stats().bytes_in_use == 1024
        with gpuconf.device("GPU:0"):
            assert memory.usage().device == memory.memory_map().device == "GPU:0"
            assert memory.usage().bytes_in_use == memory.stats().bytes_in_use == 0
        assert memory.usage("GPU:0").bytes_in_use == memory.stats("GPU:0").bytes_in_use == 0
    with gpuconf.device("GPU:7"):
        for look in (memory.usage, memory.stats, memory.memory_map, lambda: memory.allocate(1)):
            with pytest.raises(ValueError, match="scope names an unknown device"):
                look()


# measure()


def test_a_measurement_is_split_in_the_same_way() -> None:
    with memory.tag("before"):
        gone, kept = memory.allocate(4096), memory.allocate(256)
    with memory.measure() as outer:
        with memory.tag("new"), memory.measure() as inner:
            memory.allocate(10 * 1024).free()
            small = memory.allocate(512)
        gone.free()
        with memory.tag("late"):
            memory.allocate(1024).free()
    assert {row.tag: row[2:] for row in outer.rows} == {
        "before": (4352, 256, 4352),
        "new": (0, 512, 10240),
        "late": (0, 0, 1024),
    }
    assert {row.tag: row[2:] for row in inner.rows} == {"before": (4352, 4352, 4352), "new": (0, 512, 10240)}
    assert [row.tag for row in outer.rows] == ["new", "before", "late"]
    for measured in (outer, inner):
        assert sum(row.before for row in measured.rows) == measured.before
        assert sum(row.after for row in measured.rows) == measured.after
        assert sum(row.increase for row in measured.rows) == measured.increase
        assert max(row.peak_increase for row in measured.rows) <= measured.peak
        assert measured.to_dict()["rows"] == [row.to_dict() for row in measured.rows]
    small.free()
    kept.free()


@pytest.mark.parametrize("number", [-1, 8192, 1 << 70, "w", None])
def test_the_core_refuses_what_is_no_number_of_a_tag(number: Any) -> None:
    with gpuconf.memory.tag("kept"):
        before = by_hand().tag()
        with pytest.raises((ValueError, TypeError, OverflowError)):
            by_hand().set_tag(number)
        assert by_hand().tag() == before != 0
