"""Run TensorFlow's own tests of device configuration over gpuconf: ``make test-suites WHAT=tensorflow TENSORFLOW=DIR``.

``DIR`` is a checkout of TensorFlow's source. The test files are read from there and run unmodified, on simulated
machines. The table of what became of them is written into benchmarks/reports/conformance.md. Exit status 1 if a test
fails that is not listed here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests_py"))

from oracle import differences  # noqa: E402

PAGE = ROOT / "benchmarks" / "reports" / "conformance.md"
HEADING = "## TensorFlow's own tests\n"

# The files, and whether TensorFlow 2's behavior or TensorFlow 1's is on.
FILES = {
    "tensorflow/python/framework/config_test.py": "v2",
    "tensorflow/python/framework/config_vgpu_test.py": "v2",
    "tensorflow/python/framework/device_spec_test.py": "v2",
    "tensorflow/python/framework/device_test.py": "v2",
    "tensorflow/python/eager/device_placement_test.py": "v2",
    "tensorflow/python/client/session_test.py": "v1",
    "tensorflow/python/client/device_lib_test.py": "v2",
    "tensorflow/python/client/virtual_gpu_test.py": "v2",
    "tensorflow/python/client/session_list_devices_test.py": "v2",
}
MACHINES = ("", "A100-40GB", "2xT4")

# Tests that need what TensorFlow keeps private, or what gpuconf says that it does not have. No other
# UnimplementedError, and no other missing private name, is out of scope.
_SERIALIZED = "the attributes of a graph as a message"
OUT_OF_SCOPE = {
    "DeviceTest.testConfigureCollectiveOps": "context().configure_collective_ops, which is private",
    "DeviceTest.testV1CompatibilityDummyInvisibleDeviceList": "context()._config, which is private",
    "SessionTest.testErrorBasedOn": "Graph._original_op, which is private",
    "SessionTest.testErrorCodeWithNoNodeDef": "Session.partial_run",
    "SessionTest.testInferShapesFalse": _SERIALIZED,
    "SessionTest.testInferShapesTrue": _SERIALIZED,
    "SessionTest.testOptimizerOptions": "Session._config, which is private",
    "SessionListDevicesTest.testInvalidDeviceNumber": "Graph._c_graph, which is private",
}
# Tests that differ on purpose: the ids of the differences in docs/differences.md.
LISTED = {
    "ConfigTest.testDevicePolicy": "int32-copies",
    "ConfigTest.testEnableMlirBridge": "clusters",
    "DeviceTest.testGetMemoryInfoBasic": "scratch",
    "DeviceTest.testGetMemoryUsageSubstring": "scratch",
    "HardDevicePlacementTest.testHardPlacedCPUConstant_string_cpu0": "tensor-types",
    "HardDevicePlacementTest.testHardPlacedCPUConstant_string_cpu1": "tensor-types",
    "HardDevicePlacementTest.testHardPlacedGPUConstant_string": "tensor-types",
    "SessionTest.testInvalidTargetFails": "session-run",
    "SessionTest.testSessionInterOpThreadPool": "session-run",
    "SoftDevicePlacementTest.testSoftPlacedCPUConstant_string": "tensor-types",
    "SoftDevicePlacementTest.testSoftPlacedNumericTensors_int64": "tensor-types",
    "SoftDevicePlacementTest.testUnsupportedDevice": "tensor-types",
    "TensorFloat32Test.test_tensor_float_32_enabled": "kernel-switches",
}
# Tests that expect a machine without GPUs, but do not skip others.
WITHOUT_GPUS = {"SessionTest.testDefaultSessionPlacePrunedGraph", "SessionTest.testInteractivePlacePrunedGraph"}


def outcomes(checkout: Path, file: str, machine: str) -> dict[str, tuple[str, str]]:
    """Run a file's tests on a machine, and return the kind of outcome of each test, and its reason."""
    done = subprocess.run(
        [sys.executable, "-m", "tensorflow_tests.one_file", str(checkout / file), FILES[file]],
        cwd=ROOT / "tests_py",
        env={
            **{k: v for k, v in os.environ.items() if k != "GPUCONF_SIMULATE"},
            **({"GPUCONF_SIMULATE": machine} if machine else {}),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode:
        sys.exit(f"{file} on {machine or 'a machine without GPUs'} ended with {done.returncode}:\n{done.stderr}")
    found: dict[str, tuple[str, str]] = {
        name: (kind, reason) for name, (kind, reason) in json.loads(done.stdout).items()
    }
    for name, (kind, _) in found.items():
        if kind == "fail" and machine and name in WITHOUT_GPUS:
            found[name] = ("skip", "expects a machine without GPUs")
        elif kind == "fail" and name in OUT_OF_SCOPE:
            found[name] = ("scope", OUT_OF_SCOPE[name])
        elif kind in ("fail", "scope") and name in LISTED:
            found[name] = ("listed", LISTED[name])
    return found


def verdict(kinds: list[tuple[str, str]]) -> tuple[str, str]:
    """Return what became of a test on all machines together."""
    for kind in ("fail", "listed", "scope", "pass", "skip"):
        for found, reason in kinds:
            if found == kind:
                return kind, reason
    raise AssertionError


def main(checkout: Path) -> None:
    """Run all files, and write the table."""
    if not (checkout / next(iter(FILES))).is_file():
        sys.exit(f"{checkout} is not a checkout of TensorFlow: it has no {next(iter(FILES))}")
    verdicts: dict[str, dict[str, tuple[str, str]]] = {}
    for file in FILES:
        runs = [outcomes(checkout, file, machine) for machine in MACHINES]
        verdicts[file] = {name: verdict([run[name] for run in runs]) for name in runs[0]}
        print(f"{file}: {dict(Counter(kind for kind, _ in verdicts[file].values()))}", flush=True)
    failed = [
        f"{name}: {reason}" for found in verdicts.values() for name, (kind, reason) in found.items() if kind == "fail"
    ]
    everything = {name: kind for found in verdicts.values() for name, (kind, _) in found.items()}
    stale = [name for name in LISTED if everything.get(name) != "listed"]
    stale += [name for name in OUT_OF_SCOPE if everything.get(name) != "scope"]
    if failed or stale:
        sys.exit("\n".join([*failed, *(f"{name} is listed in {__file__}, but does not fail so" for name in stale)]))
    text = PAGE.read_text() if PAGE.exists() else ""
    PAGE.write_text(text.partition(HEADING)[0].rstrip() + "\n\n" + section(verdicts))


_NAMES = {"pass": "pass", "listed": "listed difference", "scope": "out of scope", "skip": "skipped by the test"}


def section(verdicts: dict[str, dict[str, tuple[str, str]]]) -> str:
    """Return the part of the page that this command writes."""
    numbers = {row.id: row.number for row in differences.load()}
    lines = [
        HEADING,
        "Written by `make test-suites WHAT=tensorflow TENSORFLOW=DIR`, which reads these files from a checkout of",
        "TensorFlow's source and runs them unmodified. A small adapter, `tests_py/tensorflow_tests/adapter.py`,",
        "holds gpuconf's functions under the names of TensorFlow's private modules. The machines are simulated:",
        f"{', '.join(machine or 'no GPU' for machine in MACHINES)}. A test counts as passed if it passes on each "
        "machine on which",
        "it does not skip itself. Whatever needs more of TensorFlow is out of scope; an UnimplementedError of "
        "gpuconf, and a",
        "private name that is missing, count as failures unless `run.py` lists the test.",
        "",
        "| file | tests | pass | listed difference | out of scope | skipped by the test |",
        "|---|---|---|---|---|---|",
    ]
    total: Counter[str] = Counter()
    for file, found in verdicts.items():
        count = Counter(kind for kind, _ in found.values())
        total += count
        lines.append(
            f"| `{file.removeprefix('tensorflow/python/')}` | {len(found)} | "
            + " | ".join(str(count[k]) for k in _NAMES)
            + " |"
        )
    lines.append(f"| all | {total.total()} | " + " | ".join(str(total[kind]) for kind in _NAMES) + " |")
    lines += [
        "",
        "Tests that do not pass, and what they need or where they differ:",
        "",
        "| test | | why |",
        "|---|---|---|",
    ]
    for found in verdicts.values():
        for name, (kind, reason) in sorted(found.items()):
            if kind != "pass":
                why = (
                    f"difference {numbers[reason]} in [differences.md](../../docs/differences.md)"
                    if kind == "listed"
                    else _shown(kind, reason)
                )
                lines.append(f"| {name.replace('.', ' ')} | {_NAMES[kind]} | {why} |")
    return "\n".join([*lines, ""])


# Public names of what tests import from private modules.
_PUBLIC = {
    "client.session.register_session_run_conversion_functions": (
        "tf.compat.v1.register_session_run_conversion_functions, private"
    ),
    "eager.def_function.function": "tf.function",
    "framework.function.Defun": "functions in graphs",
    "framework.ops.colocate_with": "tf.compat.v1.colocate_with",
    "ops.array_ops.reshape": "tf.reshape",
    "ops.array_ops.shape": "tf.shape",
    "ops.array_ops.sparse_placeholder": "sparse tensors",
    "ops.data_flow_ops.FIFOQueue": "queues",
    "ops.gen_control_flow_ops.enter": "control flow",
    "ops.variable_v1.VariableV1": "tf.Variable",
    "ops.variables.Variable": "tf.Variable",
    "tensorflow.core.protobuf.config_pb2.CallableOptions": "CallableOptions",
    "tensorflow.core.protobuf.config_pb2.RunOptions": "RunOptions",
    "tensorflow.core.protobuf.tensorflow_server_pb2.ServerDef": "clusters",
    "framework.test_util.create_local_cluster": "clusters",
    "training.server_lib.Server.create_local_server": "clusters",
    "dtypes.object": "tensors of strings",
    "dtypes.str": "tensors of strings",
    "framework.dtypes.string": "tensors of strings",
    "dtypes.int64": "tensors of int64",
    "framework.dtypes.int64": "tensors of int64",
    "framework.dtypes.float16": "tensors of float16",
    "framework.test_ops.test_attr": "an operation that only TensorFlow's tests have",
    "framework.test_ops.is_tensor_float32_enabled": "an operation that only TensorFlow's tests have",
    "framework.config.disable_op_determinism": "config.disable_op_determinism, which is private",
}


def _shown(kind: str, reason: str) -> str:
    reason = _PUBLIC.get(reason, reason).replace("|", "\\|")
    return reason if kind == "skip" or reason.startswith("target=") else f"needs {reason}"


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
