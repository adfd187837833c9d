"""What to do when the core is loaded. Registering costs nothing before: this file imports nothing."""

from __future__ import annotations

from collections.abc import Callable

then: list[Callable[[], None]] = []  # each is called once, by the thread that loads the core
