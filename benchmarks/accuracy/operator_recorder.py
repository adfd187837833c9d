"""What PyTorch's operators allocate on the GPU of this machine, real or simulated, recorded from the caching allocator.

``python benchmarks/accuracy/operator_recorder.py FOLDER [--processes N] [--seconds S] [--second]`` writes
FOLDER/operators.jsonl.gz: a line for each unit (an operator of op_db with a type and a sample, or a unit of
operator_units.py) with its phases (forward, backward, ...). A phase has the trace, in which a positive number is an
allocation's requested bytes and a negative one frees the allocation of that index, counted from 1 in this unit (0: one
from before it); the peak and the bytes after it, over what was allocated before the unit; what was reserved after it;
and an error's class and first line. It needs PyTorch alone.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import importlib.util
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FIRST_CALL = 4550  # larger units that every worker of a first call of 110 s had time for
SILENT_SECONDS = 25.0  # a worker that says nothing for so long is ended, and its unit left out


class Phases:
    """The phases of one unit, each recorded in a with statement."""

    def __init__(self) -> None:
        import torch

        self.cuda = torch.cuda
        gc.collect()
        self.cuda.synchronize()
        self.cuda.empty_cache()
        self.start = self.cuda.memory_allocated()
        self.reserved = self.cuda.memory_reserved()
        self.numbers: dict[int, int] = {}
        self.count = 0
        self.found: list[dict[str, Any]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Record a phase."""
        one: dict[str, Any] = {"phase": name}
        self.found.append(one)
        self.cuda.synchronize()
        self.cuda.reset_peak_memory_stats()
        self.cuda.memory._record_memory_history(
            "all", context=None, stacks="python", max_entries=1 << 17, clear_history=True
        )
        error = None
        try:
            yield
            self.cuda.synchronize()
        except Exception as raised:
            one["error"] = (
                f"{type(raised).__name__}: {str(raised).strip().splitlines()[0][:160] if str(raised).strip() else ''}"
            )
            error = raised.with_traceback(None)
        trace = self.cuda.memory._snapshot()["device_traces"][0]
        self.cuda.memory._record_memory_history(None)
        one["trace"] = list(self.steps(trace))
        one["segments"] = [step["size"] for step in trace if step["action"] == "segment_alloc"]
        one["peak"] = self.cuda.max_memory_allocated() - self.start
        one["after"] = self.cuda.memory_allocated() - self.start
        one["reserved"] = self.cuda.memory_reserved() - self.reserved
        if error is not None:
            raise StoppedError from error

    def steps(self, trace: list[dict[str, Any]]) -> Iterator[int]:
        """Yield allocations and frees."""
        for step in trace:
            if step["action"] == "alloc":
                self.count += 1
                self.numbers[step["addr"]] = self.count
                yield step["size"]
            elif step["action"] == "free_completed":
                yield -self.numbers.pop(step["addr"], 0)


class StoppedError(Exception):
    """A phase raised, which is part of the record."""


Unit = Callable[[Phases, random.Random], None]


def on_card_from_cpu() -> None:
    """Let the samples' tensors have the same values on every card: drawn on the CPU, then copied."""
    import torch
    import torch.testing
    from torch.testing import _creation

    own = _creation.make_tensor

    def make_tensor(*shape: Any, dtype: Any, device: Any, requires_grad: bool = False, **more: Any) -> Any:
        if torch.device(device).type == "cpu":
            return own(*shape, dtype=dtype, device=device, requires_grad=requires_grad, **more)
        made = own(*shape, dtype=dtype, device="cpu", **more)
        flat = torch.as_strided(made, (made.untyped_storage().nbytes() // made.element_size(),), (1,), 0)
        return torch.as_strided(flat.to(device), made.shape, made.stride(), made.storage_offset()).requires_grad_(
            requires_grad
        )

    _creation.make_tensor = make_tensor
    torch.testing.make_tensor = make_tensor


def tensors(values: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [one for one in tree_leaves(values) if isinstance(one, torch.Tensor)]


def both(phase: Phases, call: Callable[..., Any], *inputs: Any, **named: Any) -> None:
    """Record a call and its backward pass, with gradients of ones."""
    import torch

    with phase("forward"):
        found = call(*inputs, **named)
    outs = [one for one in tensors(found) if one.requires_grad]
    if not outs:
        return
    grads = [torch.ones_like(one) for one in outs]
    with phase("backward"):
        torch.autograd.backward(outs, grads)


def without_expecttest() -> None:
    """Let PyTorch's table be imported without the module expecttest, which only its tests use."""
    if importlib.util.find_spec("expecttest") is None:
        own = types.ModuleType("expecttest")
        own.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        own.ACCEPT = False  # type: ignore[attr-defined]
        sys.modules["expecttest"] = own


def table_units(samples: int) -> Iterator[tuple[str, Unit]]:
    """Yield a name and a unit for each operator of op_db, type and sample; a unit whose sample is missing does
    nothing.
    """
    without_expecttest()
    on_card_from_cpu()
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    wanted = (torch.float32, torch.bfloat16, torch.float16, torch.complex64)
    for op in op_db:
        kinds = [one for one in wanted if one in op.dtypesIfCUDA]
        for dtype in kinds or [one for one in (torch.int64, torch.bool) if one in op.dtypesIfCUDA]:
            backward = op.supports_autograd and dtype in op.backward_dtypesIfCUDA

            def unit(
                phase: Phases, rule: random.Random, op: Any = op, dtype: Any = dtype, backward: bool = backward
            ) -> None:
                index = rule.sample_index  # type: ignore[attr-defined]
                sample = next(
                    itertools.islice(op.sample_inputs("cuda", dtype, requires_grad=backward), index, None), None
                )
                if sample is None:
                    return
                phase.start, phase.reserved = phase.cuda.memory_allocated(), phase.cuda.memory_reserved()
                both(phase, op, sample.input, *sample.args, **sample.kwargs)

            for index in range(samples):
                yield f"op_db/{op.formatted_name}/{str(dtype)[6:]}/{index}", numbered(unit, index)


def numbered(unit: Unit, index: int) -> Unit:
    def with_index(phase: Phases, rule: random.Random) -> None:
        rule.sample_index = index  # type: ignore[attr-defined]
        unit(phase, rule)

    return with_index


def recorded(name: str, unit: Unit) -> dict[str, Any]:
    """Run a unit, with its own seeds, and return its record."""
    import torch

    torch.manual_seed(0)
    random.seed(0)
    line: dict[str, Any] = {"unit": name}
    phase = Phases()
    began = time.perf_counter()
    try:
        unit(phase, random.Random(name))
    except StoppedError:
        pass
    except Exception as error:
        line["error"] = f"{type(error).__name__}: {str(error).strip()[:160]}"
    line["phases"] = phase.found
    line["before"] = phase.start
    line["seconds"] = round(time.perf_counter() - began, 4)
    torch.cuda.synchronize()  # a sticky error ends the worker here
    return line


def all_units(samples: int, second: bool) -> list[tuple[str, Unit]]:
    """Return all units in an order that is the same everywhere: the larger ones, then those of the table.

    The second call of a machine begins with grids and the table, and then has the larger ones that the first had no
    time for.
    """
    import operator_units

    try:
        table = list(table_units(samples))
    except Exception as error:
        print(json.dumps({"errors": f"no table: {error!r}"}), flush=True)
        table = []
    random.Random(31).shuffle(table)
    table.sort(key=lambda one: one[0][-1])  # the first sample of all, then the second
    large = list(operator_units.units())
    random.Random(31).shuffle(large)
    if not second:
        return large + table
    grids = [(f"grids/{name}", unit) for name, unit in operator_units.grids()]
    random.Random(31).shuffle(grids)
    return grids + table + large[FIRST_CALL:]


def work(share: int, options: argparse.Namespace) -> None:
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    units = [
        (i, name, unit)
        for i, (name, unit) in enumerate(all_units(options.samples, options.second))
        if re.search(options.only, name)
    ]
    import operator_units

    print(json.dumps(recorded(f"warm-up/{share}/{options.after}", operator_units.warm_up)), flush=True)
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    for i, name, unit in units[share :: options.processes]:
        if i <= options.after:
            continue
        if time.time() > options.stop:
            return
        print(json.dumps({"begin": i, "name": name}), flush=True)
        print(json.dumps(recorded(name, unit)), flush=True)


def work_fresh(only: str, stop: float) -> None:
    """Record units that need a process of their own: each in a child forked before CUDA starts, else in a new
    process.
    """
    import operator_units
    import torch

    warnings.simplefilter("ignore")
    child = os.fork()
    if child == 0:
        os._exit(torch.cuda._is_in_bad_fork())
    spawn = os.waitpid(child, 0)[1] != 0
    for name, environment, unit in operator_units.fresh_units():
        if not re.search(only, name):
            continue
        if time.time() > stop:
            return
        if spawn:
            again = [sys.executable, __file__, ".", "--fresh", name]
            done = subprocess.run(again, env=os.environ | environment, capture_output=True, text=True, check=False)
            print(done.stdout or json.dumps({"unit": name, "ended": done.stderr[-300:], "phases": []}), flush=True)
            continue
        child = os.fork()
        if child == 0:
            os.environ.update(environment)
            try:
                print(json.dumps(recorded(name, unit)), flush=True)
            except BaseException as error:
                print(json.dumps({"unit": name, "ended": repr(error)[:300], "phases": []}), flush=True)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    print(json.dumps({"done": True}), flush=True)


def one_fresh(name: str) -> None:
    import operator_units

    warnings.simplefilter("ignore")
    print(json.dumps(recorded(name, {one: unit for one, _, unit in operator_units.fresh_units()}[name])), flush=True)


ABOUT = (
    "import torch, json, platform\n"
    "p = torch.cuda.get_device_properties(0)\n"
    "print(json.dumps({'about': {'torch': torch.__version__, 'cuda': torch.version.cuda, 'cudnn': "
    "torch.backends.cudnn.version(),"
    " 'python': platform.python_version(), 'device': p.name, 'config': torch.__config__.show(), "
    "'properties': str(p), 'total': p.total_memory}}))"
)


class Worker:
    """A process that records a share of the units, begun again after a unit that ended it."""

    def __init__(self, options: argparse.Namespace, share: int) -> None:
        self.options, self.share = options, share
        self.path = Path(options.shares) / f"share{share}.jsonl"
        self.after, self.size, self.heard = -1, 0, time.time()
        self.finished = False
        self.process: subprocess.Popen[bytes] | None = None
        for suffix in (".jsonl", ".err"):
            self.path.with_suffix(suffix).touch()

    def start(self) -> None:
        """Start the process, after the last unit that was begun."""
        again = [
            sys.executable,
            __file__,
            self.options.folder,
            "--share",
            str(self.share),
            "--processes",
            str(self.options.processes),
        ]
        again += ["--after", str(self.after), "--samples", str(self.options.samples), "--only", self.options.only]
        again += ["--stop", str(self.options.stop)]
        again += ["--second"] * self.options.second
        with self.path.open("a") as out, self.path.with_suffix(".err").open("a") as err:
            self.process = subprocess.Popen(again, stdout=out, stderr=err)
        self.heard = time.time()

    def last(self) -> tuple[int, str]:
        """Return the number and the name of the last unit that was begun."""
        lines = self.path.read_text().splitlines()
        for line in reversed(lines):
            if line.startswith('{"begin"'):
                found = json.loads(line)
                return found["begin"], found["name"]
        return self.after, ""

    def look(self) -> None:
        """Notice that the process has ended or says nothing, and start it again."""
        if self.process is None or self.finished:
            return
        size = self.path.stat().st_size
        if size != self.size:
            self.size, self.heard = size, time.time()
        patience = SILENT_SECONDS if size else 3 * SILENT_SECONDS
        code = self.process.poll()
        if code is None and time.time() - self.heard > patience * self.options.patience:
            self.process.kill()
            self.process.wait()
            code = "silent"
        if code is None:
            return
        if code == 0 or self.share < 0:
            self.finished = True
            return
        before = self.after
        self.after, name = self.last()
        with self.path.open("a") as out:
            out.write("\n" + json.dumps({"unit": name, "ended": str(code), "phases": []}) + "\n")
        if self.after == before:
            self.finished = True  # it did not reach a unit
            return
        self.start()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=110.0)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--at-once", type=int, default=100, help="processes that run at a time")
    parser.add_argument("--patience", type=float, default=1.0)
    parser.add_argument("--share", type=int)
    parser.add_argument("--after", type=int, default=-1)
    parser.add_argument("--stop", type=float, default=0.0)
    parser.add_argument("--fresh", default="")
    parser.add_argument("--second", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    if options.fresh:
        one_fresh(options.fresh)
        return
    if options.share is not None:
        if options.share < 0:
            work_fresh(options.only, options.stop)
        else:
            work(options.share, options)
        return
    options.stop = time.time() + options.seconds
    with tempfile.TemporaryDirectory() as options.shares:
        record(options)


def record(options: argparse.Namespace) -> None:
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    workers = [Worker(options, share) for share in range(-(not options.second), options.processes)]
    sizes = list(asked(options))
    written = time.time()
    try:
        while time.time() < options.stop + 4 and not all(one.finished for one in workers):
            time.sleep(0.2)
            begin(workers, options.at_once)
            for one in workers:
                one.look()
            if time.time() > written + 20:  # so that something is left if this process is ended
                write(folder, workers, [path for path, _ in sizes])
                written = time.time()
    finally:
        for process in [*(one.process for one in workers), *(process for _, process in sizes)]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        write(folder, workers, [path for path, _ in sizes])


def begin(workers: list[Worker], at_once: int) -> None:
    free = at_once - sum(one.process is not None and not one.finished for one in workers)
    for one in [one for one in workers if one.process is None][:free]:
        one.start()


def asked(options: argparse.Namespace) -> Iterator[tuple[Path, Any]]:
    """Start processes that say what machine this is, and ask libraries for the sizes of workspaces."""
    commands = {"about": ["-c", ABOUT]}
    script = str(Path(__file__).with_name("library_sizes.py"))
    for group in ("solver", "networks", "fourier", "sparse") if not options.only else ():
        commands[group] = [script, "--group", group, "--seconds", str(options.seconds - 5)]
    for name, command in commands.items():
        path = Path(options.shares) / f"asked-{name}"
        with path.open("w") as out:
            yield path, subprocess.Popen([sys.executable, *command], stdout=out, stderr=subprocess.STDOUT)


def write(folder: Path, workers: list[Worker], sizes: list[Path]) -> None:
    half = folder / ".operators"
    with gzip.open(half, "wt", compresslevel=5) as out:
        for path in sizes:
            out.write(path.read_text().rpartition("\n")[0] + "\n")
        for one in workers:
            for line in one.path.read_text().splitlines():
                if line.startswith("{") and line.endswith("}"):
                    out.write(line + "\n")
            errors = one.path.with_suffix(".err").read_text()
            if errors:
                out.write(json.dumps({"errors": errors[-3000:], "share": one.share}) + "\n")
    half.replace(folder / "operators.jsonl.gz")


if __name__ == "__main__":
    main()
