"""The cost of a call from Python."""

from __future__ import annotations

import statistics
import timeit

import gpuconf as tf

ROUNDS = 9
NUMBER = 20_000

CALLS = {
    "`get_memory_info('GPU:0')`": ("tf.config.experimental.get_memory_info('GPU:0')", ""),
    "`get_memory_growth(gpu)`": ("tf.config.experimental.get_memory_growth(gpu)", ""),
    "`set_memory_growth(gpu, True)`, unchanged": ("tf.config.experimental.set_memory_growth(gpu, True)", ""),
    "`list_physical_devices('GPU')`": ("tf.config.list_physical_devices('GPU')", ""),
    "`list_logical_devices('GPU')`": ("tf.config.list_logical_devices('GPU')", ""),
    "`get_visible_devices('GPU')`": ("tf.config.get_visible_devices('GPU')", ""),
    "`get_logical_device_configuration(gpu)`": ("tf.config.get_logical_device_configuration(gpu)", ""),
    "`get_soft_device_placement()`": ("tf.config.get_soft_device_placement()", ""),
    "`with device('GPU:1'): pass`": ("\nwith tf.device('GPU:1'): pass", "<= 1.2 us"),
    "`with tag: pass`, a tag of `gpuconf.memory.tag`": ("\nwith tag: pass", ""),
    "`allocate(4096, 'GPU:0').free()`": ("tf.memory.allocate(4096, 'GPU:0').free()", "<= 2 us"),
    "`len('abc')`, for scale": ("len('abc')", ""),
}


def measure() -> list[dict[str, str]]:
    """Run the calls alternately; return medians in microseconds."""
    with tf.simulate("2xH100-80GB"):
        gpu = tf.config.list_physical_devices("GPU")[0]
        for each in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(each, True)
        tf.config.list_logical_devices()
        names = {"tf": tf, "gpu": gpu, "tag": tf.memory.tag("weights")}
        timers = {what: timeit.Timer(code, globals=names) for what, (code, _) in CALLS.items()}
        times: dict[str, list[float]] = {what: [] for what in CALLS}
        for _ in range(ROUNDS):
            for what, timer in timers.items():
                times[what].append(timer.timeit(NUMBER) / NUMBER * 1e6)
        return [
            {"what": what, "time": f"{statistics.median(times[what]):.2f} us", "goal": CALLS[what][1]} for what in CALLS
        ]
