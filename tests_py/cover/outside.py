# SPDX-License-Identifier: Apache-2.0
"""Two sides that change the same files: a real training outside, and a rehearsal of it in a cover."""

import collections
import json
import os
import random
import subprocess
import sys
import time

NAMES = ("train.log", "config.json", "moved.txt", "deleted.txt", "rotated.log")


def write(folder: str, process: subprocess.Popen[str]) -> tuple[dict[str, str], int]:
    """Change files of a folder while a process runs: what each of them must hold in the end, and how many steps that
    took.
    """
    expected = dict.fromkeys(NAMES, "precious\n")
    at = {name: os.path.join(folder, name) for name in (*NAMES, "other.txt", "rotated.log.1", "config.tmp")}
    step = 0
    log = open(at["train.log"], "a")  # noqa: SIM115  (open all the time, as that of a training)
    while process.poll() is None:
        step += 1
        log.write(f"step {step}\n")
        log.flush()
        expected["train.log"] += f"step {step}\n"
        with open(at["config.tmp"], "w") as file:
            file.write(f"{step}\n")
        os.replace(at["config.tmp"], at["config.json"])
        expected["config.json"] = f"{step}\n"
        source, target = ("moved.txt", "other.txt") if "moved.txt" in expected else ("other.txt", "moved.txt")
        os.rename(at[source], at[target])
        expected[target] = expected.pop(source)
        if "deleted.txt" in expected:
            os.unlink(at["deleted.txt"])
            del expected["deleted.txt"]
        else:
            with open(at["deleted.txt"], "x") as file:
                file.write(f"made at {step}\n")
            expected["deleted.txt"] = f"made at {step}\n"
        with open(at["rotated.log"], "a") as file:
            file.write(f"line {step}\n")
        expected["rotated.log"] = expected.get("rotated.log", "") + f"line {step}\n"
        if step % 10 == 0:
            os.replace(at["rotated.log"], at["rotated.log.1"])
            expected["rotated.log.1"] = expected.pop("rotated.log")
        time.sleep(0.002)
    log.close()
    return expected, step


def change(draw: random.Random) -> str:
    """One change of the same files, or the name of its error."""
    names = (*NAMES, "other.txt", "rotated.log.1", "own.txt")
    name, other = draw.choice(names), draw.choice(names)
    what = draw.choice(("append", "write", "replace", "rename", "unlink", "read", "list", "truncate", "chmod"))
    try:
        if what in {"append", "write"}:
            with open(name, what[0]) as file:
                file.write("inside\n")
        elif what == "replace":
            with open("inside.tmp", "w") as file:
                file.write("inside\n")
            os.replace("inside.tmp", name)
        elif what == "rename":
            os.rename(name, other)
        elif what == "unlink":
            os.unlink(name)
        elif what == "read":
            with open(name) as file:
                file.read()
        elif what == "list":
            os.listdir(".")
        elif what == "truncate":
            os.truncate(name, 3)
        else:
            os.chmod(name, 0o600)
    except OSError as error:
        return f"{what}: {type(error).__name__}"
    return f"{what}: done"


def inside(seconds: float) -> None:
    """Change the files for a while, and print how often each change worked."""
    draw = random.Random(1)
    counts: collections.Counter[str] = collections.Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        counts[change(draw)] += 1
        time.sleep(0.001)
    print(json.dumps(counts))


if __name__ == "__main__":
    inside(float(sys.argv[2]))
