# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.core.protobuf.rewriter_config_pb2``: what ``graph_options.rewrite_options`` of a ConfigProto takes."""

from __future__ import annotations

from ...._proto import AutoParallelOptions, RewriterConfig, ScopedAllocatorOptions, VerifierConfig

__all__ = ["AutoParallelOptions", "RewriterConfig", "ScopedAllocatorOptions", "VerifierConfig"]


def __dir__() -> list[str]:
    return __all__
