"""What ``gpuconf doctor`` and nvidia-smi say of the machine, as a step: a reader of the results cannot ask it later."""

from __future__ import annotations

import json
import subprocess
import sys

COMMANDS = {"doctor": [sys.executable, "-m", "gpuconf", "doctor"], "nvidia_smi": ["nvidia-smi"]}


def said(command: list[str]) -> str:
    """A command's output, or why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=45)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout + done.stderr


if __name__ == "__main__":
    print(json.dumps({name: said(command) for name, command in COMMANDS.items()}))
