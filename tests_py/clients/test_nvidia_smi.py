# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's nvidia-smi of Debian's packages, unpacked into a folder.

It does not list simulated cards: all but six of its questions to NVML go through a table of functions without names
(nvmlInternalGetExportTable), which NVIDIA does not document. What it says then is about versions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import simulation

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

reason = "" if os.environ.get("GPUCONF_TEST_DOWNLOADS") else "make test-clients downloads it"
if not reason and (shutil.which("apt-get") is None or shutil.which("dpkg") is None):
    reason = "apt-get or dpkg is missing"


@pytest.mark.skipif(bool(reason), reason=reason)
def test_nvidia_smi_ends_with_its_message(tmp_path: Path) -> None:
    from driver_answers.record import Debian

    debian = Debian(tmp_path / "debian")
    debian.apt("apt-get", "download", "nvidia-smi")
    (package,) = debian.folder.glob("nvidia-smi_*.deb")
    subprocess.run(["dpkg", "-x", package, tmp_path / "smi"], check=True)
    program = next(path for path in (tmp_path / "smi").rglob("nvidia-smi") if path.is_file() and os.access(path, os.X_OK))
    done = simulation.run(program, "-L", spec="2xA100-40GB:driver=12.4")
    assert done.returncode == 255, done.stdout
    assert "Mismatch in versions between nvidia-smi and NVML" in done.stdout
