"""Which branches a loop has not taken yet, and which of them it may take later."""

from __future__ import annotations

import gc
import importlib
import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from gpuconf.plans.programs import branches

ROUNDS = 8
_names = itertools.count()

PROGRAM = """
import math
import time

def work(*_): pass

class Config:
    debug = False
    interval = 6

config = Config()
{helpers}

def train(steps):
    n = 0
    kept = []
    for i in steps:
        {body}
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """What imports a program. The tests that this process has imported are not among its files: to read those takes
    4 s, and to look for what their conditions read, most of a second for each program.
    """
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    monkeypatch.syspath_prepend(str(tmp_path))
    known = branches._is_program
    monkeypatch.setattr(branches, "_is_program", lambda file: file.startswith(str(tmp_path)) and known(file))

    def imported(body: str, helpers: str = "") -> ModuleType:
        name = f"program_of_branches_{next(_names)}"
        text = PROGRAM.format(helpers=textwrap.dedent(helpers), body=textwrap.indent(body, " " * 8).strip())
        (tmp_path / f"{name}.py").write_text(text)
        return importlib.import_module(name)

    return imported


def untaken(program: ModuleType) -> list[str]:
    """Run the loop, and return what it had not taken after each round."""
    found: list[str] = []

    def steps() -> Iterator[int]:
        watch = branches.Watch([sys._getframe(1)])
        for number in range(ROUNDS):
            yield number
            watch.end_round()
            found.append(watch.untaken())
        watch.leave()

    branches.forget()
    program.train(steps())
    assert sys.gettrace() is None
    del sys.modules[program.__name__]
    return found


@pytest.mark.parametrize(
    ("body", "helpers"),
    [
        ("if i % 7 == 6: work()", ""),
        ("if i % 7 == 6:\n    work()", ""),
        ("do = i % 7 == 6\nif do:\n    work()", ""),
        ("n = n + 1\nif n > 6:\n    work()", ""),
        ("n = n + 1\nif config.debug or n > 6:\n    work()", ""),
        ("kept.append(i)\nif len(kept) == 7:\n    work()", ""),
        ("i % 7 == 6 and work()", ""),
        ("work() if i % 7 == 6 else None", ""),
        ("if i < 6:\n    continue\nwork()", ""),
        ("if i == 6:\n    update(i)", "def update(model): pass"),
        ("if due(i):\n    work()", "def due(number): return number % 7 == 6"),
        ("match i:\n    case 6:\n        work()", ""),
        ("match i:\n    case 6: work()", ""),
        ("while due and due[0] <= i:\n    due.pop(0)\n    work()", "due = [6]"),
        ("n = 400 if i == 6 else 100", ""),
        ("(work if i == 6 else max)(i, i)", ""),
        ("state['n'] = state['n'] + 1\nif state['n'] == 7:\n    work()", "state = {'n': 0}"),
        (
            "train_step(i, i % 7 == 6)",
            """
            def train_step(rows, last):
                if last:
                    work()
            """,
        ),
        (
            "train_step(i, last=i % 7 == 6)",
            """
            def inner(last):
                if last:
                    work()
            def train_step(rows, last=False):
                inner(last)
            """,
        ),
        (
            "if timer.due():\n    work()\ntimer.tick()",
            """
            class Timer:
                n = 0
                def tick(self):
                    self.n += 1
                def due(self):
                    if self.n % 7 == 6:
                        return True
                    return False
            timer = Timer()
            """,
        ),
        (
            "stats['n'] += 1\nif ready():\n    work()",
            """
            import collections
            stats = collections.Counter()
            def ready():
                return stats['n'] == 7
            """,
        ),
        (
            "buffer.append(i)\nif full():\n    work()",
            """
            import collections
            buffer = collections.deque(maxlen=7)
            def full():
                return len(buffer) == buffer.maxlen
            """,
        ),
        (
            "if stop(0):\n    work()",
            """
            class Stopping:
                def __init__(self):
                    self.bad = 0
                def __call__(self, value):
                    self.bad += 1
                    return self.bad == 7
            stop = Stopping()
            """,
        ),
        (
            "timer.tick(i)\nif timer.late:\n    work()",
            """
            class Timer:
                n = 0
                def tick(self, i):
                    self.n = i
                @property
                def late(self):
                    return self.n == 6
            timer = Timer()
            """,
        ),
        (
            "timer.tick(i)\ntimer.run()",
            """
            class Timer:
                def tick(self, i):
                    self.late = i == 6
                def run(self):
                    if self.late:
                        work()
            timer = Timer()
            """,
        ),
    ],
)
def test_a_branch_that_numbers_lead_to_is_waited_for(load: Any, body: str, helpers: str) -> None:
    found = untaken(load(body, helpers))
    assert [bool(one) for one in found[1:]] == [True] * 5 + [False] * 2, found


@pytest.mark.parametrize(
    ("body", "helpers"),
    [
        ("if config.debug:\n    work()", ""),
        ("if config.debug and i % 7 == 6:\n    work()", ""),
        ("if i % 100 == 99:\n    print(i)", ""),
        ("text = 'step' if i > 99 else 'steps'", ""),
        ("while config.debug:\n    work()", ""),
        ("work(text[: config.interval], text[2:])", "text = 'text'"),
        ("for row in range(3):\n    work(text[row : row + 1])", "text = 'text'"),
        ("rows[i : i + 1] = [0]", "rows = [0] * 9"),
        ("if i % 100 == 99:\n    value = math.cos(i)", ""),
        ("rate(i)", "def rate(i):\n    if i < 100:\n        return 1.0\n    return math.cos(i) * 0.1"),
        ("text = '%d' % i\nif config.interval > 6:\n    work()", ""),
        ("forward(i, None)", "def forward(rows, targets):\n    if targets is not None:\n        work()"),
        ("forward()", "def forward():\n    for layer in range(4):\n        if layer == 9:\n            work()"),
        ("for row in range(3):\n    if row == config.interval:\n        work()", ""),
        ("forward(kept)", "def forward(rows):\n    if isinstance(rows, dict):\n        work()"),
        (
            "for one in blocks:\n    one.run()",
            """
            class Block:
                def __init__(self, number):
                    self.number = number
                def run(self):
                    if self.number > 5:
                        work()
            blocks = [Block(one) for one in range(3)]
            """,
        ),
    ],
)
def test_a_branch_whose_condition_stays_is_not(load: Any, body: str, helpers: str) -> None:
    assert untaken(load(body, helpers)) == [""] * ROUNDS


@pytest.mark.parametrize("size", ["64 + i // 60", "min(256, length(i))"])
def test_a_slice_whose_size_goes_by_how_often_a_loop_ran_may_become_longer(load: Any, size: str) -> None:
    """Sequences that become longer during the training: the loop was cut while they were short."""
    helpers = "def length(number):\n    return 64 * (1 + number // 60)\nrows = [0]"
    found = untaken(load(f"size = {size}\nwork(rows[:size])", helpers))
    assert [one.partition(", ")[2] for one in found[1:]] == ["rows[:size]"] * (ROUNDS - 1)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("for _ in range(int(i == 99)):\n    work()", "for _ in range(int(i == 99))"),
        ("kept = [work() for _ in range(i // 60)]", "[work() for _ in range(i // 60)]"),
        ("kept = [work(one) for one in table if i == one]", "[work(one) for one in table if i == one]"),
        ("kept = [0] * (1 + i // 60)", "[0] * (1 + i // 60)"),
        ("table.get(i, max)(i, 1)", "table.get(i, max)(i, 1)"),
        ("{False: max, True: work}[i == 99](i, 1)", "{False: max, True: work}[i == 99](i, 1)"),
        ("chosen = table.get(i, max)\nchosen(1, 2)", "chosen(1, 2)"),
        ("make(1 + i // 60)", "make(1 + i // 60)"),
        ("again(64 + i // 60)", "again(64 + i // 60)"),
        ("part(64 + i // 60)", "part(64 + i // 60)"),
        ("try:\n    n = sizes[i]\nexcept IndexError:\n    work()", "except IndexError"),
        ("try:\n    later(i)\nexcept Later:\n    work()", "except Later"),
        ("try:\n    for one in kept:\n        max(i, one)\nexcept Later:\n    work()", "except Later"),
        ("if i % 99 == 0:\n    n += 1\nfor _ in range(n):\n    work()", "for _ in range(n)"),
        ("if i % 99 == 0:\n    config.interval *= 2\nwork(sizes[: config.interval])", "sizes[:config.interval]"),
        ("for at, run in plan:\n    if i >= at:\n        run(i)", "if i >= at"),
    ],
)
def test_what_runs_or_how_often_may_go_by_how_often_a_loop_ran(load: Any, body: str, named: str) -> None:
    helpers = """
    import functools
    class Later(Exception): pass
    def later(number):
        assert number < 99
    table = {99: work}
    sizes = [0] * 99
    make = lambda n: [0] * n
    again = work
    part = functools.partial(work)
    plan = [(0, work), (99, work)]
    """
    found = untaken(load(body, helpers))
    assert [one.partition(", ")[2] for one in found[1:]] == [named] * (ROUNDS - 1)


@pytest.mark.parametrize(
    "body",
    [
        "if int(os.environ.get('RANK', 0)) == 7:\n    work()",
        "if re.match('a', 'b') or 'b'.startswith('a'):\n    work()",
        "options = {'size': 3}\nwork([0][: options.pop('size')])",
        "for one in range(len(table)):\n    table[one](i, 1)",
        "rate = min(1.0, i / 99)\nmodel = Model(4)\nmodel(i)",
        "try:\n    work(i)\nexcept RuntimeError:\n    work()",
        "try:\n    row = next(rows)\nexcept StopIteration:\n    rows = iter(table)\n    row = next(rows)",
    ],
)
def test_what_runs_in_each_round_alike_is_no_reason_to_wait(load: Any, body: str) -> None:
    helpers = """
    import os
    import re
    table = [max, min]
    rows = iter([1] * 100)
    class Model:
        def __init__(self, rows): self.rows = rows
        def __call__(self, row): return row
    """
    assert untaken(load(f"global rows\n{body}" if "rows = iter" in body else body, helpers)) == [""] * ROUNDS


def test_a_number_of_a_librarys_object_may_change_what_it_returns(load: Any) -> None:
    """As that of a schedule of PyTorch: ``if schedule.get_last_lr()[0] < 0.01``."""
    found = untaken(load("rows.put(i)\nif rows.qsize() == 99:\n    work()", "import queue\nrows = queue.Queue()"))
    assert [one.partition(", ")[2] for one in found[1:]] == ["if rows.qsize() == 99"] * (ROUNDS - 1)


@pytest.mark.parametrize(
    "body",
    [
        "if queue.pop() == 7:\n    work()",
        "if event.is_set():\n    work()",
        "if os.path.exists('/no/such/file'):\n    work()",
        "setattr(config, 'debug', i > 99)\nif config.debug:\n    work()",
        "count()\nif late():\n    work()",
        "for n in itertools.islice(numbers, 1):\n    work(n)",
        "for n in some:\n    work(n)\n    break",
    ],
)
def test_what_may_be_something_else_each_time_is_waited_for(load: Any, body: str) -> None:
    helpers = """
    import itertools
    import os
    import threading
    event = threading.Event()
    queue = [0] * 99
    numbers = itertools.repeat(1)
    some = iter(queue)
    rounds = 0
    def count():
        global rounds
        rounds = rounds + 1
    def late():
        return rounds // 99 == 1
    """
    assert all(untaken(load(body, helpers))[2:])


ROWS = """
from gpuconf.plans.programs.branches import fetching
text = [0] * 99
class Rows:
    seen = 0
    def __getitem__(self, number):
        self.seen += 1
        {line}
rows = Rows()
"""


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ("return text[number : number + 2]", False),  # any item: how large they are is looked at
        ("return text[: 2 + self.seen // 99]", True),
        ("size = 2 + self.seen // 99; return text[:size]", True),
    ],
)
def test_which_item_a_loader_takes_is_no_number_that_changes(load: Any, line: str, waits: bool) -> None:
    found = untaken(load("with fetching():\n    rows[i]", ROWS.format(line=line)))
    assert [bool(one) for one in found[1:]] == [waits] * (ROUNDS - 1)


def test_a_rate_that_a_schedule_changes_later_counts_as_changing(load: Any) -> None:
    found = untaken(load("if groups[0]['lr'] < 0.01:\n    work()", "groups = [{'lr': 1.0}]"))
    assert [one.partition(", ")[2] for one in found[1:]] == ["if groups[0]['lr'] < 0.01"] * (ROUNDS - 1)


def test_a_random_branch_and_one_by_the_clock_are_waited_for(load: Any) -> None:
    found = untaken(load("if time.time() < 9:\n    work()"))
    assert found[2:] == ["line 18, if time.time() < 9"] * (ROUNDS - 2)
    assert all(untaken(load("if random.random() > 1:\n    work()", "import random"))[2:])


def test_a_branch_behind_an_outer_loop_counts_as_far_as_the_inner_one_counts(load: Any) -> None:
    """The number of the epoch stays while the inner loop runs, and the number of the step does not."""
    text = """
    def outer(steps):
        n = 0
        for epoch in range(1):
            for i in steps:
                n += 1
            if {condition}:
                work()
    """
    program = load("pass", text.format(condition="epoch > 5"))
    program.train = program.outer
    assert untaken(program) == [""] * ROUNDS
    program = load("pass", text.format(condition="n > 5000"))
    program.train = program.outer
    assert all("if n > 5000" in one for one in untaken(program)[1:])


def test_a_loop_with_branches_that_cannot_be_watched_is_not_cut(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function's branch was forgotten where the compiler or a debugger traces."""
    helpers = "def at_times(i):\n    if i % 7 == 6:\n        work()"
    monkeypatch.delenv("TORCHDYNAMO_DISABLE")
    assert untaken(load("at_times(i)", helpers))[1:] == [branches._HIDDEN] * (ROUNDS - 1)
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")

    def debugger(*_: Any) -> None:
        return None

    program = load("at_times(i)", helpers)
    train = program.train

    def traced(steps: Iterator[Any]) -> None:
        sys.settrace(debugger)
        try:
            train(steps)
        finally:
            sys.settrace(None)

    program.train = traced
    assert set(untaken(program)) == {branches._HIDDEN}


def test_tracing_keeps_no_variable(load: Any) -> None:
    """Python 3.11 keeps a copy of a traced call's variables: a tensor would live on."""
    helpers = """
    import weakref
    class Thing: pass
    dead = []
    def helper(thing):
        alive = weakref.ref(thing)
        thing = None
        dead.append(alive() is None)
        return thing
    def branching(thing, i):
        alive = weakref.ref(thing)
        if i % 100 == 99:
            work()
        thing = None
        dead.append(alive() is None)
    """
    program = load("helper(Thing())\nbranching(Thing(), i)", helpers)
    dead = program.dead
    untaken(program)
    gc.collect()
    assert dead == [True] * 2 * ROUNDS
