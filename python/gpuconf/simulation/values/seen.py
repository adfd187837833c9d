# SPDX-License-Identifier: Apache-2.0
"""Which kernels an operation took that has several, such as attention, and which sizes depend on values that do not
exist.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from ..._typing import Any

_WITH_PATHS = re.compile(
    r"aten::(_scaled_dot_product_\w+_attention|_flash_attention_forward|_efficient_attention_forward)(\.\w+)?"
)
_CONVOLUTIONS = re.compile(
    r"aten::(cudnn_convolution\w*|slow_conv\w+|_slow_conv2d_forward|_conv_depthwise2d|conv_depthwise3d)(\.\w+)?"
)

paths: Counter[str] = Counter()  # by operator, without "aten::"
sized_by_values: Counter[str] = Counter()  # operators whose results have as many elements as values of no tensor say


def counting(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that is counted, if its operator is one of several for the same task."""
    found = _WITH_PATHS.fullmatch(name) or _CONVOLUTIONS.fullmatch(name)
    if found is None:
        return kernel
    path = found[1]

    def counted(*args: Any, **named: Any) -> Any:
        paths[path] += 1
        return kernel(*args, **named)

    return counted
