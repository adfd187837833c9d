"""What operations compute on simulated GPUs."""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import no_gpu
import pytest
import script

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")
HERE = Path(__file__).parent
NEEDS_EXPECTTEST = pytest.mark.skipif(
    importlib.util.find_spec("expecttest") is None, reason="expecttest, which PyTorch's tests need, is not installed"
)
EQUAL = [
    *"""
        mlp convolutions normalization_in_half recurrent transformer attention scaler threads transforms
    """.split(),
    *"""
        sizes_from_values movement bags sparse_in_half numbers_and_tensors outputs texts around_modes
    """.split(),
    "unique_rows",
    "zeros_without_memory",
]


def run(file: str, *words: str, seconds: int = 170, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = script.plain() | environment
    command = [sys.executable, "-W", "ignore", str(HERE / file), *words]
    done = script.completed(command, timeout=seconds, env=kept)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_programs_compute_what_they_compute_on_the_cpu() -> None:
    done = run("programs_on_simulated_gpus.py", *EQUAL)
    assert done.stdout.split() == EQUAL
    assert done.stderr == ""  # nothing ran without a value


def test_programs_of_the_kinds_that_tutorials_show_compute_what_they_compute_on_the_cpu() -> None:
    done = run("tutorials_on_simulated_gpus.py", GPUCONF_SIMULATE_STRICT="1")
    assert re.fullmatch(r"(\w+ \n){83}", done.stdout), done.stdout
    assert "gpuconf" not in done.stderr, done.stderr  # nothing ran without a value


def test_operators_without_a_kernel_of_the_cpu_agree_with_other_formulas_in_float64() -> None:
    done = run("formulas_in_float64.py")
    assert re.fullmatch(r"(\w+\n){22}", done.stdout), done.stdout
    assert "have no value" not in done.stderr, done.stderr


def test_each_operator_without_a_kernel_of_the_cpu_has_a_formula_or_is_refused() -> None:
    done = run("operators_without_a_cpu_kernel.py")
    found = re.fullmatch(r"(\d+) with a formula, (\d+) refused, \d without values\n", done.stdout)
    assert found, done.stdout
    assert int(found[1]) >= 42
    assert int(found[2]) >= 26


def test_a_replayed_graph_computes_with_its_inputs_of_the_moment() -> None:
    assert run("programs_on_simulated_gpus.py", "graph").stdout.splitlines() == ["12.0 1.0 0.0", "44.0 6.0 0.0"]


def test_a_state_of_a_generator_determines_what_is_drawn() -> None:
    found = run("programs_on_simulated_gpus.py", "random").stdout.splitlines()
    assert found == ["True", "True", "False", "True", "True", "True", "True", "True", "True"]


def test_recurrent_networks_under_autocast() -> None:
    assert run("programs_on_simulated_gpus.py", "autocast").stdout == "True\n" * 3


def test_without_values_control_flow_goes_on_and_numbers_are_finite() -> None:
    assert run("program_without_values.py").stdout.splitlines() == [
        "[1.0, 2.0] 3.0",
        "loss 0.0 True False",
        "scale 1024.0 2048 states",
        "zeros 0.0 0.0",
        "largest 2",
        "committed True",
    ]


def test_what_runs_without_a_value_is_named_at_once_and_at_the_end() -> None:
    done = run("program_without_a_value.py")
    assert done.stdout == "done\n"
    assert re.match(
        r"gpuconf: (\S+) has no value on simulated GPUs \(.*program_without_a_value.py:\d+\)\n", done.stderr
    )
    assert re.search(
        r"these have no value on simulated GPUs.*\n  \S+: 2 times, first from .*program_without_a_value.py:\d+",
        done.stderr,
    )


def test_gradients_that_meet_are_added_in_place_unless_something_holds_them() -> None:
    assert run("program_with_sums_of_gradients.py").stdout.splitlines() == ["9 True None", "10 True True"]


def cudnn() -> str:
    names = [f"nvidia-cudnn-cu{version}" for version in (12, 13)]
    installed = {one.metadata["Name"]: one.version for one in importlib.metadata.distributions()}
    return next((installed[name] for name in names if name in installed), "")


@pytest.mark.skipif(not cudnn().startswith("9.19."), reason="the card was asked with cuDNN 9.19; others have ranges")
def test_workspaces_of_cudnn_are_those_that_a_card_was_asked_for() -> None:
    done = run("program_with_workspaces.py")
    assert all(line.endswith(" equal") for line in done.stdout.splitlines()), done.stdout


def test_a_triton_kernel_is_launched_and_named() -> None:
    done = run("program_with_a_triton_kernel.py")
    assert done.stdout == "0.0\n"
    assert re.search(r"\n  add_one: 1 times, first from \S+program_with_a_triton_kernel.py:\d+", done.stderr)


def test_what_runs_without_a_value_in_a_forked_process_is_named_at_its_end() -> None:
    done = run("program_without_a_value_in_a_child.py")
    assert done.stdout == "0\n"
    assert re.search(r"\n  \S+: 1 times, first from .*program_without_a_value_in_a_child.py:\d+", done.stderr)


def test_indices_that_a_kernel_without_a_value_should_have_written() -> None:
    first = "index 9 is out of bounds for dimension 0 with size 4"
    before, after = run("program_with_indices_without_a_value.py").stdout.splitlines()
    assert before == first
    assert after.startswith(
        f"{first}. gpuconf: these compute nothing on simulated GPUs, and may be what the indices depend on: "
    )
    before, after = run("program_with_indices_without_a_value.py", GPUCONF_SIMULATE_VALUES="none").stdout.splitlines()
    assert (before, after) == (first, "[0.0, 0.0] [[0.0], [0.0]] [1.0]")


@pytest.mark.parametrize("values", ["cpu", "none"])
def test_memory_without_a_value_reads_as_zero_and_not_as_what_a_freed_block_held(values: str) -> None:
    if tuple(map(int, importlib.metadata.version("torch").split(".")[:2])) < (2, 9):
        pytest.skip("before PyTorch 2.9 torch.empty reads what a freed block held, as on a card")
    done = run("program_with_uninitialized_memory.py", GPUCONF_SIMULATE_VALUES=values)
    sizes = (2_000, 100_000, 5_000_000)
    assert done.stdout.splitlines() == [*(f"{size} True 0.0 True 0.0 1.0 0.0" for size in sizes), "replayed 0.0"]


@pytest.mark.parametrize(
    ("mode", "settings"),
    [("", ""), ("", "expandable_segments:True"), ("", "backend:cudaMallocAsync"), ("whole", ""), ("segments", "")],
)
def test_memory_without_a_value_takes_none_of_the_hosts(mode: str, settings: str) -> None:
    """Clearing it wrote it: a program that filled a card, or requested 4 GiB, had the host's memory committed."""
    done = run("program_that_fills_a_card.py", *mode.split(), PYTORCH_CUDA_ALLOC_CONF=settings)
    assert done.stdout.splitlines() == ["quick small", "quick small", "0 small"]


def test_products_in_half_precision_are_sums_in_float32_where_the_cpu_has_no_instructions_for_them() -> None:
    """PyTorch's own take twenty times as long there, and a training with autocast timed out."""
    limits = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    supported, *lines = run("products_in_half_precision.py", **limits).stdout.splitlines()
    assert supported == "False False"
    assert len(lines) == 10
    assert all(line.endswith(" True") for line in lines), lines


def test_nested_and_quantized_tensors_are_right_or_refused_by_name() -> None:
    """Operators on nested tensors whose kernels launch something themselves had zeros as results."""
    done = run("nested_and_quantized_tensors.py")
    answers = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines())
    assert set(answers.values()) == {"equal", "refused"}, answers
    assert {answer for name, answer in answers.items() if name.startswith("quantized")} == {"refused"}
    assert sum(answer == "equal" for answer in answers.values()) > 20


def test_in_a_strict_simulation_it_is_an_error() -> None:
    done = run("program_without_a_value.py", GPUCONF_SIMULATE_STRICT="1")
    assert done.stdout.startswith("refused: ")


@NEEDS_EXPECTTEST
def test_a_share_of_pytorchs_own_table_of_operators() -> None:
    shares = os.environ.get("OPERATOR_SHARES", "40")
    done = run("operators_on_simulated_gpus.py", "--share", f"7/{shares}", seconds=1700)
    *different, total = done.stdout.splitlines()
    equal, count = map(int, re.findall(r"\d+", total))
    assert equal > 20
    assert count == 0, "\n".join(different)


@NEEDS_EXPECTTEST
@pytest.mark.parametrize("words", ["addbmm mvlgamma conj_physical", ""])
def test_operators_in_place_on_tensors_of_unusual_shapes(words: str) -> None:
    """What PyTorch's kernel for CUDA did before the CPU read the values: it copied over them, or gave the tensor other
    sizes.
    """
    share = ["--share", f"7/{os.environ.get('OPERATOR_SHARES', '40')}"]
    done = run("operators_in_place_on_simulated_gpus.py", *(words.split() or share), seconds=1700)
    *different, total = done.stdout.splitlines()
    equal, count, _ = map(int, re.findall(r"\d+", total))
    assert equal > 20
    assert count == 0, "\n".join(different)
    assert "have no value" not in done.stderr, done.stderr


@NEEDS_EXPECTTEST
def test_random_programs() -> None:
    done = run("random_programs_on_simulated_gpus.py", "--programs", "60", seconds=1700)
    assert re.search(r"^60 programs from seed 1 on, 0 different: ", done.stdout, re.M), done.stdout


@NEEDS_EXPECTTEST
@pytest.mark.parametrize(("plant", "name"), [("copies", "mvlgamma"), ("sizes", "addbmm")])
def test_random_programs_find_what_operators_in_place_had_wrong(plant: str, name: str) -> None:
    words = ["--plant", plant, "--programs", "40", "--until-different", name]
    command = [sys.executable, str(HERE / "random_programs_on_simulated_gpus.py"), *words]
    done = script.completed(command, timeout=1700)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"^differs: --seed \d+ --steps [\d,]+\n  step \d+, {name}", done.stdout, re.M), done.stdout
