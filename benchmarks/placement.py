"""The cost of operations: eager ones, sessions, the placement of graphs; and the arithmetic compared with gonum's and NumPy's."""

from __future__ import annotations

import re
import statistics
import subprocess
import time
import timeit
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
        {"2x2, float32": what, "time": f"{statistics.median(t):.2f} us", "goal": goals.get(what, "")} for what, t in times.items()
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


def products() -> list[dict[str, str]]:
    """A product of large matrices, as a multiple of gonum's time: alternately in Go, and from Python compared with NumPy."""
    command = ["go", "test", "-run=^$", f"-bench=Product/(gonum|CPU:0)/{PRODUCT}$", "-benchtime=20x", "./tests_go/placement"]
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        for who, ns in re.findall(rf"BenchmarkProduct/([\w:]+)/{PRODUCT}-\d+\s.*?([\d.]+) ns/op", done.stdout):
            found.setdefault(who, []).append(float(ns) / 1e6)
    gonum, core = (statistics.median(found[who]) for who in ("gonum", "CPU:0"))
    ratio = statistics.median(b / a for a, b in zip(found["gonum"], found["CPU:0"], strict=True))
    python, numpy = _from_python(np.random.default_rng(1).random((PRODUCT, PRODUCT), np.float32))
    rows = [
        ("gonum, called directly", gonum, "1", ""),
        ("gpuconf's core, allocation and release included", core, f"{ratio:.2f}", "<= 1.15"),
        ("`gpuconf.matmul`", python, f"{python / gonum:.2f}", ""),
        ("NumPy", numpy, f"{numpy / gonum:.2f}", "reported"),
    ]
    return [{f"{PRODUCT}x{PRODUCT}, float32": a, "time": f"{b:.2f} ms", "x gonum": c, "goal": d} for a, b, c, d in rows]


def _from_python(array: np.ndarray) -> tuple[float, float]:
    """The milliseconds of gpuconf's product and of NumPy's, alternately."""
    ours, numpys = [], []
    with tf.simulate("T4"):
        with tf.device("CPU:0"):
            tensor = tf.constant(array)
            product = timeit.Timer(lambda: tf.matmul(tensor, tensor))
            for _ in range(ROUNDS):
                ours.append(product.timeit(10) / 10 * 1e3)
                numpys.append(timeit.timeit(lambda: array @ array, number=10) / 10 * 1e3)
        tensor = None
    return statistics.median(ours), statistics.median(numpys)


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


def measure() -> tuple[list[dict[str, str]], list[dict[str, str]], list[dict[str, str]]]:
    """Return the tables of calls, of products and of graphs."""
    return calls(), products(), graphs()
