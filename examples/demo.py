"""The main job: configure GPU memory, use it, run into a limit, and see what happened.

Runs on two simulated H100, so it needs no GPU. Set GPUCONF_SIMULATE to simulate other machines.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import gpuconf as tf

MIB = 1 << 20
BOLD, DIM, OFF = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "", "")


def title(text: str) -> None:
    print(f"\n{BOLD}{text}{OFF}")


def said(code: str) -> None:
    print(f"{DIM}>>> {code}{OFF}")


def used(device: str) -> str:
    info = tf.config.experimental.get_memory_info(device)
    return f"current {info['current']:>13,} bytes   peak {info['peak']:>13,} bytes"


def list_devices() -> None:
    title("1. The machine")
    for device in tf.config.list_physical_devices():
        details = tf.config.experimental.get_device_details(device)
        capability = ".".join(map(str, details.get("compute_capability", ())))
        print(f"  {device.name}", *([details["device_name"], f"compute capability {capability}"] if details else []), sep="   ")


def show_growth(spec: str) -> None:
    title("2. Memory growth: what a program takes from the GPU for one buffer of 1 MB")
    for growth in (False, True):
        with tf.simulate(spec):  # each time a new runtime
            for gpu in tf.config.list_physical_devices("GPU"):
                said(f"set_memory_growth({gpu.name!r}, {growth})")
                tf.config.experimental.set_memory_growth(gpu, growth)
            with tf.memory.allocate(1_000_000, "GPU:0"):
                stats = tf.memory.stats("GPU:0")
                print(f"  in use {stats.bytes_in_use:>13,} bytes   taken {stats.bytes_reserved:>14,} bytes")


def split() -> None:
    title("3. Two logical GPUs on one card, each with a hard limit")
    second = tf.config.list_physical_devices("GPU")[1]
    said("set_logical_device_configuration(gpus[1], [1024 MiB, 64 MiB])")
    limits = [tf.config.LogicalDeviceConfiguration(memory_limit=mib) for mib in (1024, 64)]
    tf.config.set_logical_device_configuration(second, limits)
    said("set_memory_growth(gpus[1], True)")
    try:
        tf.config.experimental.set_memory_growth(second, True)
    except ValueError as error:
        print(f"  ValueError: {error}")
    said('list_logical_devices("GPU")')
    for device in tf.config.list_logical_devices("GPU"):
        print(f"  {device.name}   limit {tf.memory.stats(device).bytes_limit:>14,} bytes")
    said('set_visible_devices([], "GPU")')
    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError as error:
        print(f"  RuntimeError: {error}".replace(str(Path.cwd()) + os.sep, ""))


def allocate() -> None:
    title("4. Memory: current and peak")
    with tf.device("GPU:1"), tf.memory.measure() as measured:
        weights = tf.memory.allocate(200 * MIB)
        with tf.memory.allocate(300 * MIB) as activations:
            activations.copy_from_host(b"real bytes, in simulated memory")
            print(f"  two buffers       {used('GPU:1')}")
            print(f"  read back         {bytes(activations.view()[:31]).decode()}")
        print(f"  one was freed     {used('GPU:1')}")
    weights.free()
    print(f"  both were freed   {used('GPU:1')}")
    print(
        f"  the block needed {measured.peak_increase / MIB:.0f} MiB at its peak and left {measured.increase / MIB:.0f} MiB behind"
    )


def run_into_the_limit() -> None:
    title("5. A limit is a limit: GPU:2 has 64 MiB")
    buffers = [tf.memory.allocate(8 * MIB, "GPU:2") for _ in range(7)]
    for buffer in buffers[1::2]:
        buffer.free()
    said('allocate(20 * MIB, "GPU:2")')
    try:
        tf.memory.allocate(20 * MIB, "GPU:2")
    except MemoryError as error:
        print(f"  MemoryError: {error}")
    title("6. Why: the memory map")
    print(tf.memory.memory_map("GPU:2"))
    for buffer in buffers:
        buffer.free()
    print("  ... and with everything freed:")
    print(tf.memory.memory_map("GPU:2"))


def main() -> None:
    spec = os.environ.get("GPUCONF_SIMULATE", "2xH100-80GB")
    print(f"{BOLD}gpuconf {tf.__version__}{OFF} on SIMULATED GPUs ({spec}): host memory stands in for theirs.")
    with tf.simulate(spec):
        list_devices()
        if len(tf.config.list_physical_devices("GPU")) < 2:
            sys.exit("The rest needs two GPUs: set GPUCONF_SIMULATE=2xT4, say.")
        show_growth(spec)
        split()
        allocate()
        run_into_the_limit()


if __name__ == "__main__":
    main()
