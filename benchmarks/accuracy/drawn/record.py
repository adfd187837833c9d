"""Records the rows of rows.json, and the memory of contexts and libraries, on a real GPU.

    python benchmarks/accuracy/drawn/record.py --out FILE [--seconds 110] [--at-once 6] [--rows 0,1,2] [--no-contexts]

Appends a line of JSON to FILE for each row and each context as it ends. Each is a process of its own: a fork of this
one, which has imported PyTorch and has not used the GPU, so that a row takes seconds. Rows with a setting of the
allocator are started anew, because PyTorch may read the setting when it is imported. Rows that ran out of memory beside
others are
run again,
alone.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import functools
import importlib.metadata
import json
import os
import signal
import sys
import time
import traceback
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent))

LONGEST = 90.0  # seconds of a row
OUT_OF_MEMORY = 9  # exit code
ACTIONS = {"alloc": 1, "free_completed": 2, "segment_alloc": 3, "segment_free": 4, "segment_map": 5, "segment_unmap": 6}
PEAKS = ("allocated_bytes", "reserved_bytes", "requested_bytes", "active_bytes", "inactive_split_bytes", "segment")
STATS = (
    *(f"{name}.all.peak" for name in PEAKS),
    "segment.large_pool.peak",
    "segment.small_pool.peak",
    "num_alloc_retries",
)
STATS += (
    "allocation.all.allocated",
    "num_ooms",
    "num_sync_all_streams",
    "allocated_bytes.all.current",
    "reserved_bytes.all.current",
)


def main() -> None:
    """Record what the arguments name."""
    from benchmarks.accuracy.drawn import program

    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=110)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--rows", default="")
    parser.add_argument("--no-contexts", action="store_true")
    parser.add_argument("--one", default="")  # what a process of its own records
    asked = parser.parse_args()
    if asked.one:
        found = record(json.loads(asked.one))
        write(asked.out, found)
        sys.exit(OUT_OF_MEMORY if found.get("out_of_memory") else 0)
    os.environ.setdefault("OMP_NUM_THREADS", "3")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # torch.cuda.is_available() does not use the driver
    deadline = time.monotonic() + asked.seconds
    rows = program.rows()
    if asked.rows:
        rows = [rows[int(number)] for number in asked.rows.split(",")]
    anew = [one for one in rows if one["allocator"]]
    contexts = [] if asked.no_contexts else [{"context": name} for name in CONTEXTS]
    # This process imports PyTorch while the first rows run that are started anew.
    first = asked.at_once - 1
    everything = anew[:first] + contexts + anew[first:] + [one for one in rows if not one["allocator"]]
    failed = run_all(everything, asked.out, asked.at_once, deadline)
    run_all([one | {"alone": True} for one in failed], asked.out, 1, deadline)


def write(out: Path, found: dict[str, Any]) -> None:
    """Append a line. Lines of several processes do not mix, because each is one write."""
    file = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, (json.dumps(found) + "\n").encode())
    finally:
        os.close(file)


def run_all(asked: list[dict[str, Any]], out: Path, at_once: int, deadline: float) -> list[dict[str, Any]]:
    """Run so many processes at once until all ended or the deadline is there. Returns those that ran out of memory."""
    waiting, failed = list(asked), []
    running: dict[int, tuple[dict[str, Any], float]] = {}
    while waiting or running:
        now = time.monotonic()
        while waiting and len(running) < at_once and now < deadline - 5:
            one = waiting.pop(0)
            running[started(one, out)] = (one, now + LONGEST)
        if not running:
            break
        for pid, (one, until) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended and now > min(until, deadline):
                stop(pid)
                write(out, named(one) | {"error": "time limit"})
                del running[pid]
            elif ended:
                del running[pid]
                if os.waitstatus_to_exitcode(status) == OUT_OF_MEMORY:
                    failed.append(one)
                elif status and os.WIFSIGNALED(status):
                    write(out, named(one) | {"error": f"signal {os.WTERMSIG(status)}"})
        time.sleep(0.02)
    for one in waiting:
        write(out, named(one) | {"error": "not started: deadline"})
    return failed


def stop(pid: int) -> None:
    """End a process, and wait at most two seconds for that: one that the driver holds does not end at once."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 2
    while time.monotonic() < until and not os.waitpid(pid, os.WNOHANG)[0]:
        time.sleep(0.02)


def named(one: dict[str, Any]) -> dict[str, Any]:
    """Return what a line begins with."""
    return {"context": one["context"]} if "context" in one else {"row": one["row"], "model": one["model"]}


def started(one: dict[str, Any], out: Path) -> int:
    """Start a process that records a row or a context. Returns its id."""
    if one.get("allocator") or not forks():
        environment = os.environ | ({"PYTORCH_CUDA_ALLOC_CONF": one["allocator"]} if one.get("allocator") else {})
        words = [sys.executable, __file__, "--out", str(out), "--one", json.dumps(one)]
        return os.posix_spawn(sys.executable, words, environment)
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        found = record(one)
        write(out, found)
        code = OUT_OF_MEMORY if found.get("out_of_memory") else 0
    finally:
        os._exit(code)


@functools.cache
def forks() -> bool:
    """Import PyTorch, and return whether a fork of this process can use the GPU."""
    import torch  # the others initialize CUDA, or start threads

    pid = os.fork()
    if not pid:
        try:
            torch.nn.Conv2d(64, 64, 3).cuda()(torch.ones(1, 64, 8, 8, device="cuda"))
            os._exit(0)
        except BaseException as error:
            print(f"a fork cannot use the GPU: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.02)
    stop(pid)
    return False


def record(one: dict[str, Any]) -> dict[str, Any]:
    """Run a row or a context in this process, and return the line."""
    import torch

    from benchmarks.accuracy.drawn import program

    begin = time.monotonic()
    found: dict[str, Any] = named(one) | {"alone": True} if one.get("alone") else named(one)
    marks: list[dict[str, Any]] = []

    def after_step(step: int) -> None:
        torch.cuda.synchronize()
        mark: dict[str, Any] = {
            "step": step,
            "seconds": time.monotonic() - begin,
            "reserved": torch.cuda.memory_reserved(),
        }
        mark |= {"allocated_peak": torch.cuda.max_memory_allocated(), "reserved_peak": torch.cuda.max_memory_reserved()}
        marks.append(mark | ({"used": used()} if step in (0, program.STEPS - 1) else {}))

    try:
        if "context" in one:
            found["marks"] = context(one["context"])
        else:
            torch.cuda.memory._record_memory_history(context=None, stacks="python", max_entries=2_000_000)
            program.run(one, after_step)
            found["trace"] = trace()
        found["stats"] = {name: torch.cuda.memory_stats().get(name) for name in STATS}
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"[:600]
        found["at"] = traceback.format_exc()[-1500:]
        found["out_of_memory"] = isinstance(error, torch.OutOfMemoryError)
    found |= {"steps": marks, "seconds": time.monotonic() - begin, "versions": versions()}
    return found


def trace() -> str:
    """Return what the allocator did: three numbers for each event, its action, its size, and the address of a
    segment.
    """
    written = array("q")
    for event in torch_trace():
        if event["action"] in ACTIONS:
            address = event["addr"] if event["action"].startswith("segment") else 0  # others compress badly
            written.extend((ACTIONS[event["action"]], event["size"], address))
    return base64.b64encode(zlib.compress(written.tobytes(), 6)).decode()


def torch_trace() -> list[dict[str, Any]]:
    """Return the events of the first GPU."""
    import torch

    events: list[dict[str, Any]] = torch.cuda.memory._snapshot()["device_traces"][0]
    return events


def versions() -> dict[str, Any]:
    """Return what ran."""
    import torch

    found: dict[str, Any] = {"python": sys.version.split()[0], "torch": torch.__version__}
    for name in ("torchvision", "timm", "transformers", "torch_geometric", "triton"):
        with contextlib.suppress(Exception):
            found[name] = importlib.metadata.version(name)
    with contextlib.suppress(Exception):
        found |= {
            "gpu": torch.cuda.get_device_name(),
            "cudnn": torch.backends.cudnn.version(),
            "cuda": torch.version.cuda,
        }
        found["nccl"] = ".".join(str(one) for one in torch.cuda.nccl.version())
    return found


def used() -> dict[str, Any]:
    """Return the bytes that NVML counts for this process, or all that it lists if this process is not among them."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        listed = {one.pid: one.usedGpuMemory for one in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        card = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    return {"process": listed[os.getpid()]} if os.getpid() in listed else {"all": list(listed.values()), "card": card}


def context(name: str) -> list[dict[str, Any]]:
    """Return what NVML counts before and after a library's first calls."""
    import torch

    marks = []
    torch.zeros(1, device="cuda")
    for what, call in {"bare": lambda: None, name: CONTEXTS[name], f"{name} again": CONTEXTS[name]}.items():
        call()
        torch.cuda.synchronize()
        marks.append({"after": what, "used": used(), "reserved": torch.cuda.memory_reserved()})
    return marks


def _matmul(kind: str) -> Callable[[], None]:
    def call() -> None:
        import torch

        given = torch.ones(2048, 2048, device="cuda", dtype=getattr(torch, kind))
        torch.mm(given, given)

    return call


def _linear() -> None:
    import torch

    given = torch.ones(2048, 2048, device="cuda", dtype=torch.bfloat16)
    torch.nn.functional.gelu(torch.addmm(given[0], given, given))


def _convolution(kind: str, backward: bool = False) -> Callable[[], None]:
    def call() -> None:
        import torch

        layer = torch.nn.Conv2d(64, 64, 3, padding=1).to("cuda", getattr(torch, kind))
        output = layer(torch.ones(8, 64, 56, 56, device="cuda", dtype=getattr(torch, kind)))
        if backward:
            output.sum().backward()

    return call


def _attention(backend: str) -> Callable[[], None]:
    def call() -> None:
        import torch
        from torch.nn import attention, functional

        given = torch.ones(4, 8, 512, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        with attention.sdpa_kernel(getattr(attention.SDPBackend, backend)):
            functional.scaled_dot_product_attention(given, given, given).sum().backward()

    return call


def _lstm() -> None:
    import torch

    layer = torch.nn.LSTM(256, 256, 2).cuda()
    layer(torch.ones(64, 8, 256, device="cuda"))[0].sum().backward()


def _solver() -> None:
    import torch

    given = torch.eye(256, device="cuda")
    torch.linalg.eigh(given)
    torch.linalg.svd(given)
    torch.linalg.qr(given)
    torch.linalg.solve(given, given)


def _transform() -> None:
    import torch

    torch.fft.rfft2(torch.ones(8, 512, 512, device="cuda"))


def _sparse() -> None:
    import torch

    given = torch.eye(1024, device="cuda")
    given.to_sparse_csr() @ given


def _elementwise() -> None:
    import torch

    given = torch.rand(1024, 1024, device="cuda")
    given.sort()
    given.cumsum(0)
    given.softmax(0).sum().log()
    torch.nn.functional.cross_entropy(given, given.argmax(1))
    given.topk(5)
    torch.optim.AdamW([torch.nn.Parameter(given)], fused=True)


def _nccl() -> None:
    import tempfile

    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        file = Path(tempfile.mkdtemp()) / "store"
        dist.init_process_group(
            "nccl", init_method=f"file://{file}", rank=0, world_size=1, device_id=torch.device("cuda", 0)
        )
    dist.all_reduce(torch.ones(1 << 20, device="cuda"))


CONTEXTS: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "cuBLAS float32": _matmul("float32"),
    "cuBLAS bfloat16": _matmul("bfloat16"),
    "cuBLASLt bfloat16": _linear,
    "cuDNN convolution float32": _convolution("float32"),
    "cuDNN convolution bfloat16": _convolution("bfloat16"),
    "cuDNN convolution bfloat16 and backward": _convolution("bfloat16", backward=True),
    "cuDNN LSTM": _lstm,
    "flash attention": _attention("FLASH_ATTENTION"),
    "efficient attention": _attention("EFFICIENT_ATTENTION"),
    "cuDNN attention": _attention("CUDNN_ATTENTION"),
    "cuSOLVER": _solver,
    "cuFFT": _transform,
    "cuSPARSE": _sparse,
    "kernels of PyTorch": _elementwise,
    "NCCL": _nccl,
}


if __name__ == "__main__":
    main()
