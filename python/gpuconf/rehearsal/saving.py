# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a program in a rehearsal: files of tensors without a value, in the folder of the rehearsal.

Large ones are written without their bytes, so that they take no room: they read as zeros.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext

from .._core import import_hook
from .._typing import Any
from .files import Files

_MOST = 64 << 20  # bytes of tensors that are written as they are


def install(files: Files) -> None:
    """Take the place of the functions that save and load, once their modules are imported. PyTorch is imported."""
    _torch(files)
    import_hook.when_imported("safetensors", lambda: _safe_open(files))
    import_hook.when_imported("safetensors.torch", lambda: _safetensors(files))
    import_hook.when_imported("torch.distributed.checkpoint.filesystem", lambda: _distributed(files))


def _torch(files: Files) -> None:
    import torch
    from torch import serialization

    save, load = torch.save, torch.load

    def saved(obj: Any, f: Any, *args: Any, **named: Any) -> Any:
        large = _size(obj) > _MOST
        if not isinstance(f, (str, os.PathLike)):  # a hole needs a file
            return save(_of_one_value(obj) if large else obj, f, *args, **named)
        with serialization.skip_data() if large else nullcontext():
            return save(obj, files.to_write(f, fresh=True), *args, **named)

    def loaded(f: Any, *args: Any, **named: Any) -> Any:
        return load(files.to_read(f) if isinstance(f, (str, os.PathLike)) else f, *args, **named)

    for name, function, original in (("save", saved, save), ("load", loaded, load)):
        function.__doc__, function.__name__, function.__module__ = original.__doc__, name, original.__module__
        setattr(torch, name, function)
        setattr(serialization, name, function)


def _of_one_value(value: Any) -> Any:
    """Return a checkpoint whose tensors have their sizes and one value, zero. Modules stay as they are."""
    import torch

    if isinstance(value, torch.Tensor):
        return torch.zeros(1, dtype=value.dtype, device=value.device).expand(value.shape)
    if isinstance(value, Mapping):
        return {key: _of_one_value(one) for key, one in value.items()}
    return type(value)(map(_of_one_value, value)) if type(value) in (list, tuple) else value


def _size(value: Any) -> int:
    """Return the bytes of all tensors in a checkpoint, as far as it consists of modules and plain containers."""
    import torch

    if isinstance(value, torch.Tensor):
        return int(value.numel() * value.element_size())
    if isinstance(value, torch.nn.Module):
        return sum(map(_size, (*value.parameters(), *value.buffers())))
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, (list, tuple)) else 0


def _safe_open(files: Files) -> None:
    library: Any = sys.modules["safetensors"]
    opened = library.safe_open

    def safe_open(filename: Any, *args: Any, **named: Any) -> Any:
        return opened(files.to_read(filename), *args, **named)

    library.safe_open = safe_open


def _safetensors(files: Files) -> None:
    import safetensors.torch as library  # type: ignore[import-not-found,import-untyped,unused-ignore]

    save, load = library.save_file, library.load_file

    def saved(tensors: dict[str, Any], filename: Any, metadata: dict[str, str] | None = None) -> None:
        path = files.to_write(filename, fresh=True)
        if _size(tensors) <= _MOST:
            save(tensors, path, metadata)
        else:
            _write_header(tensors, path, metadata)

    def loaded(filename: Any, *args: Any, **named: Any) -> Any:
        return load(files.to_read(filename), *args, **named)

    library.save_file, library.load_file = saved, loaded


_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}


def _write_header(tensors: dict[str, Any], path: str, metadata: dict[str, str] | None) -> None:
    """Write a file of safetensors whose data is a hole."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        kind = _NAMES[str(tensor.dtype).removeprefix("torch.")]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def _distributed(files: Files) -> None:
    from torch.distributed.checkpoint import filesystem

    for name, writes in (("FileSystemWriter", True), ("FileSystemReader", False)):
        one = getattr(filesystem, name)
        original = one.__init__

        def begun(this: Any, path: Any, *args: Any, _original: Any = original, _writes: bool = writes, **named: Any) -> None:
            if isinstance(path, (str, os.PathLike)):
                path = files.folder_to_write(path) if _writes else files.to_read(path)
            _original(this, path, *args, **named)

        one.__init__ = begun
