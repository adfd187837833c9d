"""PyTorch on gpuconf's memory."""

from __future__ import annotations

import threading
from typing import Any

import gpuconf
from checks import MIB, expect, live, need, rounds, split, wait_for_graphs


def model(torch: Any) -> tuple[Any, Any]:
    """A parameter and a loss."""
    weight = torch.randn(512, 512, device="cuda", requires_grad=True)
    return weight, ((weight @ weight).relu() ** 2).mean()


def case_torch_trains_within_the_limit() -> None:
    """A training loop: same losses as without gpuconf, all memory in the accounting, all of it released at the end."""
    torch = need("torch")
    gpuconf.configure(limit="1GiB", growth=True, libraries=["torch"])
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for step in range(50):
        batch = torch.randn(64 + step, 256, device="cuda")
        loss = torch.nn.functional.cross_entropy(net(batch), torch.zeros(len(batch), dtype=torch.long, device="cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expect(losses[-1] < losses[0] / 10, f"it does not learn: {losses[0]} to {losses[-1]}")
    stats = gpuconf.memory.stats()
    expect(torch.cuda.memory_allocated() == stats.bytes_in_use > 0, "PyTorch's function and the books differ")
    expect(stats.bytes_reserved <= 1 << 30, "more than the limit is reserved")


def case_torch_out_of_memory_is_its_own_error() -> None:
    """torch.OutOfMemoryError with gpuconf's text, also in a backward pass, and the program continues."""
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    kept = torch.empty(128 * MIB, dtype=torch.uint8, device="cuda")
    try:
        torch.empty(200 * MIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        expect("CUDA out of memory. " in str(error) and "limit 256.00MiB" in str(error), str(error))
    else:
        raise AssertionError("200 MiB beside 128 fitted into 256")
    big = torch.empty(24 * MIB, device="cuda", requires_grad=True)  # 96 MiB, and its gradient has the same size
    del kept
    hog = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    try:
        big.sum().backward()
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("a gradient went past the limit")
    del hog
    big.sum().backward()


def case_torch_backward_stays_in_its_budget() -> None:
    """Two logical GPUs on one card: a backward pass allocates within the limit of its forward pass, in any thread."""
    torch = need("torch")
    split(512, 256)
    gpuconf.configure(libraries=["torch"])
    with gpuconf.device("GPU:1"):
        weight, loss = model(torch)
    before = live("GPU:0")
    loss.backward()
    torch.cuda.synchronize()
    expect(live("GPU:0") == before, "the backward pass took from GPU:0")
    expect(weight.grad is not None and bool(torch.isfinite(weight.grad).all()), "the gradient is wrong")
    reference = weight.detach().cpu().double().requires_grad_()
    ((reference @ reference).relu() ** 2).mean().backward()
    expect(
        torch.allclose(weight.grad.cpu().double(), reference.grad, rtol=1e-2, atol=1e-5),
        "the gradient is not the CPU's",
    )


def case_torch_streams_hand_memory_over_safely() -> None:
    """A million hand-overs between streams with record_stream: no stream reads memory that was overwritten too
    early.
    """
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    side, wrong = torch.cuda.Stream(), torch.zeros(1, dtype=torch.long, device="cuda")
    for round_ in rounds(1_000_000):
        value = round_ % 251
        block = torch.full((4096,), value, dtype=torch.uint8, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            if round_ % 100 == 0:
                torch.cuda._sleep(1_000_000)
            wrong += (block != value).sum()
        block.record_stream(side)
        del block
        torch.full((4096,), 255, dtype=torch.uint8, device="cuda")  # gets the block, if it may be reused
    expect(int(wrong) == 0, f"{int(wrong)} bytes were overwritten")


def case_torch_memory_functions_all_answer() -> None:
    """Every public function of torch.cuda.memory works in mode whole."""
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    torch.empty(1000, device="cuda")
    memory = torch.cuda.memory
    skipped = (
        "CUDAPluggableAllocator",
        "MemPool",
        "MemPoolContext",
        "use_mem_pool",
        "change_current_allocator",
        "list_gpu_processes",
    )
    pointer = 0
    for name in memory.__all__:
        if name in skipped:
            continue
        given = {
            "set_per_process_memory_fraction": [1.0],
            "caching_allocator_alloc": [1000],
            "caching_allocator_delete": [pointer],
        }
        answer = getattr(memory, name)(*given.get(name, []))
        if name == "caching_allocator_alloc":
            pointer = answer


def case_torch_segments_capture_graphs() -> None:
    """Mode segments: PyTorch's statistics, and a CUDA graph that is captured and replayed, under the limit."""
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries={"torch": "segments"})
    x = torch.ones(1000, device="cuda")
    y = x * 2
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    x.fill_(21)
    graph.replay()
    expect(bool((y == 42).all()), "the replay is wrong")
    expect(torch.cuda.memory_stats()["allocated_bytes.all.current"] > 0, "PyTorch has no books")
    expect(gpuconf.memory.stats().bytes_in_use > 0, "the segments are not ours")


def case_torch_captures_graphs_in_whole_mode() -> None:
    """A CUDA graph with gpuconf as the allocator: replays are correct and harm no other data, and its memory is
    released.
    """
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    x = torch.ones(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2 + 1) * 3
    others = [torch.full((1 << 20,), 7.0, device="cuda") for _ in range(20)]
    for value in range(20):
        x.fill_(value)
        graph.replay()
        expect(bool((y == (value * 2 + 1) * 3).all()), "a replay is wrong")
    expect(all(bool((other == 7).all()) for other in others), "a replay wrote to memory of others")
    del graph, y
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    wait_for_graphs()


def case_threads_count_all_memory() -> None:
    """Sixteen Python threads allocate and free through PyTorch at once."""
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    torch.cuda.init()
    wrong: list[str] = []

    def work(number: int) -> None:
        for round_ in range(2000):
            block = torch.full((1 + (round_ * 37) % 4096,), number, dtype=torch.uint8, device="cuda")
            if round_ % 500 == 0 and not bool((block == number).all()):
                wrong.append(f"thread {number}, round {round_}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not wrong, f"memory of others was seen: {wrong[:5]}")
    expect(live() == 0, "blocks are left")


def case_usage_names_the_holders() -> None:
    """Blocks count by library and tag, a backward pass too; with stacks, the calls of both sides of a training step are
    known.
    """
    torch = need("torch")
    gpuconf.configure(limit="256MiB", libraries=["torch"])
    with gpuconf.memory.tag("weights"):
        weight = torch.randn(512, 512, device="cuda", requires_grad=True)
    buffer = gpuconf.memory.allocate(MIB)
    with gpuconf.memory.record(stacks=True) as recording, gpuconf.memory.tag("step"):
        (weight @ weight).sum().backward()
    usage, stats = gpuconf.memory.usage(), gpuconf.memory.stats()
    held = {(row.library, row.tag): row.bytes_in_use for row in usage if row.bytes_in_use}
    expect(held[("torch", "weights")] == held[("gpuconf", "")] == MIB, f"not who holds it: {usage}")
    expect(held[("torch", "step")] >= MIB and ("torch", "") not in held, f"the gradient is not the step's: {usage}")
    expect(sum(held.values()) == stats.bytes_in_use, "the rows do not add up")
    sites = {event.call_site for event in recording.events if event.action == "allocate"}
    expect(
        any(site is not None and site[2] == "case_usage_names_the_holders" for site in sites),
        f"calls are missing: {sites}",
    )
    buffer.free()
