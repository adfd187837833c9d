# SPDX-License-Identifier: Apache-2.0
"""The C compiler of the wheels:
``python zigcc.py TARGET ARGUMENTS...`` runs zig's for that machine and that version of glibc.

zig's linker rejects some options of GNU's that the build passes. None of them changes the result: undefined symbols are
allowed in a shared object anyway, and the others write a build id that nothing reads, or export symbols that the
version script
hides.
"""

from __future__ import annotations

import os
import sys

REJECTED = ("-Wl,--unresolved-symbols=", "-Wl,--build-id=none", "-rdynamic")

if __name__ == "__main__":
    target, *arguments = sys.argv[1:]
    kept = [argument for argument in arguments if not argument.startswith(REJECTED)]
    os.execv(sys.executable, [sys.executable, "-m", "ziglang", "cc", "-target", target, *kept])
