"""Feed mutants of PyTorch's memory snapshots, and bombs, to ``load_trace``: ``snapshot_mutants.py 100000 [SEED]``.

Each must be read, or rejected with ValueError, print nothing, and take little memory: the process's peak is checked at
the end. Python's unpickler (snapshot_model.py) also reads one in ten, in a separate process with a limit, and must
agree.

gpuconf once read snapshots with Python's unpickler. A file of 9 bytes made it take 16 GiB, and some mutants made it
print "SystemError: deallocated bytearray object has exported buffers".
"""

from __future__ import annotations

import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEDS = sorted((Path(__file__).resolve().parents[2] / "tests_go" / "base" / "trace" / "testdata").glob("*.pickle"))
PEAK_MIB = 64  # above that of a process which has read each seed once; a mutant has about 5 KiB, its budget is 4 MiB


def little(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little")


def bombs(draw: random.Random) -> bytes:
    """One or a few instructions that claim much memory, or that are unusual."""
    most = draw.choice([2**30, 2**31 - 1, 2**32 - 1, 2**16, 255])
    long = draw.choice([2**40, 2**63 - 1, 2**64 - 1, 2**33, 5, 0])
    return draw.choice(
        [
            b"r" + little(most, 4),  # LONG_BINPUT
            b"q\xff",
            b"p%d\n" % long,
            b"\x95" + little(long, 8),  # FRAME
            b"X" + little(most, 4),
            b"\x8d" + little(long, 8),  # BINUNICODE8
            b"\x8e" + little(long, 8),  # BINBYTES8
            b"\x96" + little(long, 8),  # BYTEARRAY8
            b"\x96" + little(draw.randrange(100), 8) + b"x" * draw.randrange(100),
            b"B" + little(most, 4),
            b"T" + little(most, 4),
            b"\x8b" + little(most, 4),  # LONG4
            b"\x8a\xff" + draw.randbytes(255),
            b"I" + b"9" * draw.randrange(5000) + b"\n",
            b"]" * 500,
            b"(" * 500,
            b"}\x94" * 200,
            b"2" * 300,
            b"]\x94(" + b"h\x00" * 200 + b"e",
            b"G" + struct.pack(">d", draw.random()),
            bytes([draw.randrange(256)]),
            b"cos\nsystem\n",
            b"(S'true'\nios\nsystem\n",
            b"\x82\x01",
            b"\x97\x98",
            b"0",
            b"1",
            b"N",
            b".",
        ]
    )


def mutant(draw: random.Random, seeds: list[bytes]) -> bytes:
    """A seed with some changes."""
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.choice([1, 1, 1, 2, 3, 8])):
        at, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
        kind = draw.randrange(7)
        if kind == 0 and data:
            data[at % len(data)] = draw.randrange(256)
        elif kind == 1:
            data[at:at] = bombs(draw)
        elif kind == 2:
            del data[at : min(end, at + draw.choice([1, 4, 1000]))]
        elif kind == 3:
            data[at:at] = data[at : min(end, at + 500)]
        elif kind == 4:
            other = draw.choice(seeds)
            data[at:end] = other[at : at + 200]
        elif kind == 5 and data:
            data[at % len(data)] ^= 1 << draw.randrange(8)
        elif draw.randrange(4) == 0:
            del data[at:]
    return bytes(data)


def mutants(count: int, seed: int) -> Iterator[bytes]:
    draw = random.Random(seed)
    seeds = [path.read_bytes() for path in SEEDS]
    yield from seeds  # read first, so that their memory is part of the process's base
    for _ in range(count):
        yield mutant(draw, seeds)


def peak_kib() -> int:
    """Return this process's largest resident memory. ``ru_maxrss`` is at least that of the parent."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])


def read_all(count: int, seed: int) -> None:
    """Read mutants, in this process."""
    import gpuconf

    file = os.memfd_create("mutant")
    path = f"/proc/self/fd/{file}"
    read, base = 0, 0
    for i, data in enumerate(mutants(count, seed)):
        os.ftruncate(file, 0)
        os.pwrite(file, data, 0)
        try:
            gpuconf.memory.load_trace(path)
            read += 1
        except ValueError:
            if i < len(SEEDS):
                raise
        if i == len(SEEDS):
            base = peak_kib()
    peak = (peak_kib() - base) >> 10
    print(f"{count} mutants: {read} read, the others refused; {peak} MiB more at the peak")
    if peak > PEAK_MIB:
        sys.exit(f"FAIL: reading took {peak} MiB, more than {PEAK_MIB}")


def compare_all(count: int, seed: int) -> None:
    """Read mutants here and with the model. Both must agree on what the model reads."""
    import gpuconf
    import snapshot_model

    file = os.memfd_create("mutant")
    path = f"/proc/self/fd/{file}"
    refusal = ""
    both = 0
    limited = False
    for data in mutants(count, seed):
        os.ftruncate(file, 0)
        os.pwrite(file, data, 0)
        try:
            found = [
                (round(e.time * 1e6), e.action, e.gpu, e.address, e.nbytes, e.stream)
                for e in gpuconf.memory.load_trace(path).events
            ]
        except ValueError as error:
            found, refusal = None, str(error)
        if not limited:  # the core is loaded first, because it takes address space
            used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
            resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), resource.RLIM_INFINITY))
            limited = True
        try:
            expected = snapshot_model.events_of(data)
        except (snapshot_model.RefusedError, MemoryError):
            continue
        both += 1
        if found is None and refused_on_purpose(data, refusal):
            continue
        if found != expected:
            with tempfile.NamedTemporaryFile(suffix=".pickle", delete=False) as kept:
                kept.write(data)
            sys.exit(
                f"FAIL: not as Python reads it: {found or refusal} instead of {expected}; the mutant is in {kept.name}"
            )
    print(f"{count} mutants compared with Python's unpickler: {both} mean the same")


def refused_on_purpose(data: bytes, refusal: str) -> bool:
    """Whether gpuconf rejects by design what Python reads."""
    return data[:1] != b"\x80" or any(
        reason in refusal
        for reason in (
            "its contents take more than",
            "to add items to, but got",  # Python appends to anything with append, or sets items by index
            "is not a number",  # Python accepts blanks and underscores
            "is not a float",
            "is not a memo index",
            "a float of",
        )
    )


def main(count: int, seed: int) -> int:
    """Run both parts in separate processes. The exit status is the result."""
    for part, number in (("read", count), ("compare", count // 10)):
        command = [sys.executable, __file__, part, str(number), str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(done.stdout, end="", flush=True)
        silent = part == "compare" or not done.stderr  # Python's unpickler prints what it cannot raise
        if done.returncode != 0 or not silent:
            print(f"FAIL: {part}, seed {seed}: exit status {done.returncode}\n{done.stderr}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1] in ("read", "compare"):
        {"read": read_all, "compare": compare_all}[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
