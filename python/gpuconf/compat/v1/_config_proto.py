# SPDX-License-Identifier: Apache-2.0
"""``ConfigProto`` and the messages that it contains, with TensorFlow's fields. The fields are in ``_proto.table``."""

from __future__ import annotations

from .._proto.message import Message, define
from .._proto.table import ENUMS, MESSAGES


class GPUOptions(Message):
    """The GPU options of a session.

    These fields have an effect: ``allow_growth``, ``per_process_gpu_memory_fraction`` (a hard limit, as a fraction of
    each visible GPU's total memory), ``visible_device_list``, ``allocator_type`` (only ``"BFC"``), and in
    ``experimental`` ``virtual_devices``, ``num_virtual_devices_per_gpu``, ``gpu_system_memory_size_in_mb`` and
    ``use_unified_memory``. The others are stored but ignored.

    With ``use_unified_memory``, or a fraction above 1, the pools of all visible GPUs use CUDA's unified (managed)
    memory. A fraction of 1.5 then allows 1.5 times each GPU's memory: host memory holds the excess, and the CUDA driver
    migrates pages between the two. ``gpuconf.memory.stats`` reports the bytes in use beyond the GPU's memory as
    ``oversubscribed_bytes``. Such a pool allocates regions, even with ``allow_growth``, and cannot defragment free
    memory. With ``virtual_devices``, set ``use_unified_memory``: they cannot be combined with a fraction, and their
    limits may then exceed the GPU's memory in total. GPUs below compute capability 6.0 raise InternalError unless each
    logical device has its own limit, and GPUs without managed memory raise UnimplementedError. If the driver cannot
    oversubscribe, as under WSL, unified memory must fit on the GPU, and a warning is logged.

    >>> GPUOptions(allow_growth=True)
    allow_growth: true
    """

    __slots__ = ()


class OptimizerOptions(Message):
    """Stored but has no effect: gpuconf compiles nothing."""

    __slots__ = ()


class GraphOptions(Message):
    """Stored but has no effect."""

    __slots__ = ()


class ConfigProto(Message):
    """The options of a session.

    These fields have an effect: ``gpu_options``, ``device_count`` (how many GPUs this session sees and how many CPU
    devices it has), ``allow_soft_placement``, ``log_device_placement`` and ``graph_options.place_pruned_graph``. The
    others are stored but ignored.

    >>> config = ConfigProto(log_device_placement=True)
    >>> config.gpu_options.per_process_gpu_memory_fraction = 0.4
    >>> config
    gpu_options {
      per_process_gpu_memory_fraction: 0.4
    }
    log_device_placement: true
    """

    __slots__ = ()


_FOUND = define(
    MESSAGES,
    ENUMS,
    {each.__name__: each for each in (ConfigProto, GPUOptions, GraphOptions, OptimizerOptions)},
)

AttrValue = _FOUND["AttrValue"]
AutoParallelOptions = _FOUND["AutoParallelOptions"]
ClusterDef = _FOUND["ClusterDef"]
CoordinatedJob = _FOUND["CoordinatedJob"]
CoordinationServiceConfig = _FOUND["CoordinationServiceConfig"]
DataType = _FOUND["DataType"]
JobDef = _FOUND["JobDef"]
NameAttrList = _FOUND["NameAttrList"]
RPCOptions = _FOUND["RPCOptions"]
ResourceHandleProto = _FOUND["ResourceHandleProto"]
RewriterConfig = _FOUND["RewriterConfig"]
ScopedAllocatorOptions = _FOUND["ScopedAllocatorOptions"]
SessionMetadata = _FOUND["SessionMetadata"]
TensorProto = _FOUND["TensorProto"]
TensorShapeProto = _FOUND["TensorShapeProto"]
ThreadPoolOptionProto = _FOUND["ThreadPoolOptionProto"]
VariantTensorDataProto = _FOUND["VariantTensorDataProto"]
VerifierConfig = _FOUND["VerifierConfig"]
