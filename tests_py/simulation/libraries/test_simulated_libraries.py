"""The libraries above the simulated CUDA runtime: cuDNN, cuSOLVER, NVRTC and what is counted as not computed."""

import json
import os
import runpy
import subprocess
from pathlib import Path

import pytest
from simulated_libraries import SHIPPED, run

BUILD = Path(__file__).resolve().parents[3] / "tests_go/machine/fakecuda/build.py"


def test_what_computes_in_a_thread_that_is_not_marked_is_counted_by_name() -> None:
    program = """
    import threading
    cuda.gpuconf_runtime_unmarked.restype = c_uint64
    cuda.gpuconf_runtime_mark_address.restype = c_void_p
    heard = []
    hear = ctypes.CFUNCTYPE(None, c_char_p)(lambda name: heard.append(name.decode()))
    cuda.gpuconf_runtime_on_unmarked(hear)
    cuda.__getattr__("__cudaRegisterFunction")(None, c_void_p(4096), b"_Z4fillPfi")
    class Dim3(ctypes.Structure):
        _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
    def launch():
        return cuda.cudaLaunchKernel(c_void_p(4096), Dim3(1, 1, 1), Dim3(1, 1, 1), None, c_size_t(0), None)
    print(cuda.cublasSgemm_v2(), cuda.cublasSgemm_v2(), launch(), cuda.gpuconf_runtime_unmarked(), counted())
    cuda.gpuconf_runtime_mark(1)
    c_int.from_address(cuda.gpuconf_runtime_mark_address()).value += 1  # the same as a second mark
    cuda.gpuconf_runtime_mark(0)
    print(cuda.cublasSgemm_v2(), launch(), cuda.gpuconf_runtime_unmarked())
    threading.Thread(target=cuda.cublasSgemm_v2).start()  # a mark is its thread's
    while cuda.gpuconf_runtime_unmarked() < 4:
        pass
    cuda.gpuconf_runtime_mark(0)
    cuda.gpuconf_runtime_strict(1)
    print(cuda.cublasSgemm_v2(), launch(), cuda.cudaGetLastError(), cuda.cusparseSpMM(), cuda.cudnnRNNForward())
    address = c_void_p()
    print(cuda.cudaMalloc(byref(address), c_size_t(8)), cuda.cudaMemset(address, 0, c_size_t(8)))  # those have values
    print(heard)
    """
    # Without a C++ runtime in the process, a kernel has its library's name.
    assert run(program) == [
        "0 0 0 3 {'cublasSgemm_v2': 2, '_Z4fillPfi': 1}",
        "0 0 3",
        "15 801 801 10 3000",
        "0 0",
        "['cublasSgemm_v2', '_Z4fillPfi', 'cublasSgemm_v2', '_Z4fillPfi', 'cusparseSpMM', 'cudnnRNNForward']",
    ]


def test_the_drivers_launches_are_counted_too() -> None:
    assert run("""
    driver = ctypes.CDLL("libcuda.so.1")
    module, function = c_void_p(), c_void_p()
    print(cuda.cudaFree(None),
          driver.cuModuleLoadData(byref(module), b".version 8.0\\n.visible .entry triton_add() { ret; }"))
    print(driver.cuModuleGetFunction(byref(function), module, b"triton_add"))
    def launch():
        return driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    print(launch(), launch(), counted())
    cuda.gpuconf_runtime_strict(1)
    print(launch())
    """) == ["0 0", "0", "0 0 {'triton_add': 2}", "801"]


def test_a_launch_of_a_graph_is_told_and_a_graph_has_nodes() -> None:
    assert run("""
    stream, graph, executable, nodes, status = c_void_p(), c_void_p(), c_void_p(), c_size_t(), c_int()
    dependencies, many, number = c_void_p(), c_size_t(), c_uint64()
    class Dim3(ctypes.Structure):
        _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
    print(cuda.cudaStreamCreate(byref(stream)), cuda.cudaStreamBeginCapture(stream, 0))
    info = (stream, byref(status), byref(number), byref(graph), byref(dependencies), byref(many))
    print(cuda.cudaStreamGetCaptureInfo_v2(*info), status.value, many.value)
    for _ in range(3):
        cuda.cudaLaunchKernel(c_void_p(1), Dim3(1, 1, 1), Dim3(1, 1, 1), None, c_size_t(0), stream)
    print(cuda.cudaStreamGetCaptureInfo_v2(*info), many.value, dependencies.value is not None)
    print(cuda.cudaStreamUpdateCaptureDependencies(stream, dependencies, c_size_t(1), c_size_t(1), c_size_t(0)))
    print(cuda.cudaStreamEndCapture(stream, byref(graph)), cuda.cudaGraphGetNodes(graph, None, byref(nodes)),
          nodes.value)
    print(cuda.cudaGraphInstantiate(byref(executable), graph, c_uint64(1)), cuda.cudaGraphLaunch(executable, stream),
          counted())
    told = []
    tell = ctypes.CFUNCTYPE(None, c_void_p)(told.append)
    cuda.gpuconf_runtime_on_graph_launch(tell)
    print(cuda.cudaGraphLaunch(executable, stream), told == [executable.value], cuda.cudaStreamSynchronize(stream))
    print(counted()["cudaGraphLaunch"])
    """) == [
        "0 0",
        "0 1 0",
        "0 1 True",
        "0",
        "0 0 3",
        "0 0 {'a kernel': 3, 'cudaGraphLaunch': 1}",
        "0 True 0",
        "1",
    ]


def test_cudnn_keeps_attributes_and_has_five_engines_for_a_convolution() -> None:
    assert run("""
    def make(kind, **attributes):
        made = c_void_p()
        assert cuda.cudnnBackendCreateDescriptor(kind, byref(made)) == 0
        return made
    def put(where, name, kind, value):
        return cuda.cudnnBackendSetAttribute(where, name, kind, c_int64(1), byref(value))
    def get(where, name, kind, value):
        count = c_int64(-1)
        place = byref(value) if value is not None else None
        result = cuda.cudnnBackendGetAttribute(where, name, kind, c_int64(1), byref(count), place)
        return result, count.value
    c_int64 = ctypes.c_int64
    operation, graph, heuristic, config, engine, plan = map(make, (10, 15, 4, 3, 2, 5))
    kept = ctypes.c_double(2.5)
    print(put(operation, 700, 5, kept), cuda.cudnnBackendFinalize(operation), put(operation, 700, 5, kept))
    kept.value = 0
    print(get(operation, 700, 5, kept), kept.value, get(operation, 700, 3, c_int64()),
          get(operation, 701, 3, c_int64()))
    print(get(graph, 802, 3, c_int64()), put(graph, 801, 15, operation), cuda.cudnnBackendFinalize(graph))
    print(cuda.cudnnBackendFinalize(heuristic), put(heuristic, 201, 15, graph), cuda.cudnnBackendFinalize(heuristic))
    print(get(heuristic, 202, 15, None), get(heuristic, 202, 15, config))
    for one in (operation, graph, heuristic):  # the configuration holds what it needs
        cuda.cudnnBackendDestroyDescriptor(one)
    index, workspace, handle, pack = c_int64(-1), c_int64(-1), c_void_p(), make(16)
    print(get(config, 300, 15, engine), get(engine, 1301, 3, index), index.value, get(engine, 1303, 11, c_int()))
    print(put(plan, 401, 15, config), cuda.cudnnBackendFinalize(plan), get(plan, 402, 3, workspace), workspace.value)
    print(cuda.cudnnCreate(byref(handle)), cuda.cudnnBackendExecute(handle, plan, pack),
          cuda.cudnnBackendFinalize(pack))
    print(cuda.cudnnBackendExecute(handle, plan, pack))
    """) == [
        "0 0 2000",
        "(0, 1) 2.5 (2000, 0) (0, 0)",
        "(2004, -1) 0 0",
        "2000 0 0",
        "(0, 5) (0, 1)",  # PyTorch 2.14 has room for one, and reads as many as are counted
        "(0, 1) (0, 1) 0 (0, 1)",
        "0 0 (0, 1) 0",
        "0 2004 0",
        "0",
    ]


def test_cudnn_lays_out_the_weights_of_recurrent_networks_without_gaps() -> None:
    assert run("""
    def weights(mode, directions, layers, features, hidden, projection, biases=2):
        handle, rnn, bytes = c_void_p(), c_void_p(), c_size_t()
        cuda.cudnnCreate(byref(handle)), cuda.cudnnCreateRNNDescriptor(byref(rnn))
        numbers = (features, hidden, projection, layers)
        cuda.cudnnSetRNNDescriptor_v8(rnn, 0, mode, biases, directions - 1, 0, 0, 0, 0, *numbers, None, 0)
        cuda.cudnnGetRNNWeightSpaceSize(handle, rnn, byref(bytes))
        gates, found = {0: 1, 2: 4, 3: 3}[mode], []
        for pseudo in range(directions * layers):
            for linear in range(2 * gates + 1 if mode == 2 else 2 * gates):
                tensors, addresses = (c_void_p(), c_void_p()), (c_void_p(), c_void_p())
                for tensor in tensors:
                    cuda.cudnnCreateTensorDescriptor(byref(tensor))
                places = (tensors[0], byref(addresses[0]), tensors[1], byref(addresses[1]))
                assert cuda.cudnnGetRNNWeightParams(handle, rnn, pseudo, bytes, c_void_p(4096), linear, *places) == 0
                for tensor, address in zip(tensors, addresses):
                    many, sizes = c_int(), (c_int * 3)()
                    cuda.cudnnGetTensorNdDescriptor(tensor, 3, byref(c_int()), byref(many), sizes, (c_int * 3)())
                    if address.value is not None:
                        found.append((address.value - 4096, 4 * sizes[0] * sizes[1] * sizes[2]))
        found.sort()
        joined = all(a + size == b for (a, size), (b, _) in zip(found, found[1:]))
        whole = joined and found[-1][0] + found[-1][1] == bytes.value
        return bytes.value // 4, whole
    print(weights(2, 1, 1, 10, 20, 20), 4 * 20 * (10 + 20 + 2))
    print(weights(2, 2, 3, 10, 20, 5), 8 * 20 * (10 + 5 + 2) + 16 * 20 * (10 + 5 + 2) + 6 * 5 * 20)
    print(weights(3, 2, 2, 7, 8, 8, 0), 6 * 8 * (7 + 8) + 6 * 8 * (16 + 8))
    print(weights(0, 1, 2, 7, 8, 8, 1), 8 * (7 + 8 + 1) + 8 * (8 + 8 + 1))
    print(cuda.cudnnGetRNNWeightSpaceSize(None, None, None))
    """) == ["(2560, True) 2560", "(8760, True) 8760", "(1872, True) 1872", "(264, True) 264", "2002"]


def test_solvers_say_on_the_card_that_they_succeeded() -> None:
    assert run("""
    handle, stream, info, there = c_void_p(), c_void_p(), c_void_p(), (c_int * 4)(9, 9, 9, 9)
    lwork, card, host = c_int(7), c_size_t(7), c_size_t(7)
    cuda.cudaMalloc(byref(info), c_size_t(16))
    cuda.cudaMemcpy(info, there, c_size_t(16), 1)
    cuda.cudaStreamCreate(byref(stream))
    print(cuda.cusolverDnCreate(byref(handle)), cuda.cusolverDnSetStream(handle, stream))
    print(cuda.cusolverDnDgetrf_bufferSize(handle, 4, 4, None, 4, byref(lwork)), lwork.value)
    print(cuda.cusolverDnXpotrf_bufferSize(handle, None, 0, 4, 0, None, 4, 0, byref(card), byref(host)), card.value,
          host.value)
    print(cuda.cusolverDnSsyevjBatched(handle, 0, 0, 2, None, 2, None, None, 0, info, None, 3),
          cuda.cudaStreamSynchronize(stream))
    cuda.cudaMemcpy(there, info, c_size_t(16), 2)
    print(list(there))
    """) == ["0 0", "0 96", "0 160 0", "0 0", "[0, 0, 0, 9]"]


def test_a_program_compiles_to_kernels_that_the_driver_finds() -> None:
    program = '''
    driver = ctypes.CDLL("libcuda.so.1")
    source = b"""template <typename T> __global__ void fill(T *out) {}
    extern "C" __global__ __launch_bounds__(128, (2)) void
      second_kernel (float *a) { a[0] = 1; }
    extern "C" __global__ void first(int) {}"""
    made, bytes, module, function, lowered = c_void_p(), c_size_t(), c_void_p(), c_void_p(), c_char_p()
    print(cuda.nvrtcCreateProgram(byref(made), source, b"x.cu", 0, None, None),
          cuda.nvrtcAddNameExpression(made, b"fill<float>"))
    print(cuda.nvrtcGetPTXSize(made, byref(bytes)), cuda.nvrtcGetLoweredName(made, b"fill<float>", byref(lowered)))
    print(cuda.nvrtcCompileProgram(made, 0, None), cuda.nvrtcAddNameExpression(made, b"late"))
    print([cuda.nvrtcGetLoweredName(made, text, byref(lowered)) for text in (b"other", b"fill<float>")])
    cuda.nvrtcGetPTXSize(made, byref(bytes))
    room = create_string_buffer(bytes.value)
    cuda.cudaFree(None)
    print(cuda.nvrtcGetPTX(made, room), driver.cuModuleLoadData(byref(module), room))
    names = (b"first", b"second_kernel", lowered.value, b"third")
    print([driver.cuModuleGetFunction(byref(function), module, name) for name in names])
    print(cuda.nvrtcDestroyProgram(byref(made)), made.value)
    '''
    assert run(program) == ["0 0", "4 9", "0 8", "[10, 0]", "0 0", "[0, 0, 0, 500]", "0 None"]


CONVOLUTIONS = """
    from ctypes import c_int64
    TYPE = 2  # half
    def made(kind, *attributes):
        one = c_void_p()
        assert cuda.cudnnBackendCreateDescriptor(kind, byref(one)) == 0
        for name, type_, values in attributes:
            assert cuda.cudnnBackendSetAttribute(one, name, type_, c_int64(len(values)), values) == 0
        assert cuda.cudnnBackendFinalize(one) == 0
        return one
    def tensor(*sizes):
        return made(17, (901, 1, (c_int * 1)(TYPE)), (902, 3, (c_int64 * 4)(*sizes)), (903, 3, (c_int64 * 4)(*sizes)))
    def workspace(kind, names, x, w, y):
        held = lambda one: (c_void_p * 1)(one)
        tensors = [(name, 15, held(one)) for name, one in zip(names, map(lambda sizes: tensor(*sizes), (x, w, y)))]
        graph = made(15, (801, 15, held(made(kind, *tensors))))
        plan = made(5, (401, 15, held(made(3, (300, 15, held(made(2, (1300, 15, held(graph)))))))))
        bytes_, count = c_int64(-1), c_int64()
        assert cuda.cudnnBackendGetAttribute(plan, 402, 3, c_int64(1), byref(count), byref(bytes_)) == 0
        return bytes_.value
    WAYS = (10, (704, 703, 705)), (12, (710, 709, 711)), (11, (716, 715, 717))  # forward, of the image, of the filter
"""


def test_sizes_of_nothing_are_answered_without_a_crash() -> None:
    """Workspaces are worked out from the sizes of tensors, which a program may set to anything."""
    assert run(f"""{CONVOLUTIONS}
    whole = (16, 32, 20, 20), (32, 32, 3, 3), (16, 32, 18, 18)
    for kind, names in WAYS:
        assert workspace(kind, names, *whole) > 0
        for which in range(3):
            for at in range(4):
                for size in (0, -1, 1):
                    sizes = [list(one) for one in whole]
                    sizes[which][at] = size
                    assert workspace(kind, names, *sizes) >= 0, (kind, sizes)
    size, none = c_size_t(7), (ctypes.c_longlong * 1)(0)
    print(cuda.cufftXtMakePlanMany(1, 1, none, None, ctypes.c_longlong(1), ctypes.c_longlong(1), 4, None,
                                   ctypes.c_longlong(1),
                                   ctypes.c_longlong(1), 4, ctypes.c_longlong(1), byref(size), 4), size.value)
    """) == ["8 7"]


@pytest.mark.parametrize(
    ("machine", "version", "known"),
    [("RTX3060", 90100, 1), ("RTX4090", 91002, 1), ("H200", 91002, 1), ("H100", 91900, 1), ("RTX3060", 99900, 2),
     ("RTX3060", 8700, 2), ("V100", 90100, 2), ("H200", 91900, 0)],
)  # fmt: skip
def test_workspaces_of_a_library_and_card_without_recordings_follow_a_rule(
    machine: str, version: int, known: int
) -> None:
    """Copies with channels last for all but the result of a forward pass, and none for products of matrices.

    A workspace is known by an odd number of bytes, and has the most that it may be: twice that where nothing is known.
    """
    program = f"""{CONVOLUTIONS}
    cuda.gpuconf_runtime_versions(12040, {version}, 22105, 120405)
    cuda.cudaFree(None)
    TYPE = 0  # float
    usual, one, depthwise = (
        [workspace(kind, names, (16, 32, 20, 20), w, (16, 64, y, y)) for kind, names in WAYS]
        for w, y in (((64, 32, 3, 3), 18), ((64, 32, 1, 1), 20), ((64, 1, 3, 3), 18)))
    size, most, number, found = c_int64(), c_int64(), 0, {{}}
    while not cuda.gpuconf_runtime_workspace(number, byref(size), byref(most)):
        found[size.value] = most.value
        number += 1
    print([[size, found.get(size)] for size in (*usual, *one, *depthwise)])
    print(cuda.gpuconf_runtime_workspaces_known())
    """
    sizes, answer = run(program, GPUCONF_SIMULATE=machine)
    assert int(answer) == known
    rows: list[list[int]] = json.loads(sizes.replace("None", "null"))
    assert all(size % 2 == 1 <= size % 512 and most >= size - 512 for size, most in rows if most is not None)
    assert rows[6:] == [[0, None]] * 3
    if not known:  # trees: what was recorded is all that it may be
        assert all(most is None or abs(most - size) < 512 for size, most in rows)
        return
    x, y, w, sums = (16 * 32 * 400 * 4, 16 * 64 * 324 * 4, 64 * 32 * 9 * 4, 16 * 64 * 32 * 4)
    assert [-(-size // 512) for size, _ in rows[:3]] == [
        -(-(size + 16) // 512) for size in (x + w, x + y + w, x + y + w)
    ]
    assert [most // known - 16 for _, most in rows[:3]] == [x + y + w, x + y + w, x + y + w + 9 * sums]
    y = 16 * 64 * 400 * 4
    assert [4096 < size < 4608 for size, _ in rows[3:6]] == [True] * 3
    assert [most // known - 16 for _, most in rows[3:6]] == [x + y, x + y, x + y + sums]


def test_float_convolutions_with_tensor_cores_as_they_were_on_an_rtx_3060() -> None:
    """The runs of xMem agree with copies where channels fill tiles, with sums up to 512 MiB, and with none for the
    gradient of a filter for images of few channels.
    """
    program = f"""{CONVOLUTIONS}
    cuda.gpuconf_runtime_versions(12040, 90100, 22105, 120405)
    cuda.cudaFree(None)
    TYPE = 0  # float
    for x, w, y in (((300, 320, 3, 3), (1280, 320, 1, 1), (300, 1280, 3, 3)),
                    ((400, 320, 3, 3), (1280, 320, 1, 1), (400, 1280, 3, 3)),
                    ((300, 160, 3, 3), (960, 160, 1, 1), (300, 960, 3, 3)),
                    ((300, 3, 86, 86), (16, 3, 3, 3), (300, 16, 43, 43))):
        print([workspace(kind, names, x, w, y) >> 9 for kind, names in WAYS])
    """
    known, ada = ([json.loads(line) for line in run(program, GPUCONF_SIMULATE=name)] for name in ("RTX3060", "RTX4060"))
    copies, sums = 300 * (320 + 1280) * 9 * 4, 300 * 320 * 1280 * 4
    none = 4096 // 512  # by which one that may be none is known
    assert known[0] == [copies // 512, none, (sums - 1) // 512]
    assert known[1][1:] == [none, none]
    assert known[2] == [none] * 3
    assert known[3][0] > none == known[3][2]
    assert ada[:3] == [[none] * 3] * 3
    assert none < ada[3][0] == known[3][0] < ada[3][2]


def test_after_cudnn_has_started_memory_fills_the_room_of_the_driver() -> None:
    """So it was in the programs of benchmarks/accuracy/drawn, and what PyTorch reserves depends on it
    (cuda/blocks.c).
    """
    program = """
    def allocate(size):
        made = c_void_p()
        assert cuda.cudaMalloc(byref(made), c_size_t(size << 20)) == 0
        return made.value >> 20
    first, second = allocate(20), allocate(20)
    print(second - first, cuda.cudnnCreate(byref(c_void_p())))
    print(allocate(20) - first, allocate(20) - first, allocate(500) - second)
    """
    # Blocks of 32 MiB, the second below 416 MiB that are kept; then these are filled upwards; what does not fit lies
    # below all.
    assert run(program) == ["-448 0", "-416 -396 -512"]


LAUNCHES = """
import threading, time
cuda.cudaFree(None)
class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
register = cuda.__getattr__("__cudaRegisterFunction")
more = iter(range(1 << 30))
def launch_another():
    address = c_void_p(0x10000 + 16 * next(more))
    register(None, address, b"kernel%d" % address.value)
    return cuda.cudaLaunchKernel(address, Dim3(1, 1, 1), Dim3(1, 1, 1), None, c_size_t(0), None)
"""
# What a thread repeats that has a lock of the library for most of its time, and a child does once.
HOLDS = {
    "cudnn": """
descriptor, much = c_void_p(), create_string_buffer(32 << 20)
assert cuda.cudnnBackendCreateDescriptor(15, byref(descriptor)) == 0
def act():
    return cuda.cudnnBackendSetAttribute(descriptor, 900, 3, c_uint64(len(much) // 8), much)
""",
    "kernels and names": """
for _ in range(5000):  # a new name is compared with all others
    launch_another()
act = launch_another
""",
}


@pytest.mark.parametrize("lock", HOLDS)
def test_a_child_does_not_wait_for_a_lock_that_a_thread_had_at_the_fork(lock: str, tmp_path: Path) -> None:
    """The driver of a test build lets a child go on using it, so that the child reaches the libraries' locks."""
    runpy.run_path(str(BUILD))["build"](tmp_path, 13000, newest=True)
    (tmp_path / "libgpuconf-runtime.so").symlink_to(SHIPPED / "libgpuconf-runtime.so")
    program = """
going = True
def work():
    while going:
        act()
threading.Thread(target=work).start()
children = []
for _ in range(40):
    time.sleep(0.002)
    child = os.fork()
    if child == 0:
        act()
        os._exit(0)
    children.append(child)
end = time.monotonic() + 20
while children and time.monotonic() < end:
    children = [child for child in children if os.waitpid(child, os.WNOHANG) == (0, 0)]
    time.sleep(0.01)
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
going = False
print(len(children), "of them hung")
"""
    assert run(LAUNCHES + HOLDS[lock] + program, tmp_path, FAKECUDA_FORKS="1") == ["0 of them hung"]


def test_a_library_of_kernels_may_be_loaded_while_another_thread_launches(tmp_path: Path) -> None:
    """The name of a kernel is looked for with the loader's lock, which the thread has that loads."""
    (tmp_path / "kernels.c").write_text("""
void __cudaRegisterFunction(void **, const char *, char *);
static char kernels[1000];
__attribute__((constructor)) static void register_them(void) {
    for (int i = 0; i < 1000; i++)
        __cudaRegisterFunction(0, kernels + i, "loaded");
}
""")
    library = tmp_path / "kernels.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", tmp_path / "kernels.c", "-o", library], check=True)
    program = f"""
going = True
def work():
    while going:
        launch_another()
thread = threading.Thread(target=work)
thread.start()
close = ctypes.CDLL(None).dlclose
def load():
    for _ in range(1000):
        close(c_void_p(ctypes.CDLL({str(library)!r})._handle))
loading = threading.Thread(target=load, daemon=True)
loading.start()
loading.join(30)
going = False
thread.join(5)
print(loading.is_alive(), thread.is_alive(), flush=True)
os._exit(0)
"""
    assert run(LAUNCHES + program) == ["False False"]


def test_a_kernels_name_is_without_its_result_and_arguments() -> None:
    program = """
    runtime = ctypes.CDLL("libstdc++.so.6", ctypes.RTLD_GLOBAL)
    class Dim3(ctypes.Structure):
        _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
    for at, name in enumerate(NAMES):
        cuda.__getattr__("__cudaRegisterFunction")(None, c_void_p(4096 + 16 * at), name)
        cuda.cudaLaunchKernel(c_void_p(4096 + 16 * at), Dim3(1, 1, 1), Dim3(1, 1, 1), None, c_size_t(0), None)
    print(list(counted()))
    """
    # The second returns std::enable_if<((8)>(0))&&std::is_integral<int>::value, void>::type.
    norm = b"_ZN4vllm4normIiLi8EEENSt9enable_ifIXaagtT0_Li0EsrSt11is_integralIT_E5valueEvE4typeES3_"
    names = [b"_ZN4vllm4fillIfEEvT_", norm, b"_ZN5flash16flash_fwd_kernelEPf"]
    assert run(f"    NAMES = {names!r}\n" + program) == ["['vllm::fill', 'vllm::norm', 'flash::flash_fwd_kernel']"]
