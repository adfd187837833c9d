# SPDX-License-Identifier: Apache-2.0
"""Clients of trackers and hubs in a rehearsal: nothing is sent, also if the program says so itself.

Variables do most of it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from types import SimpleNamespace

from ..._core import import_hook
from ..._typing import Any

_OF_HUB = (
    "create_branch",
    "create_commit",
    "create_repo",
    "create_tag",
    "delete_file",
    "delete_folder",
    "delete_repo",
    "preupload_lfs_files",
    "super_squash_history",
    "update_repo_settings",
    "upload_file",
    "upload_folder",
    "upload_large_folder",
)


def environment(folder: str, own: Mapping[str, str], *, network: bool) -> dict[str, str]:
    """Return the variables that keep trackers from sending anything, and hubs from waiting for a network that is off.

    What the user has set stays, but for what would be sent. ``folder`` is one that is forgotten.
    """
    variables = {
        "WANDB_MODE": "disabled",
        "MLFLOW_TRACKING_URI": f"file:{folder}/mlflow",
        "MLFLOW_ALLOW_FILE_STORE": "true",  # newer ones prefer a database
        "COMET_MODE": "disabled",
        "NEPTUNE_MODE": "debug",
        "CLEARML_OFFLINE_MODE": "1",
        "SWANLAB_MODE": "disabled",
        "DVCLIVE_TEST": "1",
    }
    hubs = {} if network else dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"), "1")
    return variables | {name: value for name, value in hubs.items() if name not in own}


def install() -> None:
    """Take the place of the functions that send, once their modules are imported."""
    import_hook.when_imported("wandb", _wandb)
    import_hook.when_imported("mlflow", _mlflow)
    import_hook.when_imported("huggingface_hub.hf_api", _hub)


def _wandb() -> None:
    wandb: Any = sys.modules["wandb"]
    begin = wandb.init

    def init(*args: Any, **named: Any) -> Any:
        return begin(*args, **{**named, "mode": "disabled"})

    wandb.init = init


def _mlflow() -> None:
    mlflow: Any = sys.modules["mlflow"]
    for name in ("set_tracking_uri", "set_registry_uri"):
        if hasattr(mlflow, name):
            setattr(mlflow, name, _nothing)


def _hub() -> None:
    module: Any = sys.modules["huggingface_hub.hf_api"]
    for name in _OF_HUB:
        if hasattr(module.HfApi, name):
            setattr(module.HfApi, name, _not_pushed)
            if hasattr(module, name):
                setattr(module, name, _not_pushed)


def _nothing(*_args: Any, **_named: Any) -> None:
    """Do nothing."""


def _not_pushed(*args: Any, **named: Any) -> Any:
    """Return what the hub would: an address of the repository, and a commit."""
    texts = [value for value in (named.get("repo_id"), *args) if isinstance(value, str)]
    name = texts[0] if texts else "unknown/unknown"
    address = f"https://huggingface.co/{name}"
    return SimpleNamespace(
        url=address,
        repo_url=address,
        repo_id=name,
        repo_type="model",
        commit_url=address,
        oid="0" * 40,
        pr_url=None,
        endpoint="",
    )


# Checkpoints of a program in a rehearsal: tensors have no values, so that large ones are written without their bytes.
#
# They take no room, and read as zeros.

_MOST = 64 << 20  # bytes of tensors that are written as they are


def keep_checkpoints_small() -> None:
    """Take the place of the functions that save, once their modules are imported. PyTorch is imported."""
    _torch()
    import_hook.when_imported("safetensors.torch", _safetensors)


def _torch() -> None:
    import torch
    from torch import serialization

    save = torch.save

    def saved(obj: Any, f: Any, *args: Any, **named: Any) -> Any:
        if _size(obj) <= _MOST or not named.get("_use_new_zipfile_serialization", True):
            return save(obj, f, *args, **named)
        if isinstance(f, (str, os.PathLike)):
            with serialization.skip_data():
                return save(obj, f, *args, **named)
        return _save_sparse(save, obj, f, *args, **named)

    saved.__doc__, saved.__name__, saved.__module__ = save.__doc__, "save", save.__module__
    torch.save = serialization.save = saved


def _save_sparse(save: Any, obj: Any, file: Any, *args: Any, **named: Any) -> None:
    """Write a checkpoint into an open file or a buffer, with holes for the tensors if it can have them."""
    import shutil
    import tempfile

    from torch import serialization

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint")
        with serialization.skip_data():
            save(obj, path, *args, **named)
        if type(file).__name__ == "NoCloseWriter":  # torch.distributed.checkpoint's, which hides that its file can seek
            file = file.raw
        with open(path, "rb") as written:
            if not getattr(file, "seekable", bool)():
                shutil.copyfileobj(written, file)
                return
            begin, end = file.tell(), os.path.getsize(path)
            at = hole = 0
            while hole < end:
                # A checkpoint ends with its directory, which is data.
                at = os.lseek(written.fileno(), hole, os.SEEK_DATA)
                hole = os.lseek(written.fileno(), at, os.SEEK_HOLE)
                file.seek(begin + at)
                written.seek(at)
                file.write(written.read(hole - at))


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


def _safetensors() -> None:
    import safetensors.torch as library  # type: ignore[import-not-found,import-untyped,unused-ignore]

    save = library.save_file

    def saved(tensors: dict[str, Any], filename: Any, metadata: dict[str, str] | None = None) -> None:
        if _size(tensors) <= _MOST:
            save(tensors, filename, metadata)
        else:
            _write_header(tensors, filename, metadata)

    library.save_file = saved


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
