# SPDX-License-Identifier: Apache-2.0
"""Starts a program under ``gpuconf run --simulate``, with nothing else of gpuconf's in its environment."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

SPEC = "2xA100-40GB:driver=13.0"
DROPPED = ("GPUCONF_", "FAKE", "CUDA_", "LD_", "NUMBA_", "XLA_", "JAX_")


def run(*words: object, spec: str = SPEC, timeout: int = 300, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
    command = [sys.executable, "-m", "gpuconf", "run", "--simulate", spec, "--", *map(str, words)]
    return subprocess.run(
        command, env={**kept, **environment}, capture_output=True, text=True, timeout=timeout, check=False
    )


def printed(program: str, spec: str = SPEC) -> list[str]:
    """What a Python program printed, which knows nothing of gpuconf."""
    done = run(sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), spec=spec)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
