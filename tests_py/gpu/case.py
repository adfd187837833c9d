"""Cases for a real GPU, one process each: ``python case.py NAME``; without a name, all their names.

Needs gpuconf, a driver, and the library that a case names. A case is a function ``case_*`` of a module in ``cases``;
its docstring is the promise. It succeeds or raises; Missing names what the machine lacks. A case may return a
dictionary of figures, or note them as it goes; the last line of the output has them as JSON, also if the case fails.
Nothing here needs pytest, so that a machine with only Python and the driver can run it (run.py).
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import traceback
from pathlib import Path

CASES = Path(__file__).resolve().parent / "cases"
sys.path.insert(1, str(CASES))


def homes() -> dict[str, str]:
    """The module of each case, read without importing anything."""
    found = {}
    for path in sorted(CASES.glob("*.py")):
        for name in re.findall(r"^def case_(\w+)\(", path.read_text(), re.MULTILINE):
            found[name] = path.stem
    return found


def main(name: str) -> int:
    """Run one case; its exit code."""
    import gpuconf
    from checks import MISSING, Missing, noted

    if gpuconf.simulated() or not gpuconf.config.list_physical_devices("GPU"):
        print("there is no real GPU")
        return MISSING
    try:
        noted.update(getattr(importlib.import_module(homes()[name]), f"case_{name}")() or {})
    except Missing as missing:
        print(str(missing).partition("\n")[0])
        return MISSING
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        print(json.dumps(noted), flush=True)
        return 1
    print(json.dumps(noted), flush=True)
    # A thread of PyTorch may abort while Python ends (tests_py/frameworks/no_gpu.py), which says nothing of the case.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if sys.argv[1:] else print("\n".join(homes())))
