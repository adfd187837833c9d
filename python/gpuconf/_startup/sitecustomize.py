# SPDX-License-Identifier: Apache-2.0
"""Python imports this file at its start in every process under ``gpuconf run``, which puts this folder first into ``PYTHONPATH``.

It activates ``gpuconf_startup`` and runs the ``sitecustomize`` that Python would have found without it.
"""

import sys


def _run_the_next_one() -> None:
    """Run the sitecustomize that this one hides."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        import importlib.util

        sys.modules["sitecustomize"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


__import__("gpuconf_startup").activate()
_run_the_next_one()
