"""Real differences, which the excuses must explain, and planted defects near them, which they must not.

TensorFlow's part is recorded (planted.json), so that ``make test`` can try every excuse without TensorFlow.
"""

import json
from typing import NamedTuple

from recordings import Recording

from . import excuses
from .machine import Side
from .outcomes import Outcome, outcome

FILE = Recording("tensorflow/planted.json")


class Case(NamedTuple):
    """Calls, of which the last one differs: really, or because of a planted defect."""

    near: str  # the listed difference that explains gpuconf's real result; a planted defect is similar
    gpus: int
    calls: list[str]
    planted: Outcome | None = None  # gpuconf's result with the defect; None: its real result


def _refusal(kind: str, message: str) -> Outcome:
    return Outcome(None, (kind,), message)


_KEPT = ["config.set_logical_device_configuration(g0, keep(0, [L(10)]))", "kept(0).append(L(20))"]
_ALIKE = ["config.set_visible_devices([LD('/physical_device:GPU:1', 'GPU')], 'GPU')"]
_START = [
    "start(v1.ConfigProto(gpu_options=v1.GPUOptions(visible_device_list='7', allow_growth=True)))",
    "config.list_physical_devices()",
]
_FLOATS, _INTEGERS = "constant([[1.0, 2.0], [3.0, 4.0]])", "constant([[1, 2], [3, 4]])"
_GRAPH = (
    f"graph([(['/gpu:5'], lambda: {_FLOATS}), ([], lambda: {_FLOATS}), (['/gpu:7'], lambda: matmul(n[0], n[1])), "
    "(['/gpu:1'], lambda: add(n[0], n[1]))], soft=False)"
)
_NO_KERNEL = f"graph([([], lambda: {_INTEGERS}), (['/gpu:0'], lambda: matmul(n[0], n[0]))], soft=False)"
_CPUS = ["config.set_logical_device_configuration(c, [L(), L(), L()])", "begin()"]
_ON_CPU = "/job:localhost/replica:0/task:0/device:CPU:"
_UNKNOWN = "PD('/physical_device:GPU:9', 'GPU')"
_BAD_GROWTH = "Memory growth must be True or False, not a value of type str"
_BAD_PRIORITY = "experimental_priority must be an integer, but got str: 'x'"
_BAD_SWITCH = "enabled must be True or False, but got bool: True"
_BAD_COUNT = "num_threads must fit in 32 bits, but got 4"
_LIMIT = "memory_limit is {}: it must be a number of MiB from 0 to less than 2**43"


def _logical(device: str, entries: str) -> list[str]:
    return [f"config.set_logical_device_configuration({device}, [{entries}])"]


CASES = [
    # The differences that the rows describe.
    Case("list-changed-later", 1, [*_KEPT, "config.list_logical_devices()"]),
    Case("list-changed-later", 1, [*_KEPT, "facts()"]),
    Case("list-changed-later", 1, [_KEPT[0], "kept(0).append(L())", "config.get_soft_device_placement()"]),
    Case("look-alike", 2, [*_ALIKE, "config.get_visible_devices()"]),
    Case("bad-imported-list", 1, [*_START, "facts()"]),
    Case("bad-imported-list", 1, [_START[0].replace("'7'", "'-9'"), _START[1]]),
    Case("list-changed-later", 1, [*_START, *_KEPT, "config.list_logical_devices()"]),  # and "bad-imported-list"
    Case("limit-range", 1, _logical("g0", "L(10), L(-1)")),
    Case("limit-range", 1, _logical("g0", "L(2**43)")),
    Case("limit-range", 1, _logical("g0", "L(10**400)")),
    Case("limit-range", 1, ["config.list_logical_devices()", *_logical("g0", "L(nan)")]),
    Case("growth-type", 1, ["experimental.set_memory_growth(g0, 'x')"]),
    Case("growth-type", 1, ["experimental.set_memory_growth(g0, None)"]),
    Case("wrong-type", 1, _logical("g0", "L('x')")),
    Case("wrong-type", 1, _logical("g0", "L(10, 'x'), L(10)")),
    Case("wrong-type", 1, ["threading.set_intra_op_parallelism_threads(2**31)"]),
    Case("wrong-type", 1, ["config.list_logical_devices()", "threading.set_inter_op_parallelism_threads(2.0)"]),
    Case("memory-info-argument", 1, ["experimental.get_memory_info(None)"]),
    Case("memory-info-argument", 1, ["experimental.reset_memory_stats(b'GPU:0')"]),
    Case("malformed-text", 1, [r"experimental.get_memory_info('GPU:0\x00x')"]),
    Case("malformed-text", 1, [r"experimental.get_memory_info('GPU:0\ud800')"]),
    Case("graph-messages", 2, [_GRAPH]),
    Case("graph-messages", 2, [_NO_KERNEL]),
    Case("graph-messages", 2, [f"graph([(['/gpu:7'], lambda: {_FLOATS})], soft=False)"]),
    Case("dumps-in-messages", 2, ["begin()", f"eager(['GPU:-1'], lambda: {_FLOATS})"]),
    Case("int32-constants", 0, [*_CPUS, f"eager(['/cpu:1'], lambda: {_INTEGERS})"]),
    # Defects: another call, another value.
    Case("list-changed-later", 1, [*_KEPT, "experimental.get_device_policy()"], Outcome("'warn'")),
    Case("list-changed-later", 1, [*_KEPT, "config.get_visible_devices('GPU')"], Outcome("[]")),
    Case("list-changed-later", 1, [*_KEPT, "facts()"], Outcome("[(10485761, False,)]")),
    Case("list-changed-later", 1, [*_KEPT, "experimental.set_memory_growth(g0, True)"], Outcome("None")),
    Case("look-alike", 2, [*_ALIKE, "config.get_soft_device_placement()"], Outcome("False")),
    Case("look-alike", 2, [*_ALIKE, "facts()"], Outcome("[]")),
    Case("bad-imported-list", 1, [*_START, "facts()"], Outcome("[(84011909121, False,)]")),
    Case("bad-imported-list", 1, [*_START, "debugging.get_log_device_placement()"], Outcome("True")),
    Case("int32-constants", 0, [*_CPUS, f"eager(['/cpu:1'], lambda: {_INTEGERS})"],
         Outcome(f"('{_ON_CPU}1', '{_ON_CPU}2',)")),
    Case("int32-constants", 0, [*_CPUS, f"eager(['/cpu:1'], lambda: {_FLOATS})"],
         Outcome(f"('{_ON_CPU}2', '{_ON_CPU}2',)")),
    # A valid value is rejected.
    Case("limit-range", 1, _logical("g0", "L(1024)"), _refusal("ValueError", _LIMIT.format(1024))),
    Case("growth-type", 1, ["experimental.set_memory_growth(g0, True)"], _refusal("TypeError", _BAD_GROWTH)),
    Case("wrong-type", 1, _logical("g0", "L(10, 0), L(10)"), _refusal("TypeError", _BAD_PRIORITY)),
    Case("wrong-type", 1, ["config.set_soft_device_placement(True)"], _refusal("TypeError", _BAD_SWITCH)),
    Case("wrong-type", 1, ["threading.set_intra_op_parallelism_threads(4)"], _refusal("ValueError", _BAD_COUNT)),
    Case("memory-info-argument", 1, ["experimental.get_memory_info('GPU:0')"],
         _refusal("TypeError", "device must be a string")),
    Case("malformed-text", 1, ["enter('GPU:0')"], _refusal("ValueError", "device must not contain a NUL character")),
    # The call is invalid for another reason, which TensorFlow reports.
    Case("limit-range", 1, _logical(_UNKNOWN, "L(-1)"), _refusal("ValueError", _LIMIT.format(-1))),
    Case("limit-range", 1, _logical("g0", "L(-1), L()"), _refusal("ValueError", _LIMIT.format(-1))),
    Case("growth-type", 1, [f"experimental.set_memory_growth({_UNKNOWN}, 'x')"], _refusal("TypeError", _BAD_GROWTH)),
    Case("growth-type", 1, ["experimental.set_memory_growth(c, 'x')"], _refusal("TypeError", _BAD_GROWTH)),
    Case("wrong-type", 1, _logical("c", "L(None, 'x')"), _refusal("TypeError", _BAD_PRIORITY)),
    # A node that can be placed; another device than the malformed one; another reason.
    Case("graph-messages", 2, [_GRAPH], _refusal("ValueError", "Invalid argument: Cannot assign a device to node "
                                                               "'Add': planted")),
    Case("graph-messages", 2, [_GRAPH], _refusal("ValueError", "Cannot assign a device for operation Const: planted")),
    Case(
        "dumps-in-messages",
        2,
        ["begin()", f"eager(['GPU:-1'], lambda: {_FLOATS})"],
        _refusal("ValueError", "Malformed device specification '/device:GPU:-1' in eager op: Name: Const"),
    ),
]  # fmt: skip


def defects(ours: Outcome) -> list[Outcome]:
    """A result that is a defect anywhere."""
    found = [
        Outcome("'planted'"),
        Outcome(None, ("RuntimeError", "InternalError", "GpuconfError"), ours.message or "planted"),
        Outcome(None, ("KeyError",), ours.message or "planted"),
    ]
    return found if ours.value is not None else [*found, Outcome(None, ours.error, "planted")]


class Recorded(NamedTuple):
    """A case with TensorFlow's results."""

    case: Case
    theirs: Outcome
    answers: dict[str, list[Outcome]]  # by the calls

    def found(self, ours: Outcome) -> excuses.Found:
        """The difference that the comparison would find."""
        return excuses.Found(self.case.calls, self.theirs, ours, self._ask, self.case.gpus)

    def _ask(self, calls: list[str], gpus: int | None = None) -> list[Outcome]:
        question = json.dumps([gpus, calls])
        assert question in self.answers, (
            f"TensorFlow was not asked: {question}. Record anew: make oracle ORACLE_ARGS=--record"
        )
        return self.answers[question]


def answer(side: Side, case: Case) -> Outcome:
    """A side's result of the last call."""
    side.fresh(case.gpus)
    try:
        return [outcome(side, call) for call in case.calls][-1]
    finally:
        side.evaluate("begin()")  # drops the tensors, whose memory is in use


def write(theirs: Side, ours: Side) -> None:
    """Record TensorFlow's results, including those that the excuses need."""
    FILE.write_text("[\n" + ",\n".join(json.dumps(_record(theirs, ours, case)) for case in CASES) + "\n]\n")


def _record(theirs: Side, ours: Side, case: Case) -> list[object]:
    answered = answer(theirs, case)
    answers: dict[str, list[Outcome]] = {}
    ask = excuses.asking(theirs)

    def listening(calls: list[str], gpus: int | None = None) -> list[Outcome]:
        return answers.setdefault(json.dumps([gpus, calls]), ask(calls, gpus))

    real = answer(ours, case)
    for each in [case.planted] if case.planted is not None else [real, *defects(real)]:
        if any(gpus is None for gpus, _ in map(json.loads, answers)):
            answer(theirs, case)  # the machine as it is
        excuses.find(excuses.Found(case.calls, answered, each, listening, case.gpus))
    return [answered, answers]


def load() -> list[Recorded]:
    """The cases, each with its recorded results."""
    recorded = json.loads(FILE.read_text())
    assert len(recorded) == len(CASES), "record anew: make oracle ORACLE_ARGS=--record"
    return [
        Recorded(
            case, _outcome(theirs), {question: [_outcome(one) for one in told] for question, told in answers.items()}
        )
        for case, (theirs, answers) in zip(CASES, recorded, strict=True)
    ]


def _outcome(recorded: list[object]) -> Outcome:
    value, error, message = recorded
    assert isinstance(error, list)
    return Outcome(None if value is None else str(value), tuple(error), str(message))
