"""ConfigProto and GPUOptions as messages: set, read, compare, copy and print them as Protocol Buffers' are."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import gpuconf
import numpy as np
import pytest
from gpuconf.compat import _proto
from gpuconf.compat.v1 import ConfigProto, GPUOptions, OptimizerOptions

RewriterConfig, AttrValue = _proto.RewriterConfig, _proto.AttrValue


def test_fields_have_defaults() -> None:
    config = ConfigProto()
    assert config.allow_soft_placement is False
    assert config.intra_op_parallelism_threads == 0
    assert config.gpu_options.allow_growth is False
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.0
    assert config.gpu_options.visible_device_list == ""
    assert dict(config.device_count) == {}
    assert list(config.device_filters) == []
    assert list(config.gpu_options.experimental.virtual_devices) == []
    assert config == ConfigProto()
    assert repr(config) == ""


def test_fields_are_set_by_keyword_and_by_attribute() -> None:
    by_keyword = ConfigProto(
        device_count={"GPU": 1},
        gpu_options=GPUOptions(allow_growth=True, per_process_gpu_memory_fraction=0.4, visible_device_list="0,1"),
        log_device_placement=True,
        device_filters=["/job:a"],
    )
    by_attribute = ConfigProto()
    by_attribute.device_count["GPU"] = 1
    by_attribute.gpu_options.allow_growth = True
    by_attribute.gpu_options.per_process_gpu_memory_fraction = 0.4
    by_attribute.gpu_options.visible_device_list = "0,1"
    by_attribute.log_device_placement = True
    by_attribute.device_filters.append("/job:a")
    assert by_keyword == by_attribute
    assert by_keyword != ConfigProto()
    assert by_keyword != "text"
    assert ConfigProto(gpu_options={"allow_growth": True}).gpu_options.allow_growth is True
    assert ConfigProto(gpu_options=None, log_device_placement=None) == ConfigProto()


def test_a_submessage_is_copied_by_keyword() -> None:
    options = GPUOptions(allow_growth=True)
    config = ConfigProto(gpu_options=options)
    options.allow_growth = False
    assert config.gpu_options.allow_growth is True


@pytest.mark.parametrize("message", [ConfigProto, GPUOptions])
def test_a_field_that_is_not_there(message: Any) -> None:
    with pytest.raises(ValueError, match=f'^Protocol message {message.__name__} has no "nonsense" field.$') as caught:
        message(nonsense=1)
    assert type(caught.value) is ValueError
    made = message()
    with pytest.raises(AttributeError, match="nonsense"):
        made.nonsense = 1
    with pytest.raises(AttributeError, match="nonsense"):
        _ = made.nonsense
    with pytest.raises(ValueError, match="nonsense"):
        made.ClearField("nonsense")
    with pytest.raises(ValueError, match="nonsense"):
        made.HasField("nonsense")


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("allow_growth", 1, True),
        ("allow_growth", np.bool_(True), True),
        ("deferred_deletion_bytes", 2**63 - 1, 2**63 - 1),
        ("polling_active_delay_usecs", np.int32(7), 7),
        ("per_process_gpu_memory_fraction", 1, 1.0),
        ("per_process_gpu_memory_fraction", np.float32(0.5), 0.5),
        ("visible_device_list", b"0,1", "0,1"),
        ("visible_device_list", "äöü", "äöü"),
    ],
)
def test_values_of_a_field(name: str, value: Any, stored: Any) -> None:
    options = GPUOptions(**{name: value})
    assert getattr(options, name) == stored
    assert type(getattr(options, name)) is type(stored)
    setattr(options, name, value)
    assert getattr(options, name) == stored


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("allow_growth", "yes", TypeError),
        ("allow_growth", 1.0, TypeError),
        ("allow_growth", [], TypeError),
        ("deferred_deletion_bytes", 2**63, ValueError),
        ("deferred_deletion_bytes", 1.5, TypeError),
        ("polling_active_delay_usecs", 2**31, ValueError),
        ("polling_active_delay_usecs", -(2**31) - 1, ValueError),
        pytest.param("polling_active_delay_usecs", 10**5000, ValueError, id="immense"),
        ("polling_active_delay_usecs", "1", TypeError),
        ("polling_active_delay_usecs", True, TypeError),
        ("allow_growth", 2**70, OverflowError),
        ("per_process_gpu_memory_fraction", "0.4", TypeError),
        ("per_process_gpu_memory_fraction", [], TypeError),
        ("per_process_gpu_memory_fraction", 10**400, OverflowError),
        ("visible_device_list", 0, TypeError),
        ("visible_device_list", ["0"], TypeError),
        ("visible_device_list", b"\xff", ValueError),
        ("visible_device_list", "\ud800", ValueError),
    ],
)
def test_values_that_a_field_cant_have(name: str, value: Any, kind: type[Exception]) -> None:
    options = GPUOptions()
    for change in (lambda: setattr(options, name, value), lambda: GPUOptions(**{name: value})):
        with pytest.raises(kind) as caught:
            change()
        assert type(caught.value) is kind
    assert options == GPUOptions()


@pytest.mark.parametrize("name", ["gpu_options", "device_count", "device_filters"])
def test_what_is_filled_and_not_assigned(name: str) -> None:
    kind = "message" if name == "gpu_options" else "map, or repeated"
    with pytest.raises(
        AttributeError, match=f'^Assignment not allowed to {kind} field "{name}" in protocol message object'
    ):
        setattr(ConfigProto(), name, GPUOptions())
    with pytest.raises(AttributeError):
        delattr(ConfigProto(), name)
    with pytest.raises(TypeError):
        ConfigProto(**{name: 3})


def test_a_map() -> None:
    count = ConfigProto(device_count={"CPU": 1}).device_count
    count.update({"GPU": 0}, TPU=2)
    assert count == {"CPU": 1, "GPU": 0, "TPU": 2}
    assert "GPU" in count
    assert "XPU" not in count
    assert count.get("XPU") is None
    assert count["XPU"] == 0, "reading puts the default there"
    assert "XPU" in count
    del count["XPU"]
    assert sorted(count) == ["CPU", "GPU", "TPU"]
    assert repr(ConfigProto(device_count={"CPU": 1}).device_count) == "{'CPU': 1}"
    for key, value, kind in ((1, 1, TypeError), ("GPU", "1", TypeError), ("GPU", 2**31, ValueError)):
        with pytest.raises(kind):
            count[key] = value


def test_lists() -> None:
    filters = ConfigProto(device_filters=["a"]).device_filters
    filters.append("b")
    filters.extend(["c", "d"])
    filters[0] = "A"
    filters[1:3] = ["B", "C"]
    del filters[3]
    assert filters == ["A", "B", "C"]
    assert repr(filters) == "['A', 'B', 'C']"
    with pytest.raises(TypeError):
        filters.extend(["x", 3])
    assert len(filters) == 3, "all or none"
    virtual = GPUOptions().experimental.virtual_devices
    first = virtual.add(memory_limit_mb=[1, 2.5], priority=[0, -1])
    first.device_ordinal.append(3)
    virtual.append(first)
    first.priority[0] = -2
    assert virtual[1].priority == [0, -1], "a copy"
    assert len(virtual) == 2
    with pytest.raises(TypeError):
        virtual[0] = first
    with pytest.raises(TypeError):
        virtual.append(GPUOptions())
    assert virtual == [first, virtual[1]]


def test_copies_and_merges() -> None:
    config = ConfigProto(gpu_options=GPUOptions(allow_growth=True), device_count={"GPU": 1}, device_filters=["a"])
    for duplicate in (copy.copy(config), copy.deepcopy(config)):
        assert duplicate == config
        duplicate.gpu_options.allow_growth = False
        duplicate.device_count["GPU"] = 2
        assert config.gpu_options.allow_growth is True
        assert config.device_count["GPU"] == 1
    other = ConfigProto()
    other.CopyFrom(config)
    assert other == config
    other.CopyFrom(other)
    assert other == config
    other.MergeFrom(
        ConfigProto(gpu_options=GPUOptions(visible_device_list="1"), device_count={"CPU": 2}, device_filters=["b"])
    )
    assert other.gpu_options == GPUOptions(allow_growth=True, visible_device_list="1")
    assert other.device_count == {"GPU": 1, "CPU": 2}
    assert other.device_filters == ["a", "b"]
    for wrong in (GPUOptions(), {}, None):
        with pytest.raises(TypeError, match="must be instance of same class"):
            other.MergeFrom(wrong)
    other.Clear()
    assert other == ConfigProto()


def test_presence() -> None:
    config = ConfigProto()
    _ = config.gpu_options
    assert not config.HasField("gpu_options"), "reading sets nothing"
    config.gpu_options.allow_growth = True
    assert config.HasField("gpu_options")
    config.ClearField("gpu_options")
    assert not config.HasField("gpu_options")
    assert ConfigProto(gpu_options=GPUOptions()).HasField("gpu_options")
    with pytest.raises(ValueError, match=r"^Field tensorflow.ConfigProto.device_count does not have presence"):
        config.HasField("device_count")
    with pytest.raises(TypeError, match="unhashable"):
        hash(config)


def test_print() -> None:
    config = ConfigProto(device_count={"GPU": 1, "CPU": 2}, device_filters=["a", 'b"'], allow_soft_placement=True)
    config.gpu_options.per_process_gpu_memory_fraction = 0.4
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[1.5])
    assert str(config) == (
        'device_count {\n  key: "CPU"\n  value: 2\n}\ndevice_count {\n  key: "GPU"\n  value: 1\n}\n'
        'device_filters: "a"\ndevice_filters: "b\\""\n'
        "gpu_options {\n  per_process_gpu_memory_fraction: 0.4\n  experimental {\n    virtual_devices {\n"
        "      memory_limit_mb: 1.5\n    }\n  }\n}\n"
        "allow_soft_placement: true\n"
    )
    assert {"gpu_options", "CopyFrom"} <= set(dir(config))


# TensorFlow's fields; a program may set any of them.
FIELDS = {
    GPUOptions: "per_process_gpu_memory_fraction allow_growth allocator_type deferred_deletion_bytes "
    "visible_device_list "
    "polling_active_delay_usecs polling_inactive_delay_msecs force_gpu_compatible experimental",
    GPUOptions.Experimental: "virtual_devices use_unified_memory num_dev_to_dev_copy_streams collective_ring_order "
    "timestamped_allocator kernel_tracker_max_interval kernel_tracker_max_bytes kernel_tracker_max_pending "
    "internal_fragmentation_fraction use_cuda_malloc_async disallow_retry_on_allocation_failure "
    "gpu_host_mem_limit_in_mb "
    "gpu_host_mem_disallow_growth num_virtual_devices_per_gpu gpu_system_memory_size_in_mb "
    "populate_pjrt_gpu_client_creation_info node_id stream_merge_options",
    RewriterConfig: "layout_optimizer constant_folding memory_optimization meta_optimizer_iterations custom_optimizers",
    ConfigProto.Experimental: "collective_group_leader executor_type session_metadata coordination_config "
    "mlir_bridge_rollout",
    ConfigProto: "cluster_def rpc_options session_inter_op_thread_pool experimental "
    "device_count intra_op_parallelism_threads placement_period device_filters inter_op_parallelism_threads "
    "gpu_options allow_soft_placement log_device_placement graph_options operation_timeout_in_ms "
    "pluggable_device_options",
}


@pytest.mark.parametrize("message", FIELDS, ids=lambda m: m.__name__)
def test_tensorflows_fields_are_there(message: Any) -> None:
    assert set(FIELDS[message].split()) <= set(message.FIELDS)
    for name in FIELDS[message].split():
        getattr(message(), name)


def test_fields_that_are_only_kept_change_nothing_about_the_gpus(one_gpu: None) -> None:
    import gpuconf.compat.v1 as tf

    tf.Session()
    with gpuconf.memory.allocate(1, "GPU:0"):
        options = GPUOptions(force_gpu_compatible=True, polling_active_delay_usecs=5, deferred_deletion_bytes=1)
        options.experimental.timestamped_allocator = True
        tf.Session(config=ConfigProto(gpu_options=options, operation_timeout_in_ms=10))


def test_every_message_can_be_filled_copied_pickled_and_printed() -> None:
    """Every field of every message, to the depth of three messages."""

    def filled(message: Any, depth: int) -> Any:
        made = message()
        for field in message.FIELDS.values():
            if field.key is not None:
                key = "k" if field.key.kind == "string" else 3
                if field.message is None:
                    getattr(made, field.name)[key] = "v" if field.kind == "string" else 5
                elif depth:
                    getattr(made, field.name)[key].CopyFrom(filled(field.message, depth - 1))
            elif field.message is not None:
                if depth and field.is_repeated:
                    getattr(made, field.name).append(filled(field.message, depth - 1))
                elif depth:
                    getattr(made, field.name).CopyFrom(filled(field.message, depth - 1))
            else:
                value = {"string": "text", "bytes": b"\xff", "bool": True, "double": 0.1, "float": 0.5}.get(
                    field.kind, 1
                )
                if field.is_repeated:
                    getattr(made, field.name).append(value)
                else:
                    setattr(made, field.name, value)
        return made

    config = filled(ConfigProto, 3)
    assert [field.name for field, _ in config.ListFields()] == sorted(
        ConfigProto.FIELDS, key=lambda name: ConfigProto.FIELDS[name].number
    )
    for same in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert same == config
        assert str(same) == str(config)
        same.gpu_options.experimental.stream_merge_options.Clear()
        assert same != config
    assert "      global_jit_level: ON_1\n" in "".join(f"  {line}" for line in str(config).splitlines(keepends=True))


def test_enums() -> None:
    assert (OptimizerOptions.L1, OptimizerOptions.L0, OptimizerOptions.ON_1, OptimizerOptions.ON_2) == (0, -1, 1, 2)
    assert OptimizerOptions.Level.items() == [("L1", 0), ("L0", -1)]
    assert OptimizerOptions.GlobalJitLevel.Name(1) == "ON_1"
    assert OptimizerOptions.Level.Value("L0") == OptimizerOptions.Level.L0 == -1
    assert RewriterConfig.OFF == 2
    for wrong, kind in (("ON_1", TypeError), (5, ValueError)):
        with pytest.raises(kind):
            OptimizerOptions.Level.Name(wrong)
    with pytest.raises(ValueError, match="Enum Level has no value defined for name 'x'"):
        OptimizerOptions.Level.Value("x")
    config = ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = OptimizerOptions.ON_1
    config.graph_options.optimizer_options.opt_level = "L0"
    assert str(config.graph_options.optimizer_options) == "opt_level: L0\nglobal_jit_level: ON_1\n"
    config.graph_options.optimizer_options.opt_level = 7  # a number without a name
    assert str(config.graph_options.optimizer_options) == "opt_level: 7\nglobal_jit_level: ON_1\n"
    with pytest.raises(ValueError, match=r'^unknown enum label "L9"'):
        config.graph_options.optimizer_options.opt_level = "L9"


def test_oneofs() -> None:
    value = AttrValue(i=0)
    assert value.WhichOneof("value") == "i"
    assert value.HasField("i")
    assert str(value) == "i: 0\n"
    numbers = value.list
    assert value.WhichOneof("value") == "i", "reading sets nothing"
    numbers.i.append(3)
    assert value.WhichOneof("value") == "list"
    value.s = b"\xff"
    assert str(value) == 's: "\\377"\n'
    assert numbers.i == [3], "who holds it keeps it"
    value.ClearField("value")
    assert value.WhichOneof("value") is None
    with pytest.raises(ValueError, match='has no "nonsense" field'):
        value.WhichOneof("nonsense")
    with pytest.raises(ValueError, match=r"^Expected a oneof name, but got field name i"):
        value.WhichOneof("i")


def test_presence_of_messages_in_messages() -> None:
    config = ConfigProto()
    virtual = config.gpu_options.experimental.virtual_devices
    assert not config.HasField("gpu_options")
    virtual.add()
    assert str(config) == "gpu_options {\n  experimental {\n    virtual_devices {\n    }\n  }\n}\n"
    options = config.gpu_options
    config.ClearField("gpu_options")
    options.allow_growth = True
    assert not config.HasField("gpu_options"), "it is no part any more"
    config.gpu_options.allow_growth = False
    assert str(config) == "gpu_options {\n}\n"
    with pytest.raises(TypeError):
        ConfigProto().graph_options.infer_shapes = "yes"
    config = ConfigProto()
    with pytest.raises(TypeError):
        config.graph_options.infer_shapes = "yes"
    assert not config.HasField("graph_options"), "a call that fails changes nothing"


def test_the_wire_format_is_protobufs() -> None:
    pytest.importorskip("google.protobuf")
    config = ConfigProto(device_count={"GPU": 1}, device_filters=["a", "b"], gpu_options={"allow_growth": True})
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[1.5], priority=[-1])
    config.graph_options.rewrite_options.custom_optimizers.add(name="x").parameter_map["k"].list.i.append(3)
    config.graph_options.optimizer_options.SetInParent()
    serialized = config.SerializeToString(deterministic=True)
    assert ConfigProto(allow_soft_placement=True).SerializeToString() == b"\x38\x01"
    assert ConfigProto.FromString(serialized) == config
    assert config.ByteSize() == len(serialized)
    other = ConfigProto(device_filters=["c"], allow_soft_placement=True)
    assert other.MergeFromString(serialized + b"\xf8\x7f\x01") == len(serialized) + 3, "an unknown field is left out"
    assert other.device_filters == ["c", "a", "b"]
    assert other.allow_soft_placement is True
    other.ParseFromString(serialized)
    assert other == config
    with pytest.raises(Exception, match="Error parsing message"):
        ConfigProto.FromString(b"\xff")


def test_without_protobuf_there_is_no_wire_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    for call in (ConfigProto().SerializeToString, ConfigProto().ByteSize, lambda: ConfigProto().ParseFromString(b"")):
        with pytest.raises(gpuconf.errors.MissingPackageError, match=r"wire format of ConfigProto needs protobuf"):
            call()
    with pytest.raises(NotImplementedError):
        ConfigProto.FromString(b"")


def test_descriptors() -> None:
    assert ConfigProto.GPU_OPTIONS_FIELD_NUMBER == 6
    field = ConfigProto.DESCRIPTOR.fields_by_name["gpu_options"]
    assert (field.name, field.full_name, field.number) == ("gpu_options", "tensorflow.ConfigProto.gpu_options", 6)
    assert field.message_type.full_name == "tensorflow.GPUOptions"
    assert ConfigProto.DESCRIPTOR.fields_by_number[6] is field
    assert [(f.name, v) for f, v in ConfigProto(device_filters=["a"], allow_soft_placement=True).ListFields()] == [
        ("device_filters", ["a"]),
        ("allow_soft_placement", True),
    ]
    with pytest.raises(TypeError, match="A Message class can only inherit from Message"):
        type("Mine", (ConfigProto,), {})
