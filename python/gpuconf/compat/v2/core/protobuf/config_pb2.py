# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.core.protobuf.config_pb2``: the messages of ``compat.v1``, as ``ConfigProto``."""

from __future__ import annotations

from ...._proto import (
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RPCOptions,
    SessionMetadata,
    ThreadPoolOptionProto,
)

__all__ = [
    "ConfigProto",
    "GPUOptions",
    "GraphOptions",
    "OptimizerOptions",
    "RPCOptions",
    "SessionMetadata",
    "ThreadPoolOptionProto",
]


def __dir__() -> list[str]:
    return __all__
