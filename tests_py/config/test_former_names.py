# SPDX-License-Identifier: Apache-2.0
"""Names of 0.2 that 0.3 still takes, each with one line that names the present one. 0.4 removes them, and this file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import gpuconf
import pytest
from gpuconf._core import former_names, settings
from script import environment, run

GIB = 1 << 30
LIMIT = "gpuconf: GPUCONF_MEMORY_LIMIT is now GPUCONF_LIMIT; 0.4 will ignore the old name\n"
GROWTH = "gpuconf: GPUCONF_ALLOW_GROWTH is now GPUCONF_GROWTH; 0.4 will ignore the old name\n"
POOL = "import gpuconf; pool = gpuconf.memory.stats(); print(pool.bytes_limit, pool.bytes_reserved)"


def test_variables() -> None:
    done = run(POOL, env={"GPUCONF_SIMULATE": "T4", "GPUCONF_MEMORY_LIMIT": "2GiB", "GPUCONF_ALLOW_GROWTH": "true"})
    assert (done.stdout, done.stderr) == (f"{2 * GIB} 0\n", LIMIT + GROWTH)
    present = run(POOL, env={"GPUCONF_SIMULATE": "T4", "GPUCONF_LIMIT": "2GiB", "GPUCONF_GROWTH": "true"})
    assert (present.stdout, present.stderr) == (f"{2 * GIB} 0\n", "")


def test_go_has_the_same_variables() -> None:
    source = (Path(__file__).resolve().parents[2] / "gocore" / "tf" / "config" / "env.go").read_text()
    assert dict(re.findall(r'\{"(\w+)", "(\w+)"\}', source)) == former_names.VARIABLES


def test_the_present_name_wins() -> None:
    done = run(POOL, env={"GPUCONF_SIMULATE": "T4", "GPUCONF_MEMORY_LIMIT": "2GiB", "GPUCONF_LIMIT": "1GiB"})
    assert done.stdout.split()[0] == str(GIB)
    assert done.stderr == "gpuconf: GPUCONF_MEMORY_LIMIT is ignored: GPUCONF_LIMIT, its new name, is set too\n"


def test_keys_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gpuconf.toml"
    path.write_text('memory_limit = "2GiB"\nallow_growth = true\n')
    explained = settings.explain({"GPUCONF_CONFIG": str(path)}, {})
    assert explained["GPUCONF_LIMIT"] == (str(2 * GIB), str(path), "")
    assert explained["GPUCONF_GROWTH"] == ("true", str(path), "")
    assert capsys.readouterr().err == (
        f"gpuconf: memory_limit in {path} is now limit; 0.4 will refuse the old name\n"
        f"gpuconf: allow_growth in {path} is now growth; 0.4 will refuse the old name\n"
    )
    assert settings.asked("GPUCONF_GROWTH", {"GPUCONF_CONFIG": str(path)}) == f"growth in {path}, line 2"
    path.write_text('memory_limit = "2GiB"\nlimit = "1GiB"\n')
    with pytest.raises(ValueError, match="has memory_limit and limit, its new name: remove memory_limit"):
        settings.explain({"GPUCONF_CONFIG": str(path)}, {})
    monkeypatch.setattr(settings, "ADMINISTRATOR", str(tmp_path / "etc.toml"))
    (tmp_path / "etc.toml").write_text('[ceilings]\nmemory_limit = "4GiB"\n')
    assert settings.ceiling() == 4 * GIB


def test_metrics() -> None:
    prometheus = pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    gpuconf.simulate("T4")
    registry = prometheus.CollectorRegistry()
    gpuconf.metrics.register(registry)
    with gpuconf.memory.allocate("3MiB"):
        lines = prometheus.generate_latest(registry).decode().splitlines()
    for name in ("gpuconf_memory_used_bytes", "gpuconf_memory_in_use_bytes"):
        assert [line.rpartition(" ")[2] for line in lines if line.startswith(name + "{")] == ["3.145728e+06"]


SUITE = """
def test_machine(gpu_sim):
    gpu_sim("2xT4")

def test_present(gpu_simulate):
    gpu_simulate("2xT4")
"""


def test_the_pytest_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\ngpuconf_sim = T4\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--gpuconf=sim",
        "--gpuconf-per-worker=25%",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    for text in (
        "--gpuconf=sim is now --gpuconf=simulate; 0.4 will refuse the old name",
        "gpuconf_sim is now gpuconf_simulate; 0.4 will refuse the old name",
        "--gpuconf-per-worker is now --gpuconf-memory; 0.4 will refuse the old name",
        "the fixture gpu_sim is now gpu_simulate; 0.4 will not have the old name",
    ):
        assert done.stdout.count(text) == 1, done.stdout
