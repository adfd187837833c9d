"""Run gpuconf's allocator side by side with others, and write benchmarks/reports/allocator-benchmarks.md and its plot.

    make bench WHAT=allocator [MINIMALLOC=DIR]

``--keep FILE`` keeps the measurements as JSON, ``--from FILE`` writes the page from such a file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.peers import fetch, page, plot  # noqa: E402
from benchmarks.report import cpu, fill  # noqa: E402


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--minimalloc", default="", help="folder of MiniMalloc's problems")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument(
        "--recorded", action="store_true", help="only the recorded runs: print their tables, and write nothing"
    )
    arguments.add_argument("--keep", type=Path)
    arguments.add_argument("--from", type=Path, dest="kept")
    options = arguments.parse_args()
    task = "recorded" if options.recorded else "all"
    run = json.loads(options.kept.read_text()) if options.kept else measure(options.minimalloc, options.rounds, task)
    if options.keep:
        options.keep.write_text(json.dumps(run))
    if options.recorded:
        print(page.recorded(run))
        return
    plot.draw(run, ROOT / "benchmarks" / "reports" / "allocator-benchmarks.png")
    fill(ROOT / "benchmarks" / "reports" / "allocator-benchmarks.md", page.parts(run))
    print("\n" + page.goals(run) + "\n\nwrote allocator-benchmarks.md and .png in benchmarks/reports")


def measure(minimalloc: str, rounds: int, task: str) -> dict[str, object]:
    """Get the peers, build, and run everything once."""
    load = os.getloadavg()[0]
    peers = fetch.get_all(lambda text: print(text, flush=True))
    program = fetch.go_program()
    problems = str(Path(minimalloc).resolve()) if minimalloc else ""
    command = [str(program), "-task", task, "-rounds", str(rounds), "-minimalloc", problems]
    command += [str(p.path) for p in peers if p.path]
    began = time.monotonic()
    env = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=env, cwd=ROOT)
    return {
        "result": json.loads(done.stdout),
        "peers": [
            {"contenders": p.contenders, "source": p.source, "version": p.version, "missing": p.missing} for p in peers
        ],
        "machine": {
            "date": datetime.date.today().isoformat(),
            "cpu": cpu(),
            "cores": os.cpu_count(),
            "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.0f} GiB",
            "system": f"{platform.system()} {platform.release().partition('-')[0]} {platform.machine()}",
            "go": said("go", "env", "GOVERSION"),
            "gcc": said(os.environ.get("CXX", "g++"), "-dumpfullversion", "-dumpversion"),
            "rust": said("rustc", "--version").partition(" (")[0],
            "load": f"{load:.1f}",
            "load_end": f"{os.getloadavg()[0]:.1f}",
            "seconds": round(time.monotonic() - began),
            "rounds": rounds,
        },
    }


def said(*command: str) -> str:
    """The output of a program, or the reason why it is missing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"no {command[0]}"


if __name__ == "__main__":
    main()
