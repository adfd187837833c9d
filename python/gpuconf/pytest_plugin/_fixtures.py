"""The fixtures. Each imports what it needs when a test uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from .._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import LogicalDevice
    from ..machine.simulate import Simulation
else:
    LogicalDevice = Simulation = object  # whose modules take longer to import than this plugin may


@pytest.fixture
def gpus(request: pytest.FixtureRequest) -> list[LogicalDevice]:
    """The logical GPUs that this test may use: all that the ``gpu`` mark accepts, of this worker's share below pytest-xdist.

    Initializes the devices. Skips the test if there are fewer than the mark requires, or fails it with ``--gpuconf=required``.
    """
    from . import _devices, _workers
    from ._marks import Need, need_of

    need = need_of(request.node) or Need() if isinstance(request.node, pytest.Item) else Need()
    _workers.apply_share(request.config)
    _devices.require(request.config, need)
    return _devices.logical_gpus(need)


@pytest.fixture
def gpu(gpus: list[LogicalDevice]) -> LogicalDevice:
    """The first GPU of ``gpus``, as a logical device. Its name is what ``gpuconf.device`` and ``gpuconf.memory`` take."""
    return gpus[0]


@pytest.fixture
def gpu_sim(request: pytest.FixtureRequest) -> Iterator[Callable[[str | None], Simulation]]:
    """A function that simulates GPUs for this test: ``gpu_sim("2xH100-80GB")``. Afterwards the previous machine is restored.

    Memory that the test left allocated is reported as a leak and freed.
    """
    from . import _simulation

    with _simulation.for_a_test(request.config) as simulate:
        yield simulate


@pytest.fixture
def gpu_memory(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The memory in use during the test, in bytes: ``start``, ``peak`` and ``end``, of the logical GPU of ``gpu``, else GPU:0."""
    from . import _memory

    if "gpu_sim" in request.fixturenames:
        request.getfixturevalue("gpu_sim")  # whose machine must outlive the measurement
    device = request.getfixturevalue("gpu").name if "gpu" in request.fixturenames else "GPU:0"
    measured = _memory.GpuMemory(device)
    yield measured
    measured.stop()
    request.node.user_properties.append(("gpuconf.peak_bytes", measured.peak))


@pytest.fixture
def gpu_oom_after() -> Iterator[Callable[[int], None]]:
    """A function that makes an allocation fail: after ``gpu_oom_after(3)`` the third one runs out of memory, in any library.

    The error is the library's own, by the path of a real one; its text contains "injected". Allocations of all threads on all GPUs
    count, those of 0 bytes do not. Another call replaces it, and ``gpu_oom_after(0)`` takes it back, as do the test's end and a
    reset.
    """
    from .. import errors
    from .._core import injected

    def fail(n: int) -> None:
        if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n < 2**63:
            raise errors.InvalidArgumentError(f"gpu_oom_after takes the number of an allocation, at least 1, but got {n!r}")
        injected.fail_allocation(n)

    yield fail
    injected.stop()


@pytest.fixture
def gpu_oom_each(request: pytest.FixtureRequest) -> int:
    """Run the test once for each of its allocations, with that one failing, and once without a failure.

    A run with a failing allocation passes if the test passes, or ends with that out-of-memory error. Fixtures of function scope are
    fresh in each run. The value is the number of the allocation that fails, 0 for none.
    """
    from ._walk import STEP

    return request.node.stash.get(STEP, 0) if isinstance(request.node, pytest.Item) else 0
