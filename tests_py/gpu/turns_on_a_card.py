"""What is unknown of programs that take turns on a real card: ``python tests_py/gpu/turns_on_a_card.py [WHEEL]``.

Needs Python and the NVIDIA driver. At most eight minutes: a step that would end later is left out. A line of JSON for
each step goes to standard output, the most important ones first; what may break the driver comes last. It has not run
on a card. Before simulated GPUs (GPUCONF_SIMULATE), it only shows that the steps run.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import steps

LONGEST = 480.0  # seconds
BEGUN = time.monotonic()
GIB = 1 << 30
# It holds memory with values, and says on request whether they are still there, at the same address.
HOLDER = """
import ctypes, json, sys
from ctypes import byref, c_size_t, c_uint64, c_void_p
cu = ctypes.CDLL("libcuda.so.1")
own, at, count = c_void_p(), c_uint64(), int(sys.argv[1]) >> 2
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(byref(own), 0) == 0 and cu.cuCtxSetCurrent(own) == 0
result = cu.cuMemAlloc_v2(byref(at), c_size_t(4 * count)) or cu.cuMemsetD32_v2(at, 0x5a5a5a5a, c_size_t(count))
print(json.dumps([result, at.value]), flush=True)
for line in sys.stdin:
    last = (ctypes.c_uint32 * 4)()
    result = cu.cuMemcpyDtoH_v2(last, c_uint64(at.value + 4 * count - 16), c_size_t(16))
    print(json.dumps([result, at.value, list(last) == [0x5a5a5a5a] * 4]), flush=True)
"""


class Holder:
    """A process that holds bytes of the card."""

    def __init__(self, count: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid
        self.result = self.hear()

    def hear(self) -> Any:
        """Return its next answer."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def values(self) -> Any:
        """Return the result of a copy, the address, and whether the values are there."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.hear()

    def resident(self) -> int:
        """Return its resident bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def holding(count: int) -> Iterator[Holder]:
    """A holder, which is killed at the end."""
    holder = Holder(count)
    try:
        yield holder
    finally:
        holder.process.kill()
        holder.process.wait()


def code(call: Callable[[int], object], pid: int) -> Any:
    """Return the result code of a call, and its seconds."""
    from gpuconf.jobs.agent import DriverError

    begun = time.monotonic()
    try:
        call(pid)
        return [0, round(time.monotonic() - begun, 3)]
    except DriverError as error:
        return [error.code, round(time.monotonic() - begun, 3)]


def facts() -> dict[str, Any]:
    """The driver, the kernel and the rights."""
    from gpuconf.machine.cards import survey

    figures = survey()
    yama = Path("/proc/sys/kernel/yama/ptrace_scope")
    return {
        "driver": figures.driver,
        "cuda": figures.cuda,
        "cards": [card.name for card in figures.cards],
        "user": os.geteuid(),
        "yama": yama.read_text().strip() if yama.exists() else None,
        "kernel": os.uname().release,
    }


def swap(count: int) -> dict[str, Any]:
    """One program out and in: codes, seconds, resident bytes, values."""
    from gpuconf.jobs.agent import Driver

    driver = Driver()
    with holding(count) as holder:
        figures: dict[str, Any] = {"bytes": count, "allocated": holder.result, "before": holder.resident()}
        for name in ("lock", "checkpoint"):
            figures[name] = code(getattr(driver, name), holder.pid)
        figures |= {"state": driver.state(holder.pid), "away": holder.resident()}
        for name in ("restore", "unlock"):
            figures[name] = code(getattr(driver, name), holder.pid)
        return figures | {"after": holder.resident(), "values": holder.values(), "same": holder.result[1]}


def wrong_orders() -> dict[str, Any]:
    """The codes of calls in a wrong order, of a process without a context, and of one that has ended."""
    from gpuconf.jobs.agent import Driver

    driver = Driver()
    with holding(1 << 20) as holder:
        calls = ("checkpoint", "restore", "unlock")
        figures = {f"running {name}": code(getattr(driver, name), holder.pid) for name in calls}
        driver.lock(holder.pid)
        figures |= {f"locked {name}": code(getattr(driver, name), holder.pid) for name in ("lock", "restore")}
        driver.unlock(holder.pid)
        figures["values"] = holder.values()
    with subprocess.Popen(["sleep", "60"]) as idle:
        figures["without a context"] = code(driver.lock, idle.pid)
        idle.kill()
    return figures | {"ended": code(driver.lock, idle.pid)}


def turns() -> dict[str, Any]:
    """Two programs under ``gpuconf run --turns`` that do not fit together: parked by hand, another's turn, and back."""
    from gpuconf.machine.cards import visible_devices

    size = str(visible_devices()[0].total_memory * 6 // 10 >> 20) + "MiB"
    run = [sys.executable, "-m", "gpuconf", "run", "--memory", size, "--turns"]
    environment = {**os.environ, "GPUCONF_TURNS": "experimental", "GPUCONF_LEDGER": tempfile.mkdtemp() + "/ledger"}
    words = [*run, "--name", "first", sys.executable, "-c", HOLDER, str(GIB)]
    first = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdin is not None
    assert first.stdout is not None
    figures: dict[str, Any] = {"first": json.loads(first.stdout.readline())}
    time.sleep(3)
    try:
        for command in ("park", "resume"):
            done = subprocess.run(
                [sys.executable, "-m", "gpuconf", command, "first"], env=environment, capture_output=True, text=True,
                check=False, timeout=150,
            )  # fmt: skip
            figures[command] = done.stdout + done.stderr
            if command == "park":
                second = [*run, sys.executable, "-c", HOLDER, str(GIB)]
                other = subprocess.run(second, env=environment, input="\n", capture_output=True, text=True, check=False)
                figures["second"] = other.stdout + other.stderr
        first.stdin.write("\n")
        first.stdin.flush()
        figures["values"] = json.loads(first.stdout.readline())
        first.stdin.close()
        figures["code"] = first.wait(60)
    finally:
        first.kill()
    return figures


def without_room() -> dict[str, Any]:
    """A restore without room (NVIDIA/cuda-checkpoint#44): codes of it and of all that follows. It may be stuck then."""
    from gpuconf.jobs.agent import Driver
    from gpuconf.machine.cards import visible_devices

    driver, most = Driver(), visible_devices()[0].total_memory * 6 // 10
    with holding(most) as holder:
        driver.lock(holder.pid)
        driver.checkpoint(holder.pid)
        with holding(most):
            figures = {"restore": code(driver.restore, holder.pid)}
        figures |= {"restore again": code(driver.restore, holder.pid), "state": code(driver.state, holder.pid)}
        return figures | {"unlock": code(driver.unlock, holder.pid)}


def caller_killed() -> dict[str, Any]:
    """The caller is killed in the middle of a checkpoint: what the target's state is, and what helps."""
    from gpuconf.jobs.agent import Driver

    driver = Driver()
    with holding(4 * GIB) as holder:
        driver.lock(holder.pid)
        script = "import sys; from gpuconf.jobs.agent import Driver; driver = Driver(); print(flush=True); "
        script += "driver.checkpoint(int(sys.argv[1]))"
        caller = subprocess.Popen([sys.executable, "-c", script, str(holder.pid)], stdout=subprocess.PIPE)
        assert caller.stdout is not None
        caller.stdout.readline()
        time.sleep(0.2)
        caller.send_signal(signal.SIGKILL)
        caller.wait()
        figures: dict[str, Any] = {"state": code(driver.state, holder.pid)}
        time.sleep(5)
        figures["later"] = driver.state(holder.pid)
        figures |= {name: code(getattr(driver, name), holder.pid) for name in ("checkpoint", "restore", "unlock")}
        return figures


STEPS: dict[str, tuple[float, Callable[[], dict[str, Any]]]] = {  # each with the seconds that it takes at most
    "facts": (10, facts),
    "one GiB": (30, lambda: swap(GIB)),
    "wrong orders": (30, wrong_orders),
    "turns": (180, turns),
    "ten GiB": (60, lambda: swap(10 * GIB)),
    "forty GiB": (120, lambda: swap(40 * GIB)),
    "without room": (90, without_room),
    "caller killed": (60, caller_killed),
}


def main() -> int:
    """Run the steps, each in a process of its own; with a name, one of them here."""
    if sys.argv[1:2] == ["--step"]:
        ctypes.CDLL("libcuda.so.1")
        print(json.dumps(STEPS[sys.argv[2]][1]()), flush=True)
        return 0
    with contextlib.ExitStack() as stack:
        environment = steps.unpacked(sys.argv[1] if sys.argv[1:] else None, stack)
        for name, (limit, _) in STEPS.items():
            left = LONGEST - (time.monotonic() - BEGUN)
            if left < limit:
                print(json.dumps({"step": name, "left out": f"{left:.0f} s are left"}), flush=True)
                continue
            words = [sys.executable, __file__, "--step", name]
            begun = time.monotonic()
            try:
                done = subprocess.run(
                    words, env=environment, capture_output=True, text=True, check=False, timeout=limit
                )
                said: Any = json.loads(done.stdout) if done.returncode == 0 else done.stderr[-2000:]
            except subprocess.TimeoutExpired:
                said = f"no answer within {limit:.0f} s"
            print(json.dumps({"step": name, "seconds": round(time.monotonic() - begun, 1), "found": said}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
