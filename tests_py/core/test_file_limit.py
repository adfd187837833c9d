"""If no more files can be opened, Go ends the process when it needs its poller. gpuconf lets it open that while there
is room.
"""

from __future__ import annotations

import pytest
from script import run_well

BEGIN = """
import os, resource
import gpuconf, gpuconf.config, gpuconf.simulation.simulate, gpuconf.memory, json

def exhaust(left):
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for _ in range(left):
        os.close(held.pop())
    return held

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
"""


@pytest.mark.parametrize("left", range(1, 12))
def test_the_first_call_with_few_files_left(left: int) -> None:
    out = run_well(
        BEGIN
        + f"""
held = exhaust({left})
try:
    gpuconf.simulate("T4")
    buffer = gpuconf.memory.allocate(5)
except gpuconf.errors.UnavailableError as error:
    text = str(error)
    assert "more open files to start" in text and "RLIMIT_NOFILE is 64" in text, text
    print("refused")
else:
    buffer.free()
for file in held:
    os.close(file)
gpuconf.simulate("T4")
buffer = gpuconf.memory.allocate(5)
print("works")
"""
    )
    assert out.split() == (["refused", "works"] if left < 8 else ["works"])


def test_later_calls_need_no_more_files() -> None:
    run_well(
        BEGIN
        + """
gpuconf.simulate("T4")
gpuconf.config.list_physical_devices()
held = exhaust(0)
buffer = gpuconf.memory.allocate("10GiB")
try:
    gpuconf.memory.allocate("10GiB", wait=0.01)
except MemoryError:
    pass
"""
    )


def test_the_first_call_on_simulated_gpus_with_no_files_left() -> None:
    """The simulated driver is a library that must be opened. Nothing is changed: the next call with room works."""
    run_well(
        BEGIN
        + """
gpuconf.config.list_physical_devices()
gpuconf.simulate("T4")
held = exhaust(0)
try:
    gpuconf.memory.allocate(5)
except gpuconf.errors.UnavailableError as error:
    text = str(error)
    assert "libcuda.so.1: too many open files" in text and "raise the limit of open files (ulimit -n)" in text, text
else:
    raise AssertionError("no error")
for file in held:
    os.close(file)
gpuconf.memory.allocate(5).free()
"""
    )
