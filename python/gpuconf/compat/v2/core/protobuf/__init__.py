# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.core.protobuf``: the modules of messages that programs import to configure sessions."""

from __future__ import annotations

from . import config_pb2, rewriter_config_pb2

__all__ = ["config_pb2", "rewriter_config_pb2"]


def __dir__() -> list[str]:
    return __all__
