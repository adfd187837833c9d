"""Write the table of TensorFlow's public names, ``_tensorflow_names.txt``.

Its names come from the API golden files of checkouts of TensorFlow:

    python tests_py/oracle/tensorflow_names.py --golden DIR [DIR ...]

Several releases make one table, because programs use names that later releases removed. Without ``--golden`` (``make
generate``), the names stay, and only the marks of those that gpuconf has are written again. ``--check`` compares only.
"""

import argparse
import importlib
import re
import sys
from pathlib import Path

from gpuconf import _missing as missing

FILE = Path(__file__).parents[2] / "python" / "gpuconf" / "_tensorflow_names.txt"

# Large modules whose names no program reaches: their parent is missing, or they are private.
_LEFT_OUT = re.compile(r"__\w+__|raw_ops|keras\.(?!backend$)")
# Removed before the first golden files.
_OLDER = {"": {"contrib"}}


def golden_names(checkouts: list[Path]) -> dict[str, set[str]]:
    """Return the names in each module."""
    found: dict[str, set[str]] = {module: set(names) for module, names in _OLDER.items()}
    for checkout in checkouts:
        files = sorted((checkout / "tensorflow" / "tools" / "api" / "golden").glob("v[12]/*.pbtxt"))
        if not files:
            sys.exit(f"{checkout} has no golden files in tensorflow/tools/api/golden")
        for file in files:
            text = file.read_text()
            path = re.search(r'^path: "tensorflow\.?([^"]*)"', text, re.MULTILINE)
            if path is None or "tf_module {" not in text or _LEFT_OUT.match(path.group(1)):
                continue
            names = re.findall(r'^ +name: "(\w+)"', text, re.MULTILINE)
            found.setdefault(path.group(1), set()).update(name for name in names if not name.startswith("_"))
    return found


def marks(module: str, name: str) -> str:
    """Return the marks of the roots that have a name."""
    found = ""
    for root, mark in (("gpuconf", "0"), ("gpuconf.compat.v1", "1"), ("gpuconf.compat.v2", "2")):
        try:
            here = importlib.import_module(f"{root}.{module}" if module else root)
            importlib.import_module(f"{here.__name__}.{name}") if not hasattr(here, name) else None
        except ImportError:
            continue
        found += mark
    return found


def table(names: dict[str, set[str]]) -> str:
    """Return the text of the table."""
    lines = []
    for module in sorted(names):
        words = [f"{name}={has}" if (has := marks(module, name)) else name for name in sorted(names[module])]
        lines.append(f"{module}: {' '.join(words)}\n")
    return "".join(lines)


def main() -> None:
    """Write the table, or compare it."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--golden", type=Path, nargs="+", metavar="DIR")
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    names = (
        golden_names(options.golden)
        if options.golden
        else {module: set(found) for module, found in missing.names().items()}
    )
    text = table(names)
    if not options.check:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        sys.exit(f"{FILE} is out of date: run make generate")


if __name__ == "__main__":
    main()
