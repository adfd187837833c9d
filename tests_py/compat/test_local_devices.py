"""``device_lib`` and ``tf.test``: how programs ask for GPUs. The recorded sessions of TensorFlow show their texts."""

from __future__ import annotations

import logging
import re

import gpuconf
import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf
import pytest
from gpuconf.compat.v2.python.client import device_lib
from script import run, run_well

MIB = 1 << 20


def gpus() -> list[tuple[str, int]]:
    return [(d.name, d.memory_limit) for d in device_lib.list_local_devices() if d.device_type == "GPU"]


def test_a_device_prints_as_tensorflows(two_gpus: None) -> None:
    text = re.sub(r"(?<=incarnation: )\d+", "...", str(device_lib.list_local_devices()[2]))
    assert text == (
        'name: "/device:GPU:1"\ndevice_type: "GPU"\nmemory_limit: 83132153856\n'
        "locality {\n  bus_id: 1\n  links {\n  }\n}\nincarnation: ...\n"
        'physical_device_desc: "device: 1, name: NVIDIA H100 80GB HBM3, pci bus id: 0000:1a:00.0, compute capability: '
        '9.0"\n'
        "xla_global_id: -1\n"
    )


def test_limits_and_cards_of_logical_devices(two_gpus: None) -> None:
    first, second = gpuconf.config.list_physical_devices("GPU")
    gpuconf.config.set_visible_devices([second], "GPU")
    limits = [gpuconf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in (1024, 2048)]
    gpuconf.config.set_logical_device_configuration(second, limits)
    assert gpus() == [("/device:GPU:0", 1024 * MIB), ("/device:GPU:1", 2048 * MIB)]
    described = [d.physical_device_desc for d in device_lib.list_local_devices() if d.device_type == "GPU"]
    assert [text.startswith("device: 1, name: NVIDIA H100") for text in described] == [True, True]
    assert first != second


def test_the_config_of_a_session(two_gpus: None) -> None:
    one = tf1.ConfigProto(device_count={"GPU": 1}, gpu_options=tf1.GPUOptions(per_process_gpu_memory_fraction=0.5))
    (gpu,) = [d for d in device_lib.list_local_devices(one) if d.device_type == "GPU"]
    assert gpu.memory_limit == 81081 << 19
    with pytest.raises(TypeError, match="Argument `config` must be a"):
        device_lib.list_local_devices(3)  # type: ignore[arg-type]


def test_listing_takes_no_memory_and_can_be_followed_by_a_configuration(two_gpus: None) -> None:
    assert len(gpus()) == 2
    gpuconf.config.set_soft_device_placement(True)
    assert gpuconf.memory.stats("GPU:0").bytes_reserved == 0
    gpuconf.reset()


def test_incarnations_differ(one_gpu: None) -> None:
    numbers = {d.incarnation for _ in range(3) for d in device_lib.list_local_devices()}
    assert len(numbers) == 6
    assert all(0 <= number < 1 << 64 for number in numbers)


def test_names_of_gpus(two_gpus: None) -> None:
    assert tf.test.gpu_device_name() == "/device:GPU:0"
    with tf.device(tf.test.gpu_device_name()):
        assert tf.constant(1.0).device.endswith("GPU:0")
    assert gpuconf.config.experimental_list_devices() == [
        f"/job:localhost/replica:0/task:0/device:{name}" for name in ("CPU:0", "GPU:0", "GPU:1")
    ]


def test_without_gpus() -> None:
    assert tf.test.gpu_device_name() == ""
    assert not tf.test.is_gpu_available()
    assert [d.name for d in device_lib.list_local_devices()] == ["/device:CPU:0"]
    assert gpuconf.config.experimental_list_devices() == ["/job:localhost/replica:0/task:0/device:CPU:0"]


def test_hidden_gpus_are_not_available(two_gpus: None) -> None:
    tf.config.set_visible_devices([], "GPU")
    assert tf.test.gpu_device_name() == ""
    assert not tf1.test.is_gpu_available()


def test_compute_capabilities(one_gpu: None) -> None:
    assert [tf.test.is_gpu_available(True, least) for least in ((9, 0), (8, 0), (9, 1), None)] == [
        True,
        True,
        False,
        True,
    ]
    with pytest.raises(TypeError) as caught:
        tf.test.is_gpu_available(min_cuda_compute_capability=9.0)  # type: ignore[arg-type]
    assert type(caught.value) is TypeError


def test_what_it_is_built_with() -> None:
    test = tf.test
    assert [
        test.is_built_with_cuda(),
        test.is_built_with_gpu_support(),
        test.is_built_with_rocm(),
        test.is_built_with_xla(),
    ] == [
        True,
        True,
        False,
        False,
    ]


def test_is_gpu_available_is_deprecated_once() -> None:
    done = run(
        """
        import gpuconf.compat.v1 as tf
        for _ in range(2):
            tf.test.is_gpu_available()
        """,
        env={"GPUCONF_SIMULATE": "T4"},
    )
    assert done.code == 0
    assert done.stderr.startswith("WARNING:tensorflow:From <string>:")
    assert done.stderr.count("is_gpu_available") == 1
    assert done.stderr.endswith("Instructions for updating:\nUse `tf.config.list_physical_devices('GPU')` instead.\n")


def test_the_deprecation_respects_the_level(one_gpu: None, caplog: pytest.LogCaptureFixture) -> None:
    out = run_well(
        """
        import gpuconf.compat.v1 as tf
        tf.logging.set_verbosity(tf.logging.ERROR)
        print(tf.test.is_gpu_available())
        """,
        env={"GPUCONF_SIMULATE": "T4"},
    )
    assert out == "True\n"
    with caplog.at_level(logging.ERROR, "tensorflow"):
        assert tf1.test.is_gpu_available()
    assert caplog.records == []
