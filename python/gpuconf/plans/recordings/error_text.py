# SPDX-License-Identifier: Apache-2.0
"""What the text of an out-of-memory error says: PyTorch's, TensorFlow's, JAX's, CuPy's and gpuconf's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ... import errors
from ..._core.table import Table, human_bytes


class Message(Table):
    """An out-of-memory error, as far as its text has the figures: None for what it does not say. Sizes are in bytes."""

    library: str  # "PyTorch", "TensorFlow", "JAX", "CuPy", "gpuconf", a library of NVIDIA's such as "cuBLAS", or "CUDA"
    gpu: int | None = None
    requested: int | None = None
    capacity: int | None = None  # of the card
    free: int | None = None  # on the card
    allocated: int | None = None  # by the library's allocator, for the program
    cached: int | None = None  # taken from the card by the library's allocator, and not allocated
    private_pools: int | None = None  # of allocated: in the pools of CUDA graphs
    limit: int | None = None  # of the library's allocator
    process: int | None = None  # in use by this process, by the driver's account
    others: int | None = None  # in use by other processes, by the driver's account
    largest_free: int | None = None  # the largest free block of the library's allocator

    @property
    def outside(self) -> int | None:
        """What this process has outside of the library's allocator: the CUDA context, and other libraries."""
        if self.process is None or self.allocated is None or self.cached is None:
            return None
        return max(self.process - self.allocated - self.cached, 0)

    @property
    def room(self) -> int | None:
        """What was free for the library, in its cache and on the card, under its limit if there is one.

        None if unknown.
        """
        if self.limit is not None and self.allocated is not None:
            room: int = max(self.limit - self.allocated, 0)
            return room if self.free is None or self.cached is None else min(room, self.cached + self.free)
        return None if self.cached is None or self.free is None else self.cached + self.free

    @property
    def missing(self) -> int | None:
        """How much more the request needs than was free in any pieces; 0 if there was enough, None if unknown."""
        return None if self.room is None or self.requested is None else max(self.requested - self.room, 0)

    @property
    def fragmentation(self) -> int | None:
        """The most that can have been lost to fragmentation: what was cached, but not allocated. None if unknown."""
        if self.cached is None:
            return self.room if self.library in ("TensorFlow", "JAX") else None
        return int(self.cached)

    def to_dict(self) -> dict[str, object]:
        """Return the fields by name, and what follows from them."""
        more = {"outside": self.outside, "missing": self.missing, "fragmentation": self.fragmentation}
        return {**super().to_dict(), **more, "helps": list(_helps(self)), "does_not_help": list(_does_not_help(self))}

    def lines(self) -> Iterator[str]:
        """Yield a description in lines of at most 80 columns."""
        import textwrap

        where = "" if self.gpu is None else f" on GPU:{self.gpu}"
        what = "" if self.requested is None else f": {human_bytes(self.requested)} requested"
        yield f"{self.library} ran out of memory{where}{what}"
        for name, nbytes in (
            ("card", self.capacity),
            ("free on the card", self.free),
            ("other processes", self.others),
            ("this process", self.process),
            ("allocated", self.allocated),
            ("of it in private pools", self.private_pools),
            ("cached, not allocated", self.cached),
            ("largest free block", self.largest_free),
            (f"outside {self.library}", self.outside),
            (f"limit of {self.library}", self.limit),
        ):
            if nbytes is not None:
                yield f"  {name:<24}{human_bytes(nbytes):>10}"
        advice = [f"helps: {t}" for t in _helps(self)] + [f"does not help: {t}" for t in _does_not_help(self)]
        for text in (_cause(self), *advice):
            yield from textwrap.wrap(text, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _cause(m: Message) -> str:
    """Return what the figures mean, in a sentence or two."""
    if m.requested is None and m.allocated is None:
        if m.library in ("PyTorch", "TensorFlow", "JAX", "CuPy"):
            return f"The text has no figures. Pass the rest of {m.library}'s message, which says what was requested."
        whose = (
            "a library other than the framework's allocator, or the CUDA context" if m.library == "CUDA" else m.library
        )
        return (
            f"The text has no figures: the driver refused memory to {whose}. Look at what other processes have "
            "(nvidia-smi), and at the memory that the program's allocator keeps."
        )
    if m.capacity is not None and m.requested is not None and m.requested > m.capacity:
        return f"The request alone is larger than the card, by {human_bytes(m.requested - m.capacity)}."
    if m.missing is None:
        return "The text does not say how much was free, so it does not tell whether memory was used up or fragmented."
    if m.missing:
        text = f"{human_bytes(m.missing)} are missing, whatever the fragmentation: memory was used up."
        return text + (f" Other processes have {human_bytes(m.others)}." if m.others and not _limited(m) else "")
    if m.free is not None and m.requested is not None and m.free >= m.requested + _SEGMENT and m.limit is None:
        return (
            "The card had enough free memory. So a limit was reached that the text does not name (such as "
            "torch.cuda.set_per_process_memory_fraction), or another process returned memory in between."
        )
    most = human_bytes(m.fragmentation or 0)
    return (
        f"Fragmentation can be the cause: at most {most} are lost to it, and together with what was free they "
        "would be enough."
    )


_SEGMENT = 20 << 20  # what PyTorch takes at least for a request of more than 1 MiB


def _fragmented(m: Message) -> bool:
    """Whether the request would have had room without fragmentation, and not otherwise."""
    free = m.free
    if _limited(m):
        free = (m.limit or 0) - (m.allocated or 0) - (m.cached or 0)
    return m.missing == 0 and not (free is not None and m.requested is not None and free >= m.requested + _SEGMENT)


def _limited(m: Message) -> bool:
    """Whether the limit of the library's allocator left less than the card did."""
    if m.limit is None or m.allocated is None or m.free is None:
        return False
    return bool(m.limit - m.allocated < (m.cached or 0) + m.free)


def _helps(m: Message) -> Iterator[str]:
    if m.library == "PyTorch":
        if _fragmented(m):
            yield (
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; `gpuconf plan` of a snapshot of the job tries each "
                "setting"
            )
        elif m.missing and m.others and m.others >= m.missing and not _limited(m):
            yield "ending the other processes on the card, or `gpuconf run`, which leases memory"
        if m.missing or m.missing is None:
            yield (
                "a smaller batch, activation checkpointing, or what `gpuconf plan` of a snapshot names as the largest "
                "holders"
            )
        if _limited(m):
            yield "a larger fraction for torch.cuda.set_per_process_memory_fraction: the card had more free memory"
    elif m.library == "TensorFlow":
        if _fragmented(m):
            yield "TF_GPU_ALLOCATOR=cuda_malloc_async, with which CUDA maps pieces together"
        yield "a smaller batch; or a larger limit, if the program sets one"
    elif m.library == "JAX":
        yield "XLA_PYTHON_CLIENT_MEM_FRACTION above its default of .75, if other programs leave the memory"
        yield "jax.checkpoint, donated arguments (donate_argnums), or a smaller batch"
    elif m.library == "CuPy":
        if m.limit is not None:
            yield "a larger limit: cupy.get_default_memory_pool().set_limit, or CUPY_GPU_MEMORY_LIMIT"
        yield "cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc) if freed blocks of other sizes stay cached"
    elif m.library == "gpuconf":
        yield "the step that the message names at its end"
    elif m.library != "CUDA":
        yield (
            f"room for {m.library} beside the framework's pool: torch.cuda.set_per_process_memory_fraction(0.9), a "
            "lower XLA_PYTHON_CLIENT_MEM_FRACTION, or memory growth in TensorFlow"
        )


def _does_not_help(m: Message) -> Iterator[str]:
    if m.library == "PyTorch":
        if m.missing:
            yield "any setting of PYTORCH_CUDA_ALLOC_CONF, for this request: settings only act on fragmentation"
        if m.requested is not None:
            yield "torch.cuda.empty_cache(): PyTorch released its cache and tried again before it raised the error"
    elif m.library == "TensorFlow":
        yield "memory growth: it changes when memory is taken, not how much there is"
    elif m.library == "JAX":
        yield "XLA_PYTHON_CLIENT_PREALLOCATE=false, against memory that is used up: it changes when memory is taken"
    elif m.library == "CuPy":
        yield "free_all_blocks(): CuPy released its cache and tried again before it raised the error"


_SIZE = r"([\d.,]+ ?(?:bytes|[KMGTPE]i?B|[KMGT]|B)\b)"
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def _bytes(text: str | None) -> int | None:
    """Return a size in bytes, as frameworks write sizes: their units are binary, whatever their names."""
    found = re.fullmatch(r"([\d.,]+?) ?(?:bytes|([KMGTPE]?)i?B?)", text.strip()) if text else None
    if found is None:
        return None
    try:
        unit: int = 1024 ** _UNITS[found[2] or ""]
        return round(float(found[1].replace(",", "")) * unit)
    except ValueError:
        return None


def _find(pattern: str, text: str) -> int | None:
    found = re.search(pattern.replace("SIZE", _SIZE), text, re.DOTALL)
    return _bytes(found[1]) if found else None


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1].replace(",", "")) if found else None


def _pytorch(text: str) -> Message:
    """PyTorch 0.4 to 2.15, for CUDA and HIP: the figures in parentheses until 2.0, in sentences since 2.1."""
    requested = _find(r"[Tt]ried to allocate SIZE", text) or _find(r"Requested size: SIZE", text)
    gpu = _number(r"GPU (\d+)", text)
    if "total capacity;" in text:
        allocated = _find(r"SIZE already allocated", text)
        reserved, cached = _find(r"SIZE reserved in total", text), _find(r"SIZE cached", text)
        if cached is None and reserved is not None and allocated is not None:
            cached = max(reserved - allocated, 0)
        capacity, free = _find(r"SIZE total capacity", text), _find(r"SIZE free", text)
        return Message("PyTorch", gpu, requested, capacity, free, allocated, cached, None, _find(r"SIZE allowed", text))
    others = [_bytes(size) or 0 for size in re.findall(rf"Process \d+ has {_SIZE} memory in use", text)]
    own = _find(r"this process has SIZE memory in use", text)
    allocated = _find(r"SIZE is allocated by PyTorch", text)
    cached = _find(r"SIZE is reserved by PyTorch but unallocated", text)
    if own is None and allocated is not None:
        # In a container the driver's numbers of processes are not PyTorch's, which then takes its own for another one:
        # the one that has little more than PyTorch took.
        holders = [size for size in others if size >= allocated + (cached or 0)]
        if holders:
            own = min(holders)
            others.remove(own)
    capacity, free = _find(r"total capaci?ty of SIZE", text), _find(r"of which SIZE is free", text)
    private, limit = _find(r"SIZE allocated in private pools", text), _find(r"SIZE allowed", text)
    held = sum(others) if others else None
    return Message("PyTorch", gpu, requested, capacity, free, allocated, cached, private, limit, own, held)


def _pytorch_async(text: str) -> Message:
    """PyTorch with backend:cudaMallocAsync: a list of figures, each with its name before a colon."""

    def named(name: str) -> int | None:
        return _find(name + r"\s*:\s*SIZE", text)

    gpu, limit = _number(r"device (\d+)", text), named(r"memory fraction\)")
    free, capacity = named(r"Free \(according to CUDA\)"), named(r"Device limit")
    limit = None if limit == capacity else limit
    return Message("PyTorch", gpu, named("Requested"), capacity, free, named("Currently allocated"), None, None, limit)


_TYPES = {"double": 8, "float": 4, "half": 2, "bfloat16": 2, "complex64": 8, "complex128": 16, "bool": 1}


def _tensorflow(text: str) -> Message:
    """TensorFlow: the shape of the tensor or the allocator's line, and its statistics if the log has them."""
    gpu = _number(r"(?:GPU:|gpu:|GPU_)(\d+)", text)
    requested = _number(r"rounded to (\d+)", text) or _find(r"trying to allocate SIZE", text)
    shape = re.search(r"shape ?\[([\d,]*)\](?: and type (\w+))?", text)
    if requested is None and shape:
        bits = re.search(r"\d+$", shape[2] or "")
        requested = _TYPES.get(shape[2] or "float") or (int(bits[0]) // 8 if bits else 4)
        for part in filter(None, shape[1].split(",")):
            requested *= int(part)
    limit, in_use = _number(r"\bLimit:\s+(\d+)", text), _number(r"\bInUse:\s+(\d+)", text)
    free = _number(r"LargestFreeBlock:\s+(\d+)", text)
    return Message("TensorFlow", gpu, requested, allocated=in_use, limit=limit, largest_free=free)


def _jax(text: str) -> Message:
    return Message("JAX", _number(r"GPU:(\d+)", text), _find(r"trying to allocate SIZE", text))


def _cupy(text: str) -> Message:
    """CuPy until 6 counts the request in its total."""
    requested = _number(r"(?:out of memory to allocate|Out of memory allocating) ([\d,]+) bytes", text)
    total, so_far = _number(r"\(total ([\d,]+) bytes", text), _number(r"allocated so far: ([\d,]+) bytes", text)
    if total is not None:
        so_far = max(total - (requested or 0), 0)
    return Message("CuPy", None, requested, allocated=so_far, limit=_number(r"limit set to:? ([\d,]+) bytes", text))


def _gpuconf(text: str) -> Message:
    def named(name: str) -> int | None:
        return _number(name + r"[^,()=]*\((\d+) bytes\)", text) or _find(name + " SIZE", text)

    in_use, reserved, limit = named(", in use"), named("reserved"), named(r"\n  limit")
    if "the limit was not reached" in text:
        limit = None
    elif "the limit of the job is reached" in text:  # what the job left was this pool's limit
        limit = (reserved or 0) + (_find(r"memory of the job:[^\n]* free SIZE", text) or 0)
    cached = None if reserved is None or in_use is None else max(reserved - in_use, 0)
    requested, largest = named("OOM when allocating"), named("largest free block")
    gpu = _number(r"on GPU:(\d+)", text)
    return Message("gpuconf", gpu, requested, allocated=in_use, cached=cached, limit=limit, largest_free=largest)


# The beginning of a message, and its reader. A message ends where the next one begins, or after so many characters.
_KINDS = (
    (r"(?:CUDA|HIP) out of memory\b", _pytorch, 2000),
    (r"Allocation on device \d+ would exceed allowed memory", _pytorch_async, 1000),
    (r"OOM when allocating tensor|Allocator \(GPU_\d+_bfc\) ran out of memory", _tensorflow, 20000),
    (r"(?:RESOURCE_EXHAUSTED|Resource exhausted): Out of memory (?:while trying to allocate|allocating)", _jax, 500),
    (r"[Oo]ut of memory (?:to allocate|allocating) [\d,]+ bytes \((?:total|allocated so far)", _cupy, 300),
    (r"OOM when allocating [\d.]+ ?\w+ (?:\(\d+ bytes\) )?on GPU:\d+: out of memory", _gpuconf, 4000),
    (r"CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation", lambda _: Message("CUDA"), 300),
    *(
        (words, lambda _, name=name: Message(name), 300)
        for name, words in (
            ("cuBLAS", r"CUBLAS_STATUS_ALLOC_FAILED"),
            ("cuDNN", r"CUDNN_STATUS_ALLOC_FAILED"),
            ("cuSOLVER", r"CUSOLVER_STATUS_ALLOC_FAILED"),
            ("cuSPARSE", r"CUSPARSE_STATUS_ALLOC_FAILED"),
            ("cuFFT", r"CUFFT_ALLOC_FAILED"),
            ("cuRAND", r"CURAND_STATUS_ALLOCATION_FAILED"),
            ("NCCL", r"Cuda failure(?: 2)? '?out of memory"),
        )
    ),
)


# What is written, by Linux's shells, NumPy, PyTorch and C++, when the host has no memory.
_HOST = r"^Killed$|Unable to allocate [\d.]+ \w+ for an array|DefaultCPUAllocator: can't allocate memory|std::bad_alloc"


def begins(text: str) -> bool:
    """Whether a message begins in a text."""
    return any(re.search(pattern, text) for pattern, _, _ in _KINDS)


def read(text: str, name: str = "the text") -> tuple[Message, ...]:
    """Return the messages in a text, such as a log, each once, in their order. Raises ValueError if there are none."""
    begins = sorted(
        (match.start(), kind) for kind in range(len(_KINDS)) for match in re.finditer(_KINDS[kind][0], text)
    )
    messages: dict[Message, None] = {}
    for place, (start, kind) in enumerate(begins):
        end = begins[place + 1][0] if place + 1 < len(begins) else len(text)
        _, reader, most = _KINDS[kind]
        if reader is _gpuconf:
            end = len(text)  # it may name an error of the driver, which is no message of its own
        if kind == _TENSORFLOW:
            end = start + most  # its statistics may follow other lines
            start = max(start - most, 0) if "Limit:" not in text[start:end] else start
        messages[reader(text[start : min(end, start + most) if kind != _TENSORFLOW else end])] = None
    # A text without figures says no more than one of its library with them, and the driver's no more than any other.
    told = {m.library for m in messages if m.requested is not None or m.allocated is not None}
    known = [m for m in messages if m.requested is not None or m.allocated is not None or m.library not in told]
    known = [m for m in known if m.library != "CUDA"] or known
    if not messages:
        host = re.search(_HOST, text, re.MULTILINE)
        about = f". {host[0]!r} is about the host's memory, not a GPU's" if host else ""
        raise errors.InvalidArgumentError(
            f"no out-of-memory error of PyTorch, TensorFlow, JAX, CuPy or a library of CUDA is in {name}{about}"
        )
    return tuple(known)


_TENSORFLOW = 2
