# SPDX-License-Identifier: Apache-2.0
"""``gpuconf export``."""

from __future__ import annotations

import sys

from . import console
from .console import OK, UsageError
from .output import print_json
from .parser import Options


def export(options: Options) -> int:
    """Run the command."""
    from ..metrics import MachineCollector
    from ..metrics._prometheus import client

    for option, names in (("--address", [options.address or ""]), ("--host", options.host or [])):
        for name in names:
            if "/" in name or name.count(":") == 1:  # IPv6 has more
                raise UsageError(f"{option} must be a name or an address, without http:// and port, but got {name!r}")
    if options.once:
        options.refuse("port address host json", "--once prints Prometheus text and cannot be used with {}")
    prometheus = client()
    registry = prometheus.CollectorRegistry()
    collector = MachineCollector(options.dcgm_names)
    collector._report = lambda text: console.complain(f"gpuconf export: {text}")
    registry.register(collector)
    if options.once:
        print(prometheus.generate_latest(registry).decode(), end="")
        return OK
    from .scrape_server import ScrapeServer

    options.address = options.address or "127.0.0.1"
    options.port = 9401 if options.port is None else options.port
    server = ScrapeServer(options.address, options.port, prometheus.make_wsgi_app(registry), options.host or [])
    try:
        _announce(options, server.port)
        server.serve()  # until a signal
    finally:
        server.close()
    return OK


def _announce(options: Options, port: int) -> None:
    host = f"[{options.address}]" if ":" in options.address else options.address
    url = f"http://{host}:{port}/metrics"
    if options.json:
        print_json({"address": options.address, "port": port, "url": url})
    else:
        print(f"serving {url}")
    sys.stdout.flush()
