"""A program that leases memory, publishes its pools in the ledger, and holds memory until it is ended."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from script import environment

PROGRAM = """
import sys
import gpuconf
from gpuconf.leases.ledger import Card, open_ledger

lease, pool, used = map(int, sys.argv[1:4])
ledger = open_ledger()
cards = [Card(one.uuid, one.total_memory, lease) for one in gpuconf.visible_devices()[:1]]
claim = ledger.claim(cards, name="training", job="job-7", timeout=10)
if pool:
    ledger.publish(claim.id)
    gpuconf.configure(limit=pool, growth=True)
    buffer = gpuconf.memory.allocate(used, "GPU:0")
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(
    env: dict[str, str], lease: int, pool: int = 0, used: int = 0, inside: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Run the program until the end of the block, by a command. With pool=0 it leases only."""
    words = [*inside, sys.executable, "-c", textwrap.dedent(PROGRAM), *map(str, (lease, pool, used))]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=environment(env), **pipes) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            yield program
        finally:
            program.kill()
