"""Contexts that end on one thread while others allocate: what is charged is what the driver has."""

from pathlib import Path

from conftest_guard import MIB, job


def test_an_address_of_an_ended_context_is_given_out_again(driver: Path) -> None:
    """While one thread destroys its context, with memory in it, another one gets the same address: both count as they
    are.
    """
    with job(driver, 512 * MIB) as one:
        assert one.python("""
            import threading
            primary = begin()
            stop, wrong = [], []
            def churn():
                cuda.cuCtxSetCurrent(primary)
                while not stop:
                    result, address = allocate(MIB)
                    if result or free(address):
                        wrong.append(result)
            thread = threading.Thread(target=churn)
            thread.start()
            for _ in range(1500):
                context = c_void_p()
                assert cuda.cuCtxCreate_v2(byref(context), 0, 0) == 0
                for _ in range(4):
                    assert allocate(2 * MIB)[0] == 0
                assert cuda.cuCtxDestroy_v2(context) == 0
            stop.append(1)
            thread.join()
            cuda.cuCtxSetCurrent(primary)
            print(wrong, 512 - info()[0] // MIB)
        """).split() == ["[]", "0"]


def test_the_primary_context_is_held_again_while_it_ends(driver: Path) -> None:
    """One thread releases the primary context while another one retains it; the charge is what the driver has."""
    with job(driver, 1024 * MIB) as one:
        assert one.python("""
            import threading, time
            class Shape(ctypes.Structure):
                _fields_ = [(name, c_size_t) for name in ("w", "h", "d")]
                _fields_ += [(name, c_int) for name in ("format", "channels", "flags")]
            context, array, step, wrong = c_void_p(), c_void_p(), threading.Barrier(2, timeout=60), []
            assert cuda.cuInit(0) == 0 == cuda.cuCtxCreate_v2(byref(context), 0, 0)
            for _ in range(20000):  # much that is not the primary context's
                assert cuda.cuArray3DCreate_v2(byref(array), byref(Shape(64, 64, 1, 0x20, 1, 0x40))) == 0
            def work(i):
                context = c_void_p()
                for round in range(1000):
                    step.wait()
                    if round % 2 == i:
                        time.sleep(round % 11 * 5e-5)
                        assert cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0 == cuda.cuCtxSetCurrent(context)
                        assert allocate(1536 * KIB)[0] == 0  # a page of 2 MiB: two do not share one
                    elif round:
                        assert cuda.cuDevicePrimaryCtxRelease_v2(0) == 0
                    step.wait()
                    if round % 2 == i:
                        wrong.append((1024 * MIB - info()[0]) // (2 * MIB) - cuda.fakecuda_live(b"allocations"))
            threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            print({one: wrong.count(one) for one in set(wrong)})
        """).splitlines() == ["{0: 1000}"]
