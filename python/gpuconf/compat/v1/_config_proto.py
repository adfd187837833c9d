"""``ConfigProto`` and ``GPUOptions``: the options of a session, with TensorFlow's fields."""

from __future__ import annotations

from ._proto import Mapping, Message, Repeated, Scalar, Sub

_BOOL, _STRING, _DOUBLE, _FLOAT = Scalar("bool"), Scalar("string"), Scalar("double"), Scalar("float")
_INT32, _INT64 = Scalar("int32"), Scalar("int64")


class VirtualDevices(Message):
    """The logical devices of one GPU: one for each limit, in MiB."""

    FIELDS = {"memory_limit_mb": Repeated(_FLOAT), "priority": Repeated(_INT32), "device_ordinal": Repeated(_INT32)}  # noqa: RUF012


class StreamMergeOptions(Message):
    """Stored but has no effect: gpuconf computes in one stream."""

    FIELDS = {  # noqa: RUF012
        "merge_host_to_device_stream": _BOOL,
        "merge_device_to_host_stream": _BOOL,
        "merge_device_to_device_stream": _BOOL,
    }


class GPUOptionsExperimental(Message):
    """``GPUOptions.experimental``."""

    FIELDS = {  # noqa: RUF012
        "virtual_devices": Repeated(Sub(VirtualDevices)),
        "use_unified_memory": _BOOL,
        "num_dev_to_dev_copy_streams": _INT32,
        "collective_ring_order": _STRING,
        "timestamped_allocator": _BOOL,
        "kernel_tracker_max_interval": _INT32,
        "kernel_tracker_max_bytes": _INT32,
        "kernel_tracker_max_pending": _INT32,
        "internal_fragmentation_fraction": _DOUBLE,
        "use_cuda_malloc_async": _BOOL,
        "disallow_retry_on_allocation_failure": _BOOL,
        "gpu_host_mem_limit_in_mb": _FLOAT,
        "gpu_host_mem_disallow_growth": _BOOL,
        "num_virtual_devices_per_gpu": _INT32,
        "gpu_system_memory_size_in_mb": _INT32,
        "populate_pjrt_gpu_client_creation_info": _BOOL,
        "node_id": _INT32,
        "stream_merge_options": Sub(StreamMergeOptions),
    }

    VirtualDevices = VirtualDevices
    StreamMergeOptions = StreamMergeOptions


class GPUOptions(Message):
    """The GPU options of a session.

    These fields have an effect: ``allow_growth``, ``per_process_gpu_memory_fraction`` (a hard limit, as a fraction of each
    visible GPU's total memory), ``visible_device_list``, ``allocator_type`` (only ``"BFC"``), and in ``experimental``
    ``virtual_devices``, ``num_virtual_devices_per_gpu``, ``gpu_system_memory_size_in_mb`` and ``use_unified_memory``. The
    others are stored but ignored.

    With ``use_unified_memory``, or a fraction above 1, the pools of all visible GPUs use CUDA's unified (managed) memory. A
    fraction of 1.5 then allows 1.5 times each GPU's memory: host memory holds the excess, and the CUDA driver migrates pages
    between the two. ``gpuconf.memory.stats`` reports the bytes in use beyond the GPU's memory as ``oversubscribed_bytes``.
    Such a pool allocates regions, even with ``allow_growth``, and cannot defragment free memory. With ``virtual_devices``,
    set ``use_unified_memory``: they cannot be combined with a fraction, and their limits may then exceed the GPU's memory in
    total. GPUs below compute capability 6.0 raise InternalError unless each logical device has its own limit, and GPUs
    without managed memory raise UnimplementedError. If the driver cannot oversubscribe, as under WSL, unified memory must fit
    on the GPU, and a warning is logged.

    >>> GPUOptions(allow_growth=True)
    allow_growth: true
    """

    FIELDS = {  # noqa: RUF012
        "per_process_gpu_memory_fraction": _DOUBLE,
        "allow_growth": _BOOL,
        "allocator_type": _STRING,
        "deferred_deletion_bytes": _INT64,
        "visible_device_list": _STRING,
        "polling_active_delay_usecs": _INT32,
        "polling_inactive_delay_msecs": _INT32,
        "force_gpu_compatible": _BOOL,
        "experimental": Sub(GPUOptionsExperimental),
    }

    Experimental = GPUOptionsExperimental


class OptimizerOptions(Message):
    """Stored but has no effect: gpuconf compiles nothing."""

    FIELDS = {  # noqa: RUF012
        "do_common_subexpression_elimination": _BOOL,
        "do_constant_folding": _BOOL,
        "max_folded_constant_in_bytes": _INT64,
        "do_function_inlining": _BOOL,
        "opt_level": _INT32,
        "global_jit_level": _INT32,
        "cpu_global_jit": _BOOL,
    }


class GraphOptions(Message):
    """Stored but has no effect."""

    FIELDS = {  # noqa: RUF012
        "enable_recv_scheduling": _BOOL,
        "optimizer_options": Sub(OptimizerOptions),
        "build_cost_model": _INT64,
        "build_cost_model_after": _INT64,
        "infer_shapes": _BOOL,
        "place_pruned_graph": _BOOL,
        "enable_bfloat16_sendrecv": _BOOL,
        "timeline_step": _INT32,
    }


class ConfigProto(Message):
    """The options of a session.

    These fields have an effect: ``gpu_options``, ``device_count`` (how many GPUs this session sees and how many CPU devices it
    has), ``allow_soft_placement`` and ``log_device_placement``. The others are stored but ignored.

    >>> config = ConfigProto(log_device_placement=True)
    >>> config.gpu_options.per_process_gpu_memory_fraction = 0.4
    >>> config
    gpu_options {
      per_process_gpu_memory_fraction: 0.4
    }
    log_device_placement: true
    """

    FIELDS = {  # noqa: RUF012
        "device_count": Mapping(_INT32),
        "intra_op_parallelism_threads": _INT32,
        "inter_op_parallelism_threads": _INT32,
        "use_per_session_threads": _BOOL,
        "placement_period": _INT32,
        "device_filters": Repeated(_STRING),
        "gpu_options": Sub(GPUOptions),
        "pluggable_device_options": Sub(GPUOptions),
        "allow_soft_placement": _BOOL,
        "log_device_placement": _BOOL,
        "graph_options": Sub(GraphOptions),
        "operation_timeout_in_ms": _INT64,
        "isolate_session_state": _BOOL,
        "share_cluster_devices_in_session": _BOOL,
    }
