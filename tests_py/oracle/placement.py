"""Where operations run: eager calls and v1 graphs on TensorFlow's own placer, compared with gpuconf's, as (node,
device) pairs.
"""

import random
import re
from typing import Any

from . import excuses
from .machine import Side
from .outcomes import Tally, agree, outcome

MACHINES = (
    (0, []),
    (0, ["config.set_logical_device_configuration(c, [L(), L(), L()])"]),
    (1, []),
    (2, []),
    (3, ["config.set_visible_devices([g2, g0], 'GPU')"]),
    (2, ["config.set_logical_device_configuration(g0, [L(10), L(10)])"]),
    (1, ["config.set_logical_device_configuration(g0, [L(1)] * 11)"]),
    (2, ["config.set_logical_device_configuration(c, [L(), L()])", "config.set_visible_devices([], 'GPU')"]),
)
_DEVICES = (
    "None", "''", "'GPU:0'", "'/gpu:0'", "'/gpu:1'", "'/gpu:2'", "'/gpu:10'", "'/gpu:77'", "'gpu'", "'/device:GPU:*'",
    "'CPU'", "'/cpu:0'", "'/cpu:1'", "'/cpu:9'", "'/job:localhost'", "'/task:0/gpu:1'",
    "'/job:localhost/replica:0/task:0/device:GPU:0'", "'/device:XPU:0'", "'/job:worker'", "'/device:gpu:0'",
    "'/device:GPU:0'", "'/device:Gpu:0'", "'TPU:0'", "'/replica:1'", "'GPU:-1'", "'/device:*:0'", "'/job:123'",
    "'/replica:-1'",
)  # fmt: skip
_COMMON = tuple(
    """
    None '' 'GPU:0' '/gpu:0' 'gpu' '/device:GPU:*' 'CPU' '/cpu:0' '/job:localhost' '/task:0/gpu:1' '/gpu:1'
""".split()
)
_TYPES = {"f": "'float32'", "d": "'float64'", "i": "'int32'"}
_VALUES = {"f": "[[1.0, 2.0], [3.0, 4.0]]", "d": "numpy.ones((2, 2))", "i": "[[1, 2], [3, 4]]"}

# Copies between GPUs are not compared, because the imaginary GPUs do not support them.
_NO_STREAM = "No gpu stream is available"


class _Graphs:
    """Draws programs: lines that create tensors n[0], n[1], ... of types f, d and i, under nested scopes."""

    def __init__(self, draw: random.Random, placeholders: bool = False) -> None:
        self.draw = draw
        self.placeholders = placeholders
        self.devices = _DEVICES if draw.random() < 0.4 else _COMMON  # one unknown device makes a whole graph fail
        self.types: list[str] = []

    def operation(self) -> str:
        of_type: dict[str, list[int]] = {}
        for number, kind in enumerate(self.types):
            of_type.setdefault(kind, []).append(number)
        if not self.types or self.draw.random() < 0.35:
            kind = self.draw.choice("ffdii")
            self.types.append(kind)
            if self.placeholders and self.draw.random() < 0.3:
                return f"placeholder({_TYPES[kind]}, {self.draw.choice(['(2, 2)', '(None, 2)', '(None, None)'])})"
            return f"constant({_VALUES[kind]})"
        kind = self.draw.choice(list(of_type))
        x, y, z = (f"n[{self.draw.choice(of_type[kind])}]" for _ in range(3))
        self.types.append(kind)
        return self.draw.choice(
            [
                f"matmul({x}, {y})",
                f"matmul({x}, {y})",
                f"add({x}, {y})",
                f"add_n([{x}, {y}, {z}])",
                f"identity({x})",
                f"identity({x})",
            ]
        )

    def scopes(self) -> str:
        depth = self.draw.choice([0, 0, 1, 1, 1, 2, 3])
        return f"[{', '.join(self.draw.choice(self.devices) for _ in range(depth))}]"


def run(theirs: Side, ours: Side, seed: int, wanted: int, tally: Tally) -> None:
    """Compare at least this many placements."""
    draw = random.Random(f"placement {seed}")
    while tally.compared < wanted:
        gpus, configure = draw.choice(MACHINES)
        for side in (theirs, ours):
            side.fresh(gpus)
            for call in configure:
                side.evaluate(call)
        for _ in range(30):
            _eager(theirs, ours, draw, [f"# {gpus} GPUs", *configure], tally)
        for _ in range(30):
            _graph(theirs, ours, draw, [f"# {gpus} GPUs", *configure], tally)


def _eager(theirs: Side, ours: Side, draw: random.Random, story: list[str], tally: Tally) -> None:
    graphs = _Graphs(draw)
    calls = ["begin()", f"config.set_soft_device_placement({draw.choice(['True', 'True', 'False'])})"]
    calls.append(
        f"experimental.set_device_policy({draw.choice(['None', 'None', repr('explicit'), repr('silent_for_int32')])})"
    )
    for call in calls:
        theirs.evaluate(call)
        ours.evaluate(call)
    for _ in range(draw.randint(1, 8)):
        scopes = graphs.scopes()
        calls.append(f"eager({scopes}, lambda: {graphs.operation()})")
        a, b = outcome(theirs, calls[-1]), outcome(ours, calls[-1])
        if _NO_STREAM in a.message:
            return
        if not agree(a, b):
            _count(tally, story, calls, a, b, theirs)
            return
        tally.equal()
        if a.value is None:  # the tensor does not exist
            graphs.types.pop()


def draw_graph(draw: random.Random) -> str:
    """A call that creates and places a graph."""
    graphs = _Graphs(draw, placeholders=True)
    lines = []
    for made in range(draw.randint(1, 10)):
        scopes = graphs.scopes()
        controls = draw.choices(range(made), k=draw.choice([0, 0, 0, 1, 2])) if made else []
        lines.append(f"({scopes}, lambda: {graphs.operation()}, {controls})")
    return f"graph([{', '.join(lines)}], soft={draw.choice(['True', 'True', 'False'])})"


def _graph(theirs: Side, ours: Side, draw: random.Random, story: list[str], tally: Tally) -> None:
    call = draw_graph(draw)
    a, b = outcome(theirs, call), outcome(ours, call)
    if agree(a, b):
        tally.equal(call.count("lambda") if a.value is not None else 1)
    else:
        _count(tally, story, [call], a, b, theirs)


def _count(tally: Tally, story: list[str], calls: list[str], a: Any, b: Any, theirs: Side) -> None:
    excuse = excuses.find(excuses.Found(calls, a, b, excuses.asking(theirs)))
    if excuse is not None:
        tally.excused(excuse)
        return
    kind = re.sub(r"[\d'].*", "", f"{a.message[:60]} / {b.message[:60]}")
    tally.different(
        f"{calls[-1].split('(')[0]}: {kind}",
        [*story, *(f"    {c}" for c in calls), f"  TensorFlow: {a}", f"  gpuconf:    {b}"],
    )
