# SPDX-License-Identifier: Apache-2.0
"""How the CPU computes operators that it has no kernel for."""

from . import attention, normalization, products, recurrent, sequences  # noqa: F401 - each adds its formulas
from .table import FORMULAS as FORMULAS
from .table import refusal_of as refusal_of
