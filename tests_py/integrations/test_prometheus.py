"""A real Prometheus server scrapes ``gpuconf export``, and the queries of the Grafana dashboard return data."""

from __future__ import annotations

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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from holder import holder
from script import environment

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = str(Path(sys.executable).with_name("gpuconf"))
GIB = 1 << 30

CONFIGURATION = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: gpuconf
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Prometheus, and the environment of the machine that it scrapes."""
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        pytest.skip("needs Debian's package prometheus")
    env = {"GPUCONF_SIMULATE": "2xH100-80GB,GB10", "GPUCONF_LEDGER": str(tmp_path / "ledger"), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    words = [COMMAND, "export", "--port", "0", "--json", "--dcgm-names"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment(env)) as exporter:
        assert exporter.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            said += exporter.stdout.readline()
        (tmp_path / "prometheus.yml").write_text(CONFIGURATION.format(port=json.loads(said)["port"]))
        port = free_port()
        options = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
        with (
            (tmp_path / "log").open("w") as log,
            subprocess.Popen(
                [prometheus, *options, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log, env=dict(os.environ)
            ) as scraper,
        ):
            try:
                yield f"http://127.0.0.1:{port}", env
            finally:
                scraper.terminate()
                exporter.terminate()


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
    assert ask(url, 'up{job="gpuconf"} == 1')
    totals = {one["metric"]["gpu"]: float(one["value"][1]) for one in ask(url, "gpuconf_gpu_memory_total_bytes")}
    assert totals == {"0": 80 * GIB, "1": 80 * GIB, "2": 128 * GIB}
    assert len(ask(url, "DCGM_FI_DEV_FB_FREE")) == 3
    with holder(env, lease=10 * GIB, pool=8 * GIB, used=3 * GIB) as program:
        (lease,) = ask(url, "gpuconf_lease_bytes")
        assert (lease["metric"]["name"], float(lease["value"][1])) == ("training", 10 * GIB)
        used = ask(url, f'sum(gpuconf_memory_used_bytes{{pid="{program.pid}"}})')
        assert float(used[0]["value"][1]) == 3 * GIB
        dashboard = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                query = re.sub(r"\$(gpu|instance)", ".*", target["expr"])
                if "process_memory" in query or "oom_total" in query:
                    continue  # a simulated driver counts no processes; failures are only in a program's own registry
                assert ask(url, query), panel["title"]
    ended = "absent(gpuconf_lease_bytes)"
    assert ask(url, ended), "the lease of a killed process is gone"
