# SPDX-License-Identifier: Apache-2.0
"""The commands of ``gpuconf``, as ``commands.txt`` describes them."""

from __future__ import annotations

import os


def _read() -> dict[str, tuple[str, str]]:
    with open(os.path.join(os.path.dirname(__file__), "commands.txt"), encoding="utf-8") as file:
        parts = file.read().split("\n== ")[1:]
    read = {}
    for part in parts:
        head, _, text = part.partition("\n")
        name, _, function = head.partition(" |")
        read[name] = function.strip(), text.strip()
    for name in ("@json", "@request"):
        _, lines = read.pop(name)
        read = {command: (function, text.replace(name, lines)) for command, (function, text) in read.items()}
    return read


COMMANDS = _read()  # each command's "module:function", and its text
ABOUT, _, EXAMPLES = COMMANDS.pop("@gpuconf")[1].partition("\n\nexample:\n")
