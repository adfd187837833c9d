"""What the open gate of a program that takes turns adds to a launch: one that the simulated driver refuses, called with
and without the gate, in turns. A program prints its fastest batch of calls; the result is the median of the rounds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from gpuconf.jobs import budget
from gpuconf.leases.environment import of_simulation

ROUNDS = 15
CODE = """
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
enum { BATCH = 1000, BATCHES = 3000 };
typedef unsigned size;
typedef int launch(void *, size, size, size, size, size, size, size, void *, void **, void **);
static double now(void) {
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1e9 + at.tv_nsec;
}
int main(void) {
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
	int (*start)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
	int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
	launch *call = (launch *)dlsym(driver, "cuLaunchKernel");
	if (start(0) != 0 || retain(&context, 0) != 0)
		return 1;
	double least = 1e9;
	for (int batch = 0; batch < BATCHES; batch++) {
		double begun = now();
		for (int i = 0; i < BATCH; i++)
			call(NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL);
		double taken = (now() - begun) / BATCH;
		least = taken < least ? taken : least;
	}
	printf("%.2f\\n", least);
}
"""


def main() -> None:
    """Print the nanoseconds of a call, without the gate and with it, and the median of the differences."""
    simulated = {**os.environ, "GPUCONF_SIMULATE": "A100-40GB:driver=13.0", **of_simulation()}
    code = "import gpuconf.machine.cards as machine; print(machine.visible_devices()[0].uuid)"
    uuid = subprocess.run([sys.executable, "-c", code], env=simulated, capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "launch")
        compiler = [os.environ.get("CC", "cc"), "-O2", "-x", "c", "-", "-o", str(program), "-ldl"]
        subprocess.run(compiler, input=CODE, text=True, check=True)
        words = [str(program)]
        limits = {uuid.stdout.strip(): 1 << 30}
        with budget.prepare(limits, "proxy", command=words, environment=simulated, turns=True) as made:
            gated = {**simulated, **made.environment}
            rounds = []
            for turn in range(ROUNDS):
                pair = [(0, simulated), (1, gated)]
                taken = {}
                for way, environment in pair if turn % 2 else reversed(pair):
                    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
                    taken[way] = float(done.stdout)
                rounds.append((taken[0], taken[1]))
    without, beside = (statistics.median(one[way] for one in rounds) for way in (0, 1))
    cost = statistics.median(gate - none for none, gate in rounds)
    print(f"{without:.1f} ns without the gate, {beside:.1f} ns with it: {cost:.1f} ns more")


if __name__ == "__main__":
    main()
