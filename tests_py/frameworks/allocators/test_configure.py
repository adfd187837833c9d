"""gpuconf.configure: limits, growth and libraries, as far as this works without the libraries."""

import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpuconf
import no_gpu
import pytest
from gpuconf import config
from gpuconf._core import import_hook as _import_hook
from gpuconf._core import settings
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
        ("500MB", 500_000_000),
        ("50%", 85_019_590_656 // 2),
        ("100 %", 85_019_590_656),
        ((1 << 21) + 5, (1 << 21) + 5),
        ("1048576", 1 << 20),
    ],
)
@pytest.mark.usefixtures("one_gpu")
def test_a_limit_is_read(limit: Any, wanted: int) -> None:
    told = gpuconf.configure(limit=limit, libraries=[])
    assert told.limits == {"/physical_device:GPU:0": wanted}
    assert limits_of("GPU:0") == [wanted]


@pytest.mark.parametrize(
    "limit",
    ["", *"6 GiB -1GiB 0% 101% 50%% 6XB nan infGiB 1e400GiB 6GiBB".split(), -1, 0, (1 << 20) - 1, "1023KiB", "2TB"],
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
    with pytest.raises(ValueError, match="limit has 1 entry, but 2 GPUs are visible"):
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


@pytest.mark.parametrize(
    ("name", "meant"), [("memory_limit", "limit"), ("memory", "limit"), ("allow_growth", "growth")]
)
@pytest.mark.usefixtures("one_gpu")
def test_other_names_of_its_arguments_are_corrected(name: str, meant: str) -> None:
    arguments: Any = {name: "6GiB"}
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{name}'\. Did you mean '{meant}'\?"):
        gpuconf.configure(**arguments)


@pytest.mark.usefixtures("one_gpu")
def test_it_can_be_repeated_and_changed_until_the_devices_are_used() -> None:
    first = gpuconf.configure(limit="1GiB", growth=True, libraries=[])
    assert gpuconf.configure(limit="1GiB", growth=True, libraries=[]) == first
    gpuconf.configure(limit="2GiB", growth=False, libraries=[])
    assert limits_of("GPU:0") == [2 * GIB]
    gpuconf.configure(limit="2GiB", growth=False, libraries=[])
    gpuconf.configure(libraries=[])
    with pytest.raises(
        RuntimeError, match=r"limit .* is too late: .*has the limit .*initialized by .*test_configure\.py"
    ):
        gpuconf.configure(limit="3GiB", libraries=[])
    with pytest.raises(RuntimeError, match=r"growth=.* is too late: the GPUs were initialized by .*"):
        gpuconf.configure(growth=True, libraries=[])


@pytest.mark.usefixtures("two_gpus")
def test_a_limit_is_not_removed() -> None:
    """None in a list kept the limit of an earlier call, silently."""
    gpuconf.configure(limit=["6GiB", None], libraries=[])
    assert gpuconf.configure(limit=["5GiB", None], libraries=[]).limits == {"/physical_device:GPU:0": 5 * GIB}
    with pytest.raises(
        gpuconf.errors.FailedPreconditionError, match="the limit of /physical_device:GPU:0 cannot be removed"
    ):
        gpuconf.configure(limit=[None, "6GiB"], libraries=[])
    gpuconf.configure(growth=True, libraries=[])
    assert limits_of("GPU:0") == [5 * GIB]
    assert limits_of("GPU:1")[0] > 70 * GIB


@pytest.mark.parametrize("growth", [True, False])
@pytest.mark.usefixtures("one_gpu")
def test_the_last_growth_is_returned_and_in_force(growth: bool) -> None:
    """The first one was returned, although the pool followed the last one."""
    (gpu,) = config.list_physical_devices("GPU")
    for limit, wanted in (("1GiB", not growth), ("1GiB", growth)):
        gpuconf.configure(limit=limit, growth=wanted, libraries=[])
        assert config.experimental.get_memory_growth(gpu) is wanted
    with gpuconf.memory.allocate(1000):
        assert (gpuconf.memory.stats().bytes_reserved < GIB) is growth


def test_a_machine_without_gpus_has_no_limit_and_says_so() -> None:
    """A broken driver meant no limit and no message."""
    for limit in ("50%", "6GiB", ["6GiB"], ["6GiB", None]):
        with pytest.raises(
            gpuconf.errors.NotFoundError, match=r"is not in force: this process sees no GPU: .*missing_ok=True"
        ):
            gpuconf.configure(limit=limit, growth=True)
        told = gpuconf.configure(limit=limit, growth=True, missing_ok=True)
        assert (told.limits, told.in_force, told.growth) == ({}, False, True)
        for name in ("torch", "cupy", "numba"):
            wanted = "not routed: there is no GPU" if _import_hook.installed(name) else "not installed"
            assert told.libraries[name] == wanted
    for bad in ("half", ["half"]):
        for missing_ok in (True, False):
            with pytest.raises(ValueError, match="limit 'half' is not a size"):
                gpuconf.configure(limit=bad, missing_ok=missing_ok)
    assert not gpuconf.configure(growth=True).in_force, "nothing is limited, so nothing is missing"


@pytest.mark.parametrize("by", ["variable", "file"])
def test_a_limit_of_the_environment_is_missing_too(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if by == "variable":
        monkeypatch.setenv("GPUCONF_LIMIT", "4GiB")
        said = "GPUCONF_LIMIT=4GiB in the environment is not in force"
    else:
        (tmp_path / "gpuconf.toml").write_text('limit = "4GiB"\n')
        (tmp_path / "gpuconf.toml").chmod(0o644)
        said = f"limit in {tmp_path}/gpuconf.toml, line 1 is not in force"
    with pytest.raises(LookupError, match=said):
        gpuconf.configure()
    assert not gpuconf.configure(missing_ok=True).in_force
    gpuconf.simulate("T4")
    assert gpuconf.configure().in_force


def test_hidden_gpus_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    gpuconf.simulate("T4")
    with pytest.raises(gpuconf.errors.NotFoundError, match='CUDA_VISIBLE_DEVICES="" shows none'):
        gpuconf.configure("1GiB")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    gpuconf.reset()
    config.set_visible_devices([], "GPU")
    with pytest.raises(gpuconf.errors.NotFoundError, match="none is visible"):
        gpuconf.configure("1GiB")


@pytest.mark.usefixtures("two_gpus")
def test_the_limits_of_the_result_are_those_that_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The requested one was returned, and the pool had GPUCONF_LIMIT."""
    names = [gpu.name for gpu in config.list_physical_devices("GPU")]

    def told(limit: Any) -> tuple[list[int], list[str]]:
        result = gpuconf.configure(limit, libraries=[])
        before = [result.limits.get(name) for name in names]
        logical = [gpu.name for gpu in config.list_logical_devices("GPU")]
        assert [known or one for known, one in zip(before, limits_of(*logical), strict=True)] == limits_of(*logical)
        assert gpuconf.configure(limit, libraries=[]) == result, "the same when the pools exist"
        gpuconf.reset()
        return before, [result.notes.get(name, "") for name in names]

    assert told(None) == ([None, None], ["", ""])
    assert told(["6GiB", None]) == ([6 * GIB, None], ["", ""])
    monkeypatch.setenv("GPUCONF_LIMIT", "4GiB")
    assert told(None) == ([4 * GIB, 4 * GIB], ["", ""])
    lowered = "lowered from 8.00GiB to 4.00GiB by GPUCONF_LIMIT"
    assert told(["8GiB", "3GiB"]) == ([4 * GIB, 3 * GIB], [f"{lowered} in the environment", ""])
    monkeypatch.setenv("GPUCONF_LEASE", "0" * 32)
    assert told(["8GiB", "3GiB"])[1] == [f"{lowered}, the lease of gpuconf run", ""]
    assert "lowered from" in repr(gpuconf.configure("8GiB", libraries=[]))
    gpuconf.reset()
    monkeypatch.setattr(settings, "ADMINISTRATOR", str(tmp_path / "etc.toml"))
    (tmp_path / "etc.toml").write_text('[ceilings]\nlimit = "2GiB"\n')
    why = f"lowered from 8.00GiB to 2.00GiB by the administrator's ceiling in {tmp_path}/etc.toml"
    assert told("8GiB") == ([2 * GIB, 2 * GIB], [why, why])


def test_a_rank_has_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ("GPUCONF_LIMIT", "4GiB"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "4"):
        monkeypatch.setenv(name, value)
    gpuconf.simulate("2xT4")
    told = gpuconf.configure("3GiB", libraries=[])
    assert list(told.limits.values()) == [0, 2 * GIB] == limits_of("GPU:0", "GPU:1")
    assert told.notes["/physical_device:GPU:1"].endswith("; 2 of 4 ranks share this GPU")
    assert told.notes["/physical_device:GPU:0"].endswith("this process is LOCAL_RANK 1")


def test_the_limit_of_several_logical_devices_is_their_sum() -> None:
    gpuconf.simulate("T4")
    (gpu,) = config.list_physical_devices("GPU")
    config.set_logical_device_configuration(gpu, [config.LogicalDeviceConfiguration(memory_limit=1024)] * 3)
    assert gpuconf.configure(libraries=[]).limits == {gpu.name: 3 * GIB}


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("120GiB", r"limit '120GiB' is more than the 79\.18GiB of /physical_device:GPU:0"),
        (6, "but got 6; did you mean '6GiB'"),
        ("6", "but got '6'; did you mean '6GiB'"),
        (6144, "but got 6144; did you mean '6144MiB'"),
        (6.0, r"but got float: 6\.0; did you mean '6GiB'"),
        (0.5, r"but got float: 0\.5; did you mean '50%'"),
        ({"GPU:0": "6GiB"}, "or a list with one for each, but got dict"),
    ],
)
@pytest.mark.usefixtures("one_gpu")
def test_a_wrong_unit_is_an_error_with_the_right_one(limit: Any, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        gpuconf.configure(limit, libraries=[])


def test_a_limit_of_tensorflow_in_a_wrong_unit_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """TensorFlow accepts it, and so does gpuconf."""

    def said(*limits: float) -> list[str]:
        caplog.clear()
        gpuconf.simulate("T4")
        (gpu,) = config.list_physical_devices("GPU")
        config.set_logical_device_configuration(
            gpu, [config.LogicalDeviceConfiguration(memory_limit=one) for one in limits]
        )
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            config.list_logical_devices()
            config.list_logical_devices()
        gpuconf.reset()
        return [*map(str, (one.message for one in warned)), *(text for text in caplog.messages if "MiB" in text)]

    caplog.set_level("WARNING", "gpuconf")
    (once,) = said(10 * 2**30)
    assert once.endswith("memory_limit is a number of MiB, and 10737418240 looks like bytes: write 10240")
    (once,) = said(10**6)
    assert once.endswith("memory_limit is a number of MiB")
    (once,) = said(0.5)
    assert "memory_limit=0.5 on /physical_device:GPU:0 is less than 1 MiB, so the logical device has no memory" in once
    assert "Did you mean gpuconf.configure(limit='50%'), or for 0.5 GiB memory_limit=512?" in once
    (once,) = said(20_000)
    assert once.endswith("19.53GiB, and Tesla T4 has only 14.56GiB: the excess is not available"), "not a wrong unit"
    assert said(8_000, 8_000) == [], "limits may add up to more than the card"
    assert said(0) == []


@pytest.mark.parametrize(
    ("fraction", "hint"), [(40, "write 0.4 for 40%"), (1e4, "0.5 is half of the GPU's memory"), (2, ""), (0.4, "")]
)
def test_a_percentage_is_no_fraction(fraction: float, hint: str) -> None:
    """TensorFlow takes a fraction above 1 as unified memory of that size."""
    import gpuconf.compat.v1 as tf

    gpuconf.simulate("T4")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with tf.Session(config=tf.ConfigProto(gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=fraction))):
            pass
    assert len(said) == bool(hint)
    assert hint in "".join(str(one.message) for one in said)


@pytest.mark.parametrize(
    ("libraries", "error"),
    [
        (["tensor"], "unknown library 'tensor'"),
        ({"torch": "some"}, "invalid mode 'some' for 'torch'"),
        ({"torch": "segment"}, "'whole' and 'segments'. Did you mean 'segments'?"),
        ({"cupy": "whole"}, "invalid mode 'whole' for 'cupy'"),
    ],
    ids=["unknown", "mode", "mistyped mode", "mode of another"],
)
def test_libraries_are_known(libraries: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        gpuconf.configure(libraries=libraries)


@pytest.mark.usefixtures("one_gpu")
def test_on_simulated_gpus_only_pytorch_is_routed_and_a_wish_for_another_is_refused() -> None:
    """A PyTorch that was imported before the simulation uses the real driver: kernels on host addresses would crash the
    process.
    """
    told = gpuconf.configure(limit="1GiB")
    if not _import_hook.installed("torch"):
        assert told.libraries["torch"] == "not installed"
    elif "torch" in sys.modules:
        assert (
            told.libraries["torch"] == "not routed: the GPUs are simulated (H100-80GB), and PyTorch does not use them"
        )
    else:
        assert told.libraries["torch"] == "will use this limit once imported, on simulated GPUs (H100-80GB)"
    with pytest.raises(gpuconf.errors.FailedPreconditionError, match="simulated"):
        gpuconf.configure(limit="2GiB", libraries="cupy")
    assert limits_of("GPU:0") == [GIB], "and nothing is changed"


def library(folder: Path, name: str, code: str) -> None:
    (folder / f"{name}.py").write_text(textwrap.dedent(code))


# JAX and TensorFlow. Stand-ins record what they get here; test_jax.py and test_tensorflow.py read it back from the real
# ones.

JAX = """
import os
print({name: value for name, value in os.environ.items() if name.startswith(("XLA_", "TF_"))})
class config:
    values = {"jax_cuda_visible_devices": "all"}
    update = values.__setitem__
"""
TENSORFLOW = """
from gpuconf import config as _ours
class config:
    list_physical_devices, LogicalDeviceConfiguration = _ours.list_physical_devices, tuple
    def set_visible_devices(devices, kind):
        print("visible", [d.name[-1] for d in devices], kind)
    def set_logical_device_configuration(device, logical):
        if device.name[-1] == "2":
            raise RuntimeError("too late")
        print("logical", device.name[-1], logical)
    class experimental:
        def set_memory_growth(device, enable):
            print("growth", device.name[-1], enable)
config.LogicalDeviceConfiguration = lambda *fields: fields
"""


def beside(driver: Path, folder: Path, program: str, **environment: str) -> list[str]:
    library(folder, "jax", JAX)
    library(folder, "tensorflow", TENSORFLOW)
    path = f"{folder}:{':'.join(sys.path)}"
    environment["GPUCONF_LEDGER"] = str(folder / "no-ledger")
    return no_gpu.run(driver, program, PYTHONPATH=path, FAKECUDA_GPUS="3", **environment).splitlines()


def test_jax_and_tensorflow_get_the_same_settings(driver: Path, tmp_path: Path) -> None:
    program = """
        import sys
        physical = gpuconf.config.list_physical_devices("GPU")
        gpuconf.config.set_visible_devices(physical[1:], "GPU")
        told = gpuconf.configure(limit=["301MiB", None], growth=True).libraries
        print(told["jax"]); print(told["tensorflow"])
        import jax, tensorflow
        print(jax.config.values)
        gpuconf.config.set_visible_devices(physical[2:] + physical[:1], "GPU")
        print(jax.config.values, [name for name in os.environ if name.startswith("XLA_")])
        gpuconf.config.set_visible_devices([], "GPU")
        print(jax.config.values)
        gpuconf.config.set_visible_devices(physical, "GPU")
        print(gpuconf.configure().libraries["tensorflow"])
        print(gpuconf.memory.allocate(1000).free(), gpuconf.memory.stats("GPU:1").bytes_limit // MIB)
        """
    own = ": it uses its own allocator, outside gpuconf's limits"
    assert beside(driver, tmp_path, "import os\n" + textwrap.dedent(program)) == [
        "settings only (XLA_PYTHON_CLIENT_PREALLOCATE=false, XLA_PYTHON_CLIENT_MEM_FRACTION=0.292968, "
        f"jax_cuda_visible_devices=1,2){own}",
        f"passed on at import (TF_FORCE_GPU_ALLOW_GROWTH=true){own}",
        "{'XLA_PYTHON_CLIENT_PREALLOCATE': 'false', 'XLA_PYTHON_CLIENT_MEM_FRACTION': '0.292968', "
        "'TF_FORCE_GPU_ALLOW_GROWTH': 'true'}",
        "visible ['1', '2'] GPU",
        "growth 1 True",
        "growth 2 True",
        "logical 1 [(301, None, None)]",
        "{'jax_cuda_visible_devices': '1,2'}",
        "visible ['2', '0'] GPU",
        "{'jax_cuda_visible_devices': '2,0'} ['XLA_PYTHON_CLIENT_PREALLOCATE']",
        "visible [] GPU",
        "{'jax_cuda_visible_devices': 'all'}",
        "visible ['0', '1', '2'] GPU",
        f"passed on through tf.config (TF_FORCE_GPU_ALLOW_GROWTH=true){own}",
        "None 301",
    ]


def test_what_gpuconf_config_sets_reaches_them_without_configure(driver: Path, tmp_path: Path) -> None:
    """At their import: the environment of the process is not changed before."""
    program = """
        import os
        physical = gpuconf.config.list_physical_devices()
        gpuconf.config.set_logical_device_configuration(physical[0], [gpuconf.config.LogicalDeviceConfiguration()] * 2)
        gpuconf.config.experimental.set_memory_growth(physical[1], False)
        gpuconf.config.set_logical_device_configuration(physical[2],
                                                        [gpuconf.config.LogicalDeviceConfiguration(100)] * 2)
        print([name for name in os.environ if name.startswith("XLA_")])
        import jax, tensorflow
        print(os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"], os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"])
        gpuconf.reset()
        print([name for name in os.environ if name.startswith("XLA_")])
        """
    assert beside(driver, tmp_path, program) == [
        "[]",
        "{}",
        "growth 0 False",
        "logical 0 [(None, None, None), (None, None, None)]",
        "logical 1 [(100, None, None), (100, None, None)]",
        "0.195312 true",
        "[]",
    ]


def test_libraries_that_configure_leaves_out_get_nothing(driver: Path, tmp_path: Path) -> None:
    program = """
        gpuconf.configure(limit="256MiB", growth=True, libraries=[])
        gpuconf.config.set_visible_devices(gpuconf.config.list_physical_devices("GPU")[0], "GPU")
        import jax, tensorflow
        """
    assert beside(driver, tmp_path, program) == ["{}"]


def test_what_a_framework_refuses_is_logged_and_breaks_nothing(driver: Path, tmp_path: Path) -> None:
    program = """
        import logging, sys
        logging.basicConfig(stream=sys.stdout, format="%(message)s", level="WARNING")
        import tensorflow
        print(gpuconf.configure(limit=[None, None, "256MiB"]).libraries["tensorflow"])
        gpuconf.config.set_visible_devices(gpuconf.config.list_physical_devices("GPU")[0], "GPU")
        print(gpuconf.memory.allocate(1000).free())
        """
    assert beside(driver, tmp_path, program) == [
        "not all passed on: RuntimeError: too late",
        "visible ['0'] GPU",
        "TensorFlow: not all passed on: RuntimeError: too late",
        "None",
    ]


def test_a_forked_child_imports_them_without_settings(driver: Path, tmp_path: Path) -> None:
    program = """
        import os
        gpuconf.configure(limit="256MiB")
        if (child := os.fork()) == 0:
            import tensorflow
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    assert beside(driver, tmp_path, program) == ["7"]


def test_gpuconf_as_tensorflow_is_not_called_again(driver: Path, tmp_path: Path) -> None:
    program = """
        gpuconf.install_as_tensorflow()
        print(gpuconf.configure(limit=["256MiB", None, None], growth=True).libraries["tensorflow"])
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        tf.config.set_visible_devices(gpus[0], "GPU")
        print(gpuconf.configure().libraries["tensorflow"], tf is gpuconf.compat.v2)
        print(tf.config.get_logical_device_configuration(gpus[0]), tf.config.experimental.get_memory_growth(gpus[2]))
        """
    itself = "gpuconf itself: install_as_tensorflow() was called"
    limit = (
        "[LogicalDeviceConfiguration(memory_limit=256, experimental_priority=None, experimental_device_ordinal=None)]"
    )
    assert beside(driver, tmp_path, program) == [itself, f"{itself} True", f"{limit} True"]


def test_what_the_user_has_set_for_jax_stays(driver: Path, tmp_path: Path) -> None:
    program = """
        import os
        print(gpuconf.configure(limit="256MiB", growth=True, libraries=["jax"]).libraries["jax"])
        print(os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"], "XLA_PYTHON_CLIENT_MEM_FRACTION" in os.environ)
        import jax
        jax.config.update("jax_cuda_visible_devices", "0")
        gpuconf.config.set_visible_devices(gpuconf.config.list_physical_devices("GPU")[2], "GPU")
        print(jax.config.values)
        """
    out = beside(driver, tmp_path, program, XLA_PYTHON_CLIENT_PREALLOCATE="true", XLA_CLIENT_MEM_FRACTION="0.5")
    assert [out[0], out[1], out[3]] == [
        "settings only (XLA_PYTHON_CLIENT_PREALLOCATE=true): it uses its own allocator, outside gpuconf's limits",
        "true False",
        "{'jax_cuda_visible_devices': '0'}",
    ]


def test_simulated_gpus_concern_neither(tmp_path: Path) -> None:
    library(tmp_path, "jax", JAX)
    code = f"""
        import sys, os
        sys.path.insert(0, {str(tmp_path)!r})
        import gpuconf
        gpuconf.simulate("2xT4")
        gpuconf.config.set_visible_devices(gpuconf.config.list_physical_devices("GPU")[1], "GPU")
        print(gpuconf.configure(limit="1GiB", growth=True).libraries["jax"])
        import jax
        print(jax.config.values)
        """
    assert run_well(code).splitlines() == [
        "not passed on: the GPUs are simulated (2xT4)",
        "{}",
        "{'jax_cuda_visible_devices': 'all'}",
    ]


# CUDA_VISIBLE_DEVICES


def test_a_child_sees_the_visible_gpus_only(run: Callable[..., str]) -> None:
    program = """
        import os, subprocess, sys
        physical = gpuconf.config.list_physical_devices("GPU")
        show = "import gpuconf; print([d.uuid[-1] for d in gpuconf.visible_devices()])"
        for visible in (physical, [physical[2], physical[0]], []):
            gpuconf.config.set_visible_devices(visible, "GPU")
            value = gpuconf.cuda_visible_devices()
            print([uuid[-1] for uuid in value.split(",")] if value else "none", flush=True)
            subprocess.run([sys.executable, "-c", show], env={**os.environ, "CUDA_VISIBLE_DEVICES": value}, check=True)
        """
    wanted = ["['0', '1', '2']"] * 2 + ["['2', '0']"] * 2 + ["none", "[]"]
    assert run(program, FAKECUDA_GPUS="3").splitlines() == wanted


def test_simulated_gpus_are_named_by_uuid_too(monkeypatch: pytest.MonkeyPatch) -> None:
    gpuconf.simulate("T4,A100-40GB,K80")
    physical, uuids = config.list_physical_devices("GPU"), [device.uuid for device in gpuconf.visible_devices()]
    config.set_visible_devices([physical[2], physical[1]], "GPU")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpuconf.cuda_visible_devices())
    gpuconf.reset()
    assert [device.uuid for device in gpuconf.visible_devices()] == [uuids[2], uuids[1]]


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
    out = run_well("""
        import sys
        before = list(sys.meta_path)
        import gpuconf
        hooks = [finder.__name__ for finder in sys.meta_path if finder not in before]
        print(hooks, sorted({"torch", "cupy", "numba", "ctypes", "importlib.util"} & set(sys.modules)))
        print(gpuconf.allocators.__all__, hasattr(gpuconf.allocators, "jax"))
        """)
    first, second = out.splitlines()
    # The finder explains imports of gpuconf's own missing modules. What waits for Dask is there in processes that
    # import Dask.
    assert first == "['_MissingModules'] []"
    assert second == "['cupy', 'numba', 'torch'] False"
