# SPDX-License-Identifier: Apache-2.0
"""``tf.version``: the TensorFlow release that gpuconf is compared with. gpuconf's own version is
``gpuconf.__version__``.
"""

from __future__ import annotations

from ..._missing import watch

__all__ = [
    "COMPILER_VERSION",
    "GIT_VERSION",
    "GRAPH_DEF_VERSION",
    "GRAPH_DEF_VERSION_MIN_CONSUMER",
    "GRAPH_DEF_VERSION_MIN_PRODUCER",
    "VERSION",
]

VERSION = "2.21.0"
GIT_VERSION = "v2.21.0-rc1-5-ga481b10260d"
COMPILER_VERSION = "Clang 18.1.8"
GRAPH_DEF_VERSION = 2474
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0


def __dir__() -> list[str]:
    return __all__


watch(globals())
