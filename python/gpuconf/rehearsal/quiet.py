# SPDX-License-Identifier: Apache-2.0
"""A rehearsal damages nothing: what a program would write, log or push goes to a folder of the rehearsal, or nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

OUTPUT = "output"


def environment(folder: str) -> dict[str, str]:
    """Return the variables that keep trackers and hubs from sending anything."""
    return {
        "WANDB_MODE": "disabled",
        "WANDB_DIR": folder,
        "MLFLOW_TRACKING_URI": f"file:{folder}/mlflow",
        "MLFLOW_ALLOW_FILE_STORE": "true",  # newer ones prefer a database
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "COMET_MODE": "disabled",
        "NEPTUNE_MODE": "debug",
        "CLEARML_OFFLINE_MODE": "1",
        "SWANLAB_MODE": "disabled",
        "DVCLIVE_TEST": "1",
    }


def told(folder: str, kept: Sequence[str]) -> list[str]:
    """Return what is said at the end of what the program wrote."""
    lines = []
    if folder:
        lines.append(f"what the program wrote is in {folder}; its tensors have no values")
    paths = sorted(set(kept))
    if paths:
        shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        lines.append(f"unchanged: {shown}")
    return lines


def remove_empty(folders: Iterable[str]) -> None:
    """Remove folders that the program made, and into which it would have written."""
    for folder in sorted(set(folders), key=len, reverse=True):
        try:
            os.rmdir(folder)
        except OSError:  # something is in it, or it is gone
            continue
