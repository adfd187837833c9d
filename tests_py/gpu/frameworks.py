"""One file of the frameworks' tests with the libraries that this machine has, as a step:
``python frameworks.py test_torch.py``.

Needs pytest, a C compiler and PyTorch. The tests are for a machine without a GPU: the driver of this one is hidden from
them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from steps import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]


def hidden(hide: Callable[[Path], None], folder: str) -> dict[str, str]:
    """The environment with libraries in place of the driver's that do not load."""
    for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
        hide(Path(folder, library))
    return os.environ | {"LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


def main(name: str) -> int:
    """Run it over the fake driver that it builds; the figures are pytest's own counts."""
    lacking = [name for name in ("pytest", "torch") if importlib.util.find_spec(name) is None]
    lacking += [] if shutil.which("cc") else ["a C compiler"]
    if lacking:
        print(f"missing: {', '.join(lacking)}")
        return MISSING
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        str(ROOT / "tests_py" / "frameworks" / name),
    ]
    last = ""
    no_gpu = runpy.run_path(str(ROOT / "tests_py" / "frameworks" / "no_gpu.py"))
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env=hidden(no_gpu["hide"], folder),
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:  # at once: a step that is ended for its time shows what has passed
            print(line, end="", flush=True)
            last = line if line.strip() else last
    print(json.dumps({what: int(count) for count, what in re.findall(r"(\d+) (passed|failed|skipped|errors?)", last)}))
    return 0 if process.returncode == 5 else process.returncode  # 5: the whole file was left out


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
