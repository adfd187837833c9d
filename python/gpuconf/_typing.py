# SPDX-License-Identifier: Apache-2.0
"""Names of ``typing`` for annotations, without its cost.

Importing ``typing`` takes about half as long as all of gpuconf. Annotations must resolve all the same, because
``typing.get_type_hints`` evaluates them in the module of the function or class. So modules import from here what they would import
from ``typing``. A type checker sees the real names; at run time each stands for ``object``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import NoReturn as NoReturn
else:
    Any = NoReturn = object
