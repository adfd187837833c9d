# SPDX-License-Identifier: Apache-2.0
"""Written sequences of calls, about the edges of each kind of object."""

from __future__ import annotations

import arrays  # noqa: F401
import captures  # noqa: F401
import contexts  # noqa: F401
import copies  # noqa: F401
import graphs  # noqa: F401
import kernels  # noqa: F401
import memory  # noqa: F401
import pointers  # noqa: F401
import pools  # noqa: F401
import processes  # noqa: F401
import rest  # noqa: F401
import streams  # noqa: F401
import virtual  # noqa: F401
from shapes import UNITS  # noqa: F401
