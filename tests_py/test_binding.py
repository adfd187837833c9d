"""The committed binding is what gopy generates from package pybind now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_generated_code_is_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "pybind" / "generate.py", "--check"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
