"""Sequences of calls with odd arguments in new processes, beside TensorFlow: strategies, tensors, sessions, settings.

    python tests_py/oracle/forked.py --calls 1000000 --seed 3
    python tests_py/oracle/forked.py --calls 1000 --fresh       each sequence in a process that imports TensorFlow anew

Each sequence runs in a child forked from a process that has imported TensorFlow and not started it, and in one forked
from a process in which ``import tensorflow`` finds gpuconf. Values are compared as text, and errors by their class. The
first difference that docs/differences.md does not list (``KNOWN`` has those) is shrunk and printed as calls. What
differs only after a listed difference is compared again without the calls that led to it.
"""

import argparse
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
ODD = """
    None True False 0 1 2 -1 1.5 -0.5 nan 2**40 2**70 '' 'x' b'x' 'GPU:0' '/gpu:0' '/device:CPU:0' 'CPU:0' 'GPU' []
    {} () [1] [1.5] ['a'] [None] [[1,2],[3]] [[1.0]] np.True_ np.int64(3) np.float32(2) np.ones(2) np.zeros((1,0))
    1j object tf.float32 tf.int64 'float32' t v g0 c
""".split()
NUMBERS = """
    1 2 0 -1 1.5 True [1,2] [1.0,2.0] [[1.0,2.0],[3.0,4.0]] [] t v np.ones(2,'float32') np.arange(3)
""".split()
DEVICES = """
    '/gpu:0' '/gpu:1' 'GPU:0' 'gpu:0' '/cpu:0' 'CPU:0' '' None '/device:GPU:0' '/job:localhost/device:CPU:0'
    '/job:worker/gpu:0' 'x' '/gpu:7' '/GPU:*' 1 [] g0 LD('/device:GPU:0','GPU')
""".split()
ONE = """
    abs square sqrt exp floor round sin cos tanh sigmoid sign negative reduce_sum reduce_mean reduce_max reduce_prod
    rank reduce_any identity zeros_like ones_like argmax cumsum transpose squeeze size shape is_tensor
    convert_to_tensor math.log math.ceil math.rsqrt nn.relu nn.softmax strings.length strings.upper stop_gradient
""".split()
TWO = """
    add subtract multiply divide pow maximum minimum equal less greater_equal matmul math.floormod logical_and
""".split()
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", ">=", "@", "&", "|"]
PLAIN = """
    tf.executing_eagerly() tf.config.list_physical_devices() tf.config.list_logical_devices()
    tf.test.gpu_device_name() tf.test.is_gpu_available() tf.test.is_built_with_cuda()
    tf.distribute.get_strategy().num_replicas_in_sync tf.distribute.has_strategy()
    tf.compat.v1.get_default_graph().get_operations() v1.executing_eagerly() v1.disable_v2_behavior()
    v1.disable_eager_execution() v1.enable_eager_execution() v1.reset_default_graph() v1.enable_v2_behavior()
    v1.disable_tensor_equality() v1.enable_tensor_equality() tf.config.get_visible_devices()
    tf.config.get_soft_device_placement() tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.get_jit() tf.config.experimental.enable_op_determinism() tf.random.normal([2]).shape
    tf.config.functions_run_eagerly() tf.compat.v1.global_variables_initializer() tf.compat.v1.trainable_variables()
    hash(t)==hash(t) hash(v)==hash(v) t.ref()==t.ref() tf.version.VERSION tf.sysconfig.get_build_info()['is_rocm_build']
    v1.global_variables() bool(t==v) [t].count(1.0)
""".split()
SETTINGS = """
    config.set_soft_device_placement config.set_visible_devices config.set_logical_device_configuration
    config.experimental.set_memory_growth config.experimental.get_memory_growth config.optimizer.set_jit
    config.threading.set_inter_op_parallelism_threads config.experimental.enable_tensor_float_32_execution
    debugging.set_log_device_placement config.run_functions_eagerly config.experimental.set_synchronous_execution
    config.experimental.get_memory_info config.experimental.get_device_details config.list_logical_devices
    config.get_logical_device_configuration config.experimental.set_device_policy random.set_seed
    DeviceSpec.from_string
""".split()


class Difference(NamedTuple):
    """The calls up to the first that differs, and what both answered."""

    gpus: int
    calls: list[str]
    theirs: list[str]
    ours: list[str]


# What TensorFlow checks when a graph runs.
CHECKED_LATER = r"tf\.(cumsum|argmax)\("
# By the row of docs/differences.md: the last call, TensorFlow's answer and gpuconf's.
KNOWN: dict[str, tuple[str, str, str]] = {
    "wrong-type": (r"tf\.(config|debugging)\.", "", "^TypeError"),
    "limit-range": ("set_logical_device_configuration", "", "^ValueError memory_limit"),
    "growth-type": ("set_memory_growth", "", "^TypeError"),
    "build": ("is_built_with|is_cuda_build", "", ""),
    "numbers-beyond-int32": (r"2\*\*", "", "^ValueError|Tensor"),
    "eager-in-graph": (r"run\(lambda: v1.constant\([tv]\)\)$", "^NotImplementedError", "^ "),
    "job-in-mirrored": (r"MirroredStrategy\(.*/job:", "^RuntimeError In-graph|^ ", "^ |unknown device|^AssertionError"),
    "device-objects": (r"on\(g0", "^ValueError", "^ |^ResourceExhaustedError"),
    # The GPUs of the judge count no constants.
    "scratch": ("get_memory_info", "^ .*'peak': 0", "^ .*'peak': 256"),
    "odd-in-graph": (
        r"tf\.constant\(.*, (\[\]|\{\}|\(\)|''|0|False)\)|logical_and.*\{\}|matmul\('.*\[3\]\]\)",
        "^TypeError|^ |^ValueError setting an array element",
        r"^AttributeError|^TypeError .*\{\}|^TypeError Cannot convert 1",
    ),
    "logical-device-in-graph": (
        r"on\(",
        "^AttributeError .* has no attribute 'split'|^OperatorNotAllowedInGraphError|^ ''",
        "^TypeError device name must be a string|^ '/device:GPU:0'",
    ),
    "aborts": ("", r"^ended (6|11|134|139)$|^AttributeError 'Context' object has no attribute '_execution_mode'", ""),
    "local-devices": ("is_gpu_available|gpu_device_name", "^ (True|'/device:GPU)", "^ (False|'')"),
    "replaced-graph": (r"\b[tv]\b", "^ValueError .*must be from the same graph", "^ "),
    "odd-list": (r"\[\[1,2\],\[3\]\]", "^(Value|Type)Error", "^(Type|Value)Error"),
    "odd-quotient": (r"tf\.divide\(", "^NotImplementedError|^ValueError None values|^ <tf", "^TypeError"),
    "odd-seed": ("random", "^AttributeError 'Context' object has no attribute '_rng'", ""),
    "odd-operands": (
        r"tf\.config\..*\b([tv]|np)\b",
        "^ValueError The truth value|^TypeError Cannot convert (PhysicalDevice|'silent'|'.PU')",
        "^ValueError (Unrecognized device|Invalid argument `device_policy`)|^ None",
    ),
}


def drawn(draw: random.Random, gpus: int, fresh: bool = False) -> list[str]:
    """Draw a sequence of calls, a longer one for a ``fresh`` process, which takes seconds to start.

    With GPUs, which compute zeros here, only calls that compute nothing.
    """
    plain = [each for each in PLAIN if not gpus or not re.search(r"\b[tv]\b|random", each)]

    def odd() -> str:
        return draw.choice(ODD if not gpus else [each for each in ODD if each not in "tv"])

    def device() -> str:
        return draw.choice(DEVICES) if draw.random() < 0.8 else odd()

    def number() -> str:
        return draw.choice(NUMBERS) if draw.random() < 0.7 else odd()

    kinds = (
        lambda: draw.choice(plain),
        lambda: f"tf.{draw.choice(SETTINGS)}({', '.join(odd() for _ in range(draw.choice([0, 1, 1, 1, 2])))})",
        lambda: f"tf.distribute.OneDeviceStrategy({device()}).extended.worker_devices",
        lambda: f"tf.distribute.MirroredStrategy({device()}).num_replicas_in_sync",
        lambda: f"tf.distribute.MirroredStrategy([{device()}, {device()}]).extended.worker_devices",
        lambda: f"tf.distribute.experimental.CentralStorageStrategy({device()}).extended.parameter_devices",
        lambda: f"on({device()}, lambda: tf.constant(1.5))",
        lambda: f"tf.config.set_visible_devices({draw.choice(['[]', '[g0]', 'g0', '[c]', odd()])}, 'GPU')",
        lambda: f"tf.config.set_logical_device_configuration(g0, [tf.config.LogicalDeviceConfiguration({odd()})])",
        lambda: f"v1.enable_eager_execution(config=v1.ConfigProto(device_count={{'GPU': {draw.choice('01')}}}))",
        lambda: (
            f"tf.constant({odd()}, {draw.choice(['None', 'tf.float32', 'tf.int32', 'tf.int64', 'tf.string', odd()])})"
        ),
        lambda: f"tf.{draw.choice(ONE)}({number()})",
        lambda: f"tf.{draw.choice(TWO)}({number()}, {number()})",
        lambda: f"t {draw.choice(OPERATORS)} {number()}",
        lambda: f"v {draw.choice(OPERATORS)} {number()}",
        lambda: f"tf.zeros({odd()})",
        lambda: f"tf.Variable({number()})",
        lambda: f"v.assign({number()}).numpy()",
        lambda: f"tf.cast({number()}, {draw.choice(['tf.int32', 'tf.float32', 'tf.bool', 'tf.int64', odd()])})",
        lambda: f"run(lambda: v1.constant({number()}))",
        lambda: f"tf.strings.join([{odd()}, {odd()}])",
    )
    computing = 0 if gpus else len(kinds)
    # Short ones, in which much happens before devices are created, and long ones, which cost little more.
    length = draw.choice([draw.randint(3, 12), draw.randint(20, 200)]) if not fresh else draw.randint(20, 2000)
    return [draw.choice(kinds[: computing or 10])() for _ in range(length)]


# In the children


def shown(value: Any) -> str:
    """A value as text that is the same on both sides."""
    text = re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"gpuconf\.compat\.v[12]|tensorflow\.[\w.]+", "tf", repr(value)))
    return re.sub(r"\s+", " ", text)


def answers(calls: list[str]) -> Iterator[list[str]]:
    """Make the calls, and yield what each answers."""
    import numpy as np
    import tensorflow as tf

    v1 = tf.compat.v1

    def on(device: Any, make: Any) -> Any:
        with tf.device(device):
            return make().device

    def run(make: Any) -> Any:
        with v1.Graph().as_default(), v1.Session() as session:
            return session.run(make())

    physical = tf.config.PhysicalDevice
    names = {"tf": tf, "np": np, "v1": v1, "on": on, "run": run, "nan": float("nan"), "LD": tf.config.LogicalDevice}
    names |= {"c": physical("/physical_device:CPU:0", "CPU"), "g0": physical("/physical_device:GPU:0", "GPU")}
    for call in calls:
        try:
            if re.search(r"\b[tv]\b", call) and "t" not in names:
                names |= {"t": tf.constant([1.0, 2.0]), "v": tf.Variable([1.0, 2.0])}
            yield ["", shown(eval(call, names))]
        except Exception as error:
            yield [type(error).__name__, str(error)[:200]]


def serve(mode: str) -> None:
    """Answer lines of JSON, each in a child."""
    import run_programs

    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # see run.py
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    prepare: Any = run_programs.prepare_tensorflow if mode == "tensorflow" else run_programs.prepare_gpuconf
    ready = prepare(mode)
    if mode == "tensorflow":
        import tensorflow  # noqa: F401 - before the forks
    for line in sys.stdin:
        gpus, calls = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            program = run_programs.Program("", "", f"{gpus}xT4" if gpus else "", [], {}, "", "", [], 0)
            ready(program)
            for answer in answers(calls):
                os.write(writer, f"{json.dumps(answer)}\n".encode())  # at once: the next call can end the process
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            found = [json.loads(line) for line in pipe]
        _, status = os.waitpid(child, 0)
        print(json.dumps(found + [["ended", str(status)]] * (status != 0)), file=out, flush=True)


# Here


class Server:
    """A process that answers sequences; with ``fresh``, another one for each."""

    def __init__(self, mode: str, fresh: bool) -> None:
        self.mode, self.fresh = mode, fresh
        self.process: Any = None

    def ask(self, gpus: int, calls: list[str]) -> None:
        """Send a sequence."""
        if self.process is None:
            command = [sys.executable, __file__, "--serve", self.mode]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(json.dumps([gpus, calls]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> list[list[str]]:
        """Receive what it answers."""
        found: list[list[str]] = json.loads(self.process.stdout.readline())
        if self.fresh:
            self.process.stdin.close()
            self.process.wait()
            self.process = None
        return found


def answered(servers: list[Server], gpus: int, calls: list[str]) -> Iterator[Difference]:
    """Make the calls on both sides, and yield those that differ."""
    for server in servers:
        server.ask(gpus, calls)
    theirs, ours = (server.answer() for server in servers)
    for number, (one, other) in enumerate(zip(theirs, ours, strict=False), 1):
        if one[0] != other[0] or (not one[0] and one[1] != other[1]):
            yield Difference(gpus, calls[:number], one, other)


def compare(servers: list[Server], gpus: int, calls: list[str]) -> tuple[Counter[str], Difference | None]:
    """Return how often a row of the list was met, and the first difference that it does not have."""
    rows: Counter[str] = Counter()
    while True:
        listed: set[int] = set()
        for found in answered(servers, gpus, calls):
            row, cause = judged(found)
            if not row and not listed:
                return rows, found
            if row:
                rows[row] += 1
                listed.add(cause)
            # What comes after can be a consequence.
            if not row or cause < len(found.calls) - 1 or "ended" in (found.theirs[0], found.ours[0]):
                break
        else:
            return rows, None
        calls = [call for number, call in enumerate(calls) if number not in listed]


def shrink(servers: list[Server], found: Difference) -> Difference:
    """Leave out calls while the last one still differs."""
    size = len(found.calls) // 2
    while size:
        for end in range(len(found.calls) - 1, 0, -size):
            calls = found.calls[: max(0, end - size)] + found.calls[end:]
            smaller = next(answered(servers, found.gpus, calls), None)
            if smaller is not None and len(smaller.calls) == len(calls):
                found = smaller
        size //= 2
    return found


NUMBER = r"-?\d+\.?\d*(?:e[-+]\d+)?"


def nearly(theirs: str, ours: str) -> bool:
    """Whether two texts are alike but for the last digits of numbers, by at most two steps of float32."""
    if re.sub(rf"{NUMBER}|\s", "", theirs) != re.sub(rf"{NUMBER}|\s", "", ours):
        return False
    pairs = zip(re.findall(NUMBER, theirs), re.findall(NUMBER, ours), strict=False)
    return all(math.isclose(float(one), float(other), rel_tol=2**-22) for one, other in pairs)


def known(found: Difference) -> str:
    """Return the row of a difference, or nothing."""
    (error, theirs), (other, ours) = found.theirs, found.ours
    if not error and not other and re.search("dtype=(float32|complex)", theirs) and nearly(theirs, ours):
        return "numpy-operations"
    call, said = found.calls[-1], "\n".join(found.calls)
    if error and re.search(r"\b[tv]\b", call) and re.search(r"\b[tv]\b.*\n(.*\n)*.*disable_(v2|eager)", said):
        return "eager-in-graph"
    if "enable_soft_placement=0" in theirs + ours and "set_log_device_placement" in said:
        return "log-and-soft"
    in_graph = re.search(r"disable_(v2_behavior|eager_execution)\(", said)
    if in_graph and "get_soft_device_placement" in call and (theirs, ours) == ("False", "True"):
        return "eager-or-graph"
    if in_graph and call.endswith("_devices") and theirs == ours.replace("/job:localhost", ""):
        return "eager-or-graph"
    if in_graph and not error and not other and re.sub(r"_\d+:", ":", theirs) == re.sub(r"_\d+:", ":", ours):
        return "graph-def"
    if in_graph and call.endswith("get_default_graph().get_operations()") and not error and not other:
        return "graph-def"
    if in_graph and ".assign(" in call and error == "NotImplementedError" and other == "AttributeError":
        return "graph-def"
    rounded = re.sub(r"_\d+:", ":", ours).replace("Round", "x")
    if in_graph and call.startswith("tf.round(") and re.sub(r"_\d+:", ":", theirs) == rounded:
        return "graph-def"
    if in_graph and not error and other in ("ValueError", "InvalidArgumentError") and re.match(CHECKED_LATER, call):
        return "graph-checks"
    complex_numbers = all("dtype=complex" in answer for answer in (theirs, ours))
    if complex_numbers and not error and not other and re.search(r"tf\.(pow|divide)\(|[tv] (\*\*|/) ", call):
        return "numpy-operations"
    if (
        re.match(r"tf\.divide\(((np\.)?True_?|False|'.*'), np", call)
        and not error
        and re.match("Invalid dtype tf.(bool|string)", ours)
    ):
        return "numpy-operations"
    for row, patterns in KNOWN.items():
        texts = (found.calls[-1], " ".join(found.theirs), " ".join(found.ours))
        if all(re.search(pattern, text) for pattern, text in zip(patterns, texts, strict=True)):
            return row
    return ""


def judged(found: Difference) -> tuple[str, int]:
    """Return the row of a difference, or nothing, and the number of the call that led to it."""
    row, cause = known(found), len(found.calls) - 1
    if row:
        return row, cause
    if found.theirs[0] or found.ours[0]:
        row, made = "kernel-switches", r"set_synchronous_execution\((None|False|0|''|\[\]|\{\}|\(\)|np\.zeros.*)\)"
    # The GPUs of the judge have no memory that could be full.
    if not found.theirs[0] and found.ours[0] == "ResourceExhaustedError" and found.ours[1].startswith("OOM"):
        row, made = "no-wait", r"LogicalDeviceConfiguration\((0|False|0\.5)\)"
    if "enable_soft_placement=0" in found.theirs[1] + found.ours[1]:
        row, made = "soft-placement-later", r"set_soft_device_placement\("
    # What a call has stored before it failed.
    if (
        found.theirs[0] in ("TypeError", "AttributeError", "ValueError")
        and not found.ours[0]
        and "random" in found.calls[-1]
    ):
        row, made = "wrong-type", r"random\.set_seed\("
    causes = [number for number, call in enumerate(found.calls) if row and re.search(made, call)]
    return (row, causes[-1]) if causes else ("", cause)


def main() -> None:
    """Compare, and print what differs."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--calls", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--fresh", action="store_true")
    arguments.add_argument("--serve")
    options = arguments.parse_args()
    if options.serve:
        serve(options.serve)
        return
    servers = [Server("tensorflow", options.fresh), Server("installed", options.fresh)]
    compared, sequences, began = 0, 0, time.monotonic()
    kinds: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    while compared < options.calls:
        draw = random.Random(f"{options.seed}:{sequences}")
        sequences += 1
        gpus = draw.choice([0, 0, 1, 2])
        calls = drawn(draw, gpus, options.fresh)
        compared += len(calls)
        met, found = compare(servers, gpus, calls)
        rows += met
        if sequences % (10 if options.fresh else 500) == 0:
            print(f"{compared} calls so far", flush=True)
        if found is None:
            continue
        compared -= len(calls) - len(found.calls)
        kind = f"{re.sub(r'[^a-z_.]', '', found.calls[-1].split('(')[0])} {found.theirs[0]} {found.ours[0]}"
        kinds[kind] += 1
        if kinds[kind] == 1:
            small = shrink(servers, found)
            print("DIFFERS", kind, *small.calls, sep="\n    ")
            print(f"  {small.gpus} GPUs\n  TensorFlow: {small.theirs}\n  gpuconf:    {small.ours}", flush=True)
    print(f"{compared} calls in {sequences} sequences, seed {options.seed}, {time.monotonic() - began:.0f} s")
    print(f"{sum(kinds.values())} differ, of {len(kinds)} kinds: {kinds.most_common()}; listed: {dict(rows)}")
    sys.exit(bool(kinds))


if __name__ == "__main__":
    main()
