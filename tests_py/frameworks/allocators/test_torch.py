"""The real PyTorch, built for CUDA, on gpuconf's pools, without a GPU. See no_gpu.py."""

from collections.abc import Callable

import no_gpu
import pytest

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")

MODEL = """
import torch
def model():
    weight = torch.empty(256, 256, device="cuda", requires_grad=True)
    return weight, (weight * 2).sum()
"""


def test_every_byte_is_on_the_books_and_goes_back(run: Callable[..., str]) -> None:
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch
        x = torch.arange(1000, dtype=torch.float32).to("cuda")
        print(gpuconf.memory.stats().requested_bytes_in_use, x.cpu().sum().item(), taken_beside_gpuconf())
        y = torch.empty(0, device="cuda")
        print(live(), y.data_ptr())
        del x, y
        print(live())
        """).splitlines() == ["4000 499500.0 0", "[1] 0", "[0]"]


def test_out_of_memory_is_torchs_own_error_with_our_text(run: Callable[..., str]) -> None:
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch, threading
        told = []
        def fail():
            try:
                torch.empty(1 << 25, device="cuda")
            except torch.OutOfMemoryError as error:
                told.append((type(error).__name__, isinstance(error, RuntimeError), len(error.args),
                             str(error).splitlines()[0]))
        fail()
        threads = [threading.Thread(target=lambda: [fail() for _ in range(20)]) for _ in range(4)]
        for each in threads: each.start()
        for each in threads: each.join()
        print(len(told), *set(told))
        x = torch.empty(1 << 20, device="cuda")
        print(live())
        """).splitlines() == [
        "81 ('OutOfMemoryError', True, 1, 'CUDA out of memory. OOM when allocating 128.00MiB (134217728 bytes) on "
        "GPU:0: out of memory, "
        "the request is larger than the limit.')",
        "[1]",
    ]


def test_all_memory_functions_answer_with_our_books(run: Callable[..., str]) -> None:
    out = run("""
        import json, torch
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        from torch.cuda import memory
        x = torch.empty(1000, device="cuda")
        y = torch.empty(1 << 20, device="cuda")
        del y
        answers = {}
        for name in memory.__all__:
            if name not in ("CUDAPluggableAllocator", "MemPool", "MemPoolContext", "use_mem_pool",
                            "change_current_allocator", "list_gpu_processes"):
                given = {"set_per_process_memory_fraction": [0.5], "caching_allocator_alloc": [1000],
                         "caching_allocator_delete": [answers.get("caching_allocator_alloc")]}.get(name, [])
                before = answers.get(name)
                answers[name] = getattr(memory, name)(*given)
                if name == "memory_stats":
                    stats = answers[name]
                if name == "empty_cache":
                    answers[name] = live()
        memory._record_memory_history()
        answers["_snapshot"] = len(memory._snapshot()["segments"])
        memory._record_memory_history(None)
        print(json.dumps({name: answer for name, answer in answers.items()
                          if isinstance(answer, (int, float, list, tuple))}))
        print(json.dumps({key: stats[key]
                          for key in ("allocated_bytes.all.current", "requested_bytes.all.current", "num_ooms")}))
        print(answers["memory_summary"].count("4096 B"), taken_beside_gpuconf())
        """)
    import json

    answers, stats, rest = out.splitlines()
    told = json.loads(answers)
    assert told["memory_allocated"] == 4096
    assert told["max_memory_allocated"] == 4096, "reset_peak_memory_stats came before"
    assert told["memory_reserved"] == told["max_memory_reserved"] == 64 << 20
    assert told["mem_get_info"] == [(64 << 20) - 4096, 64 << 20]
    assert told["get_per_process_memory_fraction"] == 1 / 16
    assert told["empty_cache"] == [1]
    assert told["_snapshot"] == len(told["memory_snapshot"]) == 1
    segment = told["memory_snapshot"][0]
    assert (segment["total_size"], segment["allocated_size"], segment["requested_size"]) == (64 << 20, 4096, 4000)
    assert [block["state"] for block in segment["blocks"]] == ["active_allocated", "inactive"]
    assert sum(block["size"] for block in segment["blocks"]) == 64 << 20
    assert json.loads(stats) == {
        "allocated_bytes.all.current": 4096,
        "requested_bytes.all.current": 4000,
        "num_ooms": 0,
    }
    assert int(rest.split()[0]) >= 2
    assert rest.split()[1] == "0"


def test_statistics_are_right_or_missing(run: Callable[..., str]) -> None:
    """With 66 MiB live, `torch.accelerator` returned 0; totals, out-of-memory errors and segments were 0 in
    `torch.cuda` too.
    """
    out = run("""
        gpuconf.configure(limit="128MiB", growth=True, libraries=["torch"])
        import torch
        x = torch.empty(66 * MIB, dtype=torch.uint8, device="cuda")
        y = torch.empty(20 * MIB, dtype=torch.uint8, device="cuda")
        del y
        for _ in range(3):
            try:
                torch.empty(129 * MIB, dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError:
                pass
        def show(stats):
            sizes = [stats[f"allocated_bytes.all.{each}"] // MIB for each in ("current", "peak", "allocated", "freed")]
            print(sizes, stats["reserved_bytes.all.peak"] // MIB, stats["allocation.all.allocated"],
                  stats["allocation.all.freed"],
                  stats["num_ooms"], stats["segment.all.current"], "inactive_split.all.current" in stats)
        modules = [torch.cuda]
        if hasattr(torch.accelerator, "memory_allocated"):   # PyTorch 2.9 and newer
            modules.append(torch.accelerator)
        for module in modules:
            show(module.memory_stats())
            print([getattr(module, name)() // MIB
                   for name in ("memory_allocated", "max_memory_allocated", "memory_reserved")])
        modules[-1].reset_accumulated_memory_stats()
        modules[-1].reset_peak_memory_stats()
        modules[-1].empty_cache()
        z = torch.empty(MIB, dtype=torch.uint8, device="cuda")
        show(modules[0].memory_stats())
        print(*[int(info == torch.cuda.mem_get_info() == (61 * MIB, 128 * MIB)) for info in
                [getattr(torch.accelerator, "get_memory_info", torch.cuda.mem_get_info)()]])
        print("CUDA OOMs: 0" in torch.cuda.memory_summary(), torch.cuda.memory_summary().count(str(67 * MIB)) >= 1)
        try:
            torch.cuda.memory.caching_allocator_enable(False)
        except NotImplementedError as error:
            print(error)
        """)
    *told, after, info, summary, refused = out.splitlines()
    first = ["[66, 86, 86, 20] 86 2 1 3 1 False", "[66, 86, 86]"]
    assert told in (first, first * 2)
    assert after == "[67, 67, 1, 0] 86 1 0 0 1 False", (
        "a peak begins at what is in use, here with 20 MiB reserved and idle"
    )
    assert info == "1"
    assert summary == "True True"
    assert "caching_allocator_enable(False) is not supported in gpuconf's mode 'whole'" in refused


def test_empty_cache_gives_memory_back_to_the_gpu(run: Callable[..., str]) -> None:
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch
        x = torch.empty(1000, device="cuda")
        del x
        print(torch.cuda.memory_reserved())
        torch.cuda.empty_cache()
        print(torch.cuda.memory_reserved(), driver.fakecuda_live(b"allocations"))
        """).splitlines() == [str(64 << 20), "0 0"]


def test_what_whole_mode_can_not_keep_is_refused_and_not_ignored(run: Callable[..., str]) -> None:
    """A fraction below the limit; a pool shared by several CUDA graphs; PyTorch's own pools, of which newer versions
    said that "pluggable does not yet support createOrIncrefPool".
    """
    out = run("""
        gpuconf.configure(limit="512MiB", libraries=["torch"])
        import torch
        torch.cuda.set_per_process_memory_fraction(0.5)
        def told(what):
            try:
                what()
            except RuntimeError as error:
                print(error)
        def capture():
            with torch.cuda.graph(torch.cuda.CUDAGraph(), pool=torch.cuda.graph_pool_handle()):
                torch.empty(10, device="cuda")
        told(lambda: torch.cuda.set_per_process_memory_fraction(0.49))
        told(capture)
        told(lambda: torch.cuda.use_mem_pool(torch.cuda.MemPool()).__enter__())
        torch.empty(10, device="cuda")
        """)
    fraction, graph, pool = out.splitlines()
    assert "a fraction of 0.49" in fraction
    assert 'gpuconf.configure(limit="49%")' in fraction
    assert "need gpuconf's mode 'segments'" in graph
    assert "MemPool" in pool
    assert "gpuconf's mode 'segments'" in pool


def test_a_graph_in_whole_mode_has_memory_of_its_own(run: Callable[..., str]) -> None:
    """Captured in CUDA's strictest mode, PyTorch's default; what the graph frees is not reused until the graph is
    destroyed.
    """
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch
        def tensor():
            return torch.empty(MIB, dtype=torch.uint8, device="cuda")
        def captured():
            return gpuconf.memory.stats().captured_bytes // MIB
        kept, graph = tensor(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            first = tensor().data_ptr()
            result = tensor()
            print(result.data_ptr() == first)
            temporary = tensor().data_ptr()
        print(captured())
        graph.replay()
        torch.cuda.synchronize()
        print(bool({tensor_.data_ptr() for tensor_ in [tensor() for _ in range(8)]} & {first, temporary}))
        del result
        torch.cuda.empty_cache()
        print(captured())
        graph.reset()
        print(captured())
        """).splitlines() == ["True", "1", "False", "2", "0"]


def test_the_driver_is_asked_about_a_stream_only_where_it_can_matter(run: Callable[..., str]) -> None:
    """PyTorch never destroys its own streams, so only whether one is captured.

    An external stream may be another one each time.
    """
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch
        def asked(stream):
            names = [b"cuStreamGetCaptureInfo", b"cuStreamGetId"]
            with torch.cuda.stream(stream):
                torch.empty(1000, device="cuda")
                before = [driver.fakecuda_count(name) for name in names]
                for _ in range(10):
                    torch.empty(1000, device="cuda")
                return [driver.fakecuda_count(name) - count for name, count in zip(names, before)]
        print(asked(torch.cuda.default_stream()), asked(torch.cuda.Stream()), asked(torch.cuda.Stream(priority=-1)))
        torch.empty(1, device="cuda")
        external = ctypes.c_void_p()
        assert driver.cuStreamCreate(ctypes.byref(external), 1) == 0
        print(asked(torch.cuda.ExternalStream(external.value)))
        """).splitlines() == ["[0, 0] [10, 0] [10, 0]", "[10, 10]"]


def test_an_allocation_in_another_stream_does_not_disturb_a_capture(run: Callable[..., str]) -> None:
    """Asking a stream for its id may, in CUDA's strictest mode."""
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import threading
        import torch
        def elsewhere():
            external = ctypes.c_void_p()
            torch.cuda.set_device(0)
            assert driver.cuStreamCreate(ctypes.byref(external), 1) == 0
            with torch.cuda.stream(torch.cuda.ExternalStream(external.value)):
                torch.empty(1000, device="cuda")
        torch.empty(1000, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = torch.empty(1000, device="cuda")
            other = threading.Thread(target=elsewhere)
            other.start()
            other.join()
        graph.replay()
        print("captured")
        """).splitlines() == ["captured"]


def test_record_stream_reaches_gpuconf(run: Callable[..., str]) -> None:
    """Without it, memory would be reused while the other stream reads it."""
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch
        x, side = torch.empty(1000, device="cuda"), torch.cuda.Stream()
        before = driver.fakecuda_count(b"cuEventRecord")
        x.record_stream(side)
        del x
        torch.cuda.synchronize()
        print(live())
        """).splitlines() == ["[0]"]


def test_a_backward_pass_stays_in_the_budget_of_its_forward_pass(run: Callable[..., str]) -> None:
    """Autograd runs it in its own threads, which have no scope: the stream identifies the logical GPU."""
    out = run(
        MODEL
        + """
split(64, 32)
gpuconf.configure(libraries=["torch"])
with gpuconf.device("GPU:1"):
    weight, loss = model()
    print(live(), torch.cuda.memory_allocated() == gpuconf.memory.stats("GPU:1").bytes_in_use,
          torch.cuda.mem_get_info()[1] // MIB)
print(live(), torch.cuda.current_stream().cuda_stream, torch.cuda.mem_get_info()[1] // MIB)
loss.backward()
print("backward of the scope:", live())
other, outside = model()
before = live()
outside.backward()
print("backward outside:", before, live())
with gpuconf.device("GPU:1"):
    outside = model()[1]
    with gpuconf.device("GPU:0"):
        print(torch.cuda.current_stream().cuda_stream, torch.cuda.mem_get_info()[1] // MIB)
    try:
        torch.empty(9 << 20, device="cuda")
    except torch.OutOfMemoryError as error:
        print("on GPU:1" in str(error))
    torch.cuda.synchronize()
torch.empty(9 << 20, device="cuda")
del weight, loss, other, outside
print(live(), taken_beside_gpuconf())
"""
    )
    assert out.splitlines() == [
        "[0, 2] True 32",
        "[0, 2] 0 64",
        "backward of the scope: [0, 3]",
        "backward outside: [2, 3] [3, 3]",
        "0 64",
        "True",
        "[0, 0] 0",
    ]


def test_an_exception_leaves_a_scope_with_torchs_stream_as_it_was(run: Callable[..., str]) -> None:
    assert run("""
        split(64, 64)
        gpuconf.configure(libraries=["torch"])
        import torch
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            try:
                with gpuconf.device("GPU:1"):
                    print(torch.cuda.current_stream() == side)
                    raise KeyError
            except KeyError:
                print(torch.cuda.current_stream() == side)
        print(torch.cuda.current_stream().cuda_stream)
        """).splitlines() == ["False", "True", "0"]


def test_scopes_choose_the_card_too(run: Callable[..., str]) -> None:
    out = run(
        """
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch
        with gpuconf.device("GPU:1"):
            x = torch.empty(1000, device="cuda")
            print(x.device, torch.cuda.current_device(), live())
            y = torch.empty(1000, device="cuda:0")
            print(y.device, live())
        print(torch.cuda.current_device())
        """,
        FAKECUDA_GPUS="2",
    )
    assert out.splitlines() == ["cuda:1 1 [0, 1]", "cuda:0 [1, 1]", "0"]


# Mode segments: PyTorch's own allocator, which gets its segments from gpuconf. It once got them through a MemPool that
# stayed entered, which PyTorch treats as a CUDA graph capture without an end. Each of these tests failed then.


def test_segments_keep_torchs_own_accounting_under_our_limit(run: Callable[..., str]) -> None:
    out = run(
        MODEL
        + """
gpuconf.configure(limit="64MiB", libraries={"torch": "segments"})
x = torch.empty(1000, device="cuda")
print(live(), torch.cuda.memory_allocated(), taken_beside_gpuconf(), torch.cuda.get_allocator_backend())
try:
    torch.empty(1 << 25, device="cuda")
except torch.OutOfMemoryError as error:
    print(torch.cuda.memory_stats()["num_ooms"])
y = torch.empty(1 << 23, device="cuda")
print(live(), gpuconf.memory.stats().bytes_in_use // MIB)
del x, y
torch.cuda.empty_cache()
print(live(), torch.cuda.memory_reserved())
"""
    )
    assert out.splitlines() == ["[1] 4096 0 native", "1", "[2] 34", "[0] 0"]


def test_segments_serve_every_thread_and_backward_passes(run: Callable[..., str]) -> None:
    """Autograd's threads allocated outside the limit, and a second thread in a scope raised `already recording`."""
    out = run(
        MODEL
        + """
import threading
gpuconf.configure(limit="64MiB", libraries={"torch": "segments"})
weight, loss = model()
big = torch.empty(4 << 20, device="cuda", requires_grad=True)
(big * 2).sum().backward()
loss.backward()
def work():
    torch.empty(1 << 20, device="cuda")
def scoped():
    with gpuconf.device("GPU:0"):
        work()
with gpuconf.device("GPU:0"):
    for each in (scoped, work):
        thread = threading.Thread(target=each)
        thread.start()
        thread.join()
print(taken_beside_gpuconf(), big.grad.numel() >> 20,
      torch.cuda.memory_reserved() == gpuconf.memory.stats().bytes_in_use)
"""
    )
    assert out.splitlines() == ["0 4 True"]


def test_a_scope_may_be_the_first_use_of_cuda_and_may_be_nested_in_mode_segments(run: Callable[..., str]) -> None:
    """It raised `beginAllocateToPool: already recording to mempool_id`, and stayed in the pool for good."""
    assert run("""
        split(64, 32)
        gpuconf.configure(libraries={"torch": "segments"})
        import torch
        with gpuconf.device("GPU:1"):
            x = torch.empty(1000, device="cuda")
            with gpuconf.device("GPU:1"):
                y = torch.empty(1000, device="cuda")
        print(live())
        z = torch.empty(1000, device="cuda")
        print(live())
        """).splitlines() == ["[0, 1]", "[1, 1]"]


def test_segments_count_for_the_logical_gpu_of_the_scope(run: Callable[..., str]) -> None:
    """With PyTorch 2.9 a small tensor inside the scope was charged to GPU:0.

    A backward pass stays in its forward pass's budget.
    """
    assert run("""
        split(64, 32)
        gpuconf.configure(libraries={"torch": "segments"})
        import torch
        def used():
            return [gpuconf.memory.stats(d.name).bytes_in_use // MIB for d in gpus()]
        x = torch.empty(1000, device="cuda")
        with gpuconf.device("GPU:1"):
            y = torch.empty(1000, device="cuda")
            print(live())
            try:
                torch.empty(9 << 20, device="cuda")
            except torch.OutOfMemoryError:
                print("OOM")
            weight = torch.empty(10 << 18, device="cuda", requires_grad=True)
            loss = (weight * 2).sum()
            torch.cuda.empty_cache()
            print(used())
        loss.backward()
        print(used())
        z = torch.empty(9 << 20, device="cuda")
        print(used(), taken_beside_gpuconf())
        """).splitlines() == ["[1, 1]", "OOM", "[2, 12]", "[2, 22]", "[38, 22] 0"]


def test_segments_release_their_cache_before_they_are_out_of_memory(run: Callable[..., str]) -> None:
    """With 64 MiB free, 40 MiB failed, because 30 of them were cached; and empty_cache() released nothing."""
    assert run("""
        gpuconf.configure(limit="64MiB", libraries={"torch": "segments"})
        import torch
        def tensor(mib):
            return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
        tensor(30)
        print(tensor(40).numel() // MIB)
        torch.cuda.empty_cache()
        print(live())
        """).splitlines() == ["40", "[0]"]


def test_record_stream_under_pressure_in_mode_segments(run: Callable[..., str]) -> None:
    """PyTorch's own test_caching_allocator_record_stream_oom, with its card of 1 GiB: it failed with 382 MiB free."""
    assert run("""
        gpuconf.configure(libraries={"torch": "segments"})
        import torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            y = torch.zeros(40 * 1024 * 1024, device="cuda")
        for _ in range(100):
            x = torch.empty(40 * 1024 * 1024, device="cuda")
            with torch.cuda.stream(stream):
                y += x
            x.record_stream(stream)
            del x
        torch.cuda.empty_cache()
        print(live(), taken_beside_gpuconf())
        """).splitlines() == ["[1] 0"]


def test_the_sizes_of_segments_decide_what_fits(run: Callable[..., str]) -> None:
    """As documented: blocks of 1 to 10 MiB are cut from segments of 20 MiB, so 32 MiB can hold only 20 MiB of them."""
    assert run("""
        gpuconf.configure(limit="32MiB", libraries={"torch": "segments"})
        import torch
        kept = []
        try:
            while True:
                kept.append(torch.empty(5 * MIB, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            print(len(kept), torch.cuda.memory_reserved() // MIB)
        kept.append(torch.empty(12 * MIB, dtype=torch.uint8, device="cuda"))
        print(torch.cuda.memory_reserved() // MIB)
        """).splitlines() == ["4 20", "32"]


def test_graphs_and_pools_are_torchs_own_in_mode_segments(run: Callable[..., str]) -> None:
    assert run("""
        gpuconf.configure(limit="64MiB", growth=True, libraries={"torch": "segments"})
        import torch
        pool = torch.cuda.graph_pool_handle()
        graphs = [torch.cuda.CUDAGraph() for _ in range(2)]
        for graph in graphs:
            with torch.cuda.graph(graph, pool=pool):
                torch.empty(MIB, dtype=torch.uint8, device="cuda")
        captured = live()[0]
        for graph in graphs:
            graph.reset()
        torch.cuda.empty_cache()
        print(captured - live()[0], driver.fakecuda_live(b"allocations"))
        """).splitlines() == ["1 0"]


def test_expandable_segments_are_refused_before_torch_sees_them(run: Callable[..., str]) -> None:
    """The driver maps them: no limit would apply to them."""
    out = run("""
        import torch
        gpuconf.configure(limit="64MiB", libraries={"torch": "segments"})
        settings = torch.cuda.memory._set_allocator_settings
        settings("max_split_size_mb:512,expandable_segments:False")
        for bad in ("expandable_segments:True", "max_split_size_mb:512, expandable_segments: True"):
            try:
                settings(bad)
            except gpuconf.errors.FailedPreconditionError as error:
                print(error)
        x = torch.empty(1000, device="cuda")
        print(live(), taken_beside_gpuconf())
        """)
    *refused, last = out.splitlines()
    assert len(refused) == 2
    assert all("is incompatible with gpuconf's mode 'segments'" in line for line in refused)
    assert last == "[1] 0"


@pytest.mark.parametrize("imported", ["before", "after"])
def test_configure_comes_before_or_after_the_import(run: Callable[..., str], imported: str) -> None:
    out = run(f"""
        if {imported == "before"}:
            import torch
        print(gpuconf.configure(limit="64MiB").libraries["torch"])
        import torch
        print(driver.fakecuda_count(b"cuDevicePrimaryCtxRetain"))
        again = gpuconf.configure(limit="64MiB")
        print(again.libraries["torch"], again.limits)
        torch.empty(1000, device="cuda")
        print(gpuconf.configure(limit="64MiB") == again, taken_beside_gpuconf(), live())
        """)
    first, contexts, again, last = out.splitlines()
    assert first == {"before": "routed, in mode 'whole'", "after": "will use this limit once imported"}[imported]
    assert contexts == "0", "nothing uses the GPU before PyTorch does"
    assert again == "routed, in mode 'whole' {'/physical_device:GPU:0': 67108864}"
    assert last == "True 0 [0]"


def test_too_late_names_who_was_first_and_changes_nothing(run: Callable[..., str]) -> None:
    out = run("""
        import torch
        torch.empty(1000, device="cuda")
        try:
            gpuconf.configure(limit="64MiB")
        except gpuconf.errors.FailedPreconditionError as error:
            print(error)
        try:
            gpuconf.allocators.torch.install()
        except gpuconf.errors.FailedPreconditionError as error:
            print(error)
        gpu = gpuconf.config.list_physical_devices("GPU")[0]
        print(gpuconf.config.get_logical_device_configuration(gpu), gpuconf.config.experimental.get_memory_growth(gpu))
        print(gpuconf.configure(limit="64MiB", libraries=["numba"]).limits)
        """)
    configure, install, left, without = out.splitlines()
    assert configure.startswith("gpuconf.configure() was called too late: PyTorch has already used the GPU.")
    assert install.startswith("PyTorch has already used the GPU")
    assert left == "None None"
    assert without == "{'/physical_device:GPU:0': 67108864}"


def test_one_mode_a_process(run: Callable[..., str]) -> None:
    assert run("""
        import torch
        from gpuconf.allocators import torch as adaptor
        print(adaptor.installed())
        adaptor.install("segments")
        adaptor.install("segments")
        for mode in ("whole", "other"):
            try:
                adaptor.install(mode)
            except gpuconf.errors.GpuconfError as error:
                print(error)
        """).splitlines() == [
        "None",
        "PyTorch already runs on gpuconf in mode 'segments'; start a new process for 'whole'",
        "mode must be 'whole' or 'segments', but got 'other'",
    ]


def test_dlpack_of_a_real_buffer_is_a_cuda_tensor(run: Callable[..., str]) -> None:
    out = run("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch
        buffer = gpuconf.memory.allocate(1000)
        buffer.copy_from_host(bytes(range(250)) * 4)
        tensor = torch.from_dlpack(buffer)
        print(tensor.device, tensor.dtype, tensor.shape, tensor.data_ptr() == buffer.ptr, tensor[:4].cpu().tolist())
        print(buffer.__dlpack_device__(), buffer.__cuda_array_interface__ == {
            "shape": (1000,), "typestr": "|u1", "data": (buffer.ptr, False), "strides": None, "stream": None,
            "version": 3})
        shared = torch.as_tensor(buffer, device="cuda")
        print(shared.data_ptr() == buffer.ptr)
        buffer.free()
        print(live())
        del tensor
        print(live(), buffer)
        """)
    first, second, shared, lent, freed = out.splitlines()
    assert first == "cuda:0 torch.uint8 torch.Size([1000]) True [0, 1, 2, 3]"
    assert second == "(2, 0) True"
    assert shared == "True"
    assert lent == "[1]"
    assert freed == "[0] <gpuconf.Buffer of 1000 bytes on /device:GPU:0, freed>"
