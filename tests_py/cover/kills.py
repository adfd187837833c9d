# SPDX-License-Identifier: Apache-2.0
"""A program that writes without end, with children, and what a signal at a random moment leaves of it and its cover."""

import contextlib
import glob
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def processes(token: str) -> dict[int, str]:
    """The processes that have a token in their words or environment, with their words."""
    found = {}
    for folder in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            words = Path(folder, "cmdline").read_bytes()
            if token.encode() in words or token.encode() in Path(folder, "environ").read_bytes():
                found[int(os.path.basename(folder))] = words.replace(b"\0", b" ").decode(errors="replace")
    return {number: words for number, words in found.items() if words}  # without words it has ended


def programs(token: str) -> list[int]:
    """The processes of the program itself: not of its cover, nor of what starts that."""
    covers = ("covered.py", "gpuconf-cover")
    return [
        number
        for number, words in sorted(processes(token).items())
        if f"kills.py {token}" in words and not any(cover in words for cover in covers)
    ]


def first_of(process: subprocess.Popen[str], token: str) -> int:
    """The process that starts the cover. That is not the bubblewrap in which it may run, which leaves its child if it
    is killed as it starts.
    """
    while process.poll() is None:
        for number, words in sorted(processes(token).items()):
            if "covered.py" in words and not words.startswith("bwrap "):
                return number
        time.sleep(0.002)
    return process.pid


def end(process: subprocess.Popen[str], token: str, draw: random.Random) -> tuple[bool, str]:
    """Send a signal to a side of a rehearsal at a random moment: whether its program ran by then, and what was done."""
    moment, first = draw.uniform(0, 0.4), first_of(process, token)
    if draw.random() < 0.5:  # else while the cover is made, perhaps
        deadline = time.monotonic() + 20
        while not programs(token) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
    time.sleep(moment)
    sort = draw.choice(SIGNALS)
    side = draw.choice(("first", "program", "any"))
    inside = programs(token)
    there = [first, *(number for number in sorted(processes(token)) if number not in (first, process.pid))]
    number = {"first": first, "program": (inside or there)[0], "any": draw.choice(there)}[side]
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, sort)
    said = f"{sort.name} to {side} after {moment:.3f} s"
    try:
        process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        # A child of the program that is ended ends neither the program nor its cover: end the cover as a user would.
        process.send_signal(signal.SIGTERM)
        said += ", and SIGTERM to the first"
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            said += ", which does not end"
    return bool(inside), said


def mounts() -> set[str]:
    return set(Path("/proc/self/mounts").read_text().splitlines())


def remains(token: str, before: set[str]) -> dict[str, str]:
    """What of a rehearsal is left after a few seconds: its processes, and mounts that were not there before."""
    deadline = time.monotonic() + 5
    while (
        left := {f"process {number}": words for number, words in processes(token).items()}
    ) and time.monotonic() < deadline:
        time.sleep(0.02)
    return {**left, **{f"mount {line}": "is new" for line in mounts() - before}}


def clear(token: str) -> None:
    """End what a test found, so that it is not there in the next."""
    for number in processes(token):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def main(token: str) -> None:
    subprocess.Popen(["/bin/sh", "-c", f"while :; do echo {token} >> child.txt; sleep 0.01; done"], cwd="part")
    # One that no environment and no session connects with it.
    subprocess.Popen(
        ["/bin/sh", "-c", f"while :; do echo {token} >> far.txt; sleep 0.01; done"],
        cwd="part",
        env={},
        start_new_session=True,
    )
    step = 0
    while step < 3000:
        step += 1
        for folder in (".", os.environ["TMPDIR"], os.environ["HOME"]):
            with contextlib.suppress(PermissionError), open(os.path.join(folder, f"new-{step % 50}"), "w") as file:
                file.write("x" * 1000)  # a mirror refuses the home folder
        with open("part/precious.txt", "a") as file:
            file.write("more\n")
        with contextlib.suppress(OSError):
            shutil.rmtree("part/ck")
        os.makedirs("part/ck", exist_ok=True)
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1])
