# SPDX-License-Identifier: Apache-2.0
"""Python imports this file at its start in every process under ``gpuconf run``, which puts this folder first into
``PYTHONPATH``.

It activates ``gpuconf_startup`` and runs the ``sitecustomize`` that Python would have found without it.
"""

import sys


def _run_the_next_one() -> None:
    """Run the sitecustomize that this one hides. Most have none, and need not import importlib for it."""
    finders = (getattr(finder, "find_spec", None) for finder in list(sys.meta_path))
    specs = (find_spec("sitecustomize", sys.path) for find_spec in finders if find_spec is not None)
    spec = next((spec for spec in specs if spec is not None), None)
    if spec is not None and spec.loader is not None:
        import importlib.util

        sys.modules["sitecustomize"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


__import__("gpuconf_startup").activate()
_here = __file__.rpartition("/")[0]
sys.path[:] = [entry for entry in sys.path if entry != _here]  # activate() may be that of another gpuconf
_run_the_next_one()
