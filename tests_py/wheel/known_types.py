# SPDX-License-Identifier: Apache-2.0
"""Count the names of the installed package whose types pyright knows, and fail if they are less than 99 %.

    python tests_py/wheel/known_types.py

mypy takes what it does not know for Any and passes; editors that are built on pyright then show nothing. What remains
unknown are classes below those of libraries that have no types or are not installed. Not a test module: `.ci/more` runs
it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LEAST = 0.99


def verified() -> dict[str, Any]:
    """Pyright's report on the types of the package. Its exit code is 1 for a single unknown type."""
    command = [sys.executable, "-m", "basedpyright", "--verifytypes", "gpuconf", "--ignoreexternal", "--outputjson"]
    # It looks for packages where the first Python of PATH does; --pythonpath does not count here.
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as elsewhere:  # not in the sources: the installed package is checked
        done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(done.stdout)["typeCompleteness"]
    except (ValueError, KeyError):
        report = {}
    if not report.get("symbols"):
        sys.exit(f"pyright found no names, exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return report


def main() -> None:
    """Print what is unknown, and the score; a score that is too low ends the program with an error."""
    report = verified()
    for symbol in report["symbols"]:
        for one in symbol["diagnostics"] if not symbol["isTypeKnown"] else ():
            print(f"{symbol['name']}: {one['message']}")
    score = report["completenessScore"]
    print(f"{score:.1%} of {sum(report['exportedSymbolCounts'].values())} names have known types")
    if score < LEAST:
        sys.exit(f"at least {LEAST:.0%} are wanted: annotate what is named above")


if __name__ == "__main__":
    main()
