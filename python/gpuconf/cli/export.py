# SPDX-License-Identifier: Apache-2.0
"""``gpuconf export``."""

from __future__ import annotations

import argparse
import sys

from .._typing import Any
from .console import OK, UsageError
from .output import add_json, example, print_json

_EXAMPLE = """
gpuconf export --port 9401
gpuconf export --once > /var/lib/node_exporter/gpuconf.prom
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "export",
        help="serve metrics of all cards to Prometheus",
        description="Serve metrics of the memory of every card and of its processes and leases, at /metrics. Only "
        "programs on "
        "this machine "
        "can connect, unless --address says otherwise.",
        **example(_EXAMPLE),
    )
    parser.add_argument("--port", type=_port, default=9401, help="TCP port (default: %(default)s); 0 picks a free port")
    parser.add_argument(
        "--address", default="127.0.0.1", help="address to listen on, such as 0.0.0.0 (default: %(default)s)"
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name by which Prometheus calls this machine: requests for other names are refused",
    )
    parser.add_argument(
        "--dcgm-names", action="store_true", help="also use the names of NVIDIA's DCGM exporter, in MiB"
    )
    parser.add_argument("--once", action="store_true", help="print the metrics once instead of serving them")
    add_json(parser)
    parser.set_defaults(run=_export)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: pass a number from 0 to 65535")
    return int(text)


def _export(options: argparse.Namespace) -> int:
    from ..metrics import MachineCollector
    from ..metrics._prometheus import client

    prometheus = client()
    registry = prometheus.CollectorRegistry()
    registry.register(MachineCollector(options.dcgm_names))
    if options.once:
        if options.json:
            raise UsageError("--once prints Prometheus text and cannot be used with --json")
        print(prometheus.generate_latest(registry).decode(), end="")
        return OK
    from .scrape_server import ScrapeServer

    server = ScrapeServer(options.address, options.port, prometheus.make_wsgi_app(registry), options.host)
    try:
        _announce(options, server.port)
        server.serve()  # until a signal
    finally:
        server.close()
    return OK


def _announce(options: argparse.Namespace, port: int) -> None:
    host = f"[{options.address}]" if ":" in options.address else options.address
    url = f"http://{host}:{port}/metrics"
    if options.json:
        print_json({"address": options.address, "port": port, "url": url})
    else:
        print(f"serving {url}")
    sys.stdout.flush()
