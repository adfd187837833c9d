"""The programs of ``tests_py/compat/programs``: what TensorFlow itself prints, and what they print on gpuconf.

Both run the unchanged programs, with as many imaginary GPUs as are simulated. Programs that say why they cannot be
compared (``:: TensorFlow``) are left out.
"""

import json
import subprocess
import sys
from pathlib import Path

from .outcomes import Tally

SCRIPT = Path(__file__).parent.parent / "run_programs.py"


def run(tally: Tally) -> None:
    """Compare the exit code and the lines of each program."""
    sys.path.insert(0, str(SCRIPT.parent))
    import run_programs

    names = [name for name in run_programs.names() if not run_programs.read(name).tensorflow]
    tally.wanted = len(names)
    ours, theirs = _results("installed", names), _results("tensorflow", names)
    for name in names:
        (code, out, err), (their_code, their_out, their_err) = ours[name], theirs[name]
        if code == their_code and _same(out.splitlines(), their_out.splitlines()):
            tally.equal()
        else:
            tally.different(name, [f"gpuconf: {code}", out, err, f"TensorFlow: {their_code}", their_out, their_err])


def _results(mode: str, names: list[str]) -> dict[str, list[int | str]]:
    command = [sys.executable, str(SCRIPT), mode, *names]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}


def _same(ours: list[str], theirs: list[str]) -> bool:
    """Whether two outputs are the same, except that a message of gpuconf's may go on where TensorFlow's ends."""
    return len(ours) == len(theirs) and all(
        line == other or (line.startswith(other) and line[len(other) :].startswith((": ", " (")))
        for line, other in zip(ours, theirs, strict=True)
    )
