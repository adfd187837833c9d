"""Where eager operations run, and device scopes in graphs."""

from __future__ import annotations

from typing import Any

import gpuconf as tf
import gpuconf.compat.v1 as tf1
import pytest

from .helpers import L, cpu

HERE = "/job:localhost/replica:0/task:0"
CPU0, GPU0, GPU1 = (f"{HERE}/device:{name}" for name in ("CPU:0", "GPU:0", "GPU:1"))


@pytest.fixture(autouse=True)
def fresh_graph() -> None:
    """Start with an empty default graph."""
    tf1.reset_default_graph()


def one(device: str | None = None) -> tf.Tensor:
    """A matrix on a device."""
    if device is None:
        return tf.constant([[1.0]])
    with tf.device(device):
        return tf.constant([[1.0]])


@pytest.mark.parametrize(("machine", "soft"), [("one_gpu", GPU0), ("cpu_only", CPU0)])
def test_case_056_operations_run_on_logical_cpus(request: pytest.FixtureRequest, machine: str, soft: str) -> None:
    request.getfixturevalue(machine)
    tf.config.set_logical_device_configuration(cpu(), [L(), L()])
    for number in (0, 1):
        assert one(f"CPU:{number}").device == f"{HERE}/device:CPU:{number}"
    assert one("CPU:2").device == soft, "soft placement prefers a GPU, whatever was asked for"


# Scopes in graphs.


def always(answer: Any) -> Any:
    """A device function that always returns the same device."""
    return lambda _: answer


def test_a_function_sees_the_operation_and_what_is_inside(one_gpu: None) -> None:
    seen: list[tuple[str, str, str, int]] = []

    def choose(op: Any) -> str:
        seen.append((op.type, op.name, op.device, len(op.inputs)))
        return "/gpu:0" if op.type == "MatMul" else "/cpu:0"

    with tf1.device(choose):
        a = tf1.constant([[1.0]], name="a")
        with tf1.device("/gpu:5"):
            product = tf1.matmul(a, a)
    assert seen == [("Const", "a", "", 0), ("MatMul", "MatMul", "/device:GPU:5", 2)]
    assert (a.device, product.device) == ("/device:CPU:0", "/device:GPU:0")
