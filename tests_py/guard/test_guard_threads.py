"""Memory that other threads free, and physical memory whose handle and mapping end in either order, and contexts."""

from pathlib import Path

from conftest_guard import MIB, job


def test_memory_is_freed_on_another_thread(driver: Path) -> None:
    """Four threads allocate, and hand what they have to the next one, which frees it; a thread's end gives nothing
    back.
    """
    with job(driver, 512 * MIB) as one:
        assert one.python("""
            import queue, threading
            context = begin()
            lines = [queue.Queue() for _ in range(4)]
            wrong = []
            def work(i):
                cuda.cuCtxSetCurrent(context)
                for step in range(500):
                    result, address = allocate((1 + (step * 7 + i) % 13) * MIB)
                    if result:
                        wrong.append(result)
                    lines[(i + 1) % 4].put(address)
                    if free(lines[i].get()):
                        wrong.append("free")
            threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            print(wrong, info()[0] == 512 * MIB)
            held = []
            thread = threading.Thread(target=lambda: held.append((cuda.cuCtxSetCurrent(context), allocate(500 * MIB))))
            thread.start()
            thread.join()
            print(held[0][1][0], allocate(13 * MIB)[0], allocate(12 * MIB)[0])
        """).splitlines() == ["[] True", "0 2 0"]


def test_a_handle_and_its_mapping_end_in_either_order(driver: Path) -> None:
    with job(driver, 512 * MIB) as one:
        assert (
            one.python("""
            class Prop(ctypes.Structure):
                _fields_ = [*((name, c_int) for name in ("a", "b", "where", "id")),
                            ("other", c_void_p), ("flags", c_uint64)]
            begin()
            size = c_size_t(64 * MIB)
            for mapping_first in (True, False):
                handle, at = c_uint64(), c_uint64()
                assert cuda.cuMemCreate(byref(handle), size, byref(Prop(1, 0, 1, 0)), c_uint64(0)) == 0
                assert cuda.cuMemAddressReserve(byref(at), size, c_size_t(2 * MIB), c_uint64(0), c_uint64(0)) == 0
                assert cuda.cuMemMap(at, size, c_size_t(0), handle, c_uint64(0)) == 0
                steps = [lambda: cuda.cuMemUnmap(at, size), lambda: cuda.cuMemRelease(handle)]
                for step in steps if mapping_first else steps[::-1]:
                    print(info()[0] // MIB, step())
                print(info()[0] // MIB)
        """).split()
            == ["448", "0", "448", "0", "512"] * 2
        )


def test_a_handle_is_counted_while_other_threads_use_it(driver: Path) -> None:
    """A thread retains and releases, or two do, while another maps; what is charged is the driver's own count."""
    with job(driver, 1024 * MIB) as one:
        assert one.python("""
            import threading
            class Prop(ctypes.Structure):
                _fields_ = [*((name, c_int) for name in ("a", "b", "where", "id")),
                            ("other", c_void_p), ("flags", c_uint64)]
            context, size, step = begin(), c_size_t(2 * MIB), threading.Barrier(3, timeout=60)
            first, second, handle = c_uint64(), c_uint64(), c_uint64()
            for at in first, second:
                assert cuda.cuMemAddressReserve(byref(at), size, size, c_uint64(0), c_uint64(0)) == 0
            def work():
                got = c_uint64()
                for _ in range(ROUNDS):
                    step.wait()
                    while busy:
                        assert cuda.cuMemRetainAllocationHandle(byref(got), c_void_p(first.value)) == 0
                        assert cuda.cuMemRelease(got) == 0
                    step.wait()
            ROUNDS, early, late = 1000, 0, 0
            threads = [threading.Thread(target=work) for _ in range(2)]
            for thread in threads:
                thread.start()
            for round in range(ROUNDS):
                assert cuda.cuMemCreate(byref(handle), size, byref(Prop(1, 0, 1, 0)), c_uint64(0)) == 0
                assert cuda.cuMemMap(first, size, c_size_t(0), handle, c_uint64(0)) == 0
                if round % 2:  # no handle is left but those of the threads
                    assert cuda.cuMemRelease(handle) == 0
                busy = True
                step.wait()
                for _ in range(10):
                    info()
                if round % 2 == 0:
                    assert cuda.cuMemMap(second, size, c_size_t(0), handle, c_uint64(0)) == 0
                busy = False
                step.wait()
                assert cuda.cuMemUnmap(first, size) == 0
                if round % 2 == 0:
                    assert cuda.cuMemRelease(handle) == 0
                    early += info()[0] == 1024 * MIB
                    assert cuda.cuMemUnmap(second, size) == 0
                late += info()[0] != 1024 * MIB
            print(early, late)
        """).split() == ["0", "0"]


def test_a_context_takes_only_its_own_memory_along(driver: Path) -> None:
    """Also if the primary one was reset before it was made."""
    with job(driver, 512 * MIB) as one:
        assert one.python("""
            first, second = begin(), c_void_p()
            assert allocate(100 * MIB)[0] == 0 == cuda.cuDevicePrimaryCtxReset_v2(0)
            assert begin().value == first.value
            print(info()[0] // MIB, cuda.cuCtxCreate_v2(byref(second), 0, 0), allocate(64 * MIB)[0])
            assert cuda.cuCtxSetCurrent(first) == 0
            print(allocate(32 * MIB)[0], info()[0] // MIB, cuda.cuCtxDestroy_v2(second), info()[0] // MIB)
        """).split() == ["512", "0", "0", "0", "416", "0", "480"]
