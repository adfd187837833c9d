"""flash-attn on simulated GPUs: an operator with only a kernel for CUDA allocates, and its kernel is named as one
without a value.

flash-attn has no wheel on PyPI: a package with an operator of its name and a kernel that is launched outside PyTorch
stands in for it. fa3-fwd is FlashAttention-3 for inference, and has one.
"""

import importlib.util
import re
from pathlib import Path

import extensions
import no_gpu
import pytest

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")

# As flash-attn 2.8's flash_attn_interface.py.
PACKAGE = """
import ctypes, pathlib, torch
extension = ctypes.CDLL(str(pathlib.Path(__file__).parent / "flash_attn_2_cuda.so"))

@torch.library.custom_op("flash_attn::_flash_attn_forward", mutates_args=(), device_types="cuda")
def _flash_attn_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    out, lse = torch.zeros_like(q), q.new_zeros((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)
    assert extension.launch(ctypes.c_void_p(out.data_ptr())) == STATUS, "refused"
    return out, lse

@_flash_attn_forward.register_fake
def _(q, k, v, causal):
    return torch.empty_like(q), q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)

def flash_attn_func(q, k, v, causal=False):
    return torch.ops.flash_attn._flash_attn_forward(q, k, v, causal)[0]
"""
PROGRAM = """
import torch
from {module} import flash_attn_func
q, k, v = (torch.ones(2, 128, 4, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
torch.cuda.reset_peak_memory_stats()
before = torch.cuda.memory_allocated()
out = flash_attn_func(q, k, v, causal=True)
print(tuple(out.shape), torch.cuda.max_memory_allocated() - before)
"""
OUT, LSE = 2 * 128 * 4 * 64 * 2, 2 * 4 * 128 * 4


def package(folder: Path, status: int = 0) -> Path:
    torch = no_gpu.torch_folder()
    assert torch is not None
    cuda = re.search(r"^cuda[^=]*= '(\d+)", (torch.parent / "version.py").read_text(), re.M)
    assert cuda is not None
    extensions.build(folder / "flash_attn" / "flash_attn_2_cuda.so", f"libcudart.so.{cuda[1]}")
    (folder / "flash_attn" / "__init__.py").write_text(PACKAGE.replace("STATUS", str(status)))
    return folder


@pytest.mark.parametrize("values", ["cpu", "none"])
def test_its_memory_is_right_and_its_kernel_is_named(tmp_path: Path, values: str) -> None:
    done = extensions.run(PROGRAM.format(module="flash_attn"), package(tmp_path), GPUCONF_SIMULATE_VALUES=values)
    assert (done.returncode, done.stdout) == (0, f"(2, 128, 4, 64) {OUT + LSE}\n"), done.stderr
    assert "these have no value on simulated GPUs, and what depends on them is wrong:" in done.stderr
    assert "flash::flash_fwd_kernel: 1 times, first from " in done.stderr


def test_in_a_strict_simulation_its_launch_fails(tmp_path: Path) -> None:
    done = extensions.run(
        PROGRAM.format(module="flash_attn"), package(tmp_path, status=801), GPUCONF_SIMULATE_STRICT="1"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(importlib.util.find_spec("fa3_fwd_interface") is None, reason="fa3_fwd is not installed")
@pytest.mark.parametrize("values", ["cpu", "none"])
def test_flash_attention_3(values: str) -> None:
    done = extensions.run(
        PROGRAM.format(module="fa3_fwd_interface"), simulate="H100-80GB", GPUCONF_SIMULATE_VALUES=values
    )
    assert (done.returncode, done.stdout.split(") ")[0]) == (0, "(2, 128, 4, 64"), done.stderr
    assert "cutlass::device_kernel: 1 times, first from " in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.skipif(importlib.util.find_spec("flash_attn") is not None, reason="flash_attn is installed")
def test_transformers_says_that_the_package_is_missing() -> None:
    assert (
        "the package for FlashAttention2 doesn't seem to be installed"
        in extensions.run("""
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
                         num_attention_heads=2)
    config._attn_implementation = "flash_attention_2"
    try:
        LlamaForCausalLM(config)
    except ImportError as error:
        print(error)
    """).stdout
    )
