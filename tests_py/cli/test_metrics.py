"""Metrics, with the real prometheus_client and the real OpenTelemetry SDK."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from command import COMMAND
from fake_nvml import ONE_H100, fake_nvml
from gpuconf import metrics
from gpuconf.leases.proc import user_name
from holder import holder
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from script import environment, execute

MIB, GIB = 1 << 20, 1 << 30
H100 = 81081 * MIB  # what CUDA reports of one

Samples = dict[str, list[tuple[dict[str, str], float]]]


def parsed(text: str) -> Samples:
    """The samples of Prometheus's text, by name."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def scraped() -> Samples:
    registry = CollectorRegistry()
    metrics.register(registry)
    return parsed(generate_latest(registry).decode())


def test_a_registry_refuses_a_second_collector() -> None:
    registry = CollectorRegistry()
    metrics.register(registry)
    with pytest.raises(ValueError, match="gpuconf_memory_in_use_bytes"):
        metrics.register(registry)


def test_nothing_is_initialized_by_a_scrape(one_gpu: None) -> None:
    assert scraped() == {}
    gpuconf.config.experimental.set_memory_growth(gpuconf.config.list_physical_devices("GPU")[0], True)


def test_pools_by_library_and_tag(one_gpu: None) -> None:
    (gpu,) = gpuconf.config.list_physical_devices("GPU")
    limits = [gpuconf.config.LogicalDeviceConfiguration(memory_limit=mib) for mib in (100, 50)]
    gpuconf.config.set_logical_device_configuration(gpu, limits)
    with gpuconf.memory.tag("weights"):
        weights = gpuconf.memory.allocate(3 * MIB, "GPU:0")
    rest = gpuconf.memory.allocate(2 * MIB, "GPU:0")
    with pytest.raises(MemoryError):
        gpuconf.memory.allocate(200 * MIB, "GPU:0")
    found = scraped()
    (device,) = gpuconf.visible_devices()
    pool = {
        "gpu": "0",
        "uuid": device.uuid,
        "pci_bus_id": device.pci_bus_id,
        "logical_device": "GPU:0",
        "pid": str(os.getpid()),
    }
    used = {
        (labels["logical_device"], labels["library"], labels["tag"]): n
        for labels, n in found["gpuconf_memory_in_use_bytes"]
    }
    assert used == {("GPU:0", "gpuconf", "weights"): 3 * MIB, ("GPU:0", "gpuconf", ""): 2 * MIB, ("GPU:1", "", ""): 0}
    assert found["gpuconf_memory_limit_bytes"][0] == (pool, 100 * MIB)
    assert found["gpuconf_memory_peak_bytes"][0] == (pool, 5 * MIB)
    assert found["gpuconf_memory_free_bytes"][0] == (pool, 95 * MIB)
    assert found["gpuconf_memory_reserved_bytes"][0][1] == gpuconf.memory.stats("GPU:0").bytes_reserved
    assert found["gpuconf_allocations_total"] == [(pool, 2), ({**pool, "logical_device": "GPU:1"}, 0)]
    assert found["gpuconf_oom_total"][0] == (pool, 1)
    assert found["gpuconf_fragmentation_ratio"][0] == (pool, 0)
    weights.free()
    assert scraped()["gpuconf_fragmentation_ratio"][0][1] > 0
    rest.free()


def test_units_and_names_follow_prometheus(one_gpu: None) -> None:
    gpuconf.memory.allocate(MIB, "GPU:0").free()
    for name in scraped():
        assert name.startswith("gpuconf_")
        assert name.endswith(("_bytes", "_total", "_ratio", "_created"))


def test_a_reset_drops_the_series(one_gpu: None) -> None:
    gpuconf.memory.allocate(MIB, "GPU:0").free()
    registry = CollectorRegistry()
    metrics.register(registry)
    assert generate_latest(registry)
    gpuconf.reset()
    assert generate_latest(registry) == b""


def test_a_forked_child_can_be_scraped(one_gpu: None) -> None:
    # A server that loads gpuconf and then forks its workers: their page of metrics must not fail.
    gpuconf.memory.allocate(MIB, "GPU:0").free()
    registry = CollectorRegistry()
    metrics.register(registry)
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if generate_latest(registry) == b"" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_opentelemetry(one_gpu: None) -> None:
    with pytest.raises(TypeError, match="meter must be an OpenTelemetry Meter, but got int: 3"):
        metrics.instrument(3)
    reader = InMemoryMetricReader()
    metrics.instrument(MeterProvider([reader]).get_meter("test"))
    assert set(observed(reader)) == {"hw.gpu.memory.limit"}, "a simulated card's use is only known to its processes"
    with gpuconf.memory.tag("weights"):
        buffer = gpuconf.memory.allocate(3 * MIB, "GPU:0")
    found = observed(reader)
    (device,) = gpuconf.visible_devices()
    assert found["hw.gpu.memory.limit"] == [
        ({"hw.id": device.uuid, "hw.name": device.name, "hw.type": "gpu"}, H100, "By")
    ]
    pool = {"hw.id": device.uuid, "gpuconf.logical_device": "GPU:0"}
    assert found["gpuconf.memory.in_use"] == [
        ({**pool, "gpuconf.library": "gpuconf", "gpuconf.tag": "weights"}, 3 * MIB, "By")
    ]
    limit = gpuconf.memory.stats("GPU:0").bytes_limit
    assert found["gpuconf.memory.limit"] == [(pool, limit, "By")]
    assert found["gpuconf.memory.free"] == [(pool, limit - 3 * MIB, "By")]
    buffer.free()


def observed(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], float, str]]]:
    """What OpenTelemetry collects, by name."""
    found: dict[str, list[tuple[dict[str, Any], float, str]]] = {}
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                points = [(dict(point.attributes), point.value, metric.unit) for point in metric.data.data_points]
                found.setdefault(metric.name, []).extend(points)
    return found


CARDS_TO_OTEL = """
import json
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from gpuconf import metrics
reader = InMemoryMetricReader()
metrics.instrument(MeterProvider([reader]).get_meter("test"))
found = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
print(json.dumps({metric.name: [point.value for point in metric.data.data_points] for metric in found}))
"""


def test_opentelemetry_of_real_cards(tmp_path: Path) -> None:
    (tmp_path / "machine").write_text(ONE_H100)
    env = environment({"LD_LIBRARY_PATH": str(fake_nvml(tmp_path)), "FAKE_NVML": str(tmp_path / "machine")})
    done = execute([sys.executable, "-c", CARDS_TO_OTEL], check=True, env=env)
    found = json.loads(done.stdout)
    assert found == {
        "hw.gpu.memory.usage": [GIB],
        "hw.gpu.memory.limit": [80 * GIB],
        "hw.gpu.memory.utilization": [1 / 80],
    }


# gpuconf export


def export(*arguments: str, env: dict[str, str]) -> tuple[int, str, str]:
    done = execute([COMMAND, "export", *arguments], env=environment(env))
    return done.returncode, done.stdout, done.stderr


def test_every_card_is_exported_with_leases_and_pools(tmp_path: Path) -> None:
    env = {
        "GPUCONF_SIMULATE": "2xT4,GB10",
        "GPUCONF_LEDGER": str(tmp_path / "ledger"),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    with holder(env, lease=10 * GIB, pool=8 * GIB, used=3 * GIB) as program:
        code, out, err = export("--once", env=env)
    assert (code, err) == (0, "")
    found = parsed(out)
    assert found["gpuconf_gpus"] == [({}, 3)]
    assert [labels["gpu"] for labels, _ in found["gpuconf_gpu_memory_total_bytes"]] == ["0", "1", "2"], "idle ones too"
    assert [labels["memory_kind"] for labels, _ in found["gpuconf_gpu_info"]] == ["dedicated", "dedicated", "unified"]
    assert [n for _, n in found["gpuconf_gpu_leased_bytes"]] == [10 * GIB, 0, 0]
    ((lease, count),) = found["gpuconf_lease_bytes"]
    assert (lease["name"], lease["job"], lease["state"], count) == ("training", "job-7", "granted", 10 * GIB)
    assert lease["user"] == user_name(os.getuid())
    used = [(labels["gpu"], labels["pid"], n) for labels, n in found["gpuconf_memory_in_use_bytes"]]
    assert used[0] == ("0", str(program.pid), 3 * GIB)
    assert not any(name.startswith("DCGM") for name in found)


def test_what_is_leased_is_unknown_if_the_ledger_cannot_be_read() -> None:
    """It was 0, which says that nothing is leased."""
    code, out, err = export("--once", env={"GPUCONF_SIMULATE": "2xT4", "GPUCONF_LEDGER": "/dev/null"})
    found = parsed(out)
    assert (code, "gpuconf_gpu_leased_bytes" in found, len(found["gpuconf_gpu_memory_total_bytes"])) == (0, False, 2)
    (said,) = err.splitlines()
    assert said.startswith("gpuconf export: the ledger cannot be read: ")


def test_an_unreadable_ledger_is_reported_once(monkeypatch: pytest.MonkeyPatch, one_gpu: None) -> None:
    monkeypatch.setenv("GPUCONF_LEDGER", "/dev/null")
    collector, said = metrics.MachineCollector(), []
    monkeypatch.setattr(collector, "_report", said.append)
    assert [len(list(collector.collect())) > 0 for _ in range(3)] == [True] * 3
    assert len(said) == 1


def test_dcgm_names(tmp_path: Path) -> None:
    (tmp_path / "machine").write_text(ONE_H100 + f"process {os.getpid()} bytes=4096 list=compute gi=-1 ci=-1\n")
    env = {"LD_LIBRARY_PATH": str(fake_nvml(tmp_path)), "FAKE_NVML": str(tmp_path / "machine")}
    code, out, err = export("--once", "--dcgm-names", env={**env, "GPUCONF_LEDGER": str(tmp_path / "ledger")})
    assert (code, err) == (0, "")
    found = parsed(out)
    about = {
        "gpu": "0",
        "UUID": "GPU-1",
        "pci_bus_id": "0000:17:00.0",
        "device": "nvidia0",
        "modelName": "NVIDIA H100 80GB HBM3",
    }
    assert found["DCGM_FI_DEV_FB_USED"] == [({**about, "hostname": socket.gethostname()}, 1024)]
    assert found["DCGM_FI_DEV_FB_FREE"][0][1] == 79 * 1024
    ((process, count),) = found["gpuconf_process_memory_used_bytes"]
    assert (process["pid"], count) == (str(os.getpid()), 4096)


def test_serving_on_loopback() -> None:
    env = environment({"GPUCONF_SIMULATE": "2xT4"})
    words = [COMMAND, "export", "--port", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        said = ""
        while not said.endswith("}\n"):
            said += server.stdout.readline()
        told = json.loads(said)
        assert told == {
            "schema": 1,
            "address": "127.0.0.1",
            "port": told["port"],
            "url": f"http://127.0.0.1:{told['port']}/metrics",
        }
        for _ in range(2):
            with urllib.request.urlopen(told["url"], timeout=30) as page:
                assert len(parsed(page.read().decode())["gpuconf_gpu_info"]) == 2
        taken = export("--port", str(told["port"]), env={"GPUCONF_SIMULATE": "T4"})
        assert taken == (
            1,
            "",
            f"gpuconf export: cannot listen on 127.0.0.1 port {told['port']}: another program listens there; "
            "name another --port\n",
        )
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 130
        assert server.stderr.read() == ""


def test_without_prometheus_client(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError('not here')")
    assert export("--once", env={"PYTHONPATH": str(tmp_path), "GPUCONF_SIMULATE": "T4"}) == (
        1,
        "",
        "gpuconf export: metrics need prometheus-client (not here): pip install 'gpuconf[prometheus]'\n",
    )
