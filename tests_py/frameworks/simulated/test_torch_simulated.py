"""PyTorch on the simulated GPUs of the package: no library of NVIDIA's is loaded."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import no_gpu
import pytest
import script
from doc_blocks import block

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]


def complete(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = script.plain() | environment
    command = [sys.executable, "-W", "ignore", *words]
    return script.completed(command, timeout=170, env=kept)


def run(program: str, **environment: str) -> list[str]:
    done = complete("-c", textwrap.dedent(program), **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_torchvision_may_be_imported_after_operators_in_python(tmp_path: Path) -> None:
    """FSDP registers its own, which must not be registered again with torchvision's.

    A stand-in is enough for the import.
    """
    (tmp_path / "torchvision.py").write_text("")
    program = """
    import gpuconf
    gpuconf.simulate("A100-40GB")
    import torch.distributed.fsdp
    import torchvision
    print(torch.ones(2, device="cuda").sum().item())
    """
    assert run(program, PYTHONPATH=str(tmp_path)) == ["2.0"]


def test_the_mode_of_long_rows_is_that_of_the_cpu() -> None:
    assert run("""
    import gpuconf
    gpuconf.simulate("A100-40GB")
    import torch
    rows = torch.arange(3 * 5000).reshape(3, 5000) % 777 + 1
    print([torch.equal(one.cpu(), other) for one, other in zip(rows.cuda().mode(), rows.mode())])
    """) == ["[True, True]"]


def test_gradients_are_summed_in_place_as_on_a_card_unless_one_is_kept() -> None:
    """A tensor that Python has seen, as all that kernels in Python return, is one that autograd does not add to in
    place.
    """
    assert run("""
    import gpuconf
    gpuconf.simulate("A100-40GB")
    import torch

    def grown(function):
        x = torch.ones(1 << 20, device="cuda", requires_grad=True)
        y, seed = function(x), torch.ones_like(x)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        y.backward(seed)
        return torch.cuda.max_memory_allocated() - before >> 22, x.grad[0].item()

    class Kept(torch.autograd.Function):
        kept = []

        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, grad):
            Kept.kept.append(grad * 2)
            return Kept.kept[-1]

    print(grown(lambda x: x * 2 + x * 3))
    print(grown(lambda x: Kept.apply(x) + Kept.apply(x)), [one[0].item() for one in Kept.kept])
    """) == ["(2, 5.0)", "(3, 4.0) [2.0, 2.0]"]  # two gradients, and their sum only if one is kept


def test_what_kernels_read_on_the_host_is_known_so_that_they_allocate_as_on_a_card() -> None:
    """Sorting and selecting need memory beside the input and the result, which only PyTorch's kernels for CUDA
    request.
    """
    *found, scans, last = run("""
    import gpuconf
    gpuconf.simulate("A100-40GB")
    import torch

    def beside(call, *inputs):
        given = [one.cuda() for one in inputs]
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        found, expected = call(*given), call(*inputs)
        own = torch.cuda.memory_allocated() - before
        pairs = zip((found,), (expected,)) if isinstance(found, torch.Tensor) else zip(found, expected)
        equal = all(torch.equal(one.cpu(), other) for one, other in pairs)
        return equal, torch.cuda.max_memory_allocated() - before - own >> 20

    x = torch.arange(1 << 20) * 7919 % 100_000
    print(beside(torch.unique, x), beside(lambda x: torch.unique(x, return_inverse=True, return_counts=True), x))
    print(beside(torch.median, x.float()), beside(torch.nanmedian, x.float()), beside(torch.isin, x, x[:1000] // 2))
    print(beside(torch.nonzero, x % 2), beside(torch.masked_select, x, x % 2 == 0), beside(lambda x: x[x > 500], x))
    print(beside(torch.bincount, x), beside(torch.histc, x.float()), beside(torch.repeat_interleave, x % 3))
    print(torch.equal(x.cuda(), x.cuda()), beside(lambda x: torch.unique(x % 9 == 0), x))
    """)
    assert found == ["(True, 8) (True, 16)", "(True, 32) (True, 32) (True, 40)", "(True, 0) (True, 4) (True, 8)"]
    # The last is the sum of the counts, which PyTorch keeps beside the result.
    assert scans == "(True, 0) (True, 0) (True, 8)"
    assert last == "True (True, 8)"


def test_what_kernels_read_on_the_host_is_never_what_a_freed_block_held() -> None:
    """CCCL's newer copies name no direction: sizes of terabytes were read of freed memory, and memory ran out."""
    assert run("""
    import gpuconf
    gpuconf.simulate("A100-40GB")
    import itertools
    import torch
    for shape, function in itertools.product(((5, 5), (7,), (3, 2, 4)), (torch.unique, torch.unique_consecutive)):
        x = torch.randint(0, 3, shape, generator=torch.Generator().manual_seed(1))
        for inverse, counts in itertools.product((False, True), (False, True)):
            for dim in (None, 0, -1):
                held = [torch.full((count,), 1 << 40, device="cuda") for count in (1, 64, 200, 2000) for _ in range(6)]
                del held
                wanted = function(x, return_inverse=inverse, return_counts=counts, dim=dim)
                found = function(x.cuda(), return_inverse=inverse, return_counts=counts, dim=dim)
                wanted, found = [(one,) if isinstance(one, torch.Tensor) else one for one in (wanted, found)]
                assert all(map(torch.equal, wanted, [one.cpu() for one in found])), (shape, inverse, counts, dim)
    print("equal")
    """) == ["equal"]


def test_nested_tensors_are_padded_and_what_is_not_computed_is_refused() -> None:
    """The padded tensor was all zeros, and quantized tensors failed with internal errors of PyTorch's."""
    equal, *refused = run("""
    import gpuconf
    gpuconf.simulate("A100-40GB")
    import torch
    def padded(device):
        parts = [torch.arange(6.0).reshape(2, 3), torch.arange(12.0).reshape(4, 3)]
        nested = torch.nested.nested_tensor(parts, device=device, requires_grad=True)
        found = torch.nested.to_padded_tensor(nested, -1.0)
        (found * found).sum().backward()
        larger = nested.to_padded_tensor(0.5, (2, 5, 4))
        return [one.tolist() for one in (found, larger, *nested.grad.unbind())]
    print(padded("cuda") == padded("cpu"))
    quantized = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8)
    for call in (lambda: torch.quantize_per_tensor(torch.ones(4, device="cuda"), 0.1, 0, torch.quint8), quantized.cuda,
                 lambda: torch._nested_tensor_from_mask(
                     torch.ones(2, 3, 4).cuda(), torch.ones(2, 3, dtype=torch.bool).cuda())):
        try:
            print(call())
        except NotImplementedError as error:
            print(error)
    """)
    assert equal == "True"
    assert len(refused) == 3
    assert all(" is not computed on simulated GPUs. " in one for one in refused), refused


def test_the_debug_mode_notices_what_waits_on_a_card() -> None:
    assert run("""
    import warnings
    import gpuconf
    gpuconf.simulate("A100-40GB")
    import torch
    x, mask = torch.rand(4, device="cuda"), torch.tensor([True, False, True, True], device="cuda")
    index, twice = torch.tensor([3, 1], device="cuda"), torch.full((1,), 2, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x + 1
    waits = ["x[mask]", "x[index.cpu()]", "x.nonzero()", "x.sum().item()", "bool(x.sum())",
             "x.repeat_interleave(twice)",
        "x.unique()", "torch.equal(x, x + 1)", "x.tolist()", "torch.cuda.current_stream().synchronize()"]
    others = ["x[index]", "x.masked_fill(mask, 1)", "x.repeat_interleave(twice, output_size=8)", "x.any()",
              "graph.replay()",
        "torch.randperm(20000, device='cuda')"]
    for mode in ("warn", "error"):
        noticed = []
        for code in (*waits, *others):
            torch.cuda.set_sync_debug_mode(mode)
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                try:
                    eval(code)
                except RuntimeError as error:
                    found.append(error)
            torch.cuda.set_sync_debug_mode("default")
            noticed += [code] * any("called a synchronizing CUDA operation" in str(one) for one in found)
        print(sorted(set(waits) ^ set(noticed)))
    """) == ["[]", "[]"]


def test_operators_that_the_cpu_computes_alone_check_their_outputs_and_devices() -> None:
    warning, *errors, is_finite = run("""
    import warnings
    import gpuconf
    gpuconf.simulate("A100-40GB")
    import torch
    x = torch.eye(3, device="cuda")
    outs = [torch.empty(1, dtype=torch.cfloat, device="cuda") for _ in range(2)]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        torch.linalg.eig(x, out=outs)
    print([(str(one.message)[:44], one.filename) for one in found])
    for call in (lambda: torch.linalg.eig(x.cpu(), out=outs), lambda: torch.histc(x, out=torch.empty(1))):
        try:
            print(call())
        except RuntimeError as error:
            print(error)
    x[1, 1] = 0
    print(torch.cholesky_inverse(x).isfinite().all().item())
    """)
    assert warning == repr([("An output with one or more elements was resi", "<string>")] * 2)
    assert [one[:51] for one in errors] == ["Expected all tensors to be on the same device, but "] * 2
    assert is_finite == "False"


@pytest.mark.parametrize("values", ["cpu", "none"])
def test_what_only_kernels_for_cuda_take(values: str) -> None:
    assert run(f"""
    import gpuconf
    gpuconf.simulate("A100-40GB", values="{values}")
    import torch

    x = torch.arange(12.0).reshape(4, 3)
    print(torch.allclose(torch.linalg.svdvals(x.cuda(), driver="gesvdj").cpu(), torch.linalg.svdvals(x), atol=1e-5))
    print(torch.fft.fft(x[:, :2].cuda().half()).dtype,
          torch.nansum(torch.tensor([1j, float("nan")], device="cuda")).item())
    print(torch.normal(x.cuda(), torch.zeros(4, 3, device="cuda")).sum().item())
    bag = torch.nn.EmbeddingBag(5, 2, mode="sum", sparse=True, device="cuda")
    bag(torch.tensor([[1, 1, 2]], device="cuda")).sum().backward()
    print(bag.weight.grad.to_dense().tolist())
    """) == [
        "True",
        "torch.complex32 1j",
        "66.0",
        "[[0.0, 0.0], [2.0, 2.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]",
    ]


def test_devices_memory_streams_and_out_of_memory() -> None:
    assert run("""
    import gpuconf
    gpuconf.simulate("2xA100-40GB", values="none")
    import torch
    print(torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.get_device_name())
    properties = torch.cuda.get_device_properties(1)
    print(properties.total_memory >> 30, properties.multi_processor_count, torch.cuda.get_device_capability())
    tensor = torch.empty(10, device="cuda")
    print(tensor.device, torch.cuda.memory_allocated(), torch.cuda.memory_reserved() >> 20)
    try:
        torch.empty(50 << 30, device="cuda", dtype=torch.uint8)
    except torch.OutOfMemoryError as error:
        print("total capacity of 39.39 GiB" in str(error))
    stream, events = torch.cuda.Stream(), [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    with torch.cuda.stream(stream):
        events[0].record()
        product = torch.randn(100, 100, device="cuda") @ torch.randn(100, 100, device="cuda")
        events[1].record()
    events[1].synchronize()
    print(events[0].elapsed_time(events[1]) >= 0, tuple(product.shape), torch.arange(4.0).to("cuda:1").cpu().tolist())
    # PyTorch loads some of NVIDIA's libraries by their paths before its own, and uses nothing of them.
    loaded = {line.rpartition("/")[2].partition(".")[0] for line in open("/proc/self/maps") if "/nvidia/" in line}
    print(loaded - {"libcublasLt", "libnvrtc", "libnvrtc-builtins", "libnvJitLink"})
    """) == [
        "True 2 NVIDIA A100-SXM4-40GB (simulated)",
        "39 108 (8, 0)",
        "cuda:0 512 2",
        "True",
        "True (100, 100) [0.0, 1.0, 2.0, 3.0]",
        "set()",
    ]


def test_the_variable_is_enough_if_gpuconf_is_imported_first() -> None:
    program = """
    import gpuconf, torch
    print(torch.cuda.get_device_name(), torch.cuda.mem_get_info()[1] >> 30, (torch.ones(3, device="cuda") * 2).tolist())
    """
    assert run(program, GPUCONF_SIMULATE="T4") == ["Tesla T4 (simulated) 14 [2.0, 2.0, 2.0]"]


def test_gpuconf_run_needs_no_line_of_the_program() -> None:
    program = "import torch; print(torch.cuda.get_device_name(), torch.arange(4, device='cuda').sum().item())"
    done = complete("-m", "gpuconf", "run", "--simulate", "T4", sys.executable, "-W", "ignore", "-c", program)
    assert (done.returncode, done.stdout) == (0, "Tesla T4 (simulated) 6\n"), done.stderr


def test_simulating_after_the_import_of_torch_names_its_line() -> None:
    program = """
    import gpuconf
    import torch
    try:
        gpuconf.simulate("T4")
    except RuntimeError as error:
        print(error)
    """
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"late_{os.getpid()}.py")
    with open(path, "w") as file:
        file.write(textwrap.dedent(program))
    try:
        done = complete(path)
        where = f"torch is imported already, in line 3 of {path}"
        assert done.stdout.startswith(where), done.stdout + done.stderr
    finally:
        os.unlink(path)


def test_pytorch_keeps_its_machine() -> None:
    program = """
    import gpuconf
    gpuconf.simulate("T4")
    import torch
    for spec in (None, "A100"):
        try:
            gpuconf.simulate(spec)
        except RuntimeError as error:
            print(error)
    print(gpuconf.simulate("T4"), gpuconf.simulated())
    for spec in ("T4-16GB", "tesla t4", torch.cuda.get_device_name()):
        print(gpuconf.simulate(spec))
    """
    why = "PyTorch runs on simulated GPUs (T4) until the process ends. Start another process for other GPUs"
    assert run(program) == [
        f"cannot end the simulation: {why}",
        f"cannot simulate A100-40GB: {why}",
        "gpuconf.simulate('T4') T4",
        *["gpuconf.simulate('T4')"] * 3,
    ]


def test_the_end_of_a_block_in_which_pytorch_has_started_is_an_error() -> None:
    program = """
    import gpuconf
    with gpuconf.simulate("2xT4"):
        gpuconf.memory.allocate(1000).free()
    print(repr(gpuconf.simulated()))
    try:
        with gpuconf.simulate("2xT4"):
            import torch
    except RuntimeError as error:
        print(error)
    print(gpuconf.simulated(), torch.cuda.device_count())
    """
    why = "PyTorch runs on simulated GPUs (2xT4) until the process ends. Start another process for other GPUs"
    assert run(program) == ["''", f"cannot end the simulation: {why}", "2xT4 2"]


def test_names_that_programs_read() -> None:
    """Those of PyTorch end in "(simulated)", unless the variable forbids it, and those of TensorFlow's functions do
    not.
    """
    program = """
    import gpuconf
    gpuconf.simulate("A100-40GB")
    import torch
    details = gpuconf.config.experimental.get_device_details(gpuconf.config.list_physical_devices("GPU")[0])
    print(torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).name, details["device_name"], sep="; ")
    """
    plain = "NVIDIA A100-SXM4-40GB"
    assert run(program) == [f"{plain} (simulated); {plain} (simulated); {plain}"]
    assert run(program, GPUCONF_SIMULATE_PLAIN_NAMES="1") == ["; ".join([plain] * 3)]


def test_a_model_trains_as_on_the_cpu() -> None:
    assert run("""
    import gpuconf
    gpuconf.simulate("A100-40GB")
    import torch
    from torch import nn

    def train(device):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(20, 50), nn.GELU(), nn.LayerNorm(50), nn.Linear(50, 10))
        x, y = torch.randn(64, 20).to(device), torch.randint(0, 10, (64,)).to(device)
        optimizer = torch.optim.AdamW(model.to(device).parameters())
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses
    print(train("cpu") == train("cuda"))
    """) == ["True"]


def gpuconf_run(folder: Path, program: str, *options: str) -> str:
    (folder / "limit.py").write_text(textwrap.dedent(program), encoding="utf-8")
    command = [sys.executable, "-m", "gpuconf", "run", "--simulate", "A100-40GB", *options, sys.executable, "limit.py"]
    variables = script.plain() | {"GPUCONF_LEDGER": str(folder / "ledger")}
    return script.printed(command, timeout=170, env=variables, cwd=folder)


def test_the_program_of_readme(tmp_path: Path) -> None:
    out = gpuconf_run(tmp_path, block("README.md", "import gpuconf"))
    assert (
        "the limit is reached.\n  limit 6.00GiB (6442450944 bytes), in use 4.00GiB (4294967296 bytes) in 1 block" in out
    )
    assert "in use by torch" in out


@pytest.mark.parametrize("mode", ["whole", "segments"])
def test_a_limit_and_values_in_both_modes(mode: str, tmp_path: Path) -> None:
    program = f"""
    import gpuconf
    print(gpuconf.configure(limit="64MiB", libraries={{"torch": {mode!r}}}).libraries["torch"])
    import torch
    weights = torch.ones(1 << 20, device="cuda", requires_grad=True)
    with gpuconf.memory.tag("loss"):
        loss = (weights * 3).sum()
    loss.backward()
    print(loss.item(), weights.grad.unique().tolist(), gpuconf.memory.usage().bytes_in_use >= 8 << 20)
    try:
        torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        print("refused")
    """
    lines = gpuconf_run(tmp_path, program).splitlines()
    assert lines[0].endswith(", on simulated GPUs (A100-40GB)")
    assert lines[1:] == ["3145728.0 [3.0] True", "refused"]


@pytest.mark.parametrize("mode", ["whole", "segments"])
def test_a_recording_has_the_calls_of_the_program(mode: str, tmp_path: Path) -> None:
    program = f"""
    import pickle
    import gpuconf
    gpuconf.simulate("A100-40GB")
    gpuconf.configure(libraries={{"torch": {mode!r}}})
    import torch
    def grow():
        return [torch.empty(3 << 20, dtype=torch.uint8, device="cuda") for _ in range(3)]
    with gpuconf.memory.record(stacks=True) as recording:
        y = grow()
    recording.save({str(tmp_path / "steps.pickle")!r})
    for event in pickle.load(open({str(tmp_path / "steps.pickle")!r}, "rb"))["device_traces"][0]:
        if event["action"] == "alloc":
            print(event["size"] >> 20, [frame["name"] for frame in event["frames"] if frame["name"] != "<listcomp>"])
    """
    calls = "['grow', '<module>']"
    if mode == "whole":
        assert run(program) == [f"3 {calls}"] * 3
    else:  # PyTorch holds a lock then, so that there are calls only if the thread has the GIL, too, as from 2.9 on
        assert run(program) in (["20 []"], [f"20 {calls}"])


def test_a_lease_limits_a_program_that_knows_nothing_of_gpuconf(tmp_path: Path) -> None:
    program = """
    import torch
    held = torch.full((200 << 20,), 3, dtype=torch.uint8, device="cuda")
    try:
        torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        print("refused", held[-1].item())
    """
    assert gpuconf_run(tmp_path, program, "--memory", "300MiB") == "refused 3\n"


@pytest.mark.parametrize(("mode", "limit"), [("", ""), ("whole", ""), ("segments", "100MiB")])
@pytest.mark.parametrize("words", [(), ("--growth",)])
def test_free_memory_is_what_a_program_can_allocate(
    tmp_path: Path, mode: str, limit: str, words: tuple[str, ...]
) -> None:
    """Where the pool takes its limit at once, nothing was free after the first tensor: programs put their models on the
    CPU.
    """
    program = f"""
    import gpuconf, torch
    if {mode!r}:
        gpuconf.configure(limit={limit!r} or None, libraries={{"torch": {mode!r}}})
    held = torch.empty(20 << 20, dtype=torch.uint8, device="cuda")
    for ask in (torch.cuda.mem_get_info, getattr(torch.accelerator, "get_memory_info", torch.cuda.mem_get_info)):
        print(*(bytes >> 20 for bytes in ask()))
    more = torch.empty(torch.cuda.mem_get_info()[0], dtype=torch.uint8, device="cuda")
    print(torch.cuda.mem_get_info()[0])
    """
    most = 100 if limit else 300
    assert gpuconf_run(tmp_path, program, "--memory", "300MiB", *words) == f"{most - 20} {most}\n" * 2 + "0\n"


@pytest.mark.parametrize("mode", ["whole", "segments"])
def test_free_memory_within_a_limit_without_a_lease(mode: str) -> None:
    """In mode segments it was the card's."""
    assert run(f"""
    import gpuconf
    gpuconf.simulate("A100-40GB")
    gpuconf.configure(limit="100MiB", libraries={{"torch": {mode!r}}})
    import torch
    held = torch.empty(20 << 20, dtype=torch.uint8, device="cuda")
    print(*(bytes >> 20 for bytes in torch.cuda.mem_get_info()))
    """) == ["80 100"]


def test_torchscript_has_values(tmp_path: Path) -> None:
    """It fuses operations into kernels of its own on a GPU, after it has run them a few times."""
    program = """
    import gpuconf
    gpuconf.simulate("T4")
    import torch
    @torch.jit.script
    def blend(x, y):
        return (x * y + x - y / 2) * x
    x = torch.arange(4.0, device="cuda")
    print([blend(x, x + 1).tolist() for _ in range(4)] == [blend(x.cpu(), x.cpu() + 1).tolist()] * 4)
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(program), encoding="utf-8")  # it reads the source
    done = complete(str(tmp_path / "script.py"))
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_process_forked_before_cuda_starts_has_cuda_as_on_a_card() -> None:
    """Its memory is its own, though all of a job share the card; after the parent has started CUDA, PyTorch refuses a
    child.
    """
    program = """
    import os, time, torch
    def fork(child):
        pid = os.fork()
        if pid == 0:
            try:
                child()
                os._exit(0)
            except RuntimeError as error:
                print(str(error)[:46], flush=True)
                os._exit(1)
        return pid
    def fill(rank):
        x = torch.full((1 << 20,), float(rank), device="cuda")
        time.sleep(1)
        assert bool((x == rank).all())
    pids = [fork(lambda: fill(rank)) for rank in range(2)]
    fill(9)
    print([os.waitpid(pid, 0)[1] for pid in pids], flush=True)
    print(os.waitpid(fork(lambda: fill(3)), 0)[1], flush=True)
    """
    program = textwrap.dedent(program)
    job = ["-m", "gpuconf", "run", "--simulate", "T4", sys.executable, "-W", "ignore"]
    for words in (["-c", "import gpuconf; gpuconf.simulate('T4')" + program], [*job, "-c", program]):
        done = complete(*words)
        assert done.stdout.splitlines() == ["[0, 0]", "Cannot re-initialize CUDA in forked subprocess", "256"], (
            done.stderr
        )
