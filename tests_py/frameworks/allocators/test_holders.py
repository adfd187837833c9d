"""Whose memory it is, with the real PyTorch, CuPy and Numba, without a GPU. See no_gpu.py."""

import importlib.util
import textwrap
from collections.abc import Callable
from pathlib import Path

import no_gpu
import pytest

needs_torch = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")

ROWS = """
def rows():
    return [(r.library, r.tag, r.bytes_in_use, r.live_blocks) for r in gpuconf.memory.usage() if r.live_blocks]
"""


@pytest.fixture
def lines(run: Callable[..., str]) -> Callable[..., list[str]]:
    """What a program prints that may call rows()."""
    return lambda program, **variables: run(ROWS + textwrap.dedent(program), **variables).splitlines()


@needs_torch
def test_pytorchs_blocks_have_their_tag(lines: Callable[..., list[str]]) -> None:
    out = lines("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch
        with gpuconf.memory.tag("weights"):
            w = torch.empty(1000, device="cuda", requires_grad=True)
        other = gpuconf.memory.allocate(5000)
        with gpuconf.memory.tag("backward"):
            (w * 2).sum().backward()
        print(rows())
        usage, stats = gpuconf.memory.usage(), gpuconf.memory.stats()
        print(usage.bytes_in_use == stats.bytes_in_use == sum(r[2] for r in usage),
              usage.live_blocks == stats.live_blocks)
        del w
        print(rows())
        """)
    # The gradient comes from a thread of autograd's, which has no tag of its own.
    assert out == [
        "[('gpuconf', '', 5120, 1), ('torch', 'backward', 4096, 1), ('torch', 'weights', 4096, 1)]",
        "True True",
        "[('gpuconf', '', 5120, 1)]",
    ]


@needs_torch
def test_gradients_are_held_by_their_parameters(lines: Callable[..., list[str]]) -> None:
    """The garbage collector does not know that, and the program need not have used them."""
    assert lines("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch
        def train():
            model = torch.nn.Linear(1000, 1000, bias=False, device="cuda")
            model.weight.sum().backward()
            print(sorted(name.partition(" in train()")[0] for h in gpuconf.memory.release().holders
                         for name in h.referrers))
            kept = model.weight.grad
            print(sorted(name.partition(" in train()")[0] for h in gpuconf.memory.release().holders
                         for name in h.referrers))
            kept = (model.weight * 2).view(-1).grad_fn
            model = None
            print(gpuconf.memory.release().holders[0].referrers, str(gpuconf.memory.release()).rpartition(": ")[2])
        train()
        """) == [
        """["model._parameters['weight']", "model._parameters['weight'].grad"]""",
        """['kept', "model._parameters['weight']", "model._parameters['weight'].grad"]""",
        "() no variable that is known, such as PyTorch's graph or a C extension",
    ]


@needs_torch
def test_a_backward_pass_follows_the_tag_around_it(lines: Callable[..., list[str]]) -> None:
    """Other threads don't, and a hook has the tag that it enters."""
    assert lines("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch, threading
        kept = []
        def hook(gradient):
            with gpuconf.memory.tag("hook"):
                kept.append(torch.empty(3000, device="cuda"))
        w = torch.empty(1000, device="cuda", requires_grad=True)
        w.register_hook(hook)
        def backward():
            (w * 2).sum().backward()
            w.grad = None
        with gpuconf.memory.measure() as first:
            backward()
        with gpuconf.memory.tag("outer"):
            with gpuconf.memory.tag("inner"), gpuconf.memory.measure() as second:
                backward()
            thread = threading.Thread(target=lambda: kept.append(torch.empty(9000, device="cuda")))
            thread.start()
            thread.join()
            with gpuconf.memory.measure() as third:
                backward()
        backward()
        for measured in (first, second, third):
            print(sorted(r.tag for r in measured.rows if r.peak > r.before))
        print(rows())
        """) == [
        "['', 'hook']",
        "['hook', 'inner']",
        "['hook', 'outer']",
        "[('torch', 'hook', 48128, 4), ('torch', '', 40192, 2)]",
    ]


@needs_torch
def test_pytorchs_blocks_have_their_calls(lines: Callable[..., list[str]], tmp_path: Path) -> None:
    assert lines(f"""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch, threading
        w = torch.empty(1000, device="cuda", requires_grad=True)
        def step(n):
            return (w * n).sum()
        with gpuconf.memory.record(stacks=True) as recording:
            loss = step(2)
            loss.backward()
            thread = threading.Thread(target=step, args=(3,))
            thread.start()
            thread.join()
        found = [e for e in recording.events if e.action == "allocate"]
        print({{e.library for e in found}},
              sum(e.call_site is not None and e.call_site[2] == "step" for e in found) >= 4)
        print(any(not e.stack for e in found), all(e.stack[0][0] for e in found if e.stack))
        recording.save({str(tmp_path / "trace.pickle")!r})
        again = gpuconf.memory.load_trace({str(tmp_path / "trace.pickle")!r})
        print([e.stack for e in again if e.action == "allocate"] == [e.stack for e in found])
        """) == ["{'torch'} True", "True True", "True"]


@needs_torch
def test_pytorchs_memory_viz_reads_a_saved_trace(lines: Callable[..., list[str]], tmp_path: Path) -> None:
    """With the calls of each block, in the views that PyTorch's package makes of a snapshot."""
    assert lines(f"""
        import pickle
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch
        from torch.cuda import _memory_viz
        def forward():
            return torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
        with gpuconf.memory.record(stacks=True) as recording:
            kept = forward()
            forward()
        recording.save({str(tmp_path / "trace.pickle")!r})
        with open({str(tmp_path / "trace.pickle")!r}, "rb") as file:
            snapshot = pickle.load(file)
        for view in (_memory_viz.segments, _memory_viz.memory):
            (line,) = (each for each in view(snapshot, format_flamegraph=str).splitlines()
                       if "active_allocated" in each)
            print([part.rpartition(":")[2] for part in line.split(";")[-2:]])
        print(_memory_viz.segsum(snapshot).splitlines()[1])
        print([line.partition(" ")[0] for line in _memory_viz.trace(snapshot).splitlines() if line.startswith("del")])
        frames = [e["frames"] for trace in snapshot["device_traces"] for e in trace if e["action"] == "alloc"]
        print(all(any(_memory_viz._frame_fmt(f).endswith(":forward") for f in stack) for stack in frames), len(frames))
        """) == [
        "['<module>', 'forward 3145728']",
        "['<module>', 'forward 3145728']",
        "[a   ] 64.0MiB allocated, 61.0MiB (0.0% internal) free",
        "['del']",
        "True 2",
    ]


@needs_torch
def test_threads_that_allocate_and_free_while_stacks_are_recorded(lines: Callable[..., list[str]]) -> None:
    """A thread that waits for the GIL holds no lock that one with the GIL wants."""
    assert lines("""
        gpuconf.configure(limit="256MiB", libraries=["torch"])
        import torch, threading, sys
        sys.setswitchinterval(1e-5)
        def work(n):
            for i in range(300):
                x = torch.empty(1000 + i, device="cuda", requires_grad=True)
                (x * 2).sum().backward()
                torch.cuda.memory_allocated()
                del x
        with gpuconf.memory.record(stacks=True) as recording:
            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for each in threads: each.start()
            for each in threads: each.join()
        print(live(), len(recording.trace) > 4800)
        """) == ["[0] True"]


@needs_torch
def test_segments_count_under_the_tag_that_needed_them(lines: Callable[..., list[str]]) -> None:
    assert lines("""
        gpuconf.configure(limit="64MiB", libraries={"torch": "segments"})
        import torch
        with gpuconf.memory.record(stacks=True) as recording:
            with gpuconf.memory.tag("first"):
                x = torch.empty(1000, device="cuda")
            with gpuconf.memory.tag("second"):
                y = torch.empty(1000, device="cuda")
        print(rows())
        """) == ["[('torch', 'first', 2097152, 1)]"]


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")
def test_cupys_blocks_have_their_tag_and_calls(lines: Callable[..., list[str]]) -> None:
    assert lines("""
        import types, cupy
        from gpuconf.allocators import cupy as adaptor
        gpuconf.configure(limit="64MiB", libraries=[])
        cupy.cuda.device = types.SimpleNamespace(get_device_id=lambda: 0)  # as in test_cupy.py
        null_stream = ctypes.CFUNCTYPE(ctypes.c_ssize_t)(lambda: 0)
        adaptor._current_stream_function = lambda: ctypes.cast(null_stream, ctypes.c_void_p).value
        def build():
            return adaptor.allocate(1000)
        with gpuconf.memory.record(stacks=True) as recording, gpuconf.memory.tag("arrays"):
            x = build()
        print(rows(), recording.events[-1].call_site[2])
        """) == ["[('cupy', 'arrays', 1024, 1)] build"]


@pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_numbas_blocks_have_their_tag_and_calls(lines: Callable[..., list[str]]) -> None:
    out = lines(
        """
        gpuconf.configure(limit="64MiB", libraries=["numba"])
        from numba import cuda
        import numpy as np
        def build():
            return cuda.device_array(1000, dtype="u1")
        with gpuconf.memory.record(stacks=True) as recording, gpuconf.memory.tag("arrays"):
            x = build()
        print(rows(), recording.events[-1].call_site[2])
        """,
        CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING="1",
    )
    assert out == ["[('numba', 'arrays', 1024, 1)] build"]
