"""Linear memory lies on a simulated card where it lay on an H200, relative to blocks of 32 MiB.

The recording, benchmarks/data/accuracy/drawn/addresses.jsonl.xz, is of 2026-11-27: random sequences of cuMemAlloc and
cuMemFree, one for each line, on an H200 with driver 580.159.04. PyTorch's allocator prefers low addresses, so what it
reserves depends on
them.
"""

import itertools
import json
import sys

import pytest
import script
from recordings import Recording

RECORDING = Recording("accuracy/drawn/addresses.jsonl")
BLOCK = 32 << 20
REPLAY = """
import ctypes, json, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDeviceGet(ctypes.byref(device), 0)
assert not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) and not cuda.cuCtxSetCurrent(context)
live, found = {}, []
for size, recorded in json.load(sys.stdin):
    if size == 0:
        assert not cuda.cuMemFree_v2(ctypes.c_uint64(live.pop(recorded)))
        continue
    address = ctypes.c_uint64()
    assert not cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
    live[recorded] = address.value
    found.append([recorded, address.value])
print(json.dumps(found))
"""


# The first sequence is of 2 MiB alone, of which many fitted into the block of the context; in the fourth most are
# smaller.
@pytest.mark.parametrize("number", [1, 2, 4, 5, 6, 7])
def test_allocations_lie_where_they_lay_on_a_card(number: int) -> None:
    calls = RECORDING.read_text().splitlines()[number]
    command = [sys.executable, "-m", "gpuconf", "run", "--simulate", "H200-141GB", "--", sys.executable, "-c", REPLAY]
    done = script.completed(command, input=calls, check=True, timeout=120)
    found = json.loads(done.stdout)
    within = sum(recorded % BLOCK == simulated % BLOCK for recorded, simulated in found)
    pairs = list(itertools.pairwise(found))
    order = sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in pairs)
    assert within >= 0.96 * len(found), f"{within} of {len(found)} lie at the recorded place in their block"
    assert order >= 0.95 * len(pairs), f"{order} of {len(pairs)} lie above or below the one before as recorded"
