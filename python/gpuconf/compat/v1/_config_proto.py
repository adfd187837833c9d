"""``ConfigProto`` and ``GPUOptions``: what a session is to do with the devices, in TensorFlow's fields."""

from __future__ import annotations

from ._proto import Mapping, Message, Repeated, Scalar, Sub

_BOOL, _STRING, _DOUBLE, _FLOAT = Scalar("bool"), Scalar("string"), Scalar("double"), Scalar("float")
_INT32, _INT64 = Scalar("int32"), Scalar("int64")


class VirtualDevices(Message):
    """The logical devices of one GPU: one for each limit, in MiB."""

    FIELDS = {"memory_limit_mb": Repeated(_FLOAT), "priority": Repeated(_INT32), "device_ordinal": Repeated(_INT32)}  # noqa: RUF012


class StreamMergeOptions(Message):
    """Kept, no more: gpuconf computes in one stream."""

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
    """What a session asks of the GPUs.

    In force are ``allow_growth``, ``per_process_gpu_memory_fraction`` (a hard bound, of each visible GPU's total memory),
    ``visible_device_list``, ``allocator_type`` (there is one, ``"BFC"``), and of ``experimental`` ``virtual_devices``,
    ``num_virtual_devices_per_gpu``, ``gpu_system_memory_size_in_mb`` and ``use_unified_memory``. The others are kept.

    With ``use_unified_memory``, or a fraction above 1, the pools of all visible GPUs take CUDA's unified (managed) memory. A
    fraction of 1.5 then allows one and a half times each GPU's memory: host memory holds what does not fit, and the CUDA
    driver moves pages between the two. ``gpuconf.memory.stats`` says as ``oversubscribed_bytes`` how many bytes are in use
    beyond the GPU's memory. Such a pool takes regions, also with ``allow_growth``, and cannot move free memory together.
    With ``virtual_devices`` use ``use_unified_memory``: they exclude a fraction, and their limits may then add up to more
    than the GPU has. GPUs before compute capability 6.0 raise InternalError unless each logical device has a limit of its
    own, and GPUs without managed memory UnimplementedError. Where the driver cannot oversubscribe, as under WSL, unified
    memory has to fit on the GPU, and a warning says so.

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
    """Kept, no more: gpuconf compiles nothing."""

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
    """Kept, no more."""

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
    """What a session is to do.

    In force are ``gpu_options``, ``device_count`` (this session's own: how many of the GPUs it sees, how many CPUs it has),
    ``allow_soft_placement`` and ``log_device_placement``. The others are kept.

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
