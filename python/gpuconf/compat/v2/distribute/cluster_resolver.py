# SPDX-License-Identifier: Apache-2.0
"""``tf.distribute.cluster_resolver``: finds no TPU, as on any machine with GPUs."""

from __future__ import annotations

from .... import errors
from ...._missing import watch
from ...._typing import Any, NoReturn

__all__ = ["ClusterResolver", "TPUClusterResolver"]


class ClusterResolver:
    """The base of the classes that find a cluster."""


class TPUClusterResolver(ClusterResolver):
    """Raises ValueError without the name of a TPU, as TensorFlow does on a machine with GPUs.

    ``TPU_NAME`` and ``KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS`` name one, too; then it raises UnimplementedError: TPUs need TensorFlow.
    """

    def __init__(self, tpu: Any = None, *_: Any, **__: Any) -> None:
        import os

        name = tpu or os.environ.get("TPU_NAME") or os.environ.get("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS")
        if not name:
            raise ValueError("Please provide a TPU Name to connect to.")
        raise errors.UnimplementedError(f"the TPU {name!r} needs TensorFlow: gpuconf configures GPUs")

    @staticmethod
    def connect(tpu: Any = None, zone: Any = None, project: Any = None) -> NoReturn:
        """Raise the same errors."""
        del zone, project
        TPUClusterResolver(tpu)
        raise AssertionError("the constructor raises")


def __dir__() -> list[str]:
    return __all__


watch(globals())
