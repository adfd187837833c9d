# SPDX-License-Identifier: Apache-2.0
"""The finding about what multiplies matrices on the CPU, for ``gpuconf doctor``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

from .. import errors
from .._core import runtime, settings
from .._core.native import core
from .diagnosis import NOTE, OK, PROBLEM, Finding

_INSTALL = "pip install 'gpuconf[blas]' installs OpenBLAS"


def finding(path: Sequence[str]) -> Finding:
    """Return the finding for a Python with a module search path."""
    try:
        choice = settings.value("GPUCONF_BLAS", os.environ).encode("utf-8", "replace").decode()
    except errors.GpuconfError:  # another finding reports what is wrong with the settings
        choice = ""
    try:
        description = json.loads(core.pybind_DescribeBLAS(choice, "\n".join(runtime.module_folders(list(path)))))
    except errors.GpuconfError as error:
        return Finding(PROBLEM, "BLAS", str(error), f"correct or unset GPUCONF_BLAS; {_INSTALL}")
    if description["path"]:
        version = re.search(r"\d+(\.\d+)+", description["version"])
        name = " ".join([description["library"] or "an unnamed library", *([version[0]] if version else [])])
        threads = (
            f", {description['threads']} thread{'s' * (description['threads'] != 1)}" if description["threads"] else ""
        )
        return Finding(
            OK, "BLAS", f"{name}{threads}, multiplies matrices on the CPU and on simulated GPUs: {description['path']}"
        )
    why = "GPUCONF_BLAS=gonum" if choice == "gonum" else "; ".join(description["complaints"]) or "no BLAS library found"
    text = (
        f"gonum multiplies matrices on the CPU and on simulated GPUs, several times slower than a BLAS library ({why})"
    )
    return Finding(NOTE, "BLAS", text, "unset it" if choice == "gonum" else _INSTALL)
