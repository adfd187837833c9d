"""A real Prometheus server scrapes ``gpuconf export``, and the queries of the Grafana dashboard return data."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import script

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from fake_nvml import ONE_H100, fake_nvml
from holder import holder
from script import environment

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = str(Path(sys.executable).with_name("gpuconf"))
ALERTS = ROOT / "docs" / "prometheus-alerts.yml"
GIB = 1 << 30

CONFIGURATION = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: gpuconf
    static_configs: [{{targets: [{targets}]}}]
"""

# A program that serves its own metrics, and has run out of memory.
PROGRAM = """
import sys, gpuconf, prometheus_client
gpuconf.configure(limit="1GiB")
gpuconf.metrics.register()
try:
    gpuconf.memory.allocate("2GiB")
except MemoryError:
    pass
prometheus_client.start_http_server(int(sys.argv[1]), addr="127.0.0.1")
print("ready", flush=True)
sys.stdin.read()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def started(words: list[str], env: dict[str, str], until: str) -> Iterator[str]:
    """Run a program until the end of the block; yield what it has said."""
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(env)
    ) as program:
        assert program.stdout is not None
        said = ""
        while not said.endswith(until):
            said += program.stdout.readline()
        try:
            yield said
        finally:
            program.terminate()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Prometheus, and the environment of the first machine that it scrapes.

    It scrapes a machine of simulated cards, one whose driver counts a process, and a program.
    """
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        pytest.skip("needs Debian's package prometheus")
    env = {
        "GPUCONF_SIMULATE": "2xH100-80GB,GB10",
        "GPUCONF_LEDGER": str(tmp_path / "ledger"),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    (tmp_path / "machine").write_text(f"{ONE_H100}process {os.getpid()} bytes={GIB} list=compute gi=-1 ci=-1\n")
    real = {
        "LD_LIBRARY_PATH": str(fake_nvml(tmp_path)),
        "FAKE_NVML": str(tmp_path / "machine"),
        "GPUCONF_LEDGER": str(tmp_path / "b"),
    }
    export = [COMMAND, "export", "--port", "0", "--json", "--dcgm-names"]
    own = free_port()
    program = [sys.executable, "-c", PROGRAM, str(own)]
    with (
        started(export, env, "}\n") as first,
        started(export, real, "}\n") as second,
        started(program, {**env, "GPUCONF_LEDGER": str(tmp_path / "other")}, "ready\n"),
    ):
        ports = [json.loads(first)["port"], json.loads(second)["port"], own]
        targets = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
        (tmp_path / "prometheus.yml").write_text(CONFIGURATION.format(targets=targets))
        port = free_port()
        options = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
        with (
            (tmp_path / "log").open("w") as log,
            subprocess.Popen(
                [prometheus, *options, f"--web.listen-address=127.0.0.1:{port}"],
                stdout=log,
                stderr=log,
                env=dict(os.environ),
            ) as scraper,
        ):
            try:
                yield f"http://127.0.0.1:{port}", {**env, "INSTANCE": f"127.0.0.1:{ports[0]}"}
            finally:
                scraper.terminate()


def ask(url: str, query: str, seconds: float = 60) -> list[dict[str, Any]]:
    """The series of a query, once there are some."""
    address = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(address, timeout=10) as page:
                found: list[dict[str, Any]] = json.loads(page.read())["data"]["result"]
            if found:
                return found
        except OSError:  # it has not started yet
            pass
        assert time.monotonic() < deadline, f"nothing for {query}"
        time.sleep(0.5)


def test_prometheus_scrapes_every_card(server: tuple[str, dict[str, str]]) -> None:
    url, env = server
    only = f'{{instance="{env.pop("INSTANCE")}"}}'
    assert ask(url, 'count(up{job="gpuconf"} == 1) == 3')
    totals = {one["metric"]["gpu"]: float(one["value"][1]) for one in ask(url, f"gpuconf_gpu_memory_total_bytes{only}")}
    assert totals == {"0": 80 * GIB, "1": 80 * GIB, "2": 128 * GIB}
    assert len(ask(url, f"DCGM_FI_DEV_FB_FREE{only}")) == 3
    with holder(env, lease=10 * GIB, pool=8 * GIB, used=3 * GIB) as program:
        (lease,) = ask(url, "gpuconf_lease_bytes")
        assert (lease["metric"]["name"], float(lease["value"][1])) == ("training", 10 * GIB)
        (used,) = ask(url, f'gpuconf_memory_in_use_bytes{{pid="{program.pid}",library!=""}}')
        assert (used["metric"]["library"], float(used["value"][1])) == ("gpuconf", 3 * GIB)
        dashboard = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
        queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        assert len(queries) >= 9
        for query in queries:
            assert ask(url, re.sub(r"\$(gpu|instance)", ".*", query)), query
        for name in set(re.findall(r"gpuconf_[a-z_]+", ALERTS.read_text())):
            assert ask(url, f"count({name})"), name
    ended = "absent(gpuconf_lease_bytes)"
    assert ask(url, ended), "the lease of a killed process is gone"


def test_each_alert_fires_when_it_should(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs Debian's package prometheus")
    tests = Path(__file__).with_name("alerts.yml").read_text()
    (tmp_path / "alerts.yml").write_text(tests.replace("RULES", str(ALERTS)))
    script.printed([promtool, "test", "rules", "alerts.yml"], cwd=tmp_path, timeout=60)
    unnamed = set(re.findall(r"alert: (\w+)", ALERTS.read_text())) - set(re.findall(r'alertname="(\w+)"', tests))
    assert not unnamed, f"alerts.yml has no series for {unnamed}"
