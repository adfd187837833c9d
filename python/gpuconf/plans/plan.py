# SPDX-License-Identifier: Apache-2.0
"""``gpuconf.plan``, for recordings and for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from .. import errors
from .._core import texts
from .._core.table import make
from ..memory._record import Recording
from ..memory._trace import Trace
from .programs.answer import SCHEMA, Rehearsal
from .recordings import replay
from .recordings.replay import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import overload
else:

    def overload(_: object) -> None:
        """Stand in for typing's, whose import takes as long as half of gpuconf."""


@overload
def plan(  # noqa: D103
    trace: Trace | Recording | str | os.PathLike[str],
    limit: int | str | None = None,
    gpu: str | None = None,
    policy: str | Iterable[str] | None = None,
) -> Plan: ...


@overload
def plan(  # noqa: D103, F811
    *,
    command: Sequence[str],
    gpu: str,
    steps: int | None = None,
    seconds: float | None = None,
    cpu_values: bool = False,
    compile: bool = False,  # noqa: A002
) -> Rehearsal: ...


def plan(  # noqa: F811
    trace: Trace | Recording | str | os.PathLike[str] | None = None,
    limit: int | str | None = None,
    gpu: str | None = None,
    policy: str | Iterable[str] | None = None,
    *,
    command: Sequence[str] | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    cpu_values: bool = False,
    compile: bool = False,  # noqa: A002
) -> Plan | Rehearsal:
    """Determine whether a recorded job, or a program, would fit. Needs no GPU, and initializes nothing.

    ``trace`` is a Trace, a stopped Recording, or a file for ``gpuconf.memory.load_trace``. Each of its logical GPUs is
    replayed through gpuconf's allocator and a model of PyTorch's, over a device that only counts. ``limit`` applies to
    each logical GPU: bytes, or text such as ``"24GiB"``. ``gpu`` is a model as for ``simulate``, such as ``"A10"``: its
    memory bounds the pool, and without ``limit`` the pool gets its default limit. Without both, only the smallest
    limits are computed, unless the trace is a PyTorch snapshot that ends with a failed allocation: then the limit is
    the memory that PyTorch could use. The replay of such a snapshot includes the allocation that failed, and
    ``out_of_memory`` describes it.

    ``policy`` is one of these, or a list. The default is all that the GPU supports:

    - ``"pytorch"``: PyTorch's allocator, with the settings of the snapshot, or its defaults for other traces
    - ``"pytorch-expandable"``: the same with ``expandable_segments:True``
    - ``"pytorch-max-split"`` and ``"pytorch-roundup"``: the same with the ``max_split_size_mb`` or the
      ``roundup_power2_divisions`` that needs the least memory; ``settings`` in the result names it
    - ``"tensorflow"``: TensorFlow's allocator with memory growth
    - ``"regions"``: gpuconf without memory growth, which reserves the whole limit at once
    - ``"virtual"``: gpuconf with memory growth, which maps memory as needed

    With ``command``, the words of a command such as ``["python", "train.py"]``, the program is run in other processes
    on simulated GPUs, as ``gpuconf plan --gpu L4,A10 -- python train.py`` does, and the result is a Rehearsal. ``gpu``
    is then a list of models. The program runs to its end, where loops over a loader end early once they repeat, or ends
    after ``steps`` steps of its optimizer or after ``seconds`` (120). ``cpu_values`` draws random numbers for large CPU
    tensors, too, and ``compile`` lets ``torch.compile`` compile instead of running eagerly. What the program writes is
    forgotten at its end, it has no network, and it changes no file.

    Raises ValueError for an invalid trace, limit, GPU, policy or command, OSError as ``open`` does, or if the command
    is not found, and UnavailableError if nothing on this machine would keep the program from changing files.

    >>> with gpuconf.memory.record() as recording:
    ...     allocate(3_000_000, "GPU:0").free()
    >>> found = plan(recording, limit="4MiB")
    >>> found.fits, found.fitting
    (True, ('tensorflow', 'regions', 'virtual'))
    >>> found.results[0].policy, found.results[0].least_limit >> 20  # PyTorch reserves 20 MiB for blocks of this size
    ('pytorch', 20)
    """
    if command is None:
        if trace is None:
            raise errors.InvalidTypeError("plan() needs a trace, or command= and the words of a program")
        if steps is not None or seconds is not None or cpu_values or compile:
            raise errors.InvalidTypeError("steps, seconds, cpu_values and compile need command=: a trace is not run")
        if isinstance(trace, (list, tuple)) or (isinstance(trace, str) and trace.endswith(".py")):
            words = ["python", trace] if isinstance(trace, str) else list(trace)
            raise errors.InvalidTypeError(f"a trace is a recording; for a program, write command={texts.shown(words)}")
        return replay.find(trace, limit, gpu, policy)
    if trace is not None or limit is not None or policy is not None:
        raise errors.InvalidTypeError("command cannot be used with trace, limit or policy")
    if gpu is None:
        raise errors.InvalidArgumentError("gpu is missing: name the cards for command, such as gpu='L4,A10'")
    options = ["--gpu", texts.check_text("gpu", gpu)]
    for name, value in (("--steps", steps), ("--seconds", seconds)):
        options += [] if value is None else [name, str(value)]
    options += [name for name, asked in (("--cpu-values", cpu_values), ("--compile", compile)) if asked]
    return _rehearsed(options, command)


def _rehearsed(options: Sequence[str], command: Sequence[str]) -> Rehearsal:
    """Rehearse in another process: this one may use GPUs, and PyTorch, already."""
    import json

    from .._core.command import run

    try:
        if isinstance(command, (str, bytes)) or not command:
            raise TypeError
        words = [texts.check_text("command", os.fspath(word)) for word in command]
    except TypeError:
        raise errors.InvalidTypeError(
            f"command must be a list of words, such as ['python', 'train.py'], but got {texts.shown(command)}"
        ) from None
    done = run([sys.executable, "-m", "gpuconf", "plan", "--json", *options, "--", *words])
    last = (done.stderr.rstrip().splitlines() or [""])[-1].removeprefix("gpuconf plan: ")
    if done.returncode in (126, 127):
        raise FileNotFoundError(last) if done.returncode == 127 else PermissionError(last)
    try:
        fields = json.loads(done.stdout)
    except ValueError:
        kind = errors.InvalidArgumentError if done.returncode == 2 else errors.UnavailableError
        raise kind(last or f"gpuconf plan ended with exit code {done.returncode}") from None
    assert fields.pop("schema") == SCHEMA
    found: Rehearsal = make(Rehearsal, fields)
    return found
