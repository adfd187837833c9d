"""A benchmark of Liger-Kernel's, for one row of its table: prints the peak that the benchmark itself measures, in MiB.

python liger_program.py CHECKOUT KERNEL PROVIDER X CONFIG
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import torch


def main(checkout: str, kernel: str, provider: str, x: str, config: str) -> None:
    """Run the script that has the kernel, with its function for measurements replaced by one that makes this one
    only.
    """
    scripts = Path(checkout) / "benchmark" / "scripts"
    sys.path[:0] = [str(scripts), str(Path(checkout) / "src"), checkout]
    import utils

    def only_this(**settings: object) -> None:
        if settings["metric_name"] == "memory" and settings["kernel_name"] == kernel:
            extra = {name: _dtype(value) for name, value in json.loads(config).items()}
            asked = utils.SingleBenchmarkRunInput(
                x=int(x), kernel_provider=provider, kernel_operation_mode="full", extra_benchmark_config=extra
            )
            print(f"MEMORY {settings['bench_test_fn'](asked).y_50}", flush=True)
            raise SystemExit

    utils.run_benchmarks = only_this
    named = [path for path in scripts.glob("benchmark_*.py") if re.search(rf'["\']{kernel}["\']', path.read_text())]
    own = [path for path in named if path.stem == f"benchmark_{kernel}"] or named
    sys.argv = [str(own[0])]
    runpy.run_path(str(own[0]), run_name="__main__")


def _dtype(value: object) -> object:
    """Return a setting as the scripts have it: types are written as text."""
    return (
        getattr(torch, value.removeprefix("torch.")) if isinstance(value, str) and value.startswith("torch.") else value
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
