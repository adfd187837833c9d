"""Record an inference server on a simulated GPU, then find the memory limit that it needs on a smaller one.

The server is simulated: each request holds a key-value cache, sized by its length, until it is answered, and requests
do not end in the order in which they arrive. You record a real program in the same way. If you pass a file name, the
script also draws the plan into that file (needs gpuconf[plot]).
"""

from __future__ import annotations

import random
import sys

import gpuconf

MIB = 1 << 20
BUDGET = 16 << 10  # MiB: the server admits requests up to here


def serve(requests: int, seed: int = 3) -> None:
    draw = random.Random(seed)
    weights = gpuconf.memory.allocate(3072 * MIB)
    running: list[gpuconf.memory.Buffer] = []
    for _ in range(requests):
        size = draw.choice((64, 96, 160, 224, 352, 608, 992, 1504))
        while sum(buffer.nbytes for buffer in running) + size * MIB > (BUDGET << 20) - weights.nbytes:
            running.pop(draw.randrange(len(running))).free()
        running.append(gpuconf.memory.allocate(size * MIB))
    for buffer in [*running, weights]:
        buffer.free()


def main() -> None:
    with gpuconf.simulate("A100-80GB"):
        gpuconf.config.experimental.set_memory_growth(gpuconf.config.list_physical_devices("GPU")[0], True)
        with gpuconf.memory.record() as recording:
            serve(400)
        print(gpuconf.plan(recording, limit="18GiB", gpu="A10"))
        for path in sys.argv[1:2]:
            gpuconf.plan(recording, limit="18GiB", gpu="A10", policy=["pytorch", "tensorflow", "virtual"]).plot(path)


if __name__ == "__main__":
    main()
