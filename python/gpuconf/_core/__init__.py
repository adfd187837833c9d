# SPDX-License-Identifier: Apache-2.0
"""The base of all other packages: the compiled core, its C symbols, the state of the process, and value types.

Modules in this package import nothing else of gpuconf except ``errors``.
"""

from __future__ import annotations

from collections.abc import Callable

# What to do when the core is loaded. Each is called once, by the thread that loads it.
when_loaded: list[Callable[[], None]] = []
