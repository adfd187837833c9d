"""One file of the frameworks' tests with the libraries that this machine has, as a step: ``python frameworks.py test_torch.py``.

Needs pytest, a C compiler and PyTorch.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from steps import MISSING

ROOT = Path(__file__).resolve().parents[2]


def main(name: str) -> int:
    """Run it over the fake driver that it builds; the figures are pytest's own counts."""
    lacking = [name for name in ("pytest", "torch") if importlib.util.find_spec(name) is None]
    lacking += [] if shutil.which("cc") else ["a C compiler"]
    if lacking:
        print(f"missing: {', '.join(lacking)}")
        return MISSING
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "tests_py" / "frameworks" / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    print(done.stdout + done.stderr)
    print(json.dumps({what: int(count) for count, what in re.findall(r"(\d+) (passed|failed|skipped|errors?)", done.stdout)}))
    return 0 if done.returncode == 5 else done.returncode  # 5: the whole file was left out


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
