# SPDX-License-Identifier: Apache-2.0
"""Python objects that hold device memory, and the variables that refer to them."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator
from types import FrameType

from .._core.table import Table
from .._typing import Any
from ._buffer import Buffer
from ._tracebacks import instances


class Holder(Table):
    """An object that holds device memory."""

    nbytes: int
    what: str  # such as "torch.Tensor (32, 1000) float32"
    referrers: tuple[str, ...]  # the variables that keep it alive, as far as the garbage collector knows them


_Block = tuple[Any, int]  # what identifies the memory, and its size in bytes


def _class_of(module: str, name: str) -> type | None:
    """Return a class of a module that is loaded. Reads only its namespace: imports and runs none of its code."""
    found = getattr(sys.modules.get(module), "__dict__", {}).get(name)
    return found if isinstance(found, type) else None


def _buffer_block(thing: Any) -> _Block | None:
    return None if thing.freed or not thing.nbytes else (thing.ptr, thing.nbytes)


def _tensor_block(thing: Any) -> _Block | None:
    if "GPU" not in thing.backing_device:
        return None
    nbytes = thing.dtype.itemsize
    for size in thing.shape:
        nbytes *= size
    return (id(thing), nbytes) if nbytes else None


def _torch_block(thing: Any) -> _Block | None:
    if not thing.is_cuda:
        return None
    storage = thing.untyped_storage()
    return (storage.data_ptr(), storage.nbytes()) if storage.nbytes() else None


def _cupy_block(thing: Any) -> _Block | None:
    memory = thing.data.mem
    return (memory.ptr, memory.size) if memory.size else None


def _numba_block(thing: Any) -> _Block | None:
    pointer = thing.device_ctypes_pointer.value
    return (pointer, thing.alloc_size) if pointer else None


_KINDS = (
    ("gpuconf.memory._buffer", "Buffer", _buffer_block),
    ("gpuconf.tensors.tensor", "Tensor", _tensor_block),
    ("torch", "Tensor", _torch_block),
    ("cupy", "ndarray", _cupy_block),
    ("numba.cuda.cudadrv.devicearray", "DeviceNDArrayBase", _numba_block),
)


class _Blocks(dict):  # type: ignore[type-arg]
    """By class, the function that returns the block of an object; None for classes that hold no device memory."""

    def __init__(self) -> None:
        found = ((_class_of(module, name), block) for module, name, block in _KINDS)
        self._kinds = [(cls, block) for cls, block in found if cls is not None]

    def instances(self) -> list[object]:
        """Return the objects that may hold device memory."""
        return [each for kind, _ in self._kinds for each in instances(kind)]

    def gradients(self) -> list[tuple[object, object]]:
        """Return the gradients of PyTorch's tensors, each with its tensor: the collector does not see that
        reference.
        """
        pairs = []
        for kind, block in self._kinds:
            for thing in instances(kind) if block is _torch_block else ():
                try:
                    gradient = thing.grad if thing.is_leaf and thing.is_cuda else None
                except Exception:
                    continue  # half built, or of another version of the library
                if gradient is not None:
                    pairs.append((gradient, thing))
        return pairs

    def __missing__(self, cls: type) -> Any:
        self[cls] = next((block for kind, block in self._kinds if issubclass(cls, kind)), None)
        return self[cls]

    def block_of(self, thing: object) -> _Block | None:
        """Return the block that an object holds."""
        block = self[type(thing)]  # not __class__: reading that runs code of proxies
        if block is None:
            return None
        try:
            found: _Block | None = block(thing)
        except Exception:
            return None  # half built, freed by another thread, or of another version of the library
        return found


# What a search does not enter: from these, everything else in the process can be reached.
_WALLS = (types.ModuleType, type, types.FrameType, types.TracebackType, types.CodeType, str, bytes, int, float)
_DEPTH, _MOST = 8, 100_000


def _walls() -> tuple[type, ...]:
    threading = sys.modules.get("threading")  # which gpuconf itself does not import
    return (*_WALLS, threading.Thread) if threading is not None else _WALLS


def _inside(thing: object) -> list[object]:
    if isinstance(thing, types.FunctionType):  # without its module's globals
        return [cell.cell_contents for cell in thing.__closure__ or () if cell != types.CellType()]
    return gc.get_referents(thing)


def holds_device_memory(thing: object) -> bool:
    """Whether an object, or what it contains, is a live block of device memory."""
    if thing is None:
        return False
    kinds, walls = _Blocks(), _walls()
    seen: set[int] = set()
    level = [thing]
    for _ in range(_DEPTH):
        below: list[object] = []
        for each in level:
            if id(each) in seen or isinstance(each, walls):
                continue
            seen.add(id(each))
            if kinds.block_of(each) is not None:
                return True
            if len(seen) > _MOST:
                return False
            below += _inside(each)
        level = below
    return False


def holders(most: int = 10) -> list[Holder]:
    """List the objects that hold the most device memory, largest first, at most ``most``.

    Views of the same memory count once.
    """
    kinds = _Blocks()
    blocks: dict[Any, tuple[int, list[object]]] = {}
    gradients = kinds.gradients()  # before the instances, for PyTorch makes their Python objects on demand
    for thing in kinds.instances():
        found = kinds.block_of(thing)
        if found is not None:
            blocks.setdefault(found[0], (found[1], []))[1].append(thing)
    largest = sorted(blocks.values(), key=lambda block: -block[0])[:most]
    blocks.clear()
    tensors = {id(gradient): tensor for gradient, tensor in gradients}
    gradients.clear()
    names = _names([things[:_VIEWS] for _, things in largest], tensors)
    return [
        Holder(nbytes, _describe(things[0]), tuple(referrers))
        for (nbytes, things), referrers in zip(largest, names, strict=True)
    ]


def _describe(thing: Any) -> str:
    cls = type(thing)
    name = f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}"
    if isinstance(thing, Buffer):
        return f"{name} on {thing.device.name.removeprefix('/device:')}"
    return f"{name} {tuple(thing.shape)} {str(thing.dtype).removeprefix('torch.')}"


_VIEWS = 20  # objects for which the variables are looked up, of those that hold the same memory
_PASSING: tuple[type, ...] = (types.FrameType, types.GeneratorType, types.TracebackType, type(iter([])))


def _names(blocks: list[list[object]], tensors: dict[int, object]) -> list[dict[str, None]]:
    """Return the variables that refer to the objects of each block, directly or through containers and attributes.

    ``tensors`` are those that refer to gradients, by the gradients' ids. The garbage collector goes through all objects
    to find referrers, so all blocks are looked up together, level by level.
    """
    names: list[dict[str, None]] = [{} for _ in blocks]
    modules, variables = _modules(), _variables()
    # By id: an object, and the blocks that it leads to, each with the rest of the path.
    level: dict[int, tuple[object, list[tuple[int, str]]]] = {}
    for block, things in enumerate(blocks):
        for thing in things:
            level.setdefault(id(thing), (thing, []))[1].append((block, ""))
            if (tensor := tensors.get(id(thing))) is not None:
                level.setdefault(id(tensor), (tensor, []))[1].append((block, ".grad"))
    seen = {id(blocks), id(tensors), *map(id, blocks)}
    for _ in range(_DEPTH):
        if not 0 < len(level) <= _MOST_WAYS:
            break
        for number, (_, ends) in level.items():
            for block, path in ends:
                names[block].update((f"{name}{path} {where}", None) for name, where in variables.get(number, ()))
        objects = [thing for thing, _ in level.values()]
        seen.update(level, (id(objects), id(level)), map(id, level.values()))
        above: dict[int, tuple[object, list[tuple[int, str]]]] = {}
        for referrer in gc.get_referrers(*objects):
            if id(referrer) in seen or isinstance(referrer, _PASSING):
                continue
            module = modules.get(id(referrer))
            for number in dict.fromkeys(map(id, gc.get_referents(referrer))):
                thing, ends = level.get(number, (None, []))
                for block, path in ends:
                    if module is not None:
                        names[block].update(
                            (f"{module}.{key}{path}", None) for key, value in list(referrer.items()) if value is thing
                        )
                    elif (step := _step(referrer, thing, path)) is not None:
                        above.setdefault(id(referrer), (referrer, []))[1].append((block, step))
        level = above
    return names


_MOST_WAYS = 1000


def _modules() -> dict[int, str]:
    """Return the names of the modules, by the id of their namespace."""
    found: dict[int, str] = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType):
            found.setdefault(id(vars(module)), name)
    return found


def _variables() -> dict[int, list[tuple[str, str]]]:
    """Return the local variables of all running functions and where they are, by the id of their value."""
    found: dict[int, list[tuple[str, str]]] = {}
    for frame in _running():
        where = f"in {frame.f_code.co_name}() at {frame.f_code.co_filename}:{frame.f_lineno}"
        for name, value in _locals_of(frame).items():
            found.setdefault(value, []).append((name, where))
    return found


def _step(referrer: Any, thing: Any, path: str) -> str | None:
    """Return the path from a container to the end, as it is written in Python; None for referrers of other kinds."""
    if isinstance(referrer, dict):
        key = next((key for key, value in list(referrer.items()) if value is thing), _step)
        return None if key is _step else f"[{_short(key)}]{path}"
    if isinstance(referrer, (list, tuple)):
        return next((f"[{position}]{path}" for position, value in enumerate(referrer) if value is thing), None)
    if isinstance(referrer, (set, frozenset)):
        return f"{{...}}{path}"
    if isinstance(referrer, types.CellType):
        return f".cell_contents{path}"
    if isinstance(referrer, types.FunctionType):
        return f".__closure__{path}" if referrer.__closure__ is thing else None
    if isinstance(referrer, _walls()):
        return None
    attributes = _attributes(referrer)
    if attributes is thing:
        name, rest = path.removeprefix("['").split("']", 1) if path.startswith("['") else ("__dict__", path)
        return f".{name}{rest}"
    return next((f".{name}{path}" for name, value in attributes.items() if value is thing), None)


def _short(key: object) -> str:
    return repr(key) if isinstance(key, int) or (isinstance(key, str) and len(key) < 40) else "..."


def _attributes(thing: object) -> dict[str, object]:
    """Return the attributes of an object, those in slots too, without running code of its class."""
    try:
        attributes = object.__getattribute__(thing, "__dict__")
        if attributes:
            return attributes  # type: ignore[no-any-return]
    except AttributeError:
        attributes = {}
    slots = {}
    for cls in type(thing).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType) and issubclass(type(thing), member.__objclass__):
                try:
                    slots[name] = member.__get__(thing)
                except AttributeError:
                    continue
    return slots or attributes


_FUNCTION = 1  # CO_OPTIMIZED: the locals are not a dictionary of a module or a class


_SHELLS = ("IPython", "ipykernel")


def _home(frame: FrameType) -> str:
    """Return the top-level package of a frame's module."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _running() -> Iterator[FrameType]:
    """Yield the frames of all threads, except those of gpuconf and of the shell that runs a cell."""
    package = __file__.rpartition("memory")[0]
    for top in list(sys._current_frames().values()):
        frame: FrameType | None = top
        while frame is not None:
            own = frame.f_code.co_filename.startswith(package) or _home(frame) in _SHELLS
            if not own and frame.f_code.co_flags & _FUNCTION:
                yield frame
            frame = frame.f_back


def _locals_of(frame: FrameType) -> dict[str, int]:
    """Return the ids of a frame's variables.

    Up to Python 3.12, reading f_locals leaves a copy of the variables in the frame, which would keep them alive.
    """
    found = frame.f_locals
    ids = {name: id(value) for name, value in found.items()}
    if sys.version_info < (3, 13) and sys.getrefcount(found) == _OURS:
        found.clear()  # otherwise a debugger or the caller of locals() uses the copy
    return ids


def _count() -> int:
    """Return the references to a frame's copy that this module sees when no other code uses it."""
    found = sys._getframe().f_locals
    return sys.getrefcount(found)


_OURS = _count()
