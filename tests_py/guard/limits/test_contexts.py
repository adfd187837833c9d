"""How many contexts of the driver the processes of a job have: in the budget, by process and card."""

from pathlib import Path

from conftest_guard import CARDS, MIB, job

COUNT = """
from gpuconf.jobs import budget
def count():
    use = budget.current().usage()
    return [use[uuid].contexts for uuid in sorted(use, reverse=True)]
"""


def test_contexts_are_counted_as_they_are_made_and_ended(driver: Path) -> None:
    with job(driver, {CARDS[0]: 64 * MIB, CARDS[1]: 64 * MIB}, FAKECUDA_GPUS="2", prelude=COUNT) as one:
        told = one.python("""
context, made, green, popped = c_void_p(), c_void_p(), c_void_p(), c_void_p()
assert cuda.cuInit(0) == 0
print(count())
for device in (0, 0, 1):  # retained twice, it is one context
    assert cuda.cuDevicePrimaryCtxRetain(byref(context), device) == 0
    print(count())
for create in (cuda.cuCtxCreate, cuda.cuCtxCreate_v2):
    assert create(byref(made), 0, 0) == 0
    print(count())
    assert cuda.cuCtxDestroy_v2(made) == 0
assert cuda.cuCtxCreate_v3(byref(made), None, 0, 0, 1) == 0
print(count())
assert cuda.cuCtxDetach(made) == 0
print(count())
assert cuda.cuDevicePrimaryCtxReset_v2(1) == 0 == cuda.cuDevicePrimaryCtxRelease_v2(0)
print(count())
assert cuda.cuDevicePrimaryCtxRelease_v2(0) == 0 == cuda.cuDevicePrimaryCtxRelease(1)
print(count())
assert cuda.cuGreenCtxCreate(byref(green), None, 0, 1) == 0
print(count())
assert cuda.cuGreenCtxDestroy(green) == 0
print(count())
""")
        assert told.split("\n")[:-1] == (
            [
                "[0, 0]",
                "[1, 0]",
                "[1, 0]",
                "[1, 1]",
                "[2, 1]",
                "[2, 1]",
                "[1, 2]",
                "[1, 1]",
                "[1, 0]",
                "[0, 0]",
                "[1, 0]",
                "[0, 0]",
            ]
        )
        use = one.budget.usage()
        assert [use[card].contexts_peak for card in CARDS[:2]] == [2, 2]
        assert [use[card].contexts for card in CARDS[:2]] == [0, 0]


def test_the_contexts_of_several_processes_add_up_while_they_live(driver: Path) -> None:
    """A process that was killed has none, and does not count for the peak."""
    with job(driver, 64 * MIB) as one:
        for _ in range(3):
            assert one.python("begin(); print(len(sys.argv), flush=True)") == "1\n"
        assert one.budget.usage()[CARDS[0]].contexts_peak == 1
        assert one.python("""
            import subprocess
            again = [sys.executable, "-c",
                     "import ctypes, sys; c = ctypes.CDLL('libcuda.so.1'); x = ctypes.c_void_p(); "
                     "print(c.cuInit(0), c.cuDevicePrimaryCtxRetain(ctypes.byref(x), 0), flush=True); sys.stdin.read()"]
            begin()
            children = [subprocess.Popen(again, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
            assert [child.stdout.readline() for child in children] == [b"0 0\\n"] * 2
            from gpuconf.jobs import budget
            def use():
                return next(iter(budget.current().usage().values()))
            print(sorted(process.contexts for process in use().processes), use().contexts)
            children[0].kill()
            children[0].wait()
            print(use().contexts, use().contexts_peak)
            children[1].communicate()
        """).splitlines() == ["[1, 1, 1] 3", "2 3"]
