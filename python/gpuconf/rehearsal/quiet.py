# SPDX-License-Identifier: Apache-2.0
"""A rehearsal damages nothing: what a program would write, log or push goes to a folder of the rehearsal, or nowhere."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .._typing import Any

OUTPUT = "output"


def environment(folder: str) -> dict[str, str]:
    """Return the variables that keep trackers and hubs from sending anything."""
    return {
        "WANDB_MODE": "disabled",
        "WANDB_DIR": folder,
        "MLFLOW_TRACKING_URI": f"file:{folder}/mlflow",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "COMET_MODE": "disabled",
        "NEPTUNE_MODE": "debug",
        "CLEARML_OFFLINE_MODE": "1",
        "SWANLAB_MODE": "disabled",
        "DVCLIVE_TEST": "1",
    }


def told(folder: str, kept: Sequence[dict[str, Any]]) -> list[str]:
    """Return what is said at the end of what the program wrote."""
    found = []
    if folder:
        found.append(f"what the program wrote is in {folder}; its tensors have no values")
    paths = sorted({one["path"] for one in kept})
    if paths:
        shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        found.append(f"unchanged: {shown}")
    return found


def prepare(folder: str) -> str:
    """Make the folder for what a program writes, and return its path."""
    path = os.path.join(folder, OUTPUT)
    os.makedirs(path, exist_ok=True)
    return path
