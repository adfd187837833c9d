"""What ``gpuconf env --format kubernetes`` prints is part of a pod, by the types of Kubernetes' own API."""

import os
import shutil
import sys
from pathlib import Path

import pytest
import script

MODULE = Path(__file__).resolve().parents[2] / "tests_go" / "kubernetes"


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_kubernetes_decodes_the_part_of_a_pod() -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where this gpuconf is
    script.printed(["go", "test", "-count=1", "./..."], cwd=MODULE, env={**os.environ, "PATH": path}, timeout=600)
