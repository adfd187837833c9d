"""Operations, with cuBLAS."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import gpuconf
from checks import Missing, expect, live, need, split

if TYPE_CHECKING:
    from collections.abc import Callable


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
                    bool((error <= bound).all()),
                    f"{m}x{k}x{n} of {dtype.__name__} is off by {(error / bound).max()} of the bound",
                )
                again = gpuconf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
                expect(bool((got.numpy() == again.numpy()).all()), "the same product twice differs")
        a, b = rng.standard_normal((300, 70)).astype(dtype), rng.standard_normal((300, 70)).astype(dtype)
        for x, y in ((a, b), (a, b[:1]), (a, b[:, :1]), (a[:1], b[:, :1]), (a, b[0, 0]), (a[0], b), (a[0, 0], b[0, 0])):
            expect(bool((gpuconf.add(x, y).numpy() == x + y).all()), f"{x.shape} + {y.shape} is not NumPy's")
        big = rng.standard_normal(3_000_001).astype(dtype)
        expect(bool((gpuconf.add_n([big, big, big]).numpy() == big + big + big).all()), "add_n is not NumPy's")
        expect(
            bool((gpuconf.add(big, dtype(1)).numpy() == big + dtype(1)).all()),
            "a scalar beside a long vector is not NumPy's",
        )
        expect(
            gpuconf.matmul(np.zeros((2, 0), dtype), np.zeros((0, 3), dtype)).numpy().tolist() == [[0.0] * 3] * 2,
            "K is 0",
        )
        odd = gpuconf.matmul(np.array([[0, np.inf, 1]], dtype), np.array([[np.nan, 1], [1, 0], [0, 0]], dtype)).numpy()
        expect(bool(np.isnan(odd).all()), f"NaN and infinity got lost: {odd}")
        sums = gpuconf.add(np.array([np.inf, np.inf, np.nan], dtype), np.array([1, -np.inf, 1], dtype)).numpy()
        expect(sums[0] == np.inf and bool(np.isnan(sums[1:]).all()), f"NaN and infinity got lost: {sums}")
    del got, again
    expect(live() == 0, "blocks are left")


def case_the_page_using_gpus_runs() -> None:
    """A session: the guide's product, placed on the GPU, within the limit of its options; afterwards nothing is
    left.
    """
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
    """PyTorch's products before, in between and after: one cuBLAS in the process, PyTorch's current device and stream
    unchanged.
    """
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
