# SPDX-License-Identifier: Apache-2.0
"""An HTTP server for scrapes: one thread, a bounded number of connections, and a bounded time for each.

Any program on the machine can connect, and need not send anything. So a new connection ends the oldest one
where there are too many, and one that takes too long ends by itself. One request is answered on each: the server closes
it. A request must name an address, or a name of this machine: a web page can give its own name any address, and would
read the answer.
"""

from __future__ import annotations

import errno
import io
import ipaddress
import os
import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import unquote_to_bytes

from .. import errors
from .._typing import Any
from . import console

MOST_CONNECTIONS = 64
_OTHER_FILES = 40  # of this process, and of a scrape
SECONDS = 10.0  # for a request, and again for its answer
_MOST_BYTES = 8192  # of a request
_AT_ONCE = 16  # connections to accept before those that have sent something are looked at
_PAUSE = 1.0  # seconds without accepting, where the system has no file left

_REFUSED = b"HTTP/1.0 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_MISDIRECTED = b"HTTP/1.0 421 Misdirected Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_FAILED = b"HTTP/1.0 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application."""


class _Connection:
    """One connection: what it has sent, and then what is left of the answer."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.until = time.monotonic() + SECONDS
        self.request = b""
        self.answer: memoryview | None = None


class ScrapeServer:
    """Serves a WSGI application, also under ``names``. Raises UnavailableError if it cannot listen."""

    def __init__(self, address: str, port: int, app: App, names: Sequence[str] = ()) -> None:
        self._app = app
        self._names = {one.lower() for one in ("localhost", socket.gethostname(), socket.getfqdn(), address, *names)}
        self._listener = _listening(address, port)
        self.port: int = self._listener.getsockname()[1]
        self._most = _most_connections()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._open: dict[int, _Connection] = {}  # by descriptor, oldest first
        self._paused = 0.0  # until then nothing is accepted
        self._said = ""

    def serve(self) -> None:
        """Serve until an exception, such as that of a signal handler."""
        while True:
            self._step()

    def close(self) -> None:
        """Close all sockets."""
        for one in list(self._open.values()):
            self._end(one)
        self._selector.close()
        self._listener.close()

    def _step(self) -> None:
        due = [one.until for one in self._open.values()] + ([self._paused] if self._paused else [])
        ready = self._selector.select(max(0.0, min(due) - time.monotonic()) if due else None)
        for key, _ in ready:
            if key.fileobj is not self._listener and key.fd in self._open:
                self._go_on(self._open[key.fd])
        if any(key.fileobj is self._listener for key, _ in ready):
            self._accept()
        now = time.monotonic()
        for one in [one for one in self._open.values() if one.until <= now]:
            self._end(one)
        if self._paused and self._paused <= now:
            self._paused = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                peer, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError:  # no file is left, or no memory: a queue that stays readable must not keep this busy
                if self._open:
                    self._end(next(iter(self._open.values())))
                    continue
                self._selector.unregister(self._listener)
                self._paused = time.monotonic() + _PAUSE
                return
            peer.setblocking(False)
            if len(self._open) >= self._most:
                self._end(next(iter(self._open.values())))
            self._open[peer.fileno()] = _Connection(peer)
            self._selector.register(peer, selectors.EVENT_READ)

    def _go_on(self, one: _Connection) -> None:
        try:
            if one.answer is None:
                self._read(one)
            if one.answer is not None:
                one.answer = one.answer[one.peer.send(one.answer) :]
                if not one.answer:
                    self._end(one)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:  # the other end is gone
            self._end(one)

    def _read(self, one: _Connection) -> None:
        more = one.peer.recv(_MOST_BYTES)
        one.request += more
        complete = b"\r\n\r\n" in one.request or b"\n\n" in one.request
        if not complete and len(one.request) <= _MOST_BYTES:
            if not more:
                self._end(one)
            return
        one.answer = memoryview(self._answer(one.request) if complete else _REFUSED)
        one.until = time.monotonic() + SECONDS
        self._selector.modify(one.peer, selectors.EVENT_WRITE)

    def _answer(self, request: bytes) -> bytes:
        environ = _environ(request)
        if environ is None:
            return _REFUSED
        if not self._is_named(environ.get("HTTP_HOST", "localhost")):
            return _MISDIRECTED
        try:
            return _called(self._app, environ)
        except Exception as error:  # one scrape fails, and the next may not
            text = f"gpuconf export: a scrape failed: {type(error).__name__}: {error}"
            if text != self._said:
                self._said = text
                console.complain(text)
            return _FAILED

    def _is_named(self, host: str) -> bool:
        """Whether a request's Host is an address, or a name of this server."""
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.lower().rstrip(".") in self._names
        return True

    def _end(self, one: _Connection) -> None:
        if self._open.pop(one.peer.fileno(), None) is not None:
            self._selector.unregister(one.peer)
        one.peer.close()


def _listening(address: str, port: int) -> socket.socket:
    try:
        family, kind, number, _, at = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, number)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(at)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        if getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
            why = "no network card of this machine has this address; 0.0.0.0 is all that it has"
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            why = "another program listens there; name another --port"
        raise errors.UnavailableError(f"cannot listen on {address} port {port}: {why}") from None
    listener.setblocking(False)
    return listener


def _most_connections() -> int:
    """Return how many connections leave enough files for a scrape."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(4, min(MOST_CONNECTIONS, soft - len(os.listdir("/proc/self/fd")) - _OTHER_FILES))


def _environ(request: bytes) -> dict[str, Any] | None:
    """Return a request as WSGI has it; None if it is not HTTP."""
    first, *lines = request.decode("latin-1").replace("\r\n", "\n").split("\n")
    words = first.split(" ")
    if len(words) != 3 or not words[1].startswith("/") or not words[2].startswith("HTTP/1."):
        return None
    path, _, query = words[1].partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": words[0],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path.encode("latin-1")).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_PROTOCOL": words[2],
        "wsgi.input": io.BytesIO(),
        "wsgi.url_scheme": "http",
    }
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            environ[f"HTTP_{name.strip().upper().replace('-', '_')}"] = value.strip()
    return environ


def _called(app: App, environ: dict[str, Any]) -> bytes:
    """Return the whole answer of the application."""
    head: list[str] = []

    def start(status: str, headers: list[tuple[str, str]], _error: Any = None) -> None:
        head[:] = [f"HTTP/1.0 {status}", *(f"{name}: {value}" for name, value in headers)]

    body = b"".join(app(environ, start))
    head += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(head).encode("latin-1") + (b"" if environ["REQUEST_METHOD"] == "HEAD" else body)
