"""One inference run of timm's benchmark: timm_program.py MODEL SIZE BATCH BEFORE. Our own program, after its
benchmark.py.

That tries ever smaller batches in one process, and has the model and the images of the try BEFORE, which failed, until
the next model is made. 0: there was none.
"""

import sys
from types import SimpleNamespace

import timm
import torch

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True

name, size, batch, before = sys.argv[1], *map(int, sys.argv[2:])
for images in filter(None, (before, batch)):
    torch.cuda.empty_cache()
    run = SimpleNamespace(model=timm.create_model(name).to("cuda").eval())
    with torch.inference_mode():
        run.images = torch.randn((images, 3, size, size), device="cuda")
with torch.inference_mode():
    for _ in range(4):
        with torch.amp.autocast("cuda", dtype=torch.float16):
            output = run.model(run.images)
        torch.cuda.synchronize()
print("allocated", torch.cuda.max_memory_allocated(), "reserved", torch.cuda.max_memory_reserved())
