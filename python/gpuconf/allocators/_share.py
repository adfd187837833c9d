"""What the adaptors share: refusing where they can't work, and whose books answer."""

from __future__ import annotations

from .. import errors
from .._core import runtime
from .._core import scope as _scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..memory._stats import MemoryStats


def require_real(library: str) -> None:
    """Refuse on simulated GPUs: kernels that ran on host addresses would crash the process, or the GPU's context."""
    if runtime.simulated():
        raise errors.FailedPreconditionError(
            f"{library} can't run on simulated GPUs ({runtime.simulated()}): their memory is host memory. "
            "End the simulation with gpuconf.simulate(None), or leave the library as it is"
        )


def routed(ordinal: int, function: str) -> int:
    """The logical GPU that this thread allocates from on a CUDA ordinal, as in ``gpuconf_malloc``. Initialises the runtime."""
    runtime.logical_devices(function)
    ordinals = runtime.ordinals()
    scope = _scope.current_gpu()
    if 0 <= scope < len(ordinals) and ordinals[scope] == ordinal:
        return scope
    if ordinal not in ordinals:
        raise errors.InvalidArgumentError(f"CUDA device {ordinal} has no logical GPU: it does not exist or is not visible to gpuconf")
    return ordinals.index(ordinal)


def name_of(number: int) -> str:
    """A logical GPU's name by number."""
    return runtime.logical_gpu(number).name


def stats_of(ordinal: int, function: str) -> MemoryStats:
    """The books of the logical GPU that this thread allocates from on a CUDA ordinal."""
    from ..memory._stats import stats

    return stats(name_of(routed(ordinal, function)))
