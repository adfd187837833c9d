"""Training steps of PEFT's comparison: peft_program.py CONFIGURATION [LENGTH].

Our own program, after its method_comparison/MetaMathQA/run.py.
CONFIGURATION is JSON, the adapter's, or {} for full fine-tuning. The model is Llama-3.2-3B by its configuration,
without weights. All batches are of LENGTH tokens, the recorded limit.
"""

import json
import sys

import torch
from peft import PeftConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

BATCH = 4
options = json.loads(sys.argv[1])
length = int(sys.argv[2]) if len(sys.argv) > 2 else 768
model_config = LlamaConfig(
    hidden_size=3072,
    intermediate_size=8192,
    num_hidden_layers=28,
    num_attention_heads=24,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=128256,
    max_position_embeddings=131072,
    rms_norm_eps=1e-5,
    rope_theta=500000.0,
    tie_word_embeddings=True,
)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = LlamaForCausalLM(model_config)
torch.set_default_dtype(torch.float32)
if options:
    model = get_peft_model(model, PeftConfig.from_peft_type(**options), autocast_adapter_dtype=True)
model.to("cuda")
optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-4, weight_decay=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5000)


def batch() -> dict[str, torch.Tensor]:
    ids = torch.randint(0, 128000, (BATCH, length))
    return {"input_ids": ids.to("cuda"), "attention_mask": torch.ones_like(ids).to("cuda")}


@torch.inference_mode()
def evaluate() -> None:
    """Compute the loss of texts, as it is done once before the training."""
    rows = batch()
    for logits, ids in zip(model(**rows).logits, rows["input_ids"], strict=True):
        torch.nn.functional.cross_entropy(logits[-length:], ids, reduction="none")


model.eval()
evaluate()
torch.cuda.empty_cache()  # as after every ten steps: the longest texts are in any of 5,000
model.train()
for step in range(1, 4):
    rows = batch()
    rows["labels"] = rows["input_ids"].clone()
    optimizer.zero_grad()
    outputs = model(**rows, num_items_in_batch=BATCH * length)  # the last step's are kept until here
    loss = outputs.loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    if "ADALORA" in sys.argv[1]:
        model.base_model.update_and_allocate(step)
print("allocated", torch.cuda.max_memory_allocated(), "reserved", torch.cuda.max_memory_reserved())
