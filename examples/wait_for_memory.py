"""Wait for another thread's memory instead of failing: a queue of jobs under one limit."""

from __future__ import annotations

import threading
import time

import gpuconf

MIB = 1 << 20


def job(number: int, done: list[int]) -> None:
    with gpuconf.memory.allocate(60 * MIB, "GPU:0", wait=30):  # only one of these fits at a time
        time.sleep(0.01)
    done.append(number)


def main() -> None:
    with gpuconf.simulate("T4"):
        card = gpuconf.config.list_physical_devices("GPU")[0]
        gpuconf.config.set_logical_device_configuration(
            card, [gpuconf.config.LogicalDeviceConfiguration(memory_limit=100)]
        )
        gpuconf.config.list_logical_devices()
        done: list[int] = []
        threads = [threading.Thread(target=job, args=(number, done)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        peak = gpuconf.config.experimental.get_memory_info("GPU:0")["peak"] // MIB
        print(f"{len(done)} jobs of 60 MiB ran under a limit of 100 MiB; the peak was {peak} MiB")


if __name__ == "__main__":
    main()
