"""Run blocks of public code on TensorFlow and on gpuconf, and count those that behave alike: ``rule.md`` says how.

python benchmarks/public_code/compare.py PYTHON_WITH_TENSORFLOW FOLDER...

The folders are those that ``blocks.py`` wrote. This interpreter has gpuconf and NumPy. The one with TensorFlow is
make oracle's, after ``pip install --no-deps -r benchmarks/public_code/requirements.txt``. TensorFlow's results stay in
``theirs.json`` in each folder. ``--show`` prints what differs.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).resolve().parents[2] / "tests_py"
sys.path.insert(0, str(TESTS))

import run_programs  # noqa: E402

LONGEST = 60  # seconds


class Result(NamedTuple):
    """How a block ended: the exit code, standard output, and standard error."""

    code: int
    out: str
    err: str

    @property
    def end(self) -> str:
        """The class of the exception that ended the block; "" for none."""
        if self.code == 0:
            return ""
        found = re.findall(r"^([\w.]+)(?::|$)", self.err, re.MULTILINE)
        named = [one.rpartition(".")[2] for one in found if re.search(r"(Error|Exception|Interrupt|Exit)$", one)]
        return named[-1] if named else f"exit {self.code}"

    @property
    def said(self) -> str:
        """Standard output without what differs from run to run."""
        text = re.sub(r"0x[0-9a-f]+", "0x", self.out)
        return re.sub(r"(incarnation: |xla_global_id: )-?\d+", r"\1", text)


MACHINES = ("", "2xT4")
MISSING = ("AttributeError", "ImportError", "ModuleNotFoundError")  # how a block for an older version may end
ENDED = Result(0, "", "")
NO_COPY = "No gpu stream is available"  # the imaginary GPUs do not copy


def run(mode: str, folder: str, names: list[str]) -> None:
    """Run blocks in this interpreter: NAME@MACHINE@VERSION. The version is 2, "k" (2 with Keras 2), or 1."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if mode == "tensorflow" and not names[0].endswith("@2"):
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
    prepare = {"installed": run_programs.prepare_gpuconf, "tensorflow": run_programs.prepare_tensorflow}[mode](mode)
    if mode == "tensorflow":
        build_for_gpus()

    def read(name: str) -> run_programs.Program:
        stem, machine, _ = name.split("@")
        return run_programs.Program(name, (Path(folder) / f"{stem}.py").read_text(), machine, [], {}, "", "", [], 0)

    def prepare_block(program: run_programs.Program) -> None:
        os.chdir(tempfile.mkdtemp())
        signal.alarm(LONGEST)
        prepare(program)
        if mode == "installed" and not program.machine:  # without GPUs whatever CUDA_VISIBLE_DEVICES becomes
            del os.environ["GPUCONF_SIMULATE"], os.environ["CUDA_VISIBLE_DEVICES"]
        if program.name.endswith("@1"):
            if mode == "installed":
                os.environ["GPUCONF_AS_TENSORFLOW"] = "v1"
            else:
                become_1()

    run_programs.read, run_programs.PROGRAMS = read, Path(folder)
    kept = run_programs.run_in_child
    run_programs.run_in_child = lambda program, mode, _: kept(program, mode, prepare_block)
    run_programs.main = _main = run_programs.main
    _main(mode, names)


# What the wheel tensorflow 2.21.0, TensorFlow's release for GPUs, says of itself.
BUILD = {
    "cpu_compiler": "clang",
    "cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"],
    "cuda_version": "12.5.1",
    "cudnn_version": "9",
    "is_cuda_build": True,
    "is_rocm_build": False,
    "is_tensorrt_build": False,
}


def build_for_gpus() -> None:
    """Let TensorFlow's release for the CPU say of its build what that for GPUs says."""
    from tensorflow.python.framework import test_util
    from tensorflow.python.platform import build_info

    build_info.build_info = OrderedDict(BUILD)
    test_util.IsGoogleCudaEnabled = lambda: True


def become_1() -> None:
    """Let ``tensorflow`` be what TensorFlow 1 was: ``compat.v1``, with its Keras and the private modules."""
    import tensorflow.compat.v1 as tf1
    import tf_keras.api._v1.keras as keras

    tf1.disable_v2_behavior()
    tf1.python = sys.modules["tensorflow.python"]
    vars(tf1)["keras"] = keras
    sys.modules["tensorflow"] = tf1
    for name, module in list(sys.modules.items()):
        if name.startswith(keras.__name__):
            sys.modules[f"tensorflow.keras{name.removeprefix(keras.__name__)}"] = module


def results(python: str, mode: str, folder: Path, names: list[str]) -> dict[str, Result]:
    """Run blocks with an interpreter."""
    if not names:
        return {}
    command = [python, __file__, "--run", mode, str(folder), *names]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return {name: Result(*rest) for name, *rest in map(json.loads, done.stdout.splitlines())}


def judged(python: str, folder: Path) -> dict[str, Result]:
    """TensorFlow's results, from the file if it is there."""
    file = folder / "theirs.json"
    if not file.exists():
        stems = sorted(path.stem for path in folder.glob("*.py"))
        found = results(python, "tensorflow", folder, [f"{stem}@{machine}@2" for stem in stems for machine in MACHINES])
        for version in ("k", "1"):
            older = [stem for stem in stems if found.get(f"{stem}@@2", ENDED).end in MISSING]
            again = results(
                python, "tensorflow", folder, [f"{stem}@{machine}@{version}" for stem in older for machine in MACHINES]
            )
            for stem in older:
                if again[f"{stem}@@{version}"].end != found[f"{stem}@@2"].end:
                    for machine in MACHINES:
                        del found[f"{stem}@{machine}@2"]
                        found[f"{stem}@{machine}@{version}"] = again[f"{stem}@{machine}@{version}"]
        file.write_text(json.dumps(found, indent=1))
    return {name: Result(*one) for name, one in json.loads(file.read_text()).items()}


def compare(python: str, folder: Path, show: bool) -> dict[str, Any]:
    """Compare the blocks of a folder, and count."""
    theirs = judged(python, folder)
    slow = {name.partition("@")[0] for name, one in theirs.items() if one.code == -signal.SIGALRM}
    theirs = {name: one for name, one in theirs.items() if name.partition("@")[0] not in slow}
    theirs = {name: one for name, one in theirs.items() if NO_COPY not in one.err}
    ours = results(sys.executable, "installed", folder, list(theirs))
    alike: dict[str, bool] = {}
    both = same = 0
    for name, their in theirs.items():
        our = ours[name]
        stem, machine, _ = name.split("@")
        good = their.end == our.end
        alike[stem] = alike.get(stem, True) and good
        if not machine and their.code == our.code == 0:
            both += 1
            same += their.said == our.said
        if show and (not good or (their.code == 0 and their.said != our.said)):
            print(
                f"{'differs' if not good else 'prints'} {name}: TensorFlow {their.end or 'ends'}, gpuconf "
                f"{our.end or 'ends'}"
            )
            print(
                "   ",
                "\n    ".join(our.err.strip().splitlines()[-3:] if our.code else [their.said[:300], our.said[:300]]),
            )
    return {
        "blocks": len(alike),
        "left out": len(slow),
        "as TensorFlow": sum(alike.values()),
        "end in both without a GPU": both,
        "print the same": same,
    }


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        words = [word for word in sys.argv[1:] if word != "--show"]
        for each in words[1:]:
            print(each.rpartition("/")[2], json.dumps(compare(words[0], Path(each), "--show" in sys.argv)))
