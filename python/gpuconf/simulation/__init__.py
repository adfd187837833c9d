# SPDX-License-Identifier: Apache-2.0
"""Simulated GPUs, and the libraries that run on them.

Here is what ``import gpuconf`` needs of it where ``GPUCONF_SIMULATE`` is set: they are prepared at their first import.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What runs on simulated GPUs, or of which a line says that it does not: simulated_torch knows what to do before their
# first import.
_SIMULATED = frozenset(("cupy", "jax", "llama_cpp", "tensorflow", "torch", "vllm"))


class _BeforeSimulated:
    """The first finder in ``sys.meta_path`` where ``GPUCONF_SIMULATE`` is set, until one of these libraries is
    imported.

    It finds nothing itself. Most processes import none of them, and simulated_torch takes longer than all else of this
    import.
    """

    @classmethod
    def find_spec(cls, name: str, _path: Any = None, _target: Any = None) -> Any:
        if name not in _SIMULATED:
            return None
        if cls in sys.meta_path:  # else another thread has been here
            sys.meta_path.remove(cls)
        from importlib.util import find_spec

        from . import simulated_torch

        if not simulated_torch.is_chosen():
            simulated_torch.choose_by_environment()
        return find_spec(name)


def prepare_simulated_libraries() -> None:
    """Let PyTorch run on the GPUs of ``GPUCONF_SIMULATE``.

    Raises FailedPreconditionError if it is imported already: the process would have two machines.
    """
    if not os.environ.get("GPUCONF_SIMULATE"):
        return
    if "torch" not in sys.modules and f"{__name__}.simulated_torch" not in sys.modules:
        if _BeforeSimulated not in sys.meta_path:
            sys.meta_path.insert(0, _BeforeSimulated)
        return
    from . import simulated_torch

    simulated_torch.choose_by_environment()
