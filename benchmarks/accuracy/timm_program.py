"""One inference run of timm's benchmark: timm_program.py MODEL BATCH. Our own program, after its benchmark.py."""

import sys

import timm
import torch

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True

name, batch = sys.argv[1], int(sys.argv[2])
model = timm.create_model(name).to("cuda").eval()
size = timm.data.resolve_data_config({}, model=model, use_test_size=True)["input_size"]
with torch.inference_mode():
    images = torch.randn((batch, *size), device="cuda")
    for _ in range(4):
        with torch.amp.autocast("cuda", dtype=torch.float16):
            output = model(images)
        torch.cuda.synchronize()
print(size, "allocated", torch.cuda.max_memory_allocated(), "reserved", torch.cuda.max_memory_reserved())
