"""Plans public snapshots of PyTorch's memory, and replays each of them address by address.

    python benchmarks/accuracy/public.py OWNER/NAME=GIT_DIRECTORY...

Takes each file of the clones' histories that is named *.pickle or *.pkl, contents that occur twice once. The results go
to public.json, of which benchmarks/reports/accuracy.md has a section; the snapshots themselves are not kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests_py.recordings import Recording  # noqa: E402

RESULTS = Recording("accuracy/public.json")
PLANNED = (0, 3)  # exit codes of gpuconf plan: the job fits, or it does not
AGREES = "the replay agrees with the snapshot"


def main() -> None:
    """Try the files of the clones, and keep what was found."""
    tried: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for repository, _, clone in (word.partition("=") for word in sys.argv[1:]):
            for blob, path in _files(clone):
                if blob not in tried:
                    tried[blob] = {"repository": repository, "path": path} | _try(
                        clone, blob, Path(folder, Path(path).name)
                    )
                    print(tried[blob], flush=True)
    RESULTS.write_text(json.dumps(list(tried.values()), indent=1) + "\n")


def _files(clone: str) -> list[tuple[str, str]]:
    commits = _git(clone, "log", "--all", "--pretty=%H").decode().split()
    lines = {line for one in commits for line in _git(clone, "ls-tree", "-r", one).decode().splitlines()}
    found = sorted((path, facts.split()[2]) for facts, _, path in (line.partition("\t") for line in lines))
    return [(blob, path) for path, blob in found if path.endswith((".pickle", ".pkl"))]


def _git(clone: str, *words: str) -> bytes:
    return subprocess.run(["git", f"--git-dir={clone}", *words], capture_output=True, check=False).stdout


def _try(clone: str, blob: str, file: Path) -> dict[str, Any]:
    data = _git(clone, "cat-file", "blob", blob)
    if not data:
        return {"absent": True}  # the clone lists it, and does not have it
    file.write_bytes(data)
    command = [sys.executable, "-m", "gpuconf", "plan", str(file)]
    plan = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    verify = subprocess.run([*command, "--verify"], capture_output=True, text=True, check=False)
    file.unlink()
    found: dict[str, Any] = {
        "bytes": len(data),
        "planned": plan.returncode in PLANNED,
        "agrees": AGREES in verify.stdout,
    }
    if not found["planned"]:
        found["error"] = plan.stderr.strip().rpartition("as a trace: ")[2]
    return found


def text() -> str:
    """Return how many snapshots a plan reads, and how many its replay agrees with."""
    rows = [row for row in json.loads(RESULTS.read_text()) if "absent" not in row]
    snapshots = [row for row in rows if "not a memory snapshot" not in row.get("error", "")]
    read, agrees = (sum(row[key] for row in snapshots) for key in ("planned", "agrees"))
    return f"{read} of {len(snapshots)} are planned, {agrees} replayed to the address"


if __name__ == "__main__":
    main()
