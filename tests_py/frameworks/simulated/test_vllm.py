"""vLLM plans on simulated GPUs: it loads a model, measures its memory and sizes its cache, whatever its kernels
compute.
"""

import importlib.util
import json
import re
from pathlib import Path

import extensions
import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed")
LAYERS, HEADS, OF_HEAD = 4, 2, 64
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "vocab_size": 1000,
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
    "num_key_value_heads": HEADS, "head_dim": OF_HEAD, "max_position_embeddings": 2048, "hidden_act": "silu",
    "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
}  # fmt: skip
PROGRAM = """
from vllm import LLM, SamplingParams
model = LLM(MODEL, load_format="dummy", enforce_eager=True, skip_tokenizer_init=True, max_model_len=1024, **HOW)
if GENERATE:
    found = model.generate([{"prompt_token_ids": list(range(20))}], SamplingParams(max_tokens=4, detokenize=False))
    print(len(found[0].outputs[0].token_ids), "tokens")
"""


@pytest.mark.parametrize(
    ("values", "how"), [("none", {"gpu_memory_utilization": 0.5}), ("cpu", {"kv_cache_memory_bytes": 64 << 20})]
)
def test_it_says_how_many_tokens_its_cache_holds(tmp_path: Path, values: str, how: dict[str, float]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    generate = values == "none"  # with values, indices that its kernels should have written are an IndexError
    program = f"MODEL, HOW, GENERATE = {str(tmp_path)!r}, {how!r}, {generate}\n{PROGRAM}"
    engine = "1" if values == "none" else "0"  # a process of its own, or this one
    environment = {
        "GPUCONF_SIMULATE_VALUES": values,
        "VLLM_ENABLE_V1_MULTIPROCESSING": engine,
        "VLLM_NO_USAGE_STATS": "1",
    }
    done = extensions.run(program, simulate="A100-40GB", HF_HUB_OFFLINE="1", **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout + done.stderr
    assert ("4 tokens\n" in text) == generate
    (tokens,) = re.findall(r"KV cache size: ([\d,]+) tokens", text)
    of_token = 2 * 2 * LAYERS * HEADS * OF_HEAD  # keys and values, of two bytes
    cache = int(tokens.replace(",", "")) * of_token
    if "gpu_memory_utilization" in how:
        # Half of the card, but for the weights and the profiled activations.
        assert 0.97 * (20 << 30) < cache < 20 << 30
    else:
        assert 0.97 * (64 << 20) < cache <= 64 << 20
    assert "these have no value on simulated GPUs" in text
    assert "vllm::rms_norm_kernel" in text
