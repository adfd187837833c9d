"""Real allocations of a transformer, recorded for the planner and for the allocator's benchmarks.

GPU_TRACES names the folder that gets the recordings, as CSV files of RMM's format, compressed. Without it nothing is
kept.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import gpuconf
from checks import expect, need, note

VOCABULARY, WIDTH, LAYERS = 8192, 512, 6


def limit() -> int:
    """16 GiB, or most of a smaller card."""
    return min(16 << 30, gpuconf.visible_devices()[0].total_memory * 9 // 10)


def transformer(torch: Any) -> Any:
    """A small language model; its sizes are realistic in kind, not in number."""
    layer = torch.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, batch_first=True)
    return torch.nn.Sequential(
        torch.nn.Embedding(VOCABULARY, WIDTH),
        torch.nn.TransformerEncoder(layer, LAYERS),
        torch.nn.Linear(WIDTH, VOCABULARY),
    ).cuda()


def keep(recording: Any, name: str) -> dict[str, int]:
    """Save a recording where GPU_TRACES says; its figures."""
    trace = recording.trace
    plan = gpuconf.plan(trace)
    if os.environ.get("GPU_TRACES"):
        beside = Path(os.environ["GPU_TRACES"], f"{name}.new")
        with tempfile.TemporaryDirectory() as folder:
            trace.save(Path(folder, "trace.csv"))
            with Path(folder, "trace.csv").open("rb") as source, gzip.open(beside, "wb") as to:
                shutil.copyfileobj(source, to)
        beside.replace(beside.with_suffix(".csv.gz"))  # whole, also where the step is ended now
    return {
        "events": len(trace),
        "peak_bytes_in_use": plan.usages[0].peak_bytes_in_use,
        "least_limit": min(result.least_limit for result in plan.results),
    }


def case_a_trace_of_training() -> dict[str, int]:
    """Twenty steps of training with batches of different lengths."""
    torch = need("torch")
    gpuconf.configure(limit=limit(), growth=True, libraries=["torch"])
    torch.manual_seed(0)
    net = transformer(torch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    with gpuconf.memory.record() as recording:
        for step in range(20):
            words = torch.randint(VOCABULARY, (8, 128 + 37 * step % 256), device="cuda")
            with torch.autocast("cuda", torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(net(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    found = keep(recording, "transformer-training")
    note(**found)
    expect(bool(torch.isfinite(loss)), "the loss is not finite")
    return found


def case_a_trace_of_inference() -> dict[str, int]:
    """Requests of different lengths, each with a cache that grows, so that blocks of many sizes live side by side."""
    torch = need("torch")
    gpuconf.configure(limit=limit(), growth=True, libraries=["torch"])
    torch.manual_seed(0)
    net = transformer(torch).eval()
    caches: list[Any] = []
    with gpuconf.memory.record() as recording, torch.inference_mode():
        for request in range(60):
            words = torch.randint(VOCABULARY, (1 + request % 4, 32 + 97 * request % 700), device="cuda")
            for _ in range(4):
                scores = net(words)[:, -1]
                words = torch.cat([words, scores.argmax(-1, keepdim=True)], 1)
                caches.append(torch.empty(LAYERS, 2, *words.shape, WIDTH, dtype=torch.bfloat16, device="cuda"))
            while len(caches) > 24:
                caches.pop(request % 7)
    return keep(recording, "transformer-inference")
