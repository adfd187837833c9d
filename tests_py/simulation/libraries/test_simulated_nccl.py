"""NCCL between simulated ranks: of one process, and of several."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import script
from simulated_libraries import BEGIN, SHIPPED, run

RANKS = """
import struct
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 128)]
def card(device, letter, values):
    "Memory of a card with these values, whose format is a letter of struct."
    cuda.cudaSetDevice(device)
    address, content = c_void_p(), struct.pack(f"{len(values)}{letter}", *values)
    cuda.cudaMalloc(byref(address), c_size_t(max(len(content), 1)))
    cuda.cudaMemcpy(address, content, c_size_t(len(content)), 1)
    return address
def back(device, letter, address, count):
    cuda.cudaSetDevice(device)
    cuda.cudaDeviceSynchronize()
    room = create_string_buffer(struct.calcsize(f"{count}{letter}"))
    cuda.cudaMemcpy(room, address, c_size_t(len(room.raw)), 2)
    return list(struct.unpack(f"{count}{letter}", room.raw))
"""
ONE_PROCESS = (
    RANKS
    + """
comms = (c_void_p * 3)()
assert cuda.ncclCommInitAll(comms, 3, None) == 0
comms = [c_void_p(comm) for comm in comms]
SUM, PRODUCT, MOST, LEAST, AVERAGE = range(5)
def all_ranks(letter, values, after, call):
    "Calls in a group for each rank, with its memory and room for the result; returns the results."
    froms = [card(rank, letter, values(rank)) for rank in range(3)]
    tos = [card(rank, letter, [0] * after) for rank in range(3)]
    cuda.ncclGroupStart()
    for rank in range(3):
        cuda.cudaSetDevice(rank)
        assert call(rank, froms[rank], tos[rank], comms[rank]) == 0
    assert cuda.ncclGroupEnd() == 0
    return [back(rank, letter, tos[rank], after) for rank in range(3)]
def collective(name, letter, values, after, count, *arguments):
    function = getattr(cuda, name)
    return all_ranks(letter, values, after,
                     lambda rank, a, b, comm: function(a, b, c_size_t(count), *arguments, comm, None))
"""
)


def in_one_process(program: str) -> list[str]:
    return run(ONE_PROCESS + textwrap.dedent(program), GPUCONF_SIMULATE="3xA100-40GB")


def test_reductions_of_every_type() -> None:
    assert in_one_process("""
    for letter, number in {"b": 0, "B": 1, "i": 2, "I": 3, "q": 4, "Q": 5, "e": 6, "f": 7, "d": 8}.items():
        results = [collective("ncclAllReduce", letter, lambda rank: [1, 2, 3 + rank], 3, 3, number, op)[1]
                   for op in range(5)]
        assert results == [[3, 6, 12], [1, 8, 60], [1, 2, 5], [1, 2, 3], [1, 2, 4]], letter
    # Half precision: the sum is rounded once. 2049 is no half, 2050 is one; 65504 is the largest.
    tiny, most, least = 2.0**-24, 65504.0, float("-inf")
    for values in ([2048.0, 1.0, 1.0], [most, 0.0, 0.0], [tiny, tiny, 2.0**-15], [most, most, 0.0], [least, 1.0, 1.0]):
        print(collective("ncclAllReduce", "e", lambda rank: [values[rank]], 1, 1, 6, SUM)[0])
    # bfloat16, as the upper half of a float
    bits = lambda value: struct.unpack("I", struct.pack("f", value))[0] >> 16
    for values in ([1.5, 2.25, -3.0], [256.0, 1.0, 1.0]):
        (result,) = collective("ncclAllReduce", "H", lambda rank: [bits(values[rank])], 1, 1, 9, SUM)[2]
        print(struct.unpack("f", struct.pack("I", result << 16)))
    print([cuda.ncclAllReduce(None, None, c_size_t(1), unknown, SUM, comms[0], None) for unknown in (10, 99)])
    factor, op = ctypes.c_float(0.5), c_int()
    print([cuda.ncclRedOpCreatePreMulSum(byref(op), byref(factor), 7, 1, comm) for comm in comms])
    def scaled(rank, a, b, comm):
        return cuda.ncclAllReduce(a, b, c_size_t(2), 7, op, comm, None) or cuda.ncclRedOpDestroy(op, comm)
    print(all_ranks("f", lambda rank: [1.0, 2.0 * rank], 2, scaled)[1])
    print(cuda.ncclAllReduce(None, None, c_size_t(1), 7, op, comms[0], None))
    """) == [
        "[2050.0]", "[65504.0]", "[3.063678741455078e-05]", "[inf]", "[-inf]", "(0.75,)", "(258.0,)",
        "[4, 4]", "[0, 0, 0]", "[1.5, 3.0]", "4",
    ]  # fmt: skip


def test_collectives_that_move_values() -> None:
    assert in_one_process("""
    N = 100_000  # more than one chunk
    base = list(range(N))
    own = lambda rank: [value + rank for value in base]
    print(collective("ncclAllGather", "i", lambda rank: [10 * rank, 10 * rank + 1], 6, 2, 2)[2])
    print(collective("ncclBroadcast", "i", own, N, N, 2, 1) == [[value + 1 for value in base]] * 3)
    sums = [3 * value + 3 for value in range(3 * N)]
    print(collective("ncclReduce", "i", own, N, N, 2, SUM, 2) == [[0] * N, [0] * N, sums[:N]])
    wide = lambda rank: [value + rank for value in range(3 * N)]
    print(collective("ncclReduceScatter", "i", wide, N, N, 2, SUM)
          == [sums[rank * N : rank * N + N] for rank in range(3)])
    print(collective("ncclAlltoAll", "i", lambda rank: [10 * rank, 10 * rank + 1, 10 * rank + 2], 3, 1, 2))
    print(collective("ncclGather", "i", lambda rank: [rank + 1], 3, 1, 2, 1))
    print(collective("ncclScatter", "i", lambda rank: [rank, rank + 1, rank + 2], 1, 1, 2, 2))
    def ring(rank, a, b, comm):  # each sends before it receives, more than a box holds
        sent = cuda.ncclSend(a, c_size_t(N), 2, (rank + 1) % 3, comm, None)
        return sent or cuda.ncclRecv(b, c_size_t(N), 2, (rank - 1) % 3, comm, None)
    print(all_ranks("i", own, N, ring) == [own((rank - 1) % 3) for rank in range(3)])
    cuda.gpuconf_runtime_collective_limit(c_uint64(4))
    print(counted(), collective("ncclAllReduce", "i", lambda rank: [1, 1], 2, 2, 2, SUM), counted())
    count, rank = c_int(), c_int()
    print(cuda.ncclCommCount(comms[2], byref(count)), count.value, cuda.ncclCommUserRank(comms[2], byref(rank)),
          rank.value)
    print(*(cuda.ncclCommDestroy(comm) for comm in comms))
    """) == [
        "[0, 1, 10, 11, 20, 21]",
        "True", "True", "True",
        "[[0, 10, 20], [1, 11, 21], [2, 12, 22]]",
        "[[0, 0, 0], [1, 2, 3], [0, 0, 0]]",
        "[[2], [3], [4]]",
        "True",
        "{} [[0, 0], [0, 0], [0, 0]] {'ncclAllReduce': 3}",
        "0 3 0 2",
        "0 0 0",
    ]  # fmt: skip


MEMBER = (
    RANKS
    + """
import time
rank, ranks, path = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
one, comm, part = Id(), c_void_p(), c_void_p()
cuda.ncclCommInitRank.argtypes = [c_void_p, c_int, Id, c_int]
if rank == 0:
    cuda.ncclGetUniqueId(byref(one))
    with open(path + ".new", "wb") as file:
        file.write(bytes(one.bytes))
    os.rename(path + ".new", path)
while not os.path.exists(path):
    time.sleep(0.01)
one.bytes[:] = open(path, "rb").read()
print(cuda.ncclCommInitRank(byref(comm), ranks, one, rank))
"""
)


def members(program: str, folder: Path, ranks: int) -> list[list[str]]:
    """Run a program in a process for each rank, and return what they print."""
    words = [sys.executable, "-c", BEGIN + MEMBER + textwrap.dedent(program), str(SHIPPED)]
    started = [
        subprocess.Popen(
            [*words, str(rank), str(ranks), str(folder / "id")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=script.plain() | {"GPUCONF_SIMULATE": f"{ranks}xA100-40GB"},
        )
        for rank in range(ranks)
    ]
    return [process.communicate(timeout=100)[0].splitlines() for process in started]


def test_processes_reduce_and_split(tmp_path: Path) -> None:
    program = """
    a = card(rank, "i", [rank, 1])
    print(cuda.ncclAllReduce(a, a, c_size_t(2), 2, 0, comm, None), back(rank, "i", a, 2))
    print(cuda.ncclCommSplit(comm, rank % 2, -rank, byref(part), None))
    number = c_int()
    cuda.ncclCommUserRank(part, byref(number))
    b = card(rank, "i", [rank])
    print(number.value, cuda.ncclAllReduce(b, b, c_size_t(1), 2, 0, part, None), back(rank, "i", b, 1))
    print(cuda.ncclCommSplit(comm, -1, 0, byref(part), None), part.value, cuda.ncclCommDestroy(comm))
    """
    sums = [
        ["0", "0 [6, 4]", "0", f"{number} 0 [{total}]", "0 None 0"]
        for number, total in ((1, 2), (1, 4), (0, 2), (0, 4))
    ]
    assert members(program, tmp_path, 4) == sums


def test_a_rank_that_dies_is_an_error_of_the_others(tmp_path: Path) -> None:
    program = """
    error, a = c_int(), card(rank, "i", [1])
    cuda.ncclAllReduce(a, a, c_size_t(1), 2, 0, comm, None)
    cuda.cudaDeviceSynchronize()
    if rank == 1:
        os._exit(0)
    cuda.ncclGetErrorString.restype = cuda.ncclGetLastError.restype = c_char_p
    print(cuda.ncclAllReduce(a, a, c_size_t(1), 2, 0, comm, None), cuda.cudaDeviceSynchronize())
    print(cuda.ncclCommGetAsyncError(comm, byref(error)), cuda.ncclGetErrorString(error).decode())
    print(cuda.ncclGetLastError(comm).decode())
    print(cuda.ncclCommAbort(comm), flush=True)
    """
    begin = time.monotonic()
    told = [
        "0",
        "0 0",
        "0 remote process exited or there was a network error",
        "a simulated rank ended or was aborted before it reached this operation",
        "0",
    ]
    assert members(program, tmp_path, 2)[0] == told
    assert time.monotonic() - begin < 60
    assert not list(Path("/dev/shm").glob(f"gpuconf-nccl-{(tmp_path / 'id').read_bytes()[:16].hex()}"))


def test_a_file_that_is_not_the_jobs_is_not_used() -> None:
    """Nor what a link leads to, or anything else that is no file."""
    program = """
    def first_rank(prepare):
        id, comm = Id(), c_void_p()
        assert cuda.ncclGetUniqueId(byref(id)) == 0
        path = "/dev/shm/gpuconf-nccl-" + bytes(id.bytes[:16]).hex()
        prepare(path)
        result = cuda.ncclCommInitRank(byref(comm), 1, id, 0)
        print(result, os.path.lexists(path))
        if os.path.lexists(path):
            os.unlink(path)
    def as_file(mode):
        return lambda path: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    for prepare in (lambda path: None, as_file(0o600), as_file(0o644), lambda path: os.symlink("/dev/null", path),
                    os.mkfifo):
        first_rank(prepare)
    """
    assert run(RANKS + textwrap.dedent(program)) == ["0 False", "0 False", "2 True", "2 True", "2 True"]
