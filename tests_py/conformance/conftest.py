"""Machines in addition to those of the parent folder."""

from __future__ import annotations

import gpuconf
import pytest


@pytest.fixture
def cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a CPU only."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    gpuconf.simulate("H100-80GB")


@pytest.fixture
def unlike_gpus() -> None:
    """A machine with a CPU and two GPUs with different limits: an H100 and a T4."""
    gpuconf.simulate("H100-80GB,T4")
