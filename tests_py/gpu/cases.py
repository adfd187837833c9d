"""Cases for a real GPU, one process each: ``python cases.py NAME``.

Needs gpuconf, a driver, and the library that a case names. A case is a function ``case_*``; its docstring is the promise. It
succeeds or raises; Missing names what the machine lacks. Nothing here needs pytest, so that a machine with only Python and the
driver can run it (run.py).
"""

from __future__ import annotations

import ctypes
import importlib
import platform
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import gpuconf

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
MISSING = 77  # the exit code of a case that cannot run here


class Missing(Exception):  # noqa: N818
    """What this machine lacks for a case."""


def need(name: str) -> Any:
    """Import a library, or raise Missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Missing(f"{name} is not installed ({error})") from None


def live(device: str = "GPU:0") -> int:
    """The live blocks."""
    return int(gpuconf.memory.stats(device).live_blocks)


def expect(condition: bool, text: str) -> None:
    """An assertion that also works under ``python -O``."""
    if not condition:
        raise AssertionError(text)


def split(*limits: int) -> None:
    """Several logical GPUs, with limits in MiB, on the first card."""
    card = gpuconf.config.list_physical_devices("GPU")[0]
    configurations = [gpuconf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in limits]
    gpuconf.config.set_logical_device_configuration(card, configurations)


# gpuconf alone


def case_a_buffer_keeps_what_was_written() -> None:
    """Bytes copied to the GPU are unchanged when copied back, at every size around a granule's edge."""
    gpuconf.configure(limit="256MiB", growth=True, libraries=[])
    for size in (1, 255, 256, 257, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 64 * MIB):
        data = bytes(range(256)) * (size // 256 + 1)
        with gpuconf.memory.allocate(size) as buffer:
            buffer.copy_from_host(data[:size])
            expect(bytes(buffer.copy_to_host()) == data[:size], f"{size} bytes changed")
    expect(live() == 0, "blocks are left")


def case_the_limit_serves_every_byte() -> None:
    """With limits below, at and around a granule, exactly that many bytes can be allocated."""
    for limit in (1, 7, 257):
        for growth in (True, False):
            gpuconf.configure(limit=f"{limit}MiB", growth=growth, libraries=[])
            buffers = [gpuconf.memory.allocate(MIB) for _ in range(limit)]
            try:
                gpuconf.memory.allocate(1)
            except MemoryError:
                pass
            else:
                raise AssertionError(f"more than {limit} MiB fitted, growth={growth}")
            for buffer in buffers:
                buffer.free()
            gpuconf.reset()


# Operations, with cuBLAS


def cublas(gpuconf_work: Callable[[], None]) -> None:
    """Run something that needs cuBLAS, or raise Missing."""
    try:
        gpuconf_work()
    except gpuconf.errors.UnavailableError as error:
        raise Missing(str(error)) from None


def case_operations_are_numpys() -> None:
    """Products and sums of both types, in all forms, against NumPy in float64: full precision, so no TensorFloat-32."""
    np = need("numpy")
    gpuconf.configure(limit="1GiB", growth=True, libraries=[])
    cublas(lambda: gpuconf.matmul([[1.0]], [[1.0]]).numpy())
    rng = np.random.default_rng(0)
    for dtype, unit in ((np.float32, 2.0**-24), (np.float64, 2.0**-53)):
        for m, k, n in ((1, 1, 1), (3, 5, 2), (1, 1000, 1), (64, 64, 64), (257, 129, 511), (1000, 2000, 300)):
            for transpose_a, transpose_b in ((False, False), (True, False), (False, True), (True, True)):
                a = rng.standard_normal((k, m) if transpose_a else (m, k)).astype(dtype)
                b = rng.standard_normal((n, k) if transpose_b else (k, n)).astype(dtype)
                x, y = (a.T if transpose_a else a).astype(np.float64), (b.T if transpose_b else b).astype(np.float64)
                got = gpuconf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
                expect(got.backing_device.endswith("GPU:0"), "it did not run on the GPU")
                error = np.abs(got.numpy() - x @ y)
                bound = (k + 2) * unit * (np.abs(x) @ np.abs(y))
                expect(
                    bool((error <= bound).all()), f"{m}x{k}x{n} of {dtype.__name__} is off by {(error / bound).max()} of the bound"
                )
                again = gpuconf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
                expect(bool((got.numpy() == again.numpy()).all()), "the same product twice differs")
        a, b = rng.standard_normal((300, 70)).astype(dtype), rng.standard_normal((300, 70)).astype(dtype)
        for x, y in ((a, b), (a, b[:1]), (a, b[:, :1]), (a[:1], b[:, :1]), (a, b[0, 0]), (a[0], b), (a[0, 0], b[0, 0])):
            expect(bool((gpuconf.add(x, y).numpy() == x + y).all()), f"{x.shape} + {y.shape} is not NumPy's")
        big = rng.standard_normal(3_000_001).astype(dtype)
        expect(bool((gpuconf.add_n([big, big, big]).numpy() == big + big + big).all()), "add_n is not NumPy's")
        expect(bool((gpuconf.add(big, dtype(1)).numpy() == big + dtype(1)).all()), "a scalar beside a long vector is not NumPy's")
        expect(gpuconf.matmul(np.zeros((2, 0), dtype), np.zeros((0, 3), dtype)).numpy().tolist() == [[0.0] * 3] * 2, "K is 0")
        odd = gpuconf.matmul(np.array([[0, np.inf, 1]], dtype), np.array([[np.nan, 1], [1, 0], [0, 0]], dtype)).numpy()
        expect(bool(np.isnan(odd).all()), f"NaN and infinity got lost: {odd}")
        sums = gpuconf.add(np.array([np.inf, np.inf, np.nan], dtype), np.array([1, -np.inf, 1], dtype)).numpy()
        expect(sums[0] == np.inf and bool(np.isnan(sums[1:]).all()), f"NaN and infinity got lost: {sums}")
    del got, again
    expect(live() == 0, "blocks are left")


def case_the_page_using_gpus_runs() -> None:
    """A session: the guide's product, placed on the GPU, within the limit of its options; afterwards nothing is left."""
    need("numpy")
    import gpuconf.compat.v1 as tf1

    options = tf1.GPUOptions(per_process_gpu_memory_fraction=0.1)

    def page() -> None:
        with tf1.Session(config=tf1.ConfigProto(gpu_options=options, log_device_placement=True)) as session:
            a = tf1.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3], name="a")
            b = tf1.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[3, 2], name="b")
            result = session.run(tf1.matmul(a, b))
        expect(result.tolist() == [[22.0, 28.0], [49.0, 64.0]], f"the result is {result}")

    cublas(page)
    stats = gpuconf.memory.stats()
    expect(0 < stats.bytes_reserved <= stats.bytes_limit, "the fraction does not hold")
    expect(live() == 0, "blocks are left")


def case_unified_memory_exceeds_the_gpu() -> None:
    """A fraction above 1: one buffer larger than the GPU, written and read at places that cannot all be on it."""
    import gpuconf.compat.v1 as tf1

    if "microsoft" in platform.release().lower():
        raise Missing("under WSL unified memory has to fit on the GPU")
    options = tf1.GPUOptions(per_process_gpu_memory_fraction=1.5)
    try:
        tf1.Session(config=tf1.ConfigProto(gpu_options=options))
    except (gpuconf.errors.InternalError, gpuconf.errors.UnimplementedError) as error:
        raise Missing(str(error)) from error
    size = gpuconf.memory.stats().bytes_limit // 256 * 256
    total = size * 2 // 3
    with gpuconf.memory.allocate(size) as buffer:
        steps = range(0, size, size // 64)
        for number, offset in enumerate(steps):
            buffer.copy_from_host(bytes([number]) * 4096, offset)
        for number, offset in enumerate(steps):
            got = bytes(buffer.copy_to_host(bytearray(4096), offset))
            expect(got == bytes([number]) * 4096, f"other bytes at offset {offset}")
        stats = gpuconf.memory.stats()
        expect(abs(stats.oversubscribed_bytes - (size - total)) < 512, f"{stats.oversubscribed_bytes} bytes exceed the GPU")
        expect(buffer.__dlpack_device__()[0] == 13, "it is not managed memory for DLPack")
    expect(live() == 0, "blocks are left")


def case_two_threads_compute_at_once() -> None:
    """Threads share a GPU's handle, and each gets its own results; two logical GPUs of a card share it too."""
    np = need("numpy")
    split(256, 256)
    cublas(lambda: gpuconf.matmul([[1.0]], [[1.0]]).numpy())
    wrong: list[int] = []

    def work(number: int) -> None:
        matrix = np.full((100, 100), number, np.float32)
        with gpuconf.device(f"GPU:{number % 2}"):
            for _ in range(500):
                if not bool((gpuconf.matmul(matrix, matrix).numpy() == 100.0 * number * number).all()):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not wrong, f"wrong results in threads {wrong[:5]}")
    expect(live("GPU:0") == live("GPU:1") == 0, "blocks are left")


def case_operations_share_the_gpu_with_torch() -> None:
    """PyTorch's products before, in between and after: one cuBLAS in the process, PyTorch's current device and stream unchanged."""
    torch = need("torch")
    np = need("numpy")
    gpuconf.configure(limit="512MiB", libraries=["torch"])
    a = torch.ones(64, 64, device="cuda")
    before = a @ a
    x = gpuconf.constant(np.ones((64, 64), np.float32))
    cublas(lambda: expect(float((x @ x).numpy()[0, 0]) == 64.0, "the product is wrong"))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        after = a @ a
        expect(float((x @ x).numpy()[0, 0]) == 64.0, "the product is wrong inside a stream of PyTorch's")
        expect(torch.cuda.current_stream() == stream, "PyTorch is in another stream")
    torch.cuda.synchronize()
    expect(bool((before == after).all()), "PyTorch's products differ")


def own_streams(count: int) -> tuple[Any, list[ctypes.c_void_p]]:
    """The driver, with the primary context of the first GPU current, and streams that do not wait for each other."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    expect(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 == cuda.cuCtxSetCurrent(context), "no context")
    streams = [ctypes.c_void_p() for _ in range(count)]
    for stream in streams:
        expect(cuda.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0) == 0, "no stream")
    cuda.cuMemsetD8Async.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p]
    cuda.cuMemcpyDtoHAsync_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
    return cuda, streams


def own_allocator() -> Any:
    """The C symbols."""
    library = ctypes.CDLL(gpuconf.library_path())
    library.gpuconf_malloc.restype = ctypes.c_void_p
    library.gpuconf_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    library.gpuconf_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    library.gpuconf_last_error.restype = ctypes.c_char_p
    return library


def case_a_million_hand_overs_lose_no_canary(rounds: int = 1_000_000) -> None:
    """One block passes from stream to stream while they work: each reads what it wrote, and no other stream writes in between."""
    gpuconf.configure(limit="64MiB", libraries=[])
    gpuconf.config.list_logical_devices()
    library, (cuda, streams) = own_allocator(), own_streams(3)
    batch, size, slow = 4096, 4096, 32 * MIB
    slab = library.gpuconf_malloc(slow, 0, None)
    ballast = library.gpuconf_malloc(64 * MIB - slow - size, 0, None)
    expect(bool(slab and ballast), library.gpuconf_last_error().decode())
    place = ctypes.c_void_p()
    expect(cuda.cuMemHostAlloc(ctypes.byref(place), ctypes.c_size_t(batch), 0) == 0 and place.value is not None, "no pinned memory")
    read = (ctypes.c_ubyte * batch).from_address(place.value or 0)
    for begin in range(0, rounds, batch):
        todo = min(batch, rounds - begin)
        for i in range(todo):
            stream = streams[i % 3]
            if i % 64 == 0:
                cuda.cuMemsetD8Async(slab, 0, slow, stream)  # keeps the stream busy while the host continues
            block = library.gpuconf_malloc(size, 0, stream)
            if not block:
                raise AssertionError(library.gpuconf_last_error().decode())
            cuda.cuMemsetD8Async(block, i % 251 + 1, size, stream)
            cuda.cuMemcpyDtoHAsync_v2(place.value + i, block + i % size, 1, stream)
            library.gpuconf_free(block, size, 0, stream)
        for stream in streams:
            expect(cuda.cuStreamSynchronize(stream) == 0, "a stream has failed")
        wrong = [i for i in range(todo) if read[i] != i % 251 + 1]
        expect(not wrong, f"canaries died in rounds {[begin + i for i in wrong[:5]]}")
    for block in (slab, ballast):
        library.gpuconf_free(block, 0, 0, None)
    expect(live() == 0, "blocks are left")


def case_a_captured_graph_keeps_its_memory() -> None:
    """Memory allocated for a captured stream belongs to the graph until the graph is destroyed: its launches harm no other data."""
    gpuconf.configure(limit="64MiB", libraries=[])
    gpuconf.config.list_logical_devices()
    library, (cuda, (side, other)) = own_allocator(), own_streams(2)
    expect(cuda.cuStreamBeginCapture_v2(side, 0) == 0, "no capture")
    inside = library.gpuconf_malloc(MIB, 0, side)
    expect(bool(inside), library.gpuconf_last_error().decode())
    cuda.cuMemsetD8Async(inside, 1, MIB, side)
    library.gpuconf_free(inside, 0, 0, side)
    graph, execute = ctypes.c_void_p(), ctypes.c_void_p()
    expect(cuda.cuStreamEndCapture(side, ctypes.byref(graph)) == 0, "the capture was spoiled")
    expect(cuda.cuGraphInstantiateWithFlags(ctypes.byref(execute), graph, ctypes.c_ulonglong(0)) == 0, "no executable")
    expect(cuda.cuGraphDestroy(graph) == 0, "the graph stays")
    outside = library.gpuconf_malloc(63 * MIB, 0, other)
    expect(bool(outside), library.gpuconf_last_error().decode())
    cuda.cuMemsetD8Async(outside, 9, 63 * MIB, other)
    expect(cuda.cuGraphLaunch(execute, other) == 0 == cuda.cuStreamSynchronize(other), "no launch")
    for block, value in ((inside, 1), (outside, 9), (outside + 63 * MIB - 1, 9)):
        byte = ctypes.c_ubyte()
        expect(cuda.cuMemcpyDtoH_v2(ctypes.byref(byte), ctypes.c_uint64(block), ctypes.c_size_t(1)) == 0, "no copy")
        expect(byte.value == value, f"{byte.value} instead of {value}")
    library.gpuconf_free(outside, 0, 0, other)
    expect(gpuconf.memory.stats().captured_bytes == MIB, "the graph has lost its memory")
    expect(cuda.cuGraphExecDestroy(execute) == 0, "the executable stays")
    for _ in range(1000):  # the driver reports it on its own thread
        if gpuconf.memory.stats().captured_bytes == 0:
            break
        time.sleep(0.01)
    expect(gpuconf.memory.stats().captured_bytes == 0, "the graph's memory has not come back")


# PyTorch


def model(torch: Any) -> tuple[Any, Any]:
    """A parameter and a loss."""
    weight = torch.randn(512, 512, device="cuda", requires_grad=True)
    return weight, ((weight @ weight).relu() ** 2).mean()


def case_torch_trains_within_the_limit() -> None:
    """A training loop: same losses as without gpuconf, all memory in the accounting, all of it released at the end."""
    torch = need("torch")
    gpuconf.configure(limit="1GiB", growth=True, libraries=["torch"])
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for step in range(50):
        batch = torch.randn(64 + step, 256, device="cuda")
        loss = torch.nn.functional.cross_entropy(net(batch), torch.zeros(len(batch), dtype=torch.long, device="cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expect(losses[-1] < losses[0] / 10, f"it does not learn: {losses[0]} to {losses[-1]}")
    stats = gpuconf.memory.stats()
    expect(torch.cuda.memory_allocated() == stats.bytes_in_use > 0, "PyTorch's function and the books differ")
    expect(stats.bytes_reserved <= 1 << 30, "more than the limit is reserved")


def case_torch_out_of_memory_is_its_own_error() -> None:
    """torch.OutOfMemoryError with gpuconf's text, also in a backward pass, and the program continues."""
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    kept = torch.empty(128 * MIB, dtype=torch.uint8, device="cuda")
    try:
        torch.empty(200 * MIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        expect("CUDA out of memory. " in str(error) and "limit 256.00MiB" in str(error), str(error))
    else:
        raise AssertionError("200 MiB beside 128 fitted into 256")
    big = torch.empty(24 * MIB, device="cuda", requires_grad=True)  # 96 MiB, and its gradient has the same size
    del kept
    hog = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    try:
        big.sum().backward()
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("a gradient went past the limit")
    del hog
    big.sum().backward()


def case_torch_backward_stays_in_its_budget() -> None:
    """Two logical GPUs on one card: a backward pass allocates within the limit of its forward pass, in any thread."""
    torch = need("torch")
    split(512, 256)
    gpuconf.configure(libraries=["torch"])
    with gpuconf.device("GPU:1"):
        weight, loss = model(torch)
    before = live("GPU:0")
    loss.backward()
    torch.cuda.synchronize()
    expect(live("GPU:0") == before, "the backward pass took from GPU:0")
    expect(weight.grad is not None and bool(torch.isfinite(weight.grad).all()), "the gradient is wrong")
    reference = weight.detach().cpu().double().requires_grad_()
    ((reference @ reference).relu() ** 2).mean().backward()
    expect(torch.allclose(weight.grad.cpu().double(), reference.grad, rtol=1e-2, atol=1e-5), "the gradient is not the CPU's")


def case_torch_streams_hand_memory_over_safely() -> None:
    """A million hand-overs between streams with record_stream: no stream reads memory that was overwritten too early."""
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    side, wrong = torch.cuda.Stream(), torch.zeros(1, dtype=torch.long, device="cuda")
    for round_ in range(1_000_000):
        value = round_ % 251
        block = torch.full((4096,), value, dtype=torch.uint8, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            if round_ % 100 == 0:
                torch.cuda._sleep(1_000_000)
            wrong += (block != value).sum()
        block.record_stream(side)
        del block
        torch.full((4096,), 255, dtype=torch.uint8, device="cuda")  # gets the block, if it may be reused
    expect(int(wrong) == 0, f"{int(wrong)} bytes were overwritten")


def case_torch_memory_functions_all_answer() -> None:
    """Every public function of torch.cuda.memory works in mode whole."""
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    torch.empty(1000, device="cuda")
    memory = torch.cuda.memory
    skipped = (
        "CUDAPluggableAllocator",
        "MemPool",
        "MemPoolContext",
        "use_mem_pool",
        "change_current_allocator",
        "list_gpu_processes",
    )
    pointer = 0
    for name in memory.__all__:
        if name in skipped:
            continue
        given = {"set_per_process_memory_fraction": [1.0], "caching_allocator_alloc": [1000], "caching_allocator_delete": [pointer]}
        answer = getattr(memory, name)(*given.get(name, []))
        if name == "caching_allocator_alloc":
            pointer = answer


def case_torch_segments_capture_graphs() -> None:
    """Mode segments: PyTorch's statistics, and a CUDA graph that is captured and replayed, under the limit."""
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries={"torch": "segments"})
    x = torch.ones(1000, device="cuda")
    y = x * 2
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    x.fill_(21)
    graph.replay()
    expect(bool((y == 42).all()), "the replay is wrong")
    expect(torch.cuda.memory_stats()["allocated_bytes.all.current"] > 0, "PyTorch has no books")
    expect(gpuconf.memory.stats().bytes_in_use > 0, "the segments are not ours")


def case_torch_captures_graphs_in_whole_mode() -> None:
    """A CUDA graph with gpuconf as the allocator: replays are correct and harm no other data, and its memory is released."""
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    x = torch.ones(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2 + 1) * 3
    others = [torch.full((1 << 20,), 7.0, device="cuda") for _ in range(20)]
    for value in range(20):
        x.fill_(value)
        graph.replay()
        expect(bool((y == (value * 2 + 1) * 3).all()), "a replay is wrong")
    expect(all(bool((other == 7).all()) for other in others), "a replay wrote to memory of others")
    del graph, y
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    expect(gpuconf.memory.stats().captured_bytes == 0, "the graph's memory has not come back")


# CuPy and Numba


def case_cupy_computes_on_the_books() -> None:
    """Sums are correct, memory is in the accounting and is released, and out of memory is CuPy's own error."""
    cupy = need("cupy")
    gpuconf.configure(limit="256MiB", libraries=["cupy"])
    array = cupy.arange(1_000_000, dtype=cupy.float64)
    expect(float(array.sum()) == 499999500000.0, "the sum is wrong")
    expect(live() >= 1, "the array is not on the books")
    with cupy.cuda.Stream():
        del array
        other = cupy.ones(1_000_000)
        expect(float(other.sum()) == 1_000_000, "the sum on a stream is wrong")
    try:
        cupy.empty(300 * MIB, dtype=cupy.uint8)
    except cupy.cuda.memory.OutOfMemoryError as error:
        expect("limit 256.00MiB" in str(error), str(error))
    else:
        raise AssertionError("300 MiB fitted into 256")
    del other
    expect(live() == 0, "blocks are left")


def case_numba_computes_on_the_books() -> None:
    """A Numba kernel on gpuconf's memory, with streams and without."""
    need("numba_cuda")
    numpy = need("numpy")
    gpuconf.configure(limit="256MiB", libraries=["numba"])
    from numba import cuda

    @cuda.jit  # type: ignore[untyped-decorator]
    def double(array: Any) -> None:
        i = cuda.grid(1)
        if i < array.size:
            array[i] *= 2

    for stream in (0, cuda.stream()):
        for _ in range(50):
            array = cuda.to_device(numpy.arange(1000), stream=stream)
            double[8, 128, stream](array)
            expect(bool((array.copy_to_host(stream=stream) == numpy.arange(1000) * 2).all()), "the kernel's result is wrong")
    info = cuda.current_context().get_memory_info()
    expect(info.total == 256 * MIB, f"Numba sees {info}")


def case_three_libraries_share_one_limit() -> None:
    """PyTorch, CuPy and Numba in one process on one pool: together they cannot exceed the limit."""
    torch, cupy = need("torch"), need("cupy")
    need("numba_cuda")
    gpuconf.configure(limit="256MiB")
    from numba import cuda

    mine = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    yours = cupy.empty(100 * MIB, dtype=cupy.uint8)
    try:
        cuda.device_array(100 * MIB, dtype="uint8")
    except MemoryError:
        pass
    else:
        raise AssertionError("300 MiB fitted into 256")
    del mine
    theirs = cuda.device_array(100 * MIB, dtype="uint8")
    expect(live() == 2, "the books are not of all three")
    del yours, theirs


def case_a_buffer_is_everybodys_array() -> None:
    """PyTorch, CuPy and Numba read and write one buffer without a copy."""
    gpuconf.configure(limit="256MiB")
    buffer = gpuconf.memory.allocate(1000)
    buffer.copy_from_host(b"\1" * 1000)
    readers = 0
    for name in ("torch", "cupy", "numba_cuda"):
        try:
            library = need(name)
        except Missing:
            continue
        readers += 1
        if name == "torch":
            library.from_dlpack(buffer).add_(1)
            library.cuda.synchronize()
        elif name == "cupy":
            array = library.from_dlpack(buffer)
            array += 1
            library.cuda.Device().synchronize()
        else:
            from numba import cuda

            expect(int(cuda.as_cuda_array(buffer).gpu_data.device_pointer) == buffer.ptr, "a copy was made")
            readers -= 1
    if not readers:
        raise Missing("neither PyTorch nor CuPy is installed")
    expect(bytes(buffer.copy_to_host()) == bytes([1 + readers]) * 1000, "what was written is not there")
    buffer.free()


def case_threads_keep_the_books() -> None:
    """Sixteen Python threads allocate and free through PyTorch at once."""
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    torch.cuda.init()
    wrong: list[str] = []

    def work(number: int) -> None:
        for round_ in range(2000):
            block = torch.full((1 + (round_ * 37) % 4096,), number, dtype=torch.uint8, device="cuda")
            if round_ % 500 == 0 and not bool((block == number).all()):
                wrong.append(f"thread {number}, round {round_}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not wrong, f"memory of others was seen: {wrong[:5]}")
    expect(live() == 0, "blocks are left")


def case_usage_names_the_holders() -> None:
    """Blocks count by library and tag, a backward pass too; with stacks, the calls of both sides of a training step are known."""
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    with gpuconf.memory.tag("weights"):
        weight = torch.randn(512, 512, device="cuda", requires_grad=True)
    buffer = gpuconf.memory.allocate(MIB)
    with gpuconf.memory.record(stacks=True) as recording, gpuconf.memory.tag("step"):
        (weight @ weight).sum().backward()
    usage, stats = gpuconf.memory.usage(), gpuconf.memory.stats()
    held = {(row.library, row.tag): row.bytes_in_use for row in usage if row.bytes_in_use}
    expect(held[("torch", "weights")] == held[("gpuconf", "")] == MIB, f"not who holds it: {usage}")
    expect(held[("torch", "step")] >= MIB and ("torch", "") not in held, f"the gradient is not the step's: {usage}")
    expect(sum(held.values()) == stats.bytes_in_use, "the rows do not add up")
    sites = {event.call_site for event in recording.events if event.action == "allocate"}
    expect(any(site is not None and site[2] == "case_usage_names_the_holders" for site in sites), f"calls are missing: {sites}")
    buffer.free()


def cases() -> dict[str, Callable[[], None]]:
    """All cases by name."""
    return {name.removeprefix("case_"): value for name, value in globals().items() if name.startswith("case_")}


def main(name: str) -> int:
    """Run one case; its exit code."""
    if gpuconf.simulated() or not gpuconf.config.list_physical_devices("GPU"):
        print("there is no real GPU")
        return MISSING
    try:
        cases()[name]()
    except Missing as missing:
        print(missing)
        return MISSING
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
