"""``gpuconf export`` where clients are idle, slow, many or no HTTP clients at all. The sockets are real."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from command import COMMAND
from gpuconf.cli import scrape_server
from gpuconf.cli.scrape_server import ScrapeServer
from script import environment, execute


@pytest.mark.parametrize("idle", [65, 300])
def test_idle_connections_leave_room_for_a_scrape(tmp_path: Path, idle: int) -> None:
    """They took a thread each, and beyond the limit of open files the server span and printed tracebacks."""
    words = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", COMMAND, "export", "--port", "0", "--json"]
    env = environment({"GPUCONF_SIMULATE": "T4", "GPUCONF_LEDGER": str(tmp_path / "ledger")})
    with (
        ExitStack() as stack,
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as server,
    ):
        try:
            assert server.stdout is not None
            assert server.stderr is not None
            told = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
            for _ in range(idle):
                stack.enter_context(socket.create_connection(("127.0.0.1", told["port"])))
            for _ in range(3):
                with urllib.request.urlopen(told["url"], timeout=60) as answer:
                    assert b"gpuconf_gpus 1.0" in answer.read()
            before = processor_ticks(server.pid)
            time.sleep(1)
            assert processor_ticks(server.pid) - before < 50, "idle connections cost no processor time"
            assert threads(server.pid) < 30
        finally:
            server.terminate()
        assert server.stderr.read() == ""


def processor_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


@contextmanager
def serving(app: Callable[..., Iterable[bytes]]) -> Iterator[int]:
    """A server in a thread of this process."""
    ending = threading.Event()

    def ended(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if ending.is_set():
            raise SystemExit  # no Exception: serve() ends
        return app(environ, start)

    server = ScrapeServer("127.0.0.1", 0, ended)

    def serve() -> None:
        try:
            server.serve()
        except SystemExit:
            pass
        finally:
            server.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.port
    finally:
        ending.set()
        talk(server.port, b"GET / HTTP/1.0\r\n\r\n")
        thread.join(60)
        assert not thread.is_alive()


def hello(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/broken":
        raise ValueError("no such card")
    start("200 OK", [("X-Query", environ["QUERY_STRING"]), ("X-Accept", environ.get("HTTP_ACCEPT", ""))])
    return [b"hel", b"lo"]


def talk(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(request)
        return everything(peer)


def everything(peer: socket.socket) -> bytes:
    """What it sends until it closes the connection."""
    read = b""
    try:
        while more := peer.recv(4096):
            read += more
    except ConnectionResetError:
        pass
    return read


def test_it_answers_for_its_own_address_and_names_only() -> None:
    """A web page gave its own name this address, and its script read the names of users and programs."""
    own = [
        "127.0.0.1:9401",
        "127.0.0.1",
        "[::1]:9401",
        "10.1.2.3:80",
        "localhost:9401",
        "LOCALHOST.",
        socket.gethostname(),
    ]
    foreign = [
        "evil.example",
        "evil.example:9401",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "",
        "[evil]:1",
    ]
    with serving(hello) as port:
        for host in (*own, *foreign):
            answer = talk(port, f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.0 200 " if host in own else b"HTTP/1.0 421 "), host
        assert talk(port, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200 ")
    named = ScrapeServer("127.0.0.1", 0, hello, ["gpu-1.cluster"])
    assert named._is_named("GPU-1.cluster:9401")
    named.close()


def test_a_slow_request_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte from time to time does not keep a connection, and an honest one is answered meanwhile."""
    monkeypatch.setattr(scrape_server, "SECONDS", 0.5)
    with serving(hello) as port, socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
        try:
            for byte in b"GET /metrics HTTP/1.1\r\nHost: " + b"x" * 600:
                slow.sendall(bytes([byte]))
                time.sleep(0.05)
            raise AssertionError("it was never closed")
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert talk(port, b"GET / HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\nhello")


def test_an_answer_that_nobody_reads_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape_server, "SECONDS", 0.5)
    asked = threading.Event()

    def large(_environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        asked.set()
        start("200 OK", [])
        return [bytes(64 << 20)]

    with serving(large) as port:
        before = open_files()
        with socket.create_connection(("127.0.0.1", port), timeout=60) as deaf:
            deaf.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert asked.wait(60)
            while open_files() > before + 1:  # the server's end is open
                time.sleep(0.05)
            assert len(everything(deaf)) < 64 << 20


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /metrics?name[]=x HTTP/1.1\r\nAccept: text/plain\r\n\r\n", b"200 OK"),
        (b"GET /metrics HTTP/1.0\n\n", b"200 OK"),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400 Bad Request"),
        (b"\xff\xfe\0\r\n\r\n", b"400 Bad Request"),
        (b"GET metrics HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20000, b"400 Bad Request"),
        (b"GET /broken HTTP/1.1\r\n\r\n", b"500 Internal Server Error"),
        (b"GET /%zz%ff\xff HTTP/1.1\r\n::\r\n: \r\n\r\n", b"200 OK"),
    ],
)
def test_requests(request_bytes: bytes, status: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(hello) as port:
        answer = talk(port, request_bytes)
        assert (
            not answer or answer.split(b"\r\n")[0] == b"HTTP/1.0 " + status
        )  # a reset may overtake the answer to what is too long
        assert answer or len(request_bytes) > 8192
        assert talk(port, b"GET / HTTP/1.1\r\n\r\n").endswith(b"hello"), "it goes on"
    said = capfd.readouterr().err
    assert said == (
        "gpuconf export: a scrape failed: ValueError: no such card\n" if b"/broken" in request_bytes else ""
    )


# The service of docs/metrics.md


def block(kind: str) -> str:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_unit_starts_the_exporter(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block("ini"))
    assert unit.sections() == ["Unit", "Service", "Install"]
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "gpuconf"
    env = environment({"GPUCONF_SIMULATE": "T4", "GPUCONF_LEDGER": str(tmp_path / "ledger")})
    words = [COMMAND, *arguments, "--port", "0", "--json"]  # the unit's own port may be taken
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as server:
        try:
            assert server.stdout is not None
            told = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
            with urllib.request.urlopen(told["url"], timeout=60) as answer:
                assert b"gpuconf_gpus 1.0" in answer.read()
        finally:
            server.terminate()
    if shutil.which("systemd-analyze"):
        path = tmp_path / "gpuconf-export.service"
        path.write_text(block("ini").replace(program, COMMAND))
        said = execute(["systemd-analyze", "verify", str(path)])
        assert str(path.name) not in said.stderr


def test_prometheus_scrapes_the_port_of_the_unit() -> None:
    (port,) = re.findall(r"--port (\d+)", block("ini"))
    text = block("yaml")
    assert re.findall(r'targets: \["localhost:(\d+)"\]', text) == [port]
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"localhost:{port}"]}]
