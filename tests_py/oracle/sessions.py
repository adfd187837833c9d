"""Sessions, graphs and tf.errors as programs of TensorFlow 1 use them: stories (sessions.txt), run on both sides line
by line.

Each story runs in its own thread, because the default graphs and sessions belong to a thread, and in its own graph, in
which TensorFlow builds graphs. ``make oracle`` compares the stories and records TensorFlow's results; ``make test``
replays those without TensorFlow (tests_py/conformance/test_session_stories.py).
"""

import importlib
import json
import re
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy
from recordings import Recording

from .machine import Side
from .outcomes import Outcome, Tally, agree, families, text_of

FILE = Recording("tensorflow/recorded_sessions.json")

# The first lines of every story.
BEGIN = (
    "a = tf.constant(1.0, name='a')",
    "b = tf.constant([1.0, 2.0], name='b')",
    "i = tf.constant(3, name='i')",
    "c = tf.add(a, a, name='c')",
)


# The GPUs of the machine, and the lines.
def _read() -> dict[str, tuple[int, tuple[str, ...]]]:
    """The stories by name: the GPUs of the machine, and the lines."""
    stories = {}
    for text in Path(__file__).with_suffix(".txt").read_text().split("\n== ")[1:]:
        heading, *lines = text.strip().splitlines()
        name, gpus = heading.split(" | ")
        stories[name] = int(gpus), tuple(lines)
    return stories


STORIES = _read()


def _elsewhere(do: Any) -> Any:
    """Call in another thread."""
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append(do()))
    thread.start()
    thread.join()
    return told[0] if told else None


def _shown(value: Any) -> Any:
    """A value in a form common to both sides: graph elements by name, arrays with their type."""
    kind = type(value).__name__
    if kind == "Operation":
        return f"operation {value.name}"
    if hasattr(value, "op") and hasattr(value, "graph"):
        return f"tensor {value.name}"
    if kind == "DeviceAttributes" and hasattr(value, "physical_device_desc"):
        return re.sub(r"(?<=incarnation: )\d+|(?<=pci bus id: )[^,]*", "...", repr(value))
    if kind in ("DeviceAttributes", "_DeviceAttributes"):
        return re.sub(r", -?\d+\)$", ", incarnation)", repr(value))
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return f"{kind} {value.dtype} {value.tolist()!r}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_shown, value))
    if type(value) in (list, tuple):
        return type(value)(map(_shown, value))
    if isinstance(value, dict):
        return {key: _shown(each) for key, each in value.items()}
    return value


# What TensorFlow and gpuconf add to the error of a node that ran: the node, in different forms.
_NODE = re.compile(r"\n\t \[\[.*", re.DOTALL)

# The module of a class.
_MODULE = re.compile(r"(?<=<class ')[\w.]+\.(?=\w+'>)|(?<=<)[\w.]+\.(?=(Tensor|Operation) ')")


def _outcome(line: str, names: dict[str, Any]) -> Outcome:
    line = line.removeprefix("~")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TensorFlow warns about codes of other classes
            try:
                code = compile(line, "<story>", "eval")
            except SyntaxError:
                exec(compile(line, "<story>", "exec"), names)
                return Outcome("None")
            return Outcome(text_of(_shown(eval(code, names))))
    except Exception as error:
        message = getattr(error, "message", None)
        text = message if isinstance(message, str) else str(error.args[0]) if len(error.args) == 1 else str(error)
        return Outcome(None, families(error), _NODE.sub("", _MODULE.sub("", text)))


def play(v1: Any, v2: Any, lines: tuple[str, ...]) -> list[Outcome]:
    """Run a story on one side, in a new thread and graph."""
    told: list[Outcome] = []

    def tell() -> None:
        import collections

        names = {"tf": v1, "tf2": v2, "numpy": numpy, "collections": collections, "elsewhere": _elsewhere}
        names["device_lib"] = importlib.import_module(f"{v2.__name__}.python.client.device_lib")
        scope = v1.Graph().as_default()  # ends with the thread, whatever state the story leaves it in
        scope.__enter__()
        for line in BEGIN:
            exec(line, names)
        told.extend(_outcome(line, names) for line in lines)

    # TensorFlow's __del__ fails for a session that was rejected.
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    thread = threading.Thread(target=tell)
    thread.start()
    thread.join()
    sys.unraisablehook = hook
    return told


def alike(line: str, theirs: Outcome, ours: Outcome) -> bool:
    """Whether the two sides agree on a line."""
    if line.startswith("~"):
        theirs = theirs._replace(message="")
    if not agree(theirs, ours):
        return False
    return theirs.value is not None or ours.message.startswith(theirs.message)  # for a TypeError too


def run(theirs: Side, ours: Side, tally: Tally) -> None:
    """Compare all stories."""
    for name, (gpus, lines) in STORIES.items():
        theirs.fresh(gpus)
        ours.fresh(gpus)
        pairs = zip(
            lines,
            play(theirs.names["v1"], theirs.names["v2"], lines),
            play(ours.names["v1"], ours.names["v2"], lines),
            strict=True,
        )
        for line, a, b in pairs:
            if alike(line, a, b):
                tally.equal()
            else:
                tally.different(f"{name}: {line}", [name, f"    {line}", f"  TensorFlow: {a}", f"  gpuconf:    {b}"])


def record(theirs: Side, version: str) -> None:
    """Write TensorFlow's results."""
    told = {}
    for name, (gpus, lines) in STORIES.items():
        theirs.fresh(gpus)
        answers = play(theirs.names["v1"], theirs.names["v2"], lines)
        told[name] = [[line, *answer] for line, answer in zip(lines, answers, strict=True)]
    rows = (f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, lines)) + "\n]" for name, lines in told.items())
    FILE.write_text(f'{{"tensorflow": "{version}", "stories": {{\n' + ",\n".join(rows) + "\n}}\n")
