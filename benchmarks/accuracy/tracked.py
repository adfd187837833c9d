"""A program under FakeTensorMode and PyTorch's MemTracker: prints the peak that the tracker counts, in MiB.

python tracked.py PROGRAM ARGUMENTS... needs a driver, because fake CUDA tensors do: a simulated one is enough. New
tensors are made on the GPU at once, and modules are not moved there, because a module of fake tensors that is tracked
cannot be moved.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

_move = torch.nn.Module.to


class Tracker(MemTracker):
    """A tracker that begins anew with each step, as PyTorch's requires."""

    def _pre_fw_hook(self, module: torch.nn.Module, inputs: Any) -> None:
        try:
            super()._pre_fw_hook(module, inputs)
        except NotImplementedError:
            self.reset_mod_stats()
            super()._pre_fw_hook(module, inputs)


def moved(module: torch.nn.Module, *args: Any, **named: Any) -> torch.nn.Module:
    """Stand in for Module.to, which is called with a type, too."""
    only_device = len(args) == 1 and not named and str(args[0]).startswith("cuda")
    return module if only_device else _move(module, *args, **named)


def main() -> None:
    """Run the program."""
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    torch.nn.Module.to = moved
    torch.nn.Module.cuda = lambda module, *_: module
    torch.cuda.init()
    tracker = Tracker()
    with FakeTensorMode(allow_non_fake_inputs=True), tracker, torch.device("cuda"):
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as ended:
            if ended.code not in (None, 0):
                raise
    peaks = tracker.get_tracker_snapshot("peak")
    most = max((sizes["Total"] for device, sizes in peaks.items() if device.type == "cuda"), default=0)
    print(f"TRACKED {most / 2**20}", flush=True)


if __name__ == "__main__":
    main()
