"""The examples of all docstrings print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import gpuconf
import pytest

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples() -> list[doctest.DocTest]:
    modules = (m.name for m in pkgutil.walk_packages(gpuconf.__path__, "gpuconf."))
    # They import what may be missing.
    without = (
        "gpuconf._core._gpuconf",
        "gpuconf.allocators.",
        "gpuconf.dask._plot",
        "gpuconf.plans.programs.graph_pools",
        "gpuconf.plans.programs.batches",
        "gpuconf.plans.programs.loops",
        "gpuconf.plans.programs.torch_recording",
        "gpuconf.plans.programs.xla.changes",
        "gpuconf.plans.programs.xla.compiling",
        "gpuconf.plans.programs.xla.devices",
        "gpuconf.plans.programs.xla.jax_recording",
        "gpuconf.plans.programs.xla.running",
        "gpuconf.plans.programs.remedies",
        "gpuconf.plans.programs.watching",
        "gpuconf.simulation.values.",
    )
    # The finder looks at what is loaded, and loads nothing.
    assert all(hasattr(gpuconf, name) for name in gpuconf.__all__)
    names = [gpuconf.__name__, *(name for name in modules if not name.startswith(without))]
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in names for test in finder.find(importlib.import_module(name)) if test.examples]
    return sorted(found, key=lambda test: test.name)


@pytest.mark.parametrize("example", examples(), ids=lambda test: test.name)
def test_docstring(without_tensorflow: None, example: doctest.DocTest, two_gpus: None) -> None:
    example.globs.update(
        gpuconf=gpuconf, allocate=gpuconf.memory.allocate, tag=gpuconf.memory.tag, usage=gpuconf.memory.usage
    )
    result = doctest.DocTestRunner(optionflags=FLAGS).run(example, clear_globs=False)
    assert result.attempted > 0
    assert result.failed == 0
