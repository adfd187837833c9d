# SPDX-License-Identifier: Apache-2.0
"""The memory of all workers, in one call."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable

import distributed

from .. import errors
from .._core import import_hook, texts
from .._typing import Any
from ..cluster.rows import ClusterMemory, ProcessRow, report


def memory(client: distributed.Client | None = None) -> ClusterMemory:
    """Return the memory in use on all workers, by worker, card, library and tag. ``print`` shows it as a table.

    ``client`` is the current one by default. The workers answer one call, all at the same time, and no device is
    initialized for it: an idle worker has one row without a library. A worker that cannot answer has a row with a
    ``problem``. With an asynchronous client, the result is awaited.

    Raises FailedPreconditionError without a client, and InvalidTypeError for an object that is not one.
    """
    if client is None:
        try:
            client = distributed.default_client()
        except ValueError:
            raise errors.FailedPreconditionError(
                "there is no Dask client: create one with distributed.Client(cluster), or pass client="
            ) from None
    elif not isinstance(client, distributed.Client):
        raise errors.InvalidTypeError(f"client must be a distributed.Client, but got {texts.shown(client)}")
    answers = client.run(_rows, on_error="return")
    if inspect.isawaitable(answers):
        return _later(answers)  # type: ignore[return-value]  # a coroutine, as Dask's own methods return then
    return _table(answers)


async def _later(answers: Awaitable[dict[str, Any]]) -> ClusterMemory:
    return _table(await answers)


def _rows(dask_worker: distributed.Worker) -> tuple[str, list[list[Any]]]:
    """Return the name and the rows of this worker. Runs in each worker."""
    return str(dask_worker.name), report()


def _table(answers: dict[str, Any]) -> ClusterMemory:
    rows: list[ProcessRow] = []
    for address, answer in answers.items():
        if isinstance(answer, BaseException):
            problem = f"{type(answer).__name__}: {answer}".splitlines()[0]
            rows.append(ProcessRow(address, address, "", "", "", "", 0, 0, 0, 0, problem))
            continue
        name, found = answer
        rows += (ProcessRow.of(name, address, row) for row in found)
    return ClusterMemory(rows)


# The page ``/gpuconf`` of Dask's dashboard.
#
# Dask builds its dashboard when a scheduler starts, from a table of pages. So the page is added to that table when it
# is imported: there is a page wherever gpuconf.dask was imported before the scheduler started, as with LocalCluster, or
# with ``dask scheduler --preload gpuconf.dask``. Without Bokeh there is no dashboard, and this module is not used.

_PAGES = "distributed.dashboard.scheduler"


def add_to_dashboards() -> None:
    """Add the page to the dashboards of schedulers that this process starts from now on."""
    if hasattr(sys.modules.get(_PAGES), "connect"):
        _add()
    else:
        import_hook.when_imported(_PAGES, _add)


def _add() -> None:
    module: Any = sys.modules[_PAGES]
    if "/gpuconf" in module.applications or not hasattr(module, "template_variables"):
        return
    menu = module.template_variables

    def with_page(scheduler: Any) -> Any:
        variables = menu(scheduler)
        if "gpuconf" not in variables["pages"]:
            variables["pages"].append("gpuconf")
        return variables

    module.applications["/gpuconf"] = _document
    module.template_variables = with_page


def _document(scheduler: Any, extra: Any, document: Any) -> None:
    """Fill the page for one browser. Bokeh calls this."""
    from ._plot import fill

    fill(scheduler, extra, document)
