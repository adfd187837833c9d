"""Simulated machines through Python: specs, the environment, contexts, refusals, and their cost."""

import logging
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gpuconf
import pytest
from gpuconf._core import elf
from gpuconf.config import list_physical_devices
from script import run_well

GIB = 1 << 30


def gpus() -> list[tuple[str, int]]:
    """Each GPU's product and memory limit."""
    details = [
        gpuconf.config.experimental.get_device_details(gpu)["device_name"] for gpu in list_physical_devices("GPU")
    ]
    limits = [gpuconf.memory.stats(gpu.name).bytes_limit for gpu in gpuconf.config.list_logical_devices("GPU")]
    return list(zip(details, limits, strict=True))


def names() -> list[str]:
    return [gpuconf.config.experimental.get_device_details(gpu)["device_name"] for gpu in list_physical_devices("GPU")]


H100, A100_40, A100_80, T4 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "Tesla T4"

SPECS = {
    "H100-80GB": ("H100-80GB", [H100]),
    "H100": ("H100-80GB", [H100]),
    "h100-80gb": ("H100-80GB", [H100]),
    "H100:80GB": ("H100-80GB:80GiB", [H100]),
    "2xH100-80GB": ("2xH100-80GB", [H100, H100]),
    "2 x H100-80GB": ("2xH100-80GB", [H100, H100]),
    "  2XH100  ": ("2xH100-80GB", [H100, H100]),
    "A100-40GB,T4": ("A100-40GB,T4", [A100_40, T4]),
    " A100-80GB , 2 x T4 ": ("A100-80GB,2xT4", [A100_80, T4, T4]),
    "T4,T4": ("2xT4", [T4, T4]),
    "4xT4:8GiB": ("4xT4:8GiB", [T4] * 4),
    "T4:8192MiB": ("T4:8GiB", [T4]),
    "T4:8GB": ("T4:8GiB", [T4]),
    "T4:14912MiB": ("T4", [T4]),
    "T4:16GiB": ("T4:16GiB", [T4]),
    "1xT4": ("T4", [T4]),
    "64xT4": ("64xT4", [T4] * 64),
}


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_makes_its_machine(spec: str) -> None:
    canonical, expected = SPECS[spec]
    simulation = gpuconf.simulate(spec)
    assert simulation.spec == gpuconf.simulated() == canonical
    assert repr(simulation) == f"gpuconf.simulate({canonical!r})"
    assert sorted(names()) == sorted(expected)
    assert [gpu.name for gpu in list_physical_devices("GPU")] == [
        f"/physical_device:GPU:{i}" for i in range(len(expected))
    ]


def test_memory_is_what_the_spec_says() -> None:
    gpuconf.simulate("2xH100-80GB:80GiB")
    assert gpus() == [(H100, 84011909120)] * 2
    gpuconf.simulate("T4:8GiB")
    [(_, limit)] = gpus()
    assert limit == 8 * GIB - (1050 << 20)  # the reserve of a GPU of this kind


@pytest.mark.parametrize(
    "name",
    [
        "A10G", "A2", "A16", "A40", "RTX A4000", "A5000", "NVIDIA RTX A6000", "RTX 2070", "RTX2080Ti", "TITAN RTX",
        "RTX 3060", "RTX 3070", "RTX3080", "RTX 4060", "RTX 4070", "RTX 4080", "RTX 5070", "RTX 5080", "RTX PRO 6000",
        "L20", "H20", "B300",
    ],
)  # fmt: skip
def test_cards_that_people_have(name: str) -> None:
    gpuconf.simulate(name)
    [device] = gpuconf.visible_devices()
    assert name.replace(" ", "") in device.name.replace(" ", "")


@pytest.mark.parametrize(
    ("spec", "machine", "name", "mib"),
    [
        ("2xV100", "2xV100-16GB", "Tesla V100-SXM2-16GB", 16144),
        ("A100", "A100-40GB", "NVIDIA A100-SXM4-40GB", 40339),
        ("P100", "P100-16GB", "Tesla P100-SXM2-16GB", 16276),
        ("V100-32GB", "V100-32GB", "Tesla V100-SXM2-32GB", 32494),
        ("L4", "L4", "NVIDIA L4", 22559),
        ("L40S", "L40S", "NVIDIA L40S", 45467),
        ("2x RTX 4090", "2xRTX4090", "NVIDIA GeForce RTX 4090", 24210),
        ("RTX-5090", "RTX5090", "NVIDIA GeForce RTX 5090", 32109),
        ("GH200", "GH200-96GB", "NVIDIA GH200 480GB", 96768),
        ("GB200", "GB200-186GB", "NVIDIA GB200", 188733),
        ("GB10", "GB10", "NVIDIA GB10", 124610),
    ],
)
def test_a_bare_name_takes_the_most_common_memory_and_says_which(spec: str, machine: str, name: str, mib: int) -> None:
    """``simulate("A100")`` was an error that listed two sizes."""
    assert gpuconf.simulate(spec).spec == machine
    assert gpuconf.simulated() == machine
    assert {(d.name, d.total_memory) for d in gpuconf.visible_devices()} == {(name, mib << 20)}
    # A driver's name of the model is accepted too, also that of a simulated one.
    for said in (name, f"{name} (simulated)"):
        gpuconf.simulate(said)
        assert gpuconf.simulated() == machine.removeprefix("2x")


BAD_SPECS = {
    "": "spec is empty",
    "   ": "spec is empty",
    ",": "an entry is empty",
    "T4,": "an entry is empty",
    "3xFoo": 'unknown GPU model "Foo"; for another card write MODEL:MEMORY, such as RTX4090:12GiB; gpuconf simulate '
    "--models lists the models",
    "A100-64GB": 'unknown GPU model "A100-64GB"; did you mean ',
    "0xT4": "must be from 1 to 64",
    "65xT4": "must be from 1 to 64",
    "33xT4,32xH100": "more than 64 GPUs",
    "99999999999999999999xT4": "must be from 1 to 64",
    "-1xT4": "unknown GPU model",
    "2x": "",
    "T4:": "is not a whole number with a unit",
    "T4:8": "is not a whole number with a unit",
    "T4:8.5GiB": "is not a whole number with a unit",
    "T4:-8GiB": "is not a whole number with a unit",
    "T4:0GiB": "memory must be positive",
    "T4:100B": "not a multiple of 256",
    "T4:17TiB": "more than 16TiB",
    "T4:99999999999999999999GiB": "more than 16TiB",
    "T4:8GiB:8GiB": "is not a whole number",
    "T4\0": "NUL",
    "T4\udcff": "lone surrogate",
    "ünïcode": "unknown GPU model",
}


@pytest.mark.parametrize("spec", BAD_SPECS, ids=ascii)
def test_a_bad_spec_is_refused_and_changes_nothing(spec: str) -> None:
    gpuconf.simulate("T4")
    gpu = list_physical_devices("GPU")[0]
    gpuconf.config.experimental.set_memory_growth(gpu, True)
    gpuconf.memory.allocate(1000).free()
    with pytest.raises(gpuconf.errors.InvalidArgumentError) as caught:
        gpuconf.simulate(spec)
    assert BAD_SPECS[spec] in str(caught.value)
    assert gpuconf.simulated() == "T4"
    assert gpuconf.config.experimental.get_memory_growth(gpu) is True
    assert gpuconf.memory.stats().num_allocs == 1


@pytest.mark.parametrize("spec", [5, b"T4", ["T4"], True, 1.5], ids=repr)
def test_a_spec_of_another_type_is_refused(spec: Any) -> None:
    with pytest.raises(TypeError, match=r"spec must be a string( with a model)?, such as '\dxT4', but got"):
        gpuconf.simulate(spec)


# The environment


def test_the_environment_chooses_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCONF_SIMULATE", "A100-40GB,T4")
    assert names() == [A100_40, T4]
    with gpuconf.simulate("T4") as simulation:
        assert names() == [T4]
        assert simulation.spec == "T4"
    assert names() == [A100_40, T4]
    gpuconf.simulate("H100")
    gpuconf.simulate(None)
    assert gpuconf.simulated() == "A100-40GB,T4"


def test_the_environment_is_read_when_devices_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCONF_SIMULATE", "T4")
    assert names() == [T4]
    monkeypatch.setenv("GPUCONF_SIMULATE", "2xT4")
    assert names() == [T4]
    gpuconf.reset()
    assert names() == [T4, T4]
    monkeypatch.delenv("GPUCONF_SIMULATE")
    gpuconf.reset()
    assert T4 not in names()


def test_the_environment_of_the_processs_start_counts_too() -> None:
    out = run_well(
        "import gpuconf; print(gpuconf.simulated(), len(gpuconf.config.list_physical_devices('GPU')))",
        env={"GPUCONF_SIMULATE": "3xT4"},
    )
    assert out == "3xT4 3\n"


@pytest.mark.parametrize("spec", ["Foo", "2x", ",", "T4:5"])
def test_a_bad_environment_is_told_until_it_is_mended(monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    monkeypatch.setenv("GPUCONF_SIMULATE", spec)
    for call in (list_physical_devices, gpuconf.config.list_logical_devices, lambda: gpuconf.memory.allocate(1)):
        with pytest.raises(ValueError, match="cannot simulate"):
            call()
    monkeypatch.setenv("GPUCONF_SIMULATE", "T4")
    assert names() == [T4]


def test_an_empty_environment_simulates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCONF_SIMULATE", "")
    assert gpuconf.simulated() == ""


VISIBLE = {
    "": [],
    "-1": [],
    "0": [H100],
    "1": [A100_80],
    "2,0": [T4, H100],
    "2,1,0": [T4, A100_80, H100],
    "0,-1,1": [H100],
    "0,0": [],
    "9": [],
    "0,9,1": [H100],
    "GPU-": [],  # a prefix of three UUIDs
    "MIG-1": [],
    "all": [],
}


@pytest.mark.parametrize("value", VISIBLE)
def test_cuda_visible_devices_filters_and_renumbers_simulated_gpus(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    gpuconf.simulate("H100,A100-80GB,T4")
    assert names() == VISIBLE[value]
    assert [gpu.name for gpu in list_physical_devices("GPU")] == [
        f"/physical_device:GPU:{i}" for i in range(len(VISIBLE[value]))
    ]
    assert len(gpuconf.config.list_logical_devices("GPU")) == len(VISIBLE[value])
    if VISIBLE[value]:
        with gpuconf.memory.allocate(1000, "GPU:0") as buffer:
            assert buffer.device.name == "/device:GPU:0"


def test_the_beginning_of_a_uuid_finds_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-")
    gpuconf.simulate("T4")
    assert names() == [T4]


@pytest.mark.parametrize("value", ["3", "GPU-11112222-3333-4444-5555-666677778888"])
def test_a_schedulers_list_of_other_cards_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    gpuconf.simulate("2xT4")
    with pytest.raises(
        ValueError, match=f'CUDA_VISIBLE_DEVICES="{value}": entry 1 .* Unset CUDA_VISIBLE_DEVICES, or set it to numbers'
    ):
        gpuconf.memory.allocate(10, "GPU:0")


def test_cuda_device_order_orders_simulated_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    gpuconf.simulate("T4,H100")
    assert names() == [H100, T4]
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    gpuconf.reset()
    assert names() == [T4, H100]


def test_what_is_ignored_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,0")
    gpuconf.simulate("2xT4")
    with caplog.at_level(logging.WARNING, "gpuconf"):
        assert names() == []
    assert 'CUDA_VISIBLE_DEVICES="0,0"' in caplog.text
    assert "name the same GPU" in caplog.text


# Contexts


def test_a_context_ends_with_the_machine_before() -> None:
    gpuconf.simulate("H100")
    with gpuconf.simulate("2xT4") as outer:
        assert names() == [T4, T4]
        with gpuconf.simulate("A100-40GB"):
            assert names() == [A100_40]
            with gpuconf.simulate(None):
                assert gpuconf.simulated() == ""
            assert names() == [A100_40]
        assert names() == [T4, T4]
        assert outer.spec == "2xT4"
    assert names() == [H100]


def test_a_context_ends_also_on_error() -> None:
    def fail() -> None:
        gpuconf.memory.allocate(1000).free()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), gpuconf.simulate("T4"):
        fail()
    assert gpuconf.simulated() == ""


def test_an_error_with_live_memory_is_the_one_to_see() -> None:
    """The simulation continues, because the memory is in use."""
    held: list[gpuconf.memory.Buffer] = []

    def fail() -> None:
        held.append(gpuconf.memory.allocate(1000))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), gpuconf.simulate("T4"):
        fail()
    assert gpuconf.simulated() == "T4"
    held[0].copy_from_host(b"usable")
    held[0].free()


def test_a_context_that_ends_with_live_memory_says_so() -> None:
    held: list[gpuconf.memory.Buffer] = []
    refusal = r"^cannot end the simulation while device memory is in use; free it first:\n"
    with pytest.raises(RuntimeError, match=refusal), gpuconf.simulate("T4"):
        held.append(gpuconf.memory.allocate(1000))
    assert gpuconf.simulated() == "T4"
    held[0].free()


def test_contexts_that_overlap_end_with_the_machine_before_both() -> None:
    for first_to_end in (0, 1):
        overlapping = [gpuconf.simulate("T4").__enter__(), gpuconf.simulate("A100-40GB").__enter__()]
        overlapping[first_to_end].__exit__(None, None, None)
        assert names() == ([A100_40] if first_to_end == 0 else [T4])
        overlapping[1 - first_to_end].__exit__(None, None, None)
        assert gpuconf.simulated() == ""


def test_a_context_undoes_also_what_was_simulated_inside_it() -> None:
    with gpuconf.simulate("T4"):
        gpuconf.simulate("A100-40GB")
        assert names() == [A100_40]
    assert gpuconf.simulated() == ""


def test_every_change_forgets_the_configuration() -> None:
    for change in (gpuconf.reset, lambda: gpuconf.simulate("2xT4"), lambda: gpuconf.simulate(None)):
        gpuconf.simulate("T4")
        gpu = list_physical_devices("GPU")[0]
        gpuconf.config.experimental.set_memory_growth(gpu, True)
        gpuconf.config.set_soft_device_placement(False)
        gpuconf.memory.allocate(1000).free()
        change()
        gpuconf.simulate("T4")
        assert gpuconf.config.experimental.get_memory_growth(gpu) in (None, False)
        gpuconf.config.set_visible_devices([], "GPU")
        assert gpuconf.config.list_logical_devices("GPU") == []


@pytest.mark.parametrize("change", [gpuconf.reset, lambda: gpuconf.simulate("2xT4"), lambda: gpuconf.simulate(None)])
def test_a_change_is_refused_while_memory_is_in_use(change: Any) -> None:
    gpuconf.simulate("T4")
    with gpuconf.memory.allocate(1000) as buffer:
        buffer.copy_from_host(b"mine")
        with pytest.raises(
            RuntimeError,
            match=r"^cannot (reset|change the simulation) while device memory is in use; free it first:\n  "
            r"<gpuconf.Buffer of 1000",
        ):
            change()
        assert buffer.copy_to_host()[:4] == b"mine"
        assert gpuconf.simulated() == "T4"
    change()


def test_a_reset_keeps_the_choice_of_the_machine() -> None:
    gpuconf.simulate("T4")
    gpuconf.reset()
    gpuconf.reset()
    assert names() == [T4]


def test_a_reset_before_anything_does_nothing() -> None:
    assert run_well("""
        import sys
        import gpuconf
        gpuconf.reset()
        print("gpuconf._core._gpuconf" in sys.modules)
        """).splitlines() == ["False"]


# Cost


def test_memory_costs_only_what_is_written() -> None:
    out = run_well("""
        import gpuconf
        def resident():
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        gpuconf.simulate("H100-80GB")
        gpuconf.memory.allocate(1).free()
        before = resident()
        buffer = gpuconf.memory.allocate(70 << 30)
        view = buffer.view()
        assert view.nbytes == 70 << 30
        view[0] = view[-1] = view[35 << 30] = 7
        assert (view[0], view[1], view[-1], view[-2], view[35 << 30]) == (7, 0, 7, 0, 7)
        assert buffer.copy_to_host(offset=(70 << 30) - 3) == b"\\0\\0\\7"
        used = resident() - before
        del view
        buffer.free()
        gpuconf.reset()
        print(used)
        """)
    assert int(out) < 20_000  # KiB


def test_a_reset_gives_written_memory_back() -> None:
    out = run_well("""
        import gpuconf
        def resident():
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        gpuconf.simulate("T4")
        gpuconf.memory.allocate(1).free()
        before = resident()
        for _ in range(5):
            with gpuconf.memory.allocate(50 << 20) as buffer:
                buffer.view()[:] = bytes(50 << 20)
            gpuconf.reset()
        print(resident() - before)
        """)
    assert int(out) < 60_000  # KiB; without it 250 MiB


def test_addresses_are_the_same_in_every_process() -> None:
    program = """
    import gpuconf
    gpuconf.simulate("2xT4")
    a, b = gpuconf.memory.allocate(1000), gpuconf.memory.allocate(1000, "GPU:1")
    print(hex(a.ptr), hex(b.ptr))
    """
    assert run_well(program) == run_well(program)


def test_values_are_cpu_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"values is 'gpu': choose \"cpu\""):
        gpuconf.simulate("T4", values="gpu")
    monkeypatch.setenv("GPUCONF_SIMULATE_VALUES", "all")
    with pytest.raises(ValueError, match=r"GPUCONF_SIMULATE_VALUES is 'all'"):
        gpuconf.simulate("T4")
    with pytest.raises(ValueError, match=r"GPUCONF_SIMULATE_VALUES is 'all'"):
        gpuconf.visible_devices()  # as for each other malformed variable
    monkeypatch.delenv("GPUCONF_SIMULATE_VALUES")
    assert gpuconf.simulated() == ""


def test_a_simulation_after_a_pytorch_for_cuda_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = ModuleType("torch")
    torch.version = SimpleNamespace(cuda="12.8")
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(RuntimeError, match="torch is imported already"):
        gpuconf.simulate("T4")
    assert gpuconf.simulated() == ""
    torch.version.cuda = None  # it sees no GPU in any case
    with gpuconf.simulate("T4"):
        assert gpuconf.simulated() == "T4"


def test_what_others_can_write_is_not_loaded_for_pytorch(tmp_path: Path) -> None:
    """The driver, NVML and the runtime, each by its own mode: an installation's folder may be right and one of its
    files not.
    """
    shutil.copytree(Path(gpuconf.__file__).parent, tmp_path / "gpuconf", ignore=shutil.ignore_patterns("__pycache__"))
    libraries = tmp_path / "torch" / "lib"
    libraries.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("print('imported')")
    (tmp_path / "torch" / "version.py").write_text("cuda = '12.8'")
    (libraries / "libtorch_cuda.so").write_bytes(elf.library("libtorch_cuda.so", ["libc.so.6"]))
    program = """
    import gpuconf
    gpuconf.simulate("T4")
    try:
        import torch
    except gpuconf.errors.FailedPreconditionError as error:
        print(error)
    """
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libgpuconf-runtime.so"):
        library = tmp_path / "gpuconf" / "_simulator" / name
        library.chmod(0o666)
        said = run_well(program, env={"PYTHONPATH": str(tmp_path)})
        library.chmod(0o644)
        assert said.startswith(
            f"the simulator is not loaded from {library}: {library} can be written by every user. Install"
        )


def test_a_library_that_does_not_start_on_simulated_gpus_is_named_when_it_is_imported(tmp_path: Path) -> None:
    for name in ("cupy", "jax", "tensorflow"):
        (tmp_path / f"{name}.py").write_text("", encoding="utf-8")
    program = """
    import logging, sys
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    import gpuconf
    gpuconf.simulate("T4")
    import cupy, jax, tensorflow
    import cupy
    """
    lines = run_well(program, env={"PYTHONPATH": str(tmp_path)}).splitlines()
    assert [line.partition(" on simulated GPUs")[0] for line in lines] == [
        "CuPy does not start",
        "JAX does not start",
        "TensorFlow does not start",
    ]


def test_each_library_that_is_prepared_is_prepared_where_the_variable_simulates() -> None:
    """There nothing is prepared before the first import of one of them, so the import must know their names."""
    program = """
    import gpuconf
    from gpuconf._core import import_hook
    from gpuconf.simulation import _SIMULATED, simulated_torch
    assert not import_hook._before
    simulated_torch.choose_by_environment()
    print(set(import_hook._before) == _SIMULATED)
    """
    assert run_well(program, env={"GPUCONF_SIMULATE": "T4"}) == "True\n"


@pytest.mark.parametrize("there", ["nothing", "nvcc", "a choice"])
def test_vllm_samples_without_flashinfer_where_nothing_compiles_its_kernels(tmp_path: Path, there: str) -> None:
    (tmp_path / "vllm.py").write_text(
        "import os\nprint(os.environ.get('VLLM_USE_FLASHINFER_SAMPLER'))", encoding="utf-8"
    )
    (tmp_path / "bin").mkdir()
    if there == "nvcc":
        (tmp_path / "bin" / "nvcc").write_text("", encoding="utf-8")
    program = """
    import logging, sys
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    import gpuconf
    gpuconf.simulate("T4")
    import vllm
    """
    environment = {"PYTHONPATH": str(tmp_path), "CUDA_HOME": str(tmp_path)}
    if there == "a choice":
        environment["VLLM_USE_FLASHINFER_SAMPLER"] = "1"
    *logged, choice = run_well(program, env=environment).splitlines()
    assert choice == {"nothing": "0", "nvcc": "None", "a choice": "1"}[there]
    assert [line.partition(" (")[0] for line in logged] == ["vLLM samples without FlashInfer"] * (there == "nothing")
