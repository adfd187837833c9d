# SPDX-License-Identifier: Apache-2.0
"""``--preload gpuconf.dask`` of ``dask worker``, and ``--preload-nanny gpuconf.dask``."""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Callable

import click
import distributed

from .. import errors
from ..cluster.cards import list_cards, need, simulation
from ..cluster.share import checked
from ._worker_setup import WorkerSetup

_numbers = itertools.count()


def _valid(check: Callable[[str], object]) -> Callable[..., str | None]:
    """Return a callback that checks an option when ``dask worker`` reads its command line, before it starts a
    process.
    """

    def callback(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
        try:
            if value is not None:
                check(value)
        except errors.GpuconfError as error:
            raise click.BadParameter(error.message) from None
        return value

    return callback


def _bytes(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() else text


def _libraries(text: str) -> str | list[str]:
    return "auto" if text == "auto" else [name.strip() for name in text.split(",")]


@click.command()
@click.option(
    "--gpuconf-memory",
    callback=_valid(lambda text: checked(_bytes(text), True, "auto", leases=True)),
    help="limit of each GPU that a worker sees: 8GiB, or 25%; with --gpuconf-lease also MIN..MAX",
)
@click.option(
    "--gpuconf-growth/--no-gpuconf-growth", default=True, help="reserve memory as needed, or the whole limit at once"
)
@click.option(
    "--gpuconf-libraries",
    default="auto",
    callback=_valid(lambda text: checked(None, True, _libraries(text))),
    help="torch,cupy,numba,jax,tensorflow; auto for all",
)
@click.option(
    "--gpuconf-pre-import",
    callback=_valid(lambda text: checked(None, True, "auto", text)),
    help="modules that each worker then imports, separated by commas",
)
@click.option("--gpuconf-simulate", callback=_valid(list_cards), help="simulated GPUs, such as 2xT4")
@click.option("--gpuconf-lease", is_flag=True, help="lease the memory, in turn with other programs of this machine")
@click.option(
    "--gpuconf-lease-timeout", type=click.FloatRange(min=0), default=60, help="seconds to wait for the lease (60)"
)
def dask_setup(
    server: distributed.Worker | distributed.Nanny | distributed.Scheduler,
    gpuconf_memory: str | None,
    gpuconf_growth: bool,
    gpuconf_libraries: str,
    gpuconf_pre_import: str | None,
    gpuconf_simulate: str | None,
    gpuconf_lease: bool,
    gpuconf_lease_timeout: float,
) -> None:
    """Set up a worker, pin the worker of a nanny to a card, or (on a scheduler) add the dashboard's page, which
    importing did.

    Dask logs errors of preload modules and goes on. A worker without its limit must not: so the worker gets a plugin,
    whose error ends it.
    """
    try:
        if isinstance(server, distributed.Nanny):
            # Dask gives the options of the command line to the workers only.
            words = need("Dask", server, "preload_argv", "dask worker --preload-nanny gpuconf.dask")
            options = dask_setup.make_context("gpuconf.dask", [*words]).params
            _pin(server, gpuconf_simulate or options["gpuconf_simulate"])
        elif isinstance(server, distributed.Worker):
            pending = need("Dask", server, "_pending_plugins", "dask worker --preload gpuconf.dask")
            setup = WorkerSetup(
                _bytes(gpuconf_memory),
                gpuconf_growth,
                _libraries(gpuconf_libraries),
                pre_import=gpuconf_pre_import,
                simulate=gpuconf_simulate,
                lease=gpuconf_lease,
                lease_timeout=gpuconf_lease_timeout,
            )
            setup.needs_gpu = gpuconf_memory is not None
            server._pending_plugins = (*pending, setup)
    except errors.GpuconfError as error:
        print(f"gpuconf.dask: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # SystemExit would leave the process waiting for Dask's threads


def dask_teardown(_: object) -> None:
    """Dask calls this when the server closes. There is nothing to do."""


def _pin(nanny: distributed.Nanny, simulate: str | None) -> None:
    """Pin the worker of a nanny to the next card.

    The nannies of one ``dask worker`` command share its cards in turn.
    """
    environment = need("Dask", nanny, "env", "dask worker --preload-nanny gpuconf.dask")
    cards = list_cards(simulation(simulate))
    if not cards:
        logging.getLogger("distributed.nanny").warning(
            "gpuconf.dask: this machine has no GPU, so no worker is pinned to one"
        )
        return
    environment["CUDA_VISIBLE_DEVICES"] = cards[next(_numbers) % len(cards)].uuid
