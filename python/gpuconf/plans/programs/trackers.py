# SPDX-License-Identifier: Apache-2.0
"""Clients of trackers and hubs in a rehearsal: nothing is sent, also if the program says so itself.

Variables do most of it.
"""

from __future__ import annotations

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
