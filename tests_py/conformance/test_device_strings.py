"""Device strings: the results of a scope and of ``get_memory_info``."""

from __future__ import annotations

from typing import NamedTuple

import gpuconf as tf
import pytest

from .helpers import refused

HERE = "/job:localhost/replica:0/task:0"

# Results of get_memory_info other than the name of a GPU.
E1, E2, E3, E4 = "unparsable", "several", "none", "no statistics"

# Results of tf.device other than the name of a scope.
UNKNOWN, SEVERAL_TYPES, NO_NUMBER = "unknown attribute ", "several types", "no number "


class Row(NamedTuple):
    """A device string on a machine with CPU:0, GPU:0 and GPU:1."""

    text: str
    scope: str
    info: str
    info_one_gpu: str = ""  # if a second GPU changes the result


def rows(texts: list[str], scope: str, info: str, info_one_gpu: str = "") -> list[Row]:
    return [Row(text, scope, info, info_one_gpu) for text in texts]


TABLE: list[Row] = [
    Row(HERE + "/device:GPU:0", HERE + "/device:GPU:0", "GPU:0"),
    Row("/device:GPU:0", HERE + "/device:GPU:0", "GPU:0"),
    Row("/device:GPU:1", HERE + "/device:GPU:1", "GPU:1", E3),
    Row("/device:gpu:0", HERE + "/device:GPU:0", E3),
    Row("/device:Gpu:0", HERE + "/device:Gpu:0", E3),
    *rows(["/gpu:0", "/GPU:0"], HERE + "/device:GPU:0", "GPU:0"),
    Row("/Gpu:0", HERE + "/device:GPU:0", E1),
    *rows(["GPU:0", "GPU:00"], HERE + "/device:GPU:0", "GPU:0"),
    *rows(["gpu:0", "Gpu:0"], HERE + "/device:GPU:0", E3),
    *rows(["GPU:1", "GPU:01"], HERE + "/device:GPU:1", "GPU:1", E3),
    *rows(["GPU:7", "/device:GPU:7"], HERE + "/device:GPU:7", E3),
    *rows(["gpu", "GPU", "/gpu", "/GPU"], HERE + "/device:GPU:0", E1),
    Row("/device:GPU", UNKNOWN + "device", E2, "GPU:0"),
    Row("device:GPU:0", HERE + "/device:GPU:0", E1),
    *rows(["/device:GPU:*", "/gpu:*"], HERE + "/device:GPU:0", E2, "GPU:0"),
    Row("/device:gpu:*", HERE + "/device:GPU:0", E3),
    Row("GPU:*", HERE + "/device:GPU:0", E1),
    Row("/device:*", UNKNOWN + "device", E2),
    Row("/device:*:*", HERE + "/device:*:0", E2),
    Row("/device:*:0", HERE + "/device:*:0", E2),
    Row("/device:", UNKNOWN + "device", E1),
    *rows(["/device::", "/device:GPU:"], NO_NUMBER, E1),
    *rows(["GPU:", "CPU:"], NO_NUMBER, E1),
    Row("CPU:GPU", NO_NUMBER + "GPU", E1),
    Row("GPU:CPU", NO_NUMBER + "CPU", E1),
    *rows(["cpu", "CPU"], HERE + "/device:CPU:0", E1),
    *rows(["CPU:0", "/cpu:0", "/CPU:0", "/device:CPU:0"], HERE + "/device:CPU:0", E4),
    Row("cpu:0", HERE + "/device:CPU:0", E3),
    Row("/device:CPU:1", HERE + "/device:CPU:1", E3),
    Row("", HERE + "/device:CPU:0", E2),
    Row("/", HERE + "/device:CPU:0", E2),
    Row("//", HERE + "/device:CPU:0", E1),
    Row("/job:worker", "/job:worker/replica:0/task:0/device:CPU:0", E3),
    Row("/job:*", "/job:*/replica:0/task:0/device:CPU:0", E2),
    Row("/job:", "/job:/replica:0/task:0/device:CPU:0", E1),
    Row("/job:123", "/job:123/replica:0/task:0/device:CPU:0", E1),
    Row("/job:a-b", "/job:a-b/replica:0/task:0/device:CPU:0", E1),
    *rows(["/job:worker/task:1", "/task:1/job:worker"], "/job:worker/replica:0/task:1/device:CPU:0", E3),
    Row("/replica:-1", "/job:localhost/replica:-1/task:0/device:CPU:0", E1),
    Row("/replica:x", NO_NUMBER + "x", E1),
    Row("/task:", NO_NUMBER, E1),
    Row("/replica:*", NO_NUMBER + "*", E2),
    Row("/task:0", HERE + "/device:CPU:0", E2),
    Row("GPU:-1", HERE + "/device:GPU:-1", E1),
    *rows(["GPU:+1", "GPU: 1", "GPU:1 "], HERE + "/device:GPU:1", E1),
    Row(" GPU:0", UNKNOWN + " GPU", E1),
    Row("GPU:1_0", HERE + "/device:GPU:10", E1),
    Row("GPU:0.0", NO_NUMBER + "0.0", E1),
    Row("GPU:4294967296", HERE + "/device:GPU:4294967296", "GPU:0"),
    Row("/cpu:0/gpu:0", SEVERAL_TYPES, "GPU:0"),
    Row("/gpu:0/device:CPU:0", SEVERAL_TYPES, E4),
    Row("/device:GPU:0/device:GPU:1", SEVERAL_TYPES, "GPU:1", E3),
    Row("/job:a/job:b", "/job:b/replica:0/task:0/device:CPU:0", E3),
    Row("TPU:0", HERE + "/device:TPU:0", E3),
    Row("EPU:0", HERE + "/device:EPU:0", E3),
    Row("CUSTOM:1", HERE + "/device:CUSTOM:1", E3),
    Row("XPU:0", UNKNOWN + "XPU", E3),
    Row("cuda:0", UNKNOWN + "cuda", E3),
    Row("unknown_device:0", UNKNOWN + "unknown_device", E3),
    Row("/device:XPU:0", HERE + "/device:XPU:0", E3),
    Row("/device:MyFunnyDevice:2", HERE + "/device:MyFunnyDevice:2", E3),
    Row("nonexistent", UNKNOWN + "nonexistent", E1),
    Row("GPU0", UNKNOWN + "GPU0", E1),
    Row("0", UNKNOWN + "0", E1),
    Row("1", UNKNOWN + "1", E1),
    Row("/physical_device:GPU:0", UNKNOWN + "physical_device", E1),
    *rows(["/job:localhost", HERE], HERE + "/device:CPU:0", E2),
    Row("/job:localhost/device:GPU:1", HERE + "/device:GPU:1", "GPU:1", E3),
    Row("/GPU:0/", HERE + "/device:GPU:0", E1),
    Row("GPU:0/task:0", HERE + "/device:GPU:0", E1),
    *rows(["GPU:0:0", "GPU:1,GPU:0"], UNKNOWN + "GPU", E1),
    Row("/device:GPU:0:0", UNKNOWN + "device", E1),
    Row("/device: GPU:0", HERE + "/device: GPU:0", E1),
    Row("/device:GPU:0 ", HERE + "/device:GPU:0", E1),
]
IDS = [f"{row.text!r}" for row in TABLE]


@pytest.mark.parametrize("row", TABLE, ids=IDS)
def test_case_123_a_scope_reads_a_string_as_python_does(two_gpus: None, row: Row) -> None:
    scope = tf.device(row.text)  # an invalid string is not an error yet
    if row.scope.startswith("/"):
        with scope:
            assert tf.current_scope() == row.scope
        return
    if row.scope.startswith(UNKNOWN):
        attribute = row.scope.removeprefix(UNKNOWN)
        text = f"Unknown attribute '{attribute}' is encountered while parsing the device spec: '{row.text}'."
    elif row.scope.startswith(NO_NUMBER):
        text = f"invalid literal for int() with base 10: '{row.scope.removeprefix(NO_NUMBER)}'"
    else:
        text = f"Multiple device types are not allowed while parsing the device spec: {row.text}."
    with refused(tf.errors.InvalidArgumentError, text):
        scope.__enter__()
    assert tf.current_scope() == ""
