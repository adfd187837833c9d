"""Every public name, as users' tools see it.

``typing.get_type_hints`` raised NameError for most functions, because names of annotations were imported for type
checkers only. ``dir(gpuconf)`` listed ``annotations``, ``TYPE_CHECKING`` and thirty private modules among the public
names.
"""

from __future__ import annotations

import inspect
import typing
from pathlib import Path
from types import ModuleType

import gpuconf
import public_names
import pytest
from script import run_well

MODULES = public_names.modules()
HERE = Path(__file__).parent


def test_the_walk_finds_the_public_modules() -> None:
    names = {module.__name__ for module in MODULES}
    assert names >= {
        "gpuconf",
        "gpuconf.config",
        "gpuconf.config.experimental",
        "gpuconf.memory",
        "gpuconf.errors",
        "gpuconf.compat.v1",
    }
    assert sum(1 for module in MODULES for _ in public_names.functions(module)) > 250


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_annotations_resolve(module: ModuleType) -> None:
    assert public_names.unresolved(module) == {}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_signatures_can_be_read(module: ModuleType) -> None:
    assert public_names.unreadable(module) == {}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_dir_shows_the_public_names(module: ModuleType) -> None:
    assert public_names.extra(module) == set()
    assert public_names.unreachable(module) == []


def test_the_walk_of_the_adaptors() -> None:
    """With stand-ins for their libraries, in a separate process."""
    program = f"""
    import sys
    sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent / "frameworks" / "standins")!r}]
    import cupy_standin, numba_standin, torch_standin
    for library in (cupy_standin, numba_standin, torch_standin):
        library.install()
    import public_names
    import gpuconf
    for module in (gpuconf.allocators.cupy, gpuconf.allocators.numba, gpuconf.allocators.torch):
        print(public_names.unresolved(module), public_names.unreadable(module), public_names.extra(module))
    """
    assert run_well(program) == "{} {} set()\n" * 3


def test_any_is_object_and_other_types_are_themselves() -> None:
    hints = typing.get_type_hints(gpuconf.memory.allocate)
    assert hints["return"] is gpuconf.memory.Buffer
    assert hints["device"] == (
        str
        | gpuconf.DeviceSpec
        | gpuconf.config.LogicalDevice
        | gpuconf.config.PhysicalDevice
        | gpuconf.VisibleDevice
        | None
    )
    assert typing.get_type_hints(gpuconf.matmul)["a"] is object


def test_named_tuples_show_the_types_of_their_fields() -> None:
    hints = typing.get_type_hints(gpuconf.VisibleDevice)
    assert list(hints) == list(gpuconf.VisibleDevice._fields)
    assert hints["compute_capability"] == tuple[int, int]
    assert str(inspect.signature(gpuconf.config.LogicalDevice)) == "(name: 'str', device_type: 'str')"
    parameters = inspect.signature(gpuconf.config.LogicalDeviceConfiguration).parameters
    assert {name: one.default for name, one in parameters.items()} == dict.fromkeys(parameters)
    with pytest.raises(
        TypeError, match=r"^LogicalDevice\.__new__\(\) missing 1 required positional argument: 'device_type'$"
    ):
        gpuconf.config.LogicalDevice("/device:GPU:0")  # type: ignore[call-arg]
