"""Records the addresses that cuMemAlloc returns on a real GPU, in random sequences of allocations and frees.

    python benchmarks/accuracy/drawn/addresses.py --out FILE [--processes 6] [--calls 400]

Each line of FILE is a list of a process's calls: [bytes, address] for an allocation, [0, address] for a free. A process
allocates as PyTorch's allocator does: 2 MiB for small tensors, 20 MiB, and multiples of 2 MiB. NVIDIA does not document
where memory lies.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import sys
from pathlib import Path

SEED = 20261127
MIB = 1 << 20
MOST = 4 << 30  # bytes of a process


def sizes(made: random.Random, number: int) -> int:
    """Draw a size; the first processes draw from fewer."""
    if number == 0:
        return 2 * MIB
    if number == 1:
        return 20 * MIB
    if number == 2:
        return made.choice((2, 20)) * MIB
    if number == 3:
        return made.choice((1, 512, 4096, 65536, 100_000, MIB, MIB + 1, 2 * MIB, 3 * MIB))
    return made.choice((2, 2, 20, 20, 2 * made.randrange(6, 30), 2 * made.randrange(6, 400))) * MIB


def record(number: int, calls: int) -> list[list[int]]:
    """Make the calls in this process."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, made = ctypes.c_int(), ctypes.c_void_p(), random.Random(SEED + number)
    for result in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0)):
        if result:
            raise OSError(f"the driver returned {result}")
    if cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or cuda.cuCtxSetCurrent(context):
        raise OSError("there is no context")
    live: dict[int, int] = {}
    found: list[list[int]] = []
    while len(found) < calls:
        growing = len(found) < calls // 8 or made.random() < 0.55
        if live and (not growing or sum(live.values()) > MOST):
            address = made.choice(list(live))
            if cuda.cuMemFree_v2(ctypes.c_uint64(address)):
                raise OSError("memory could not be freed")
            del live[address]
            found.append([0, address])
            continue
        size, pointer = sizes(made, number), ctypes.c_uint64()
        if cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)):
            continue
        live[pointer.value] = size
        found.append([size, pointer.value])
    return found


def main() -> None:
    """Record with several processes, one after another."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--number", type=int)
    asked = parser.parse_args()
    if asked.number is not None:
        with asked.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record(asked.number, asked.calls)) + "\n")
        return
    for number in range(asked.processes):
        words = [
            sys.executable,
            __file__,
            "--out",
            str(asked.out),
            "--calls",
            str(asked.calls),
            "--number",
            str(number),
        ]
        os.waitpid(os.posix_spawn(sys.executable, words, os.environ), 0)


if __name__ == "__main__":
    main()
