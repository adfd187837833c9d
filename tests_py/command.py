"""Run the command ``gpuconf``, and a recording of two holes between blocks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from script import environment

COMMAND = str(Path(sys.executable).with_name("gpuconf"))

HOLES = """Thread,Time,Action,Pointer,Size,Stream
1,10:00:00.000000,allocate,0x1000000,2097152,0
1,10:00:00.250000,allocate,0x2000000,2097152,0
1,10:00:00.500000,allocate,0x3000000,2097152,0
1,10:00:00.750000,free,0x1000000,2097152,0
1,10:00:01.000000,free,0x3000000,2097152,0
1,10:00:01.250000,allocate,0x4000000,4194304,0
"""


def run(*arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=60, cwd=cwd, env=environment(env)
    )
    return done.returncode, done.stdout, done.stderr
