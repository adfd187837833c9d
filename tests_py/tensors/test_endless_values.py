"""Endless values: lists that contain themselves, or each other so often that what they describe exceeds any memory.

``constant(l)`` of a list that contains itself never returned, and neither did NumPy for a list that contains itself
twice. Formatting an error could take as long: the repr of nested lists has as many letters as they have elements.
"""

from __future__ import annotations

import itertools
from typing import Any

import gpuconf
import pytest
from gpuconf.compat import v1

pytestmark = pytest.mark.usefixtures("one_gpu")

np = pytest.importorskip("numpy")


def itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def twice() -> list[Any]:
    value: list[Any] = []
    value.extend([value, value])
    return value


def in_a_tuple() -> tuple[Any, ...]:
    value: tuple[list[Any]] = ([],)
    value[0].append(value)
    return value


def after_a_number() -> list[Any]:
    return [1.0, twice()]


def after_a_list() -> list[Any]:
    return [[1.0], twice()]


def after_an_array() -> list[Any]:
    return [np.zeros(2), twice()]


def doubled() -> list[Any]:
    """2**40 numbers, in 41 lists."""
    value: list[Any] = [1.0]
    for _ in range(40):
        value = [value, value]
    return value


def deep() -> Any:
    value: Any = 1.0
    for _ in range(100_000):
        value = [value]
    return value


VALUES = [itself, twice, in_a_tuple, after_a_number, after_a_list, after_an_array, doubled, deep]
every_value = pytest.mark.parametrize("value", VALUES, ids=lambda value: value.__name__)


def is_documented(error: Exception) -> bool:
    """Whether it is one of gpuconf's, or of the class that TensorFlow raises, not of another one that derives from
    it.
    """
    return isinstance(error, gpuconf.errors.GpuconfError) or type(error) in (ValueError, TypeError, AttributeError)


@every_value
def test_an_endless_value_is_no_tensor(value: Any) -> None:
    for call in (
        gpuconf.constant,
        gpuconf.identity,
        v1.constant,
        v1.identity,
        lambda endless: gpuconf.constant(endless, dtype="float64"),
        lambda endless: gpuconf.add(endless, [1.0]),
        lambda endless: gpuconf.constant([1.0]) + endless,
        lambda endless: gpuconf.matmul([[1.0]], endless),
        lambda endless: gpuconf.add_n([[1.0], endless]),
    ):
        with pytest.raises(ValueError, match="Can't convert non-rectangular Python sequence to Tensor: ") as caught:
            call(value())
        assert type(caught.value) in (ValueError, gpuconf.errors.InvalidArgumentError)
        assert len(str(caught.value)) < 1000


@every_value
def test_an_endless_value_in_another_place_is_refused_with_a_short_text(value: Any) -> None:
    for call in (
        lambda endless: gpuconf.constant(1.0, shape=endless),
        gpuconf.memory.allocate,
        lambda endless: gpuconf.memory.allocate(1, endless),
        lambda endless: gpuconf.memory.allocate(1, wait=endless),
        gpuconf.memory.stats,
        gpuconf.memory.record,
        lambda endless: v1.placeholder("float32", endless),
        v1.placeholder,
        lambda endless: gpuconf.constant(1.0, dtype=endless),
        v1.no_op,
        v1.InteractiveSession,
        lambda endless: v1.test.is_gpu_available(min_cuda_compute_capability=endless),
        v1.logging.set_verbosity,
        v1.random.set_random_seed,
        v1.distribute.MirroredStrategy,
    ):
        # TensorFlow hashes a device, then calls its split(), and makes an array of a seed.
        others = {v1.distribute.MirroredStrategy: AttributeError, v1.random.set_random_seed: ValueError}
        with pytest.raises((TypeError, others.get(call, TypeError))) as caught:
            call(value())
        assert is_documented(caught.value)
        assert len(str(caught.value)) < 1000


def test_a_shape_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="shape has more than 254 dimensions"):
        gpuconf.constant(1.0, shape=itertools.repeat(1))


def test_what_only_looks_endless_is_a_tensor() -> None:
    row = [1.0, 2.0]
    assert gpuconf.constant([row, row, row]).shape == (3, 2)
    assert gpuconf.constant(((), ())).shape == (2, 0)
    assert gpuconf.constant([[[1]]] * 1000).shape == (1000, 1, 1)


@every_value
def test_configuration_refuses_it_with_a_short_text(value: Any) -> None:
    gpu = gpuconf.config.list_physical_devices("GPU")[0]
    with gpuconf.memory.record() as recording:
        pass
    for call in (
        lambda endless: gpuconf.plan(recording, policy=endless),
        lambda endless: gpuconf.plan(recording, policy=[endless]),
        lambda endless: gpuconf.plan(recording, limit=endless),
        lambda endless: gpuconf.configure(growth=endless),
        lambda endless: gpuconf.configure(libraries=endless),
        lambda endless: gpuconf.configure(libraries={"torch": endless}),
        lambda endless: gpuconf.config.set_logical_device_configuration(gpu, {"memory_limit": endless}),
        lambda endless: gpuconf.config.set_logical_device_configuration(
            gpu, [gpuconf.config.LogicalDeviceConfiguration(memory_limit=endless)]
        ),
        lambda endless: gpuconf.config.threading.set_intra_op_parallelism_threads(endless),
        lambda endless: gpuconf.config.optimizer.set_experimental_options(endless),
    ):
        with pytest.raises((ValueError, TypeError, AttributeError)) as caught:
            call(value())
        assert is_documented(caught.value)
        assert len(str(caught.value)) < 1000


def test_a_session_refuses_endless_fetches_and_feeds() -> None:
    mapping: dict[str, Any] = {}
    mapping["again"] = mapping
    with v1.Graph().as_default():
        tensor = v1.constant(1.0)
        with v1.Session() as session:
            for fetches in (
                itself(),
                twice(),
                in_a_tuple(),
                deep(),
                mapping,
                [tensor, itself()],
                {"a": (tensor, mapping)},
            ):
                with pytest.raises(ValueError, match="the fetches are recursive or nested too deeply"):
                    session.run(fetches)
            with pytest.raises(ValueError, match="the feeds are recursive or nested too deeply"):
                session.run(tensor, {(tensor,): itself()})
            for value in VALUES:
                with pytest.raises(ValueError, match=r"Can't convert non-rectangular Python sequence|Cannot feed "):
                    session.run(tensor, {tensor: value()})
            assert session.run([[tensor]]) == [[1.0]]
