"""``gpuconf plan --message``: out-of-memory errors as frameworks of several versions write them."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import gpuconf
import pytest
from command import run
from gpuconf.plans.recordings.error_text import read
from script import execute

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def gib(number: float) -> int:
    return round(number * GIB)


NOW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.78 GiB. GPU 1 has a total capacity of 31.47 GiB "
    "of which "
    "12.73 GiB is free. Process 71 has 2.00 GiB memory in use. Process 72 has 1.00 GiB memory in use. Including "
    "non-PyTorch "
    "memory, "
    "this process has 18.73 GiB memory in use. 30.00 GiB allowed; Of the allocated memory 9.08 GiB is allocated by "
    "PyTorch, with "
    "512.00 MiB allocated in private pools (e.g., CUDA Graphs), and 9.35 GiB is reserved by PyTorch but unallocated. "
    "If reserved "
    "but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation."
)
ROWS: list[tuple[str, str, dict[str, Any]]] = [
    (
        "PyTorch 1.0",
        "RuntimeError: CUDA out of memory. Tried to allocate 32.00 MiB (GPU 0; 7.79 GiB total capacity; 6.64 GiB "
        "already "
        "allocated; 21.00 MiB free; 150.86 MiB cached)",
        {
            "gpu": 0,
            "requested": 32 * MIB,
            "capacity": gib(7.79),
            "free": 21 * MIB,
            "allocated": gib(6.64),
            "missing": 0,
        },
    ),
    (
        "PyTorch 1.13",
        "CUDA out of memory. Tried to allocate 264.00 MiB (GPU 0; 2.00 GiB total capacity; 788.51 MiB already "
        "allocated; 145.93 "
        "MiB free; 1.02 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
        "max_split_size_mb",
        {"cached": gib(1.02) - round(788.51 * MIB), "free": round(145.93 * MIB), "missing": 0},
    ),
    (
        "PyTorch 2.1",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 55.57 GiB. GPU 0 has a total capacty of "
        "12.00 GiB of "
        "which 9.02 GiB is free. Of the allocated memory 984.52 MiB is allocated by PyTorch, and 463.48 MiB is "
        "reserved by PyTorch "
        "but unallocated.",
        {"capacity": 12 * GIB, "cached": round(463.48 * MIB), "missing": gib(55.57) - gib(9.02) - round(463.48 * MIB)},
    ),
    (
        "PyTorch 2.15",
        NOW,
        {
            "gpu": 1,
            "others": 3 * GIB,
            "private_pools": 512 * MIB,
            "limit": 30 * GIB,
            "outside": gib(18.73) - gib(9.08) - gib(9.35),
            "fragmentation": gib(9.35),
        },
    ),
    (
        "PyTorch, cudaMallocAsync",
        "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently "
        "allocated     : "
        "1.00 GiB\nRequested               : 40.00 GiB\nDevice limit            : 39.39 GiB\nFree (according to "
        "CUDA): 2.56 MiB\n"
        "PyTorch limit (set by user-supplied memory fraction)\n                        : 20.00 GiB",
        {"requested": 40 * GIB, "allocated": GIB, "limit": 20 * GIB, "missing": 21 * GIB},
    ),
    (
        "TensorFlow, a shape",
        "ResourceExhaustedError: OOM when allocating tensor with shape[16,112,112,147] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:2 by allocator GPU_2_bfc [Op:Conv2D]",
        {"library": "TensorFlow", "gpu": 2, "requested": 16 * 112 * 112 * 147 * 4, "missing": None},
    ),
    (
        "TensorFlow, a shape without a type",  # of floats
        "ResourceExhaustedError: OOM when allocating tensor with shape[3,5] on /device:GPU:0 by allocator GPU_0_bfc",
        {"library": "TensorFlow", "gpu": 0, "requested": 3 * 5 * 4},
    ),
    (
        "TensorFlow, the allocator's log",
        "W bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying to allocate 6.88GiB (rounded to "
        "7388266496)"
        "requested by op Mul\nI bfc_allocator.cc:1101] Stats: \nLimit:                 10619240448\n"
        "InUse:                  9000000000\n"
        "MaxInUse:               9100000000\nLargestFreeBlock:        1000000000\n",
        {"requested": 7388266496, "limit": 10619240448, "missing": 7388266496 - 1619240448, "largest_free": 1000000000},
    ),
    (
        "JAX",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 "
        "bytes.",
        {"library": "JAX", "requested": 4770354232},
    ),
    (
        "JAX, newer",
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4.50GiB.",
        {"requested": gib(4.5)},
    ),
    (
        "CuPy 5",
        "cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 1073741824 bytes (total 12373894656 bytes)",
        {"library": "CuPy", "requested": GIB, "allocated": 12373894656 - GIB},
    ),
    (
        "CuPy 14",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 805,306,368 bytes (allocated so far: 536,870,912 "
        "bytes, limit "
        "set to: 1,073,741,824 bytes).",
        {"requested": 805306368, "allocated": 536870912, "limit": GIB, "missing": 805306368 - 512 * MIB},
    ),
    (
        "only the driver's",
        "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be reported",
        {"library": "CUDA"},
    ),
    (
        "PyTorch in a container, which takes its own process for another",
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 100.00 MiB "
        "is free. Process 3127 has 1.00 GiB memory in use. Process 91 has 22.50 GiB memory in use. Of the allocated "
        "memory 21.60 GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but unallocated.",
        {"process": gib(22.5), "others": GIB, "outside": gib(22.5) - gib(21.6) - 500 * MIB},
    ),
    (
        "PyTorch without figures",
        "torch.OutOfMemoryError: CUDA out of memory",
        {"library": "PyTorch", "requested": None, "does_not_help": []},
    ),
    (
        "cuBLAS",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        {"library": "cuBLAS"},
    ),
    ("cuDNN", "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", {"library": "cuDNN"}),
    ("cuFFT", "RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED", {"library": "cuFFT"}),
    (
        "NCCL",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1333, unhandled cuda error, NCCL "
        "version 2.27.3\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of "
        "memory'",
        {"library": "NCCL"},
    ),
]


@pytest.mark.parametrize(("text", "fields"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_figures_of_a_message(text: str, fields: dict[str, Any]) -> None:
    (found,) = read(f"  File train.py, line 3\n{text}\n")
    told = found.to_dict()
    assert {name: told[name] for name in fields} == fields
    assert max(map(len, found.lines())) <= 80


def helps(text: str) -> tuple[str, str]:
    told = read(text)[0].to_dict()
    return " | ".join(told["helps"]), " | ".join(told["does_not_help"])  # type: ignore[arg-type]


def test_what_helps_follows_from_the_figures() -> None:
    start = (
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 500.00 "
        "MiB is free. "
    )
    fragmented = (
        start + "Of the allocated memory 18.00 GiB is allocated by PyTorch, and 4.00 GiB is reserved by PyTorch but "
        "unallocated."
    )
    good, bad = helps(fragmented)
    assert "expandable_segments:True" in good
    assert "any setting" not in bad
    limited = fragmented.replace("500.00 MiB is free", "5.00 GiB is free. 23.00 GiB allowed")
    good, _ = helps(limited)
    assert "expandable_segments:True" in good
    assert "a larger fraction" in good
    full = (
        start + "Of the allocated memory 22.90 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but "
        "unallocated."
    )
    good, bad = helps(full)
    assert "expandable_segments" not in good
    assert "any setting of PYTORCH_CUDA_ALLOC_CONF" in bad
    assert "empty_cache" in bad
    others = full.replace("Of the", "Process 5 has 9.00 GiB memory in use. Of the")
    assert "other processes" in helps(others)[0]
    free = fragmented.replace("500.00 MiB is free", "5.00 GiB is free")
    assert any("a limit was reached" in line for line in read(free)[0].lines())


def test_a_text_without_figures_stands_back_for_one_with_them() -> None:
    log = f"{NOW}\nCUDA out of memory, trying again\nCUDNN_STATUS_ALLOC_FAILED\nCUDA error: out of memory\n"
    assert [message.library for message in read(log)] == ["PyTorch", "cuDNN"]
    assert "which says what was requested" in " ".join(map(str.strip, read("CUDA out of memory")[0].lines()))
    (room,) = read("CUBLAS_STATUS_ALLOC_FAILED")[0].to_dict()["helps"]  # type: ignore[misc]
    assert "set_per_process_memory_fraction" in room


def test_a_log_on_standard_input(tmp_path: pathlib.Path) -> None:
    log = (
        f"step 1\n{NOW}\nDuring handling of the above exception, another exception occurred:\n{NOW}\nCUDA error: "
        "out of memory\n"
    )
    done = execute([sys.executable, "-m", "gpuconf", "plan", "--message"], input=log, check=True)
    assert done.stdout.splitlines() == [
        "PyTorch ran out of memory on GPU:1: 22.78GiB requested",
        "  card                      31.47GiB",
        "  free on the card          12.73GiB",
        "  other processes            3.00GiB",
        "  this process              18.73GiB",
        "  allocated                  9.08GiB",
        "  of it in private pools   512.00MiB",
        "  cached, not allocated      9.35GiB",
        "  outside PyTorch          307.20MiB",
        "  limit of PyTorch          30.00GiB",
        "1.86GiB are missing, whatever the fragmentation: memory was used up.",
        "helps: a smaller batch, activation checkpointing, or what `gpuconf plan` of a",
        "  snapshot names as the largest holders",
        "helps: a larger fraction for torch.cuda.set_per_process_memory_fraction: the",
        "  card had more free memory",
        "does not help: any setting of PYTORCH_CUDA_ALLOC_CONF, for this request:",
        "  settings only act on fragmentation",
        "does not help: torch.cuda.empty_cache(): PyTorch released its cache and tried",
        "  again before it raised the error",
    ]
    (tmp_path / "log.txt").write_text(log)
    status, out, _ = run("plan", "--message", str(tmp_path / "log.txt"), "--json")
    assert (status, json.loads(out)["messages"][0]["missing"]) == (0, gib(22.78) - gib(30) + gib(9.08))


def test_bad_input(tmp_path: pathlib.Path) -> None:
    (tmp_path / "log.txt").write_bytes(b"all is well\xff\n")
    status, out, err = run("plan", "--message", str(tmp_path / "log.txt"))
    assert (status, out) == (1, "")
    assert "no out-of-memory error of PyTorch, TensorFlow, JAX, CuPy or a library of CUDA is in" in err
    assert run("plan", "--message", str(tmp_path / "missing"))[0] == 1
    status, _, err = run("plan", "trace.csv", "--message", "log.txt")
    assert (status, err) == (2, "gpuconf plan: --message cannot be used with TRACE\n")
    status, _, err = run("plan")
    assert status == 2
    assert err.startswith("gpuconf plan: TRACE is missing")


@pytest.mark.parametrize(
    ("begin", "job", "figures"),
    [
        ("the limit is reached", "", {"limit": GIB, "missing": 600 * MIB}),
        ("the limit of the job is reached", "limit 2.00GiB (2147483648 bytes) = pools 1.00GiB + outside 512.00MiB + "
         "free 512.00MiB", {"limit": GIB + 512 * MIB, "missing": 88 * MIB}),
        ("the limit was not reached, but the GPU refused (CUDA_ERROR_OUT_OF_MEMORY)", "", {"limit": None}),
    ],
    ids=["limit", "job", "GPU"],
)  # fmt: skip
def test_messages_of_gpuconf(begin: str, job: str, figures: dict[str, Any]) -> None:
    text = (
        f"OOM when allocating 1.00GiB (1073741824 bytes) on GPU:1: out of memory, {begin}.\n"
        "  limit 1.00GiB (1073741824 bytes), in use 600.00MiB (629145600 bytes) in 1 block, reserved 1.00GiB "
        "(1073741824 bytes), largest free block 424.00MiB (444596224 bytes)\n"
        f"  memory of the job: {job}\n  on Tesla T4. Free memory."
    )
    (found,) = read(text)
    known = {"library": "gpuconf", "gpu": 1, "requested": GIB, "allocated": 600 * MIB, "largest_free": 424 * MIB}
    told = found.to_dict()
    assert {name: told[name] for name in (*known, *figures)} == {**known, **figures}


def test_what_gpuconf_itself_raises_is_read() -> None:
    with pytest.raises(MemoryError) as raised, gpuconf.simulate("T4"):
        gpuconf.memory.allocate("200GiB")
    assert (read(str(raised.value))[0].library, read(str(raised.value))[0].requested) == ("gpuconf", 200 * GIB)


def test_the_text_in_place_of_a_file() -> None:
    status, out, _ = run("plan", "--message", "CUDA error: out of memory")
    assert (status, out.splitlines()[0]) == (0, "CUDA ran out of memory")
    assert run("plan", "--message", NOW)[1].startswith("PyTorch ran out of memory on GPU:1: 22.78GiB requested")


@pytest.mark.parametrize("text", ["Killed", "Unable to allocate 8.00 GiB for an array with shape (1073741824,)"])
def test_memory_of_the_host(text: str) -> None:
    with pytest.raises(ValueError, match=r"is in the text\. '.*' is about the host's memory, not a GPU's"):
        read(f"before\n{text}\n")


def test_the_option_without_a_text_and_with_a_dash_reads_standard_input() -> None:
    for words in (["--message"], ["--message", "-"]):
        done = execute([sys.executable, "-m", "gpuconf", "plan", *words], input=NOW)
        assert done.returncode in (0, 1), done.stderr
        assert "22.78GiB" in done.stdout, done.stdout
