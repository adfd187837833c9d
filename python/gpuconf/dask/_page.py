# SPDX-License-Identifier: Apache-2.0
"""The page ``/gpuconf`` of Dask's dashboard.

Dask builds its dashboard when a scheduler starts, from a table of pages. So the page is added to that table when it is
imported: there is a page wherever gpuconf.dask was imported before the scheduler started, as with LocalCluster, or with
``dask scheduler --preload gpuconf.dask``. Without Bokeh there is no dashboard, and this module is not used.
"""

from __future__ import annotations

import sys

from .._core import import_hook
from .._typing import Any

_PAGES = "distributed.dashboard.scheduler"


def add_to_dashboards() -> None:
    """Add the page to the dashboards of schedulers that start from now on in this process."""
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
