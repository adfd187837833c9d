"""Random programs of PyTorch on a simulated GPU beside the CPU.

``python random_programs_on_simulated_gpus.py [--programs N] [--seed S] [NAME ...]`` runs N programs of 5 to 30 steps
from seed S on: operators of PyTorch's own table (these, else all that compare), their forms in place, views, gradients,
two streams and captured graphs. What the allocator has free holds a pattern, so that stale memory does not go unseen. A
program whose results differ is shrunk, and printed with its seed and steps; ``--seed S --steps I,J`` runs these again.
``--plant NAME`` takes a part of the product away that programs must find.
"""

import argparse
import faulthandler
import functools
import math
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator

from operators_in_place_on_simulated_gpus import AROUND, SHAPES
from operators_on_simulated_gpus import DIFFERENT  # before torch: it simulates a GPU

import torch  # isort: skip
from freed_blocks import fill_freed_blocks
from gpuconf.simulation.values import kernels, moves
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

CHUNK = 1000  # programs of a process
FEW = 200  # programs that need no other process than this one
SAMPLES = 4
LARGEST = 2000  # elements of a tensor
KEPT = 10  # tensors that a program has at a time
TYPES = (torch.float32, torch.float32, torch.float64, torch.int64, torch.complex64, torch.bool)
KINDS = {"operator": 9, "in place": 5, "on a value": 3, "view": 4, "gradients": 2, "stream": 2, "graph": 1}
# They draw what a CPU draws only in the first operation after a seed, or have other results on a GPU by their contract:
# PyTorch sums renorm's norm in float64 on the CPU and in float32 on a GPU. MKL crashes at eigenvalues of infinities and
# NaN, and PyTorch's CPU at lcm of the least integer. channel_shuffle's gradient on a GPU takes none whose parts
# are apart. PyTorch's polynomials of NaN are memory that was not written.
LEFT_OUT = (
    *AROUND,
    *DIFFERENT,
    *("bernoulli", "cauchy", "dropout", "exponential", "geometric", "log_normal", "multinomial", "nn.functional.rrelu"),
    *("normal", "rand", "uniform", "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout"),
    *("nn.functional.fractional_max_pool", "nn.functional.dropout", "svd_lowrank", "pca_lowrank", "linalg.svd"),
    *"""
        linalg.eig linalg.eigvals geqrf nn.functional.multi_head_attention_forward to_sparse sparse item tolist
    """.split(),
    *("nn.functional.scaled_dot_product_attention", "linalg.lstsq", "linalg.ldl", "linalg.qr", "qr", "svd", "ormqr"),
    *("nn.functional.channel_shuffle", "lcm"),
    *("linalg.householder_product", "linalg.pinv", "linalg.lu", "lu", "linalg.eigh", "pinverse", "linalg.matrix_rank"),
    *"""
        histogram tensor_split renorm __getitem__ linalg.cond linalg.matrix_norm linalg.norm norm.nuc
    """.split(),
)
REFUSALS = ("Could not run", "is not computed on simulated GPUs", '_cuda" not implemented for')
Make = Callable[[random.Random, torch.Tensor], torch.Tensor]
VIEWS: dict[str, Make] = {
    "transposed": lambda _draw, x: x.mT if x.dim() > 1 else x.unsqueeze(0),
    "reversed dimensions": lambda _draw, x: x.permute(*reversed(range(x.dim()))),
    "every second": lambda _draw, x: x[..., ::2] if x.dim() else x.view(1),
    "without the first": lambda _draw, x: x[1:] if x.dim() and x.shape[0] > 1 else x.unsqueeze(-1),
    "expanded": lambda draw, x: x.unsqueeze(0).expand(draw.randint(1, 3), *x.shape),
    "diagonal": lambda _draw, x: x.diagonal() if x.dim() > 1 else x,
    "selected": lambda draw, x: x.select(0, draw.randrange(x.shape[0])) if x.dim() and x.shape[0] else x,
    "flat": lambda _draw, x: flat(x),
    "real": lambda _draw, x: torch.view_as_real(x) if x.is_complex() and not x.is_conj() else x.unsqueeze(0),
}


def flat(value: torch.Tensor) -> torch.Tensor:
    """Return a value as one dimension. cuFFT's results are laid out in other ways than MKL's."""
    if not value.is_contiguous():
        raise RefusedError
    return value.view(-1)


def is_left_out(name: str) -> bool:
    return any(name == left or (left in AROUND and name.startswith(left)) for left in LEFT_OUT) or any(
        word in name for word in ("rand", "dropout", "empty", "lowrank", "sparse", "fractional", "_polynomial_")
    )


OPERATORS = [op for op in op_db if not is_left_out(op.name)]
BY_NAME = {op.formatted_name: op for op in OPERATORS}
IN_PLACE = [op for op in OPERATORS if op.inplace_variant is not None]


def tensors(value: object) -> list[torch.Tensor]:
    found = [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]
    return [one for one in found if one.layout is torch.strided and not one.is_quantized]


@functools.cache
def samples(name: str, dtype: torch.dtype) -> list[object]:
    """Return the small first samples of an operator on the CPU."""
    op = BY_NAME[name]
    if dtype not in op.dtypes or dtype not in op.dtypesIfCUDA:
        return []
    torch.manual_seed(0)
    found = []
    try:
        for sample, _ in zip(op.sample_inputs_func(op, "cpu", dtype, False), range(3 * SAMPLES), strict=False):
            parts = tensors((sample.input, sample.args, sample.kwargs))
            if isinstance(sample.input, torch.Tensor) and all(part.numel() <= LARGEST for part in parts):
                found.append(sample)
        if name == "nn_functional_rms_norm":  # over a single number, its gradient is what rounding leaves
            found = [sample for sample in found if math.prod(sample.args[0]) > 1]
    except Exception:
        return []  # a library that the samples need is missing
    return found[:: max(1, len(found) // SAMPLES)][:SAMPLES]


class RefusedError(Exception):
    """An operator that one of the devices has not, or that refuses its arguments."""


class Device:
    """A program's tensors on one of the devices."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_gpu = name == "cuda"
        self.values: list[torch.Tensor] = []
        self.leaves: list[torch.Tensor] = []
        self.streams = [torch.cuda.Stream() for _ in range(2)] if self.is_gpu else []

    def here(self, value: object) -> object:
        """Return a sample's arguments on this device."""

        def move(part: object) -> object:
            if isinstance(part, torch.Tensor):
                return part.detach().clone().to(self.name)
            return self.name if isinstance(part, torch.device) or part == "cpu" else part

        return tree_map(move, value)

    def keep(self, results: object) -> list[torch.Tensor]:
        """Keep results for later steps. Returns them."""
        found = tensors(results)
        self.values = (self.values + [one for one in found if 0 < one.numel() <= LARGEST])[-KEPT:]
        return found

    def shaped(self, draw: random.Random, like: torch.Tensor) -> torch.Tensor:
        """Return one of the program's values in the shape and type of another tensor, if there is one."""
        fitting = [one for one in self.values if one.is_complex() == like.is_complex() and one.numel()]
        if not fitting or not like.numel() or draw.random() < 0.2:
            return self.here(like)
        value = draw.choice(fitting)
        flat = value.reshape(-1)[torch.arange(like.numel(), device=self.name) % value.numel()]
        return flat.reshape(like.shape).to(like.dtype)


def drawn(draw: random.Random, among: list[object]) -> tuple[object, object]:
    """Draw an operator and a sample of it."""
    for _ in range(20):
        op = draw.choice(among)
        found = samples(op.formatted_name, draw.choice(TYPES))
        if found:
            return op, draw.choice(found)
    raise RefusedError


def apply(device: Device, draw: random.Random) -> tuple[str, object]:
    op, sample = drawn(draw, OPERATORS)
    args, named = device.here((sample.args, sample.kwargs))
    return op.formatted_name, op(device.shaped(draw, sample.input), *args, **named)


def apply_in_place(device: Device, draw: random.Random) -> tuple[str, object]:
    op, sample = drawn(draw, IN_PLACE)
    shape = draw.choice(list(SHAPES))
    args, named = device.here((sample.args, sample.kwargs))
    value = device.shaped(draw, sample.input)
    if not value.numel():
        raise RefusedError
    target = SHAPES[shape](value * 1 if value.dtype is not torch.bool else value.clone())
    return f"{op.formatted_name} in place, {shape}", (op.inplace_variant(target, *args, **named), target)


def apply_to_a_value(device: Device, draw: random.Random) -> tuple[str, object]:
    """Change one of the values, which others may be views of."""
    if not device.values:
        raise RefusedError
    value = draw.choice(device.values)
    op, sample = drawn(draw, IN_PLACE)
    if len(tensors((sample.args, sample.kwargs))) > 1:
        raise RefusedError
    args, named = tree_map(
        lambda part: device.shaped(draw, value.detach()) if isinstance(part, torch.Tensor) else part,
        (sample.args, sample.kwargs),
    )
    if value.is_leaf and value.requires_grad:
        raise RefusedError
    return f"{op.formatted_name} of a value", op.inplace_variant(value, *args, **named)


def view(device: Device, draw: random.Random) -> tuple[str, object]:
    if not device.values:
        raise RefusedError
    name = draw.choice(list(VIEWS))
    return f"a view, {name}", VIEWS[name](draw, draw.choice(device.values))


def differentiate(device: Device, draw: random.Random) -> tuple[str, object]:
    outs = [one for one in device.values if one.requires_grad]
    if not outs or not device.leaves:
        raise RefusedError
    out = outs[-1] if draw.random() < 0.7 else draw.choice(outs)
    # A copy on each device: PyTorch does not do the same with a view as with a tensor of its own.
    grad = (torch.arange(out.numel()) % 7 - 3).to(out.dtype).reshape(out.shape).to(device.name, copy=True)
    grads = torch.autograd.grad(out, device.leaves, grad, retain_graph=True, allow_unused=True)
    return "gradients", [one for one in grads if one is not None]


def capture(device: Device, draw: random.Random) -> tuple[str, object]:
    """Replay some operators with other inputs than were captured."""
    steps = [drawn(draw, OPERATORS if draw.random() < 0.7 else IN_PLACE) for _ in range(draw.randint(1, 3))]
    inputs = [device.here((sample.input, sample.args, sample.kwargs)) for _, sample in steps]
    places = [x[0].detach() for x in inputs]  # an operator in place may transpose the input itself
    changed = [2 * x[0] if x[0].is_floating_point() else x[0].clone() for x in inputs]
    # One that enlarges its input copies it, at each replay, from memory that was freed.
    in_place = [
        op.inplace_variant is not None and not sample.broadcasts_input and draw.random() < 0.5 for op, sample in steps
    ]

    def run() -> list[object]:
        calls = zip(steps, in_place, inputs, strict=True)
        return [(op.inplace_variant if there else op)(x, *args, **named) for (op, _), there, (x, args, named) in calls]

    def change() -> None:
        for place, value in zip(places, changed, strict=True):
            place.copy_(value)

    with torch.no_grad():
        if device.is_gpu:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results = run()
            fill_freed_blocks()
            change()
            graph.replay()
        else:
            change()
            results = run()
    names = ", ".join(op.formatted_name for op, _ in steps)
    return f"a graph of {names}", tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, results)


STEPS = {
    "operator": apply,
    "in place": apply_in_place,
    "on a value": apply_to_a_value,
    "view": view,
    "gradients": differentiate,
    "graph": capture,
}


class Program:
    """The program of a seed: its steps have random numbers of their own, so that it can run without some of them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        draw = random.Random(seed)
        kinds = [kind for kind, weight in KINDS.items() for _ in range(weight)]
        self.steps = [draw.choice(kinds) for _ in range(draw.randint(5, 30))]
        self.has_gradients = draw.random() < 0.65
        if self.has_gradients:
            self.steps[-1] = "gradients"
        self.lines: list[str] = []
        self.done: Counter[str] = Counter()

    def run(self, chosen: list[int]) -> str:
        """Run these steps. Returns what differs, or ""."""
        cpu, gpu = Device("cpu"), Device("cuda")
        self.lines, self.done = [], Counter()
        torch.cuda.set_stream(torch.cuda.default_stream())
        try:
            self._begin(cpu, gpu)
            for index in chosen:
                trouble = self._step(index, cpu, gpu)
                if trouble:
                    return f"step {index}, {trouble}"
            return self._compare("at the end", cpu.values, gpu.values)
        finally:
            torch.cuda.set_stream(torch.cuda.default_stream())

    def _begin(self, cpu: Device, gpu: Device) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        for shape in ((3, 4), (5,), (2, 3, 3)):
            leaf = torch.randn(shape, dtype=torch.float32 if len(shape) < 3 else torch.float64, generator=generator)
            for device in (cpu, gpu):
                own = leaf.to(device.name, copy=True).requires_grad_(self.has_gradients)
                device.leaves += [own] if self.has_gradients else []
                device.values.append(own)

    def _step(self, index: int, cpu: Device, gpu: Device) -> str:
        kind = self.steps[index]
        if kind == "stream":
            before, now = torch.cuda.current_stream(), gpu.streams[index % 2]
            now.wait_stream(before)
            torch.cuda.set_stream(now)
            self.done[kind] += 1
            return ""
        outcomes: list[object] = []
        values = list(cpu.values), list(gpu.values)
        for device in (cpu, gpu):
            if device.is_gpu:
                fill_freed_blocks()
            try:
                outcomes.append(STEPS[kind](device, random.Random(f"{self.seed}:{index}")))
            except RefusedError:
                return ""
            except Exception as error:
                outcomes.append(error)
            if not device.is_gpu and isinstance(outcomes[0], Exception):
                return self._undo(values, cpu, gpu)
        expected, found = outcomes
        if isinstance(found, Exception):
            if kind == "graph" or any(text in str(found) for text in REFUSALS):
                return self._undo(values, cpu, gpu)
            return f"{kind}: {expected[0]}: {type(found).__name__}: {str(found)[:300]}"
        self.lines.append(f"{index}: {expected[0]}")
        self.done[kind] += 1
        return self._compare(expected[0], cpu.keep(expected[1]), gpu.keep(found[1]))

    def _undo(self, values: tuple[list[torch.Tensor], list[torch.Tensor]], cpu: Device, gpu: Device) -> str:
        """Go on after a step that one device refuses, with what it may have changed in part made equal."""
        cpu.values, gpu.values = values
        for one, other in zip(cpu.values, gpu.values, strict=True):
            if one.shape != other.shape:
                cpu.values, gpu.values = [], []
                break
            adopt(one, other)
        return ""

    def _compare(self, what: str, expected: list[torch.Tensor], found: list[torch.Tensor]) -> str:
        if len(expected) != len(found):
            return f"{what}: {len(found)} results where the CPU has {len(expected)}"
        for one, other in zip(expected, found, strict=True):
            there = other.detach().cpu()
            scale = max(1.0, float(finite_part(one).abs().max())) if one.numel() else 1.0
            try:
                torch.testing.assert_close(
                    there, one.detach(), rtol=1e-4, atol=1e-4 * scale, equal_nan=True, check_stride=False
                )
            except (AssertionError, RuntimeError) as error:
                return f"{what}: " + " ".join(str(error).split())[:300]
            adopt(one, other)
        return ""


def finite_part(value: torch.Tensor) -> torch.Tensor:
    wide = value.detach().to(torch.complex128) if value.is_complex() else value.detach().double()
    return torch.where(wide.isfinite(), wide, torch.zeros_like(wide))


def adopt(value: torch.Tensor, other: torch.Tensor) -> None:
    """Give a tensor on the GPU the CPU's values, from which rounding keeps it, so that no later step enlarges it."""
    with torch.no_grad():
        try:
            if not torch.equal(other.cpu(), value):
                other.data.copy_(value.detach())
        except RuntimeError:
            return  # an expanded tensor, or a type without a comparison


def shrunk(program: Program) -> tuple[list[int], str]:
    """Return the steps of a program without which nothing differs, and what differs."""
    kept, trouble = list(range(len(program.steps))), ""
    size = len(kept)
    while size:
        for begin in range(len(kept) - size, -1, -size):
            fewer = kept[:begin] + kept[begin + size :]
            if program.run(fewer):
                kept = fewer
        size //= 2
    trouble = program.run(kept)
    return kept, trouble or "nothing differs when it runs again"


def plant_copies() -> None:
    """Let PyTorch's kernels copy over what an operator writes to, before the CPU reads it."""
    make = kernels.copying

    def copying(operator: kernels.Operator) -> kernels.Kernel:
        kernel = make(operator)

        def planted(keys: object, to: torch.Tensor, source: object, non_blocking: bool = False) -> torch.Tensor:
            on_gpus = to.is_cuda and isinstance(source, torch.Tensor) and source.is_cuda
            if not kernels.state.inside or not on_gpus or not moves.is_bytewise(to, source):
                return kernel(keys, to, source, non_blocking)
            moves.to_view(to).copy_(moves.to_view(source))
            return to

        return planted

    kernels.copying = copying


def plant_sizes() -> None:
    """Let the CPU see tensors with the sizes that PyTorch's kernel gave them."""
    kernels.Call._args_on_cpu = lambda call: kernels.arguments_on_cpu(call.args)


PLANTS = {"copies": plant_copies, "sizes": plant_sizes}


def work(first: int, count: int, steps: list[int] | None = None) -> Iterator[str]:
    """Run programs in this process, and yield lines for each."""
    for seed in range(first, first + count):
        program = Program(seed)
        yield f"seed {seed}"
        kept = list(range(len(program.steps))) if steps is None else steps
        trouble = program.run(kept)
        kinds = "+".join(kind for kind in KINDS if program.done[kind])
        if trouble:
            if steps is None:
                kept, trouble = shrunk(program)
            yield f"differs: --seed {seed} --steps {','.join(map(str, kept))}\n  {trouble}"
            yield from (f"    {line}" for line in program.lines)
        yield f"ran {kinds}{' different' if trouble else ''}"


def in_processes(first: int, count: int) -> Iterator[str]:
    """Yield the lines of the processes that run the programs; one that ends in the middle of a program is a line."""
    end = first + count
    while first < end:
        numbers = ["--seed", str(first), "--programs", str(min(CHUNK, end - first))]
        command = [sys.executable, *sys.argv, *numbers, "--here"]  # the last of an option counts
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        seed = first
        try:
            for line in process.stdout:
                if line.startswith("seed "):
                    seed = int(line.split()[1])
                yield line.rstrip()
        finally:
            if process.poll() is None and sys.exc_info()[0] is GeneratorExit:
                process.kill()
        if process.wait():
            yield f"differs: --seed {seed}: its process ended with status {process.returncode}"
            yield "ran different"
        first = seed + 1


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=lambda text: [int(index) for index in text.split(",")])
    parser.add_argument("--plant", choices=sorted(PLANTS))
    parser.add_argument("--until-different", action="store_true", help="end after the first program that differs")
    parser.add_argument("--here", action="store_true", help="in this process, a line for each program")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.names:
        OPERATORS[:] = [op for op in OPERATORS if op.name in options.names]
        IN_PLACE[:] = [op for op in IN_PLACE if op.name in options.names]
    if options.plant:
        PLANTS[options.plant]()
    torch.set_num_threads(1)
    faulthandler.enable()
    if options.here:
        for line in work(options.seed, options.programs):
            print(line, flush=True)
        return 0
    if options.steps:
        lines = work(options.seed, 1, options.steps)
    else:
        lines = (work if options.programs <= FEW else in_processes)(options.seed, options.programs)
    programs = different = 0
    having: Counter[str] = Counter()
    for line in lines:
        if line.startswith("ran "):
            programs += 1
            different += line.endswith(" different")
            kinds = line.removeprefix("ran ").removesuffix(" different").split("+")
            having.update(kinds)
            having["view or in place"] += bool({"in place", "on a value", "view"}.intersection(kinds))
            if different and options.until_different:
                break
        elif not line.startswith("seed "):
            print(line, flush=True)
    shares = ", ".join(f"{count} with {kind}" for kind, count in having.most_common() if kind)
    print(f"{programs} programs from seed {options.seed} on, {different} different: {shares}")
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
