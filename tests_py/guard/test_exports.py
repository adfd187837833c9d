"""Memory that was exported is counted until its last reference in the job ends: handles, mappings, imports and open
descriptors.
"""

import sys
from pathlib import Path

import pytest
import script
from conftest_guard import CARDS, MIB, PRELUDE, environment, job

EXPORTS = """
class Prop(ctypes.Structure):
    _fields_ = [*((name, c_int) for name in ("type", "handles", "where", "id")),
                ("other", c_void_p), ("flags", c_uint64)]
def create(size, types=1):
    handle = c_uint64()
    return cuda.cuMemCreate(byref(handle), c_size_t(size), byref(Prop(1, types, 1, 0)), c_uint64(0)), handle
def export(handle):
    descriptor = c_int()
    assert cuda.cuMemExportToShareableHandle(byref(descriptor), handle, 1, c_uint64(0)) == 0
    return descriptor.value
def imported(descriptor):
    handle = c_uint64()
    assert cuda.cuMemImportFromShareableHandle(byref(handle), c_void_p(descriptor), 1) == 0
    return handle
def map(handle, size):
    at = c_uint64()
    assert cuda.cuMemAddressReserve(byref(at), c_size_t(size), c_size_t(2 * MIB), c_uint64(0), c_uint64(0)) == 0
    assert cuda.cuMemMap(at, c_size_t(size), c_size_t(0), handle, c_uint64(0)) == 0
    return at
def left():
    return info()[0] // MIB
begin()
"""


def test_imported_memory_is_counted_until_its_mapping_ends(driver: Path) -> None:
    """Its first handle is released, and the descriptor closed: the mapping holds it on the GPU."""
    with job(driver, 256 * MIB, prelude=EXPORTS) as one:
        assert one.python("""
result, first = create(200 * MIB)
descriptor = export(first)
second = imported(descriptor)
print(left(), cuda.cuMemRelease(first), left())
os.close(descriptor)
at = map(second, 200 * MIB)
print(left(), cuda.cuMemRelease(second), left(), create(200 * MIB)[0])
print(cuda.cuMemUnmap(at, c_size_t(200 * MIB)), left(), create(200 * MIB)[0], left())
""").splitlines() == ["56 0 56", "56 0 56 2", "0 256 0 56"]
        assert (one.used(), one.budget.usage()[CARDS[0]].peak, one.budget.log()) == (0, 200 * MIB, [])


def test_a_program_without_standard_input(driver: Path) -> None:
    """Its number is the next one that is free."""
    with job(driver, 256 * MIB, prelude=EXPORTS) as one:
        assert one.python("""
result, first = create(200 * MIB)
descriptor = export(first)
os.close(0)
second = imported(descriptor)
os.close(descriptor)
print(cuda.cuMemRelease(first), left(), cuda.cuMemRelease(second), left())
""").splitlines() == ["0 56 0 256"]
        assert one.budget.log() == []


SIX_TIMES = """
for turn in range(6):
    result, first = create(200 * MIB)
    if result == 0:
        descriptor = export(first)
        second = imported(descriptor)
        cuda.cuMemRelease(first)
        at = map(second, 200 * MIB)
    print(result, left())
"""


def test_six_times_200_mib_do_not_fit_into_256(driver: Path) -> None:
    """Each is exported, imported in the same process, released and mapped. They were all free for the guard."""
    with job(driver, 256 * MIB, prelude=EXPORTS) as one:
        assert one.python(SIX_TIMES).splitlines() == ["0 56", *["2 56"] * 5]
        assert one.budget.usage()[CARDS[0]].peak == 200 * MIB


def test_the_simulated_driver_keeps_what_is_exported(driver: Path) -> None:
    """Without the guard: a card of 512 MiB holds two of them, by descriptors and imported mappings alone."""
    code = PRELUDE + EXPORTS + SIX_TIMES
    base = environment(driver, FAKECUDA_MEMORY=str(512 * MIB))
    told = script.completed([sys.executable, "-c", code], env=base, check=True).stdout
    assert told.splitlines() == ["0 312", "0 112", *["2 112"] * 4]


def test_an_open_descriptor_is_counted(driver: Path) -> None:
    """Several of one memory and of several memories, copies of one, and in a child, which may be the last to have
    it.
    """
    with job(driver, 256 * MIB, prelude=EXPORTS) as one:
        assert one.python("""
handles = [create(size * MIB)[1] for size in (100, 50)]
descriptors = [export(handles[0]), export(handles[0]), export(handles[1])]
descriptors.append(os.dup(descriptors[0]))
print(left(), [cuda.cuMemRelease(handle) for handle in handles], left())
end, going = os.pipe()
child = os.fork()
if child == 0:
    os.close(going)
    os.read(end, 1)
    os._exit(0)
os.close(descriptors[2])
print(left())
os.close(going)
os.waitpid(child, 0)
print(left())
for descriptor in (descriptors[0], descriptors[1]):
    os.close(descriptor)
print(left())
again = imported(descriptors[3])
os.close(descriptors[3])
print(left(), cuda.cuMemRelease(again), left())
""").splitlines() == ["106 [0, 0] 106", "106", "156", "156", "156 0 256"]


EXPORTER = """
import socket
line = socket.socket(fileno=int(sys.argv[1]))
result, handle = create(200 * MIB)
descriptor = export(handle)
socket.send_fds(line, [b"x"], [descriptor])
os.close(descriptor)
line.recv(1)
if sys.argv[2] == "release":
    print(cuda.cuMemRelease(handle), left(), flush=True)
    line.send(b"y")
    line.recv(1)
"""


@pytest.mark.parametrize("ending", ["exit", "kill", "release"])
def test_another_process_of_the_job_holds_what_it_has_imported(driver: Path, ending: str) -> None:
    """Also after the end of the one that made it. Both together are charged once."""
    with job(driver, 256 * MIB, prelude=EXPORTS) as one:
        told = one.python(f"""
import socket, subprocess
ours, theirs = socket.socketpair()
words = [sys.executable, "-c", {PRELUDE + EXPORTS + EXPORTER!r}, str(theirs.fileno()), {ending!r}]
exporter = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE)
theirs.close()
descriptor = socket.recv_fds(ours, 1, 1)[1][0]
print(left())
handle = imported(descriptor)
os.close(descriptor)
print(left())
if {ending!r} == "kill":
    exporter.kill()
else:
    ours.send(b"z")
if {ending!r} == "release":
    ours.recv(1)
    print(left())
    ours.send(b"z")
print(exporter.communicate()[0].decode().strip(), create(100 * MIB)[0], left())
print(cuda.cuMemRelease(handle), create(100 * MIB)[0], left())
""")
        said = {"release": ["56", "0 56 2 56"]}.get(ending, [" 2 56"])
        assert told.splitlines() == ["56", "56", *said, "0 0 156"]
        assert (one.used(), one.budget.usage()[CARDS[0]].peak, one.budget.log()) == (0, 200 * MIB, [])


def test_a_fabric_handle_and_one_that_is_not_the_jobs(driver: Path) -> None:
    with job(driver, 256 * MIB, prelude=EXPORTS) as one:
        assert one.python("""
result, first = create(200 * MIB, 8)
fabric, second = (ctypes.c_ubyte * 64)(), c_uint64()
assert cuda.cuMemExportToShareableHandle(fabric, first, 8, c_uint64(0)) == 0
assert cuda.cuMemImportFromShareableHandle(byref(second), fabric, 8) == 0
print(left(), cuda.cuMemRelease(first), left(), cuda.cuMemRelease(second), left())
print(cuda.cuMemImportFromShareableHandle(byref(second), c_void_p(os.open("/dev/null", os.O_RDWR)), 1), left())
print([cuda.cuMemImportFromShareableHandle(byref(second), c_void_p(given), type)
       for given, type in ((-1, 1), (None, 8))])
""").splitlines() == ["56 0 56 0 256", "999 256", "[999, 1]"]


def test_more_exports_than_the_budget_has_room_for(driver: Path) -> None:
    """They stay charged to the process. The shares of ended ones are used again."""
    with job(driver, 4096 * MIB, FAKECUDA_MEMORY=str(8192 * MIB), prelude=EXPORTS) as one:
        assert one.python("""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for count in (1100, 1000):
    made = [create(2 * MIB)[1] for _ in range(count)]
    descriptors = [export(handle) for handle in made]
    print(left())
    for descriptor in descriptors:
        os.close(descriptor)
    print([cuda.cuMemRelease(handle) for handle in made] == [0] * count, left())
""").splitlines() == ["1896", "True 4096", "2096", "True 4096"]
        assert len(one.budget.log()) == 1
        assert "more than 1024 exports" in one.budget.log()[0]
