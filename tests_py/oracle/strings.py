"""Device strings, well-formed and malformed:
TensorFlow's own parsers, in Python and native, compared with gpuconf's.
"""

import random

from . import excuses
from .machine import Side
from .outcomes import Tally, agree, outcome

_FIELDS = ("job", "replica", "task", "device", "Job", "TASK")
_TYPES = tuple("GPU GPU CPU CPU gpu cpu Gpu cPu TPU tpu XPU CUSTOM EPU epu * MyDevice_2 _x 2x".split())
_JOBS = ("localhost", "localhost", "worker", "*", "a-b", "a_b", "123", "", "Ä", "w o")
_INDICES = (
    "0", "0", "0", "1", "1", "2", "*", "*", "", "00", "01", "-1", "+1", " 1", "1 ", "1_0", "1__0", "_1", "x", "0x1",
    "1.0", "\u0663", "\uff11", "2147483648", "4294967296", "4294967297", "18446744073709551615", "18446744073709551616",
    "9" * 30, "\t1", "1\n", "\u00a01", "1:1",
)  # fmt: skip
_NOISE = "/:*0129 _-+.,aGguPpUxz\t\n\u00e9\u0663\x85\0\ud800"

# The machines for the strings: a number of GPUs, and a configuration.
_MACHINES = (
    (2, "config.set_logical_device_configuration(c, [L(), L()])"),
    (1, "config.set_logical_device_configuration(g0, [L(10), L(10), L(10)])"),
    (1, "None"),
    (0, "config.set_logical_device_configuration(c, [L(), L()])"),
    (0, "None"),
)
_OUTER = ("None", "'GPU:1'", "'/job:worker/task:3'", "'/cpu:1'", "''", "'/replica:2/device:XPU:4'", "'/device:GPU:*'")


def draw_string(draw: random.Random) -> str:
    """A device string, often almost valid."""
    kind = draw.random()
    if kind < 0.05:
        return "".join(draw.choices(_NOISE, k=draw.randint(0, 12)))
    if kind < 0.3:
        return _well_formed(draw)
    if kind < 0.45:
        text = f"{draw.choice(_TYPES)}:{draw.choice(_INDICES)}"
    else:
        text = "/" * draw.choice([1, 1, 1, 1, 0, 2]) + "/".join(
            _part(draw) for _ in range(draw.choice([1, 1, 1, 2, 2, 3, 4]))
        )
    if kind > 0.8:
        for _ in range(draw.randint(1, 2)):
            at = draw.randint(0, len(text))
            text = text[:at] + draw.choice([*_NOISE, ""]) + text[at + draw.randint(0, 1) :]
    return text


def _well_formed(draw: random.Random) -> str:
    """A string that at least the native parser accepts, with parts in any order and sometimes repeated."""
    index = draw.choice(["0", "0", "1", "*", "2", "00"])
    if draw.random() < 0.2:
        return f"{draw.choice(['GPU', 'CPU', 'gpu', 'XPU'])}:{index}"
    device = draw.choice(
        [
            f"/device:GPU:{index}",
            f"/device:CPU:{index}",
            "/device:GPU",
            "/device:*",
            f"/gpu:{index}",
            f"/CPU:{index}",
            "",
        ]
    )
    parts = [
        device,
        *draw.sample(
            ["/job:localhost", "/job:*", "/replica:0", "/task:0", "/task:*", "/task:1", device], draw.randint(0, 3)
        ),
    ]
    draw.shuffle(parts)
    return "".join(parts)


def _part(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.35:
        return f"device:{draw.choice(_TYPES)}" + draw.choice(["", *(":" + draw.choice(_INDICES) for _ in range(5))])
    if kind < 0.55:
        return f"{draw.choice(_TYPES)}" + draw.choice(["", *(":" + draw.choice(_INDICES) for _ in range(5))])
    if kind < 0.7:
        return f"job:{draw.choice(_JOBS)}"
    if kind < 0.9:
        return f"{draw.choice(['replica', 'task'])}:{draw.choice(_INDICES)}"
    return f"{draw.choice(_FIELDS)}:{draw.choice(_JOBS + _INDICES)}"


def run(theirs: Side, ours: Side, seed: int, wanted: int, tally: Tally) -> None:
    """Compare at least this many calls: scopes, nested scopes, and memory information by name."""
    draw = random.Random(f"strings {seed}")
    while tally.compared < wanted:
        gpus, configure = draw.choice(_MACHINES)
        for side in (theirs, ours):
            side.fresh(gpus)
            side.evaluate(configure)
            side.evaluate("config.list_logical_devices()")
        for _ in range(500):
            text = draw_string(draw)
            outer = draw.choice(_OUTER)
            for calls in (
                [f"experimental.get_memory_info({text!r})"],
                [f"experimental.reset_memory_stats({text!r})"],
                [f"enter({text!r})", "leave()"],
                [f"enter({outer})", f"enter({text!r})", "leave()"],
            ):
                _compare(theirs, ours, gpus, configure, calls, tally)


def _compare(theirs: Side, ours: Side, gpus: int, configure: str, calls: list[str], tally: Tally) -> None:
    for number, call in enumerate(calls, 1):
        a, b = outcome(theirs, call), outcome(ours, call)
        if agree(a, b):
            tally.equal()
            continue
        excuse = excuses.find(excuses.Found(calls[:number], a, b, excuses.asking(theirs), gpus))
        if excuse is not None:
            tally.excused(excuse)
            break
        story = [
            f"{gpus} GPUs, after {configure}",
            *(f"    {one}" for one in calls),
            f"  TensorFlow: {a}",
            f"  gpuconf:    {b}",
        ]
        tally.different(f"{call.split('(')[0]}: {a.error or 'value'} / {b.error[:1] or 'value'}", story)
        break
    for side in (theirs, ours):
        side.evaluate("leave_all()")
