# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.gfile``: the functions of ``tf.io.gfile`` by their older names."""

from __future__ import annotations

from ..._missing import watch
from ..v2.io.gfile import GFile
from ..v2.io.gfile import copy as Copy  # noqa: N812 - TensorFlow's names
from ..v2.io.gfile import exists as Exists  # noqa: N812
from ..v2.io.gfile import glob as Glob  # noqa: N812
from ..v2.io.gfile import isdir as IsDirectory  # noqa: N812
from ..v2.io.gfile import listdir as ListDirectory  # noqa: N812
from ..v2.io.gfile import makedirs as MakeDirs  # noqa: N812
from ..v2.io.gfile import mkdir as MkDir  # noqa: N812
from ..v2.io.gfile import remove as Remove  # noqa: N812
from ..v2.io.gfile import rename as Rename  # noqa: N812
from ..v2.io.gfile import rmtree as DeleteRecursively  # noqa: N812
from ..v2.io.gfile import stat as Stat  # noqa: N812
from ..v2.io.gfile import walk as Walk  # noqa: N812

__all__ = [
    "Copy",
    "DeleteRecursively",
    "Exists",
    "FastGFile",
    "GFile",
    "Glob",
    "IsDirectory",
    "ListDirectory",
    "MakeDirs",
    "MkDir",
    "Open",
    "Remove",
    "Rename",
    "Stat",
    "Walk",
]

FastGFile = Open = GFile


def __dir__() -> list[str]:
    return __all__


watch(globals())
