"""Two tenants on one card, each with a hard memory budget: only the greedy one fails.

Each thread works inside a device scope, which selects the logical GPU that its memory comes from.
"""

from __future__ import annotations

import threading

import gpuconf

MIB = 1 << 20


def tenant(name: str, device: str, buffers: int, report: dict[str, str]) -> None:
    with gpuconf.device(device), gpuconf.memory.measure() as measured:
        held = []
        try:
            for _ in range(buffers):
                held.append(gpuconf.memory.allocate(16 * MIB))
            outcome = "got all its buffers"
        except MemoryError:
            outcome = f"ran out of memory after {len(held)} of {buffers} buffers"
        for buffer in held:
            buffer.free()
    report[name] = f"{name} on {device} {outcome}; its peak was {measured.peak // MIB} MiB"


def main() -> None:
    with gpuconf.simulate("A100-40GB"):
        card = gpuconf.config.list_physical_devices("GPU")[0]
        budgets = [gpuconf.config.LogicalDeviceConfiguration(memory_limit=mib) for mib in (256, 128)]
        gpuconf.config.set_logical_device_configuration(card, budgets)
        report: dict[str, str] = {}
        threads = [
            threading.Thread(target=tenant, args=("modest", "GPU:0", 10, report)),
            threading.Thread(target=tenant, args=("greedy", "GPU:1", 10, report)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(report["modest"])
        print(report["greedy"])


if __name__ == "__main__":
    main()
