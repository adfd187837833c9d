"""gpuconf.configure: limits, growth and libraries, as far as this works without the libraries."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import gpuconf
import no_gpu
import pytest
from gpuconf import config
from gpuconf._core import import_hook as _import_hook
from script import run_well

GIB = 1 << 30


def limits_of(*names: str) -> list[int]:
    return [gpuconf.memory.stats(name).bytes_limit for name in names]


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        (6 * GIB, 6 * GIB),
        ("6GiB", 6 * GIB),
        ("6 gib", 6 * GIB),
        ("0.5GiB", GIB // 2),
        ("500MB", 500_000_000 >> 20 << 20),
        ("2TB", 2 * 10**12 >> 20 << 20),
        ("50%", 40 * GIB),
        ("100 %", 80 * GIB),
        ((1 << 21) + 5, 1 << 21),
        ("1048576", 1 << 20),
    ],
)
@pytest.mark.usefixtures("one_gpu")
def test_a_limit_is_read(limit: Any, wanted: int) -> None:
    told = gpuconf.configure(limit=limit, libraries=[])
    assert told.limits == {"/physical_device:GPU:0": wanted}
    if wanted <= 80 * GIB:
        assert limits_of("GPU:0") == [wanted]


@pytest.mark.parametrize(
    "limit",
    ["", "6", "GiB", "-1GiB", "0%", "101%", "50%%", "6XB", "nan", "infGiB", "1e400GiB", "6GiBB", -1, 0, (1 << 20) - 1, "1023KiB"],
)
@pytest.mark.usefixtures("one_gpu")
def test_a_limit_that_can_not_be_is_refused_and_changes_nothing(limit: Any) -> None:
    with pytest.raises(ValueError, match="limit"):
        gpuconf.configure(limit=limit, growth=True, libraries=[])
    gpu = config.list_physical_devices("GPU")[0]
    assert config.get_logical_device_configuration(gpu) is None
    assert config.experimental.get_memory_growth(gpu) is None


@pytest.mark.parametrize("limit", [1.5, True, b"6GiB", {"GPU:0": 1}])
@pytest.mark.usefixtures("one_gpu")
def test_a_limit_of_another_type_is_refused(limit: Any) -> None:
    with pytest.raises(TypeError, match="limit must be a number of bytes or text"):
        gpuconf.configure(limit=limit, libraries=[])


@pytest.mark.usefixtures("two_gpus")
def test_one_limit_for_each_gpu() -> None:
    assert gpuconf.configure(limit=["1GiB", None], libraries=[]).limits == {"/physical_device:GPU:0": GIB}
    assert limits_of("GPU:0") == [GIB]
    assert limits_of("GPU:1")[0] > 70 * GIB
    with pytest.raises(ValueError, match="limit has 1 entries, but 2 GPUs are visible"):
        gpuconf.configure(limit=["1GiB"], libraries=[])


@pytest.mark.usefixtures("one_gpu")
@pytest.mark.parametrize("limit", [None, "1GiB"])
@pytest.mark.parametrize("growth", [True, False])
def test_growth_holds_with_and_without_a_limit(limit: Any, growth: bool) -> None:
    """TensorFlow cannot set both with one call."""
    gpuconf.configure(limit=limit, growth=growth, libraries=[])
    assert config.experimental.get_memory_growth(config.list_physical_devices("GPU")[0]) is growth
    with gpuconf.memory.allocate(1000):
        stats = gpuconf.memory.stats()
        assert (stats.bytes_reserved == stats.bytes_limit) is not growth


def test_growth_is_forgotten_by_a_reset() -> None:
    gpuconf.simulate("T4")
    gpuconf.configure(limit="1GiB", growth=True, libraries=[])
    gpuconf.reset()
    gpuconf.configure(limit="1GiB", libraries=[])
    with gpuconf.memory.allocate(1000):
        assert gpuconf.memory.stats().bytes_reserved == GIB


@pytest.mark.parametrize("growth", [1, "yes", 0.0])
@pytest.mark.usefixtures("one_gpu")
def test_growth_is_true_or_false(growth: Any) -> None:
    with pytest.raises(TypeError, match="growth must be True, False or None"):
        gpuconf.configure(growth=growth, libraries=[])


@pytest.mark.usefixtures("one_gpu")
def test_it_can_be_repeated_and_changed_until_the_devices_are_used() -> None:
    first = gpuconf.configure(limit="1GiB", growth=True, libraries=[])
    assert gpuconf.configure(limit="1GiB", growth=True, libraries=[]) == first
    gpuconf.configure(limit="2GiB", growth=False, libraries=[])
    assert limits_of("GPU:0") == [2 * GIB]
    gpuconf.configure(limit="2GiB", growth=False, libraries=[])
    gpuconf.configure(libraries=[])
    with pytest.raises(RuntimeError, match=r"cannot be modified after being initialized.*test_configure\.py"):
        gpuconf.configure(limit="3GiB", libraries=[])
    with pytest.raises(RuntimeError, match="cannot change growth"):
        gpuconf.configure(growth=True, libraries=[])


def test_a_machine_without_gpus_is_no_error() -> None:
    told = gpuconf.configure(limit="50%", growth=True)
    assert told.limits == {}
    assert {told.libraries[name] for name in ("torch", "cupy", "numba")} == {"not routed: there is no GPU"}
    with pytest.raises(ValueError, match="limit 'half' is not a size"):
        gpuconf.configure(limit="half")


@pytest.mark.parametrize(
    ("libraries", "error"),
    [
        (["tensor"], "unknown library 'tensor'"),
        ({"torch": "some"}, "invalid mode 'some' for 'torch'"),
        ({"cupy": "whole"}, "invalid mode 'whole' for 'cupy'"),
    ],
    ids=["unknown", "mode", "mode of another"],
)
def test_libraries_are_known(libraries: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        gpuconf.configure(libraries=libraries)


@pytest.mark.usefixtures("one_gpu")
def test_on_simulated_gpus_no_library_is_routed_and_a_wish_for_one_is_refused() -> None:
    """Kernels on host addresses would crash the process."""
    told = gpuconf.configure(limit="1GiB")
    assert told.libraries["torch"] == "not routed: the GPUs are simulated (H100-80GB), and PyTorch needs a real GPU"
    with pytest.raises(gpuconf.errors.FailedPreconditionError, match="simulated"):
        gpuconf.configure(libraries="cupy")


def library(folder: Path, name: str, code: str) -> None:
    (folder / f"{name}.py").write_text(textwrap.dedent(code))


def test_jax_and_tensorflow_get_settings_only(driver: Path, tmp_path: Path) -> None:
    for name in ("jax", "tensorflow"):
        library(tmp_path, name, "import os; print({k: v for k, v in os.environ.items() if k.startswith(('XLA_', 'TF_'))})")
    program = """
        import os
        told = gpuconf.configure(limit="256MiB", growth=True).libraries
        print(told["jax"]); print(told["tensorflow"])
        import jax
        print(gpuconf.configure(limit="256MiB", growth=True).libraries["jax"])
        try:
            gpuconf.configure(limit="256MiB", growth=True, libraries=["jax"])
        except gpuconf.errors.FailedPreconditionError as error:
            print(error)
        print(gpuconf.memory.allocate(1000).free(), gpuconf.memory.stats().bytes_limit // MIB)
        """
    out = no_gpu.run(driver, program, PYTHONPATH=f"{tmp_path}:{':'.join(sys.path)}").splitlines()
    assert out == [
        "settings only (XLA_PYTHON_CLIENT_MEM_FRACTION=0.2500, XLA_PYTHON_CLIENT_PREALLOCATE=false): it uses its own allocator, "
        "outside gpuconf's limits",
        "settings only (TF_FORCE_GPU_ALLOW_GROWTH=true): it uses its own allocator, outside gpuconf's limits",
        "{'XLA_PYTHON_CLIENT_MEM_FRACTION': '0.2500', 'XLA_PYTHON_CLIENT_PREALLOCATE': 'false', "
        "'TF_FORCE_GPU_ALLOW_GROWTH': 'true'}",
        "not changed: it is already imported, and it uses its own allocator",
        "gpuconf.configure() was called too late: JAX is already imported and has read its settings. "
        "Call it earlier, or leave 'jax' out of libraries=",
        "None 256",
    ]


def test_what_the_user_has_set_for_jax_stays(driver: Path, tmp_path: Path) -> None:
    library(tmp_path, "jax", "")
    program = """
        import os
        print(gpuconf.configure(limit="256MiB", growth=True, libraries=["jax"]).libraries["jax"])
        print(os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"], "XLA_PYTHON_CLIENT_MEM_FRACTION" in os.environ)
        """
    out = no_gpu.run(
        driver,
        program,
        PYTHONPATH=f"{tmp_path}:{':'.join(sys.path)}",
        XLA_PYTHON_CLIENT_PREALLOCATE="true",
        XLA_CLIENT_MEM_FRACTION="0.5",
    )
    assert out.splitlines() == [
        "settings only (XLA_PYTHON_CLIENT_PREALLOCATE=true): it uses its own allocator, outside gpuconf's limits",
        "true False",
    ]


# The import hook


@pytest.fixture
def someone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    library(tmp_path, "someones_library", "value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield_name = "someones_library"
    monkeypatch.delitem(sys.modules, yield_name, raising=False)
    return yield_name


def test_what_waits_for_an_import_is_done_once_after_it(someone: str) -> None:
    seen: list[Any] = []
    assert _import_hook.installed(someone)
    assert not _import_hook.installed("nobodys_library")
    _import_hook.when_imported(someone, lambda: seen.append(sys.modules[someone].value))
    assert seen == []
    module = __import__(someone)
    assert seen == [1]
    assert module.__loader__.exec_module.__name__ == "exec_module", "the loader is as it was"
    assert module.__spec__.origin.endswith("someones_library.py")
    del sys.modules[someone]
    __import__(someone)
    assert seen == [1]


def test_a_failed_import_waits_for_the_next_one(someone: str, tmp_path: Path) -> None:
    seen: list[int] = []
    source = tmp_path / "someones_library.py"
    source.write_text("raise KeyError('broken')\n")
    _import_hook.when_imported(someone, lambda: seen.append(1))
    with pytest.raises(KeyError, match="broken"):
        __import__(someone)
    assert seen == []
    source.write_text("value = 2  # another size, so that the old compiled file is not used\n")
    __import__(someone)
    assert seen == [1]


def test_an_error_in_what_waits_fails_the_import(someone: str) -> None:
    def fail() -> None:
        raise gpuconf.errors.FailedPreconditionError("too late")

    _import_hook.when_imported(someone, fail)
    with pytest.raises(RuntimeError, match="too late"):
        __import__(someone)
    assert someone not in sys.modules


def test_importing_the_package_adds_no_hook_and_imports_no_library() -> None:
    out = run_well(
        """
        import sys
        before = list(sys.meta_path)
        import gpuconf
        print(sys.meta_path == before, sorted({"torch", "cupy", "numba", "ctypes", "importlib.util"} & set(sys.modules)))
        print(gpuconf.allocators.__all__, hasattr(gpuconf.allocators, "jax"))
        """,
        flags=["-I"],
    )
    first, second = out.splitlines()
    assert first == "True []", "what waits for Dask is there in processes that import Dask"
    assert second == "['cupy', 'numba', 'torch'] False"
