"""The main features: configure GPU memory, use it, hit a limit, and see why.

Uses the GPUs of this machine. Without GPUs, or with GPUCONF_SIMULATE set, it uses simulated GPUs and says so.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import gpuconf as tf

MIB = 1 << 20
BOLD, DIM, OFF = (
    ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "", "")
)


def title(text: str) -> None:
    print(f"\n{BOLD}{text}{OFF}")


def said(code: str) -> None:
    print(f"{DIM}>>> {code}{OFF}")


def used(device: str) -> str:
    info = tf.config.experimental.get_memory_info(device)
    return f"current {info['current']:>13,} bytes   peak {info['peak']:>13,} bytes"


def choose_machine() -> None:
    if "GPUCONF_SIMULATE" not in os.environ and not tf.config.list_physical_devices("GPU"):
        tf.simulate("2xH100-80GB")
    try:
        spec = tf.simulated()
    except ValueError as error:
        sys.exit(f"GPUCONF_SIMULATE: {error}")
    where = f"SIMULATED GPUs ({spec}): their memory is host memory." if spec else "the GPUs of this machine."
    print(f"{BOLD}gpuconf {tf.__version__}{OFF} on {where}")
    said("import gpuconf as tf")
    if spec:
        said(f"simulation = tf.simulate({spec!r})")


def list_devices() -> None:
    title("1. The machine")
    for device in tf.config.list_physical_devices():
        details = tf.config.experimental.get_device_details(device)
        capability = ".".join(map(str, details.get("compute_capability", ())))
        print(
            f"  {device.name}",
            *([details["device_name"], f"compute capability {capability}"] if details else []),
            sep="   ",
        )


def show_growth() -> None:
    title("2. Memory growth: memory taken from the GPU for one buffer of 1 MB")
    said('gpus = tf.config.list_physical_devices("GPU")')
    for growth in (False, True):
        said("tf.reset()")
        tf.reset()
        said(f"for gpu in gpus: tf.config.experimental.set_memory_growth(gpu, {growth})")
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, growth)
        with tf.memory.allocate(1_000_000, "GPU:0"):
            stats = tf.memory.stats("GPU:0")
            print(f"  in use {stats.bytes_in_use:>13,} bytes   reserved {stats.bytes_reserved:>14,} bytes")


def split() -> tuple[str, str]:
    title("3. Two logical GPUs on one card, each with a hard limit")
    said("tf.reset()")
    tf.reset()
    last = tf.config.list_physical_devices("GPU")[-1]
    said("limits = [tf.config.LogicalDeviceConfiguration(memory_limit=mib) for mib in (1024, 64)]")
    limits = [tf.config.LogicalDeviceConfiguration(memory_limit=mib) for mib in (1024, 64)]
    said("tf.config.set_logical_device_configuration(gpus[-1], limits)")
    tf.config.set_logical_device_configuration(last, limits)
    said("tf.config.experimental.set_memory_growth(gpus[-1], True)")
    try:
        tf.config.experimental.set_memory_growth(last, True)
    except ValueError as error:
        print(f"  ValueError: {error}")
    said('tf.config.list_logical_devices("GPU")')
    logical = tf.config.list_logical_devices("GPU")
    for device in logical:
        print(f"  {device.name}   limit {tf.memory.stats(device).bytes_limit:>14,} bytes")
    said('tf.config.set_visible_devices([], "GPU")')
    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError as error:
        print(f"  RuntimeError: {error}".replace(str(Path.cwd()) + os.sep, ""))
    large, small = (device.name.removeprefix("/device:") for device in logical[-2:])
    return large, small


def allocate(name: str) -> None:
    title(f"4. Memory: current and peak, on {name}")
    with tf.device(name), tf.memory.measure() as measured:
        weights = tf.memory.allocate(200 * MIB)
        with tf.memory.allocate(300 * MIB) as activations:
            activations.copy_from_host(b"bytes that were on the GPU")
            print(f"  two buffers       {used(name)}")
            print(f"  read back         {bytes(activations.copy_to_host()[:26]).decode()}")
        print(f"  one freed         {used(name)}")
    weights.free()
    print(f"  both freed        {used(name)}")
    peak, left = measured.peak_increase // MIB, measured.increase // MIB
    print(f"  the block needed {peak} MiB at its peak and left {left} MiB behind")


def run_into_the_limit(name: str) -> None:
    title(f"5. Hard limits: {name} has 64 MiB")
    said(f'buffers = [tf.memory.allocate(8 << 20, "{name}") for _ in range(7)]')
    buffers = [tf.memory.allocate(8 * MIB, name) for _ in range(7)]
    said("for buffer in buffers[1::2]: buffer.free()")
    for buffer in buffers[1::2]:
        buffer.free()
    said(f'tf.memory.allocate(20 << 20, "{name}")')
    try:
        tf.memory.allocate(20 * MIB, name)
    except MemoryError as error:
        print(f"  MemoryError: {error}")
    title("6. Why: the memory map")
    said(f'print(tf.memory.memory_map("{name}"))')
    print(tf.memory.memory_map(name))
    said("for buffer in buffers: buffer.free()")
    for buffer in buffers:
        buffer.free()
    print("  ... and after freeing everything:")
    print(tf.memory.memory_map(name))


def move_together() -> None:
    title("7. With memory growth the same request succeeds: gpuconf remaps free memory so that it is contiguous")
    said("tf.reset()")
    tf.reset()
    said('configuration = tf.configure(limit="64MiB", growth=True, libraries=[])')
    tf.configure(limit="64MiB", growth=True, libraries=[])
    said('buffers = [tf.memory.allocate(8 << 20, "GPU:0") for _ in range(7)]')
    buffers = [tf.memory.allocate(8 * MIB, "GPU:0") for _ in range(7)]
    said("for buffer in buffers[1::2]: buffer.free()")
    for buffer in buffers[1::2]:
        buffer.free()
    said('buffers.append(tf.memory.allocate(20 << 20, "GPU:0"))')
    try:
        buffers.append(tf.memory.allocate(20 * MIB, "GPU:0"))
    except MemoryError as error:  # a GPU without virtual memory management
        print(f"  MemoryError: {error}")
    said('print(tf.memory.memory_map("GPU:0"))')
    print(tf.memory.memory_map("GPU:0"))
    stats = tf.memory.stats("GPU:0")
    print(
        f"  {stats.stitched_bytes // MIB} MiB were remapped; {stats.bytes_reserved // MIB} MiB of the GPU's memory "
        "are reserved"
    )
    for buffer in buffers:
        buffer.free()


def main() -> None:
    choose_machine()
    list_devices()
    show_growth()
    large, small = split()
    allocate(large)
    run_into_the_limit(small)
    move_together()


if __name__ == "__main__":
    main()
