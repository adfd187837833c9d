"""The cost of operations: eager ones, sessions, the placement of graphs; and the arithmetic compared with NumPy's and
gonum's.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import time
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path

import gpuconf as tf
import gpuconf.compat.v1 as tf1
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 9
NUMBER = 5_000
PRODUCT = 512  # rows and columns


def calls() -> list[dict[str, str]]:
    """Operations on 2x2 matrices from Python, with their results dropped; medians of microseconds."""
    array = np.asarray([[1.0, 2.0], [3.0, 4.0]], np.float32)
    with tf.simulate("T4"):
        times = _times(array)
    goals = {"`matmul`, eager, on the CPU": "<= 10 us"}
    return [
        {"2x2, float32": what, "time": f"{statistics.median(t):.2f} us", "goal": goals.get(what, "")}
        for what, t in times.items()
    ]


def _times(array: np.ndarray) -> dict[str, list[float]]:
    with tf.device("CPU:0"):
        on_cpu = tf.constant(array)
    with tf.device("GPU:0"):
        on_gpu = tf.constant(array)
    with tf1.Graph().as_default(), tf1.device("/cpu:0"), tf1.Session() as session:
        node = tf1.matmul(array, array)
        timers = {
            "`matmul`, eager, on the CPU": ("CPU:0", timeit.Timer(lambda: tf.matmul(on_cpu, on_cpu))),
            "`matmul`, eager, on a simulated GPU": ("GPU:0", timeit.Timer(lambda: tf.matmul(on_gpu, on_gpu))),
            "`constant` of an array": ("CPU:0", timeit.Timer(lambda: tf.constant(array))),
            "`tensor.numpy()`": ("CPU:0", timeit.Timer(on_cpu.numpy)),
            "`session.run` of a product": ("CPU:0", timeit.Timer(lambda: session.run(node))),
            "NumPy's `a @ a`, for scale": ("CPU:0", timeit.Timer(lambda: array @ array)),
        }
        times: dict[str, list[float]] = {what: [] for what in timers}
        for _ in range(ROUNDS):
            for what, (device, timer) in timers.items():
                with tf.device(device):
                    times[what].append(timer.timeit(NUMBER) / NUMBER * 1e6)
    return times


def peers() -> list[dict[str, str]]:
    """Products and sums from Python beside NumPy's, in turns; the goals are those for products on the CPU."""
    rows = []
    random = np.random.default_rng(1)
    with tf.simulate("A100-40GB"):
        for what, ours, numpys, shape in (
            ("product", tf.matmul, np.matmul, (2, 2)),
            ("product", tf.matmul, np.matmul, (512, 512)),
            ("product", tf.matmul, np.matmul, (2048, 2048)),
            ("sum", tf.add, np.add, (1000,)),
            ("sum", tf.add, np.add, (1_000_000,)),
        ):
            for dtype in (np.float32, np.float64):
                x, y = (random.random(shape).astype(dtype) for _ in range(2))
                for device in ("CPU:0", "GPU:0"):
                    with tf.device(device):
                        mine, peer = _in_turns(partial(ours, tf.constant(x), tf.constant(y)), partial(numpys, x, y))
                    rows.append(_beside(what, shape, dtype, device, mine, peer))
    return rows


def _in_turns(one: Callable[[], object], other: Callable[[], object]) -> tuple[list[float], list[float]]:
    """The seconds of two calls, each round at least 20 ms long."""
    timers = timeit.Timer(one), timeit.Timer(other)
    number = max(1, int(0.02 / max(timer.timeit(3) / 3 for timer in timers)))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for timer, found in zip(timers, times, strict=True):
            found.append(timer.timeit(number) / number)
    return times


def _beside(
    what: str, shape: tuple[int, ...], dtype: type, device: str, mine: list[float], peer: list[float]
) -> dict[str, str]:
    ratio = statistics.median(a / b for a, b in zip(mine, peer, strict=True))
    more = statistics.median(a - b for a, b in zip(mine, peer, strict=True)) * 1e6
    goal = ""
    if what == "product" and device == "CPU:0":
        goal = "<= 2.0 us more" if shape[0] == 2 else "<= 1.10"
    return {
        "operation": f"{what}, {'x'.join(map(str, shape))}, {np.dtype(dtype).name}",
        "device": "the CPU" if device == "CPU:0" else "a simulated GPU",
        "gpuconf": _readable(statistics.median(mine)),
        "NumPy": _readable(statistics.median(peer)),
        "x NumPy": f"{ratio:.2f}" + (f" ({more:+.1f} us)" if abs(more) < 20 else ""),
        "goal": goal,
    }


def _readable(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def products() -> list[dict[str, str]]:
    """A product without a BLAS, as a multiple of gonum's time: alternately in Go."""
    command = [
        "go",
        "test",
        "-run=^$",
        f"-bench=Product/(gonum|CPU:0)/{PRODUCT}$",
        "-benchtime=20x",
        "./tests_go/devices/placement",
    ]
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        for who, ns in re.findall(rf"BenchmarkProduct/([\w:]+)/{PRODUCT}-\d+\s.*?([\d.]+) ns/op", done.stdout):
            found.setdefault(who, []).append(float(ns) / 1e6)
    gonum, core = (statistics.median(found[who]) for who in ("gonum", "CPU:0"))
    ratio = statistics.median(b / a for a, b in zip(found["gonum"], found["CPU:0"], strict=True))
    rows = [
        ("gonum, called directly", gonum, "1", ""),
        ("gpuconf's core, allocation and release included", core, f"{ratio:.2f}", "<= 1.15"),
    ]
    return [{f"{PRODUCT}x{PRODUCT}, float32": a, "time": f"{b:.2f} ms", "x gonum": c, "goal": d} for a, b, c, d in rows]


def graphs() -> list[dict[str, str]]:
    """A first run of one constant, before which the whole graph is placed."""
    rows = []
    per_node: list[float] = []
    with tf.simulate("4xK20"):
        for count in (1_000, 10_000, 100_000):
            with tf1.Graph().as_default():
                begin = time.perf_counter()
                nodes = [tf1.constant(1.0)]
                for i in range(1, count):
                    with tf1.device(f"/gpu:{i % 4}"):
                        nodes.append(tf1.identity(nodes[-1]))
                built = time.perf_counter() - begin
                placed = min(first_run(nodes[0]) for _ in range(5))
            per_node.append(placed / count)
            goal = {10_000: "<= 50 ms", 100_000: "linear"}.get(count, "")
            rows.append(
                {
                    "operations": f"{count:_}".replace("_", " "),
                    "placed": f"{placed * 1e3:.2f} ms",
                    "each": f"{per_node[-1] * 1e9:.0f} ns",
                    "goal": goal,
                    "built from Python": f"{built * 1e3:.0f} ms",
                }
            )
    return rows


def first_run(node: tf1.Tensor) -> float:
    """The seconds of a new session's first run."""
    with tf1.Session() as session:
        begin = time.perf_counter()
        session.run(node)
        return time.perf_counter() - begin


def measure() -> tuple[list[dict[str, str]], ...]:
    """Return the tables of calls, of operations beside NumPy's, of products without a BLAS, and of graphs."""
    return calls(), peers(), products(), graphs()
