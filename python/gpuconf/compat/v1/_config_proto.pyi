"""The fields of the messages, for type checkers; test_types.py compares them with ``FIELDS``."""

from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Any, Generic, TypeVar

from ._proto import Message

_M = TypeVar("_M", bound=Message)

class _MessageList(MutableSequence[_M], Generic[_M]):
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __delitem__(self, index: Any) -> None: ...
    def __len__(self) -> int: ...
    def insert(self, index: int, value: _M | dict[str, Any]) -> None: ...
    def add(self, **fields: Any) -> _M: ...

class VirtualDevices(Message):
    @property
    def memory_limit_mb(self) -> MutableSequence[float]: ...
    @property
    def priority(self) -> MutableSequence[int]: ...
    @property
    def device_ordinal(self) -> MutableSequence[int]: ...
    def __init__(
        self,
        *,
        memory_limit_mb: Iterable[float] | None = None,
        priority: Iterable[int] | None = None,
        device_ordinal: Iterable[int] | None = None,
    ) -> None: ...

class StreamMergeOptions(Message):
    merge_host_to_device_stream: bool
    merge_device_to_host_stream: bool
    merge_device_to_device_stream: bool
    def __init__(
        self,
        *,
        merge_host_to_device_stream: bool | None = None,
        merge_device_to_host_stream: bool | None = None,
        merge_device_to_device_stream: bool | None = None,
    ) -> None: ...

_VirtualDevices = VirtualDevices
_StreamMergeOptions = StreamMergeOptions

class GPUOptionsExperimental(Message):
    VirtualDevices = _VirtualDevices
    StreamMergeOptions = _StreamMergeOptions
    @property
    def virtual_devices(self) -> _MessageList[_VirtualDevices]: ...
    use_unified_memory: bool
    num_dev_to_dev_copy_streams: int
    collective_ring_order: str
    timestamped_allocator: bool
    kernel_tracker_max_interval: int
    kernel_tracker_max_bytes: int
    kernel_tracker_max_pending: int
    internal_fragmentation_fraction: float
    use_cuda_malloc_async: bool
    disallow_retry_on_allocation_failure: bool
    gpu_host_mem_limit_in_mb: float
    gpu_host_mem_disallow_growth: bool
    num_virtual_devices_per_gpu: int
    gpu_system_memory_size_in_mb: int
    populate_pjrt_gpu_client_creation_info: bool
    node_id: int
    @property
    def stream_merge_options(self) -> _StreamMergeOptions: ...
    def __init__(
        self,
        *,
        virtual_devices: Iterable[_VirtualDevices | dict[str, Any]] | None = None,
        use_unified_memory: bool | None = None,
        num_dev_to_dev_copy_streams: int | None = None,
        collective_ring_order: str | bytes | None = None,
        timestamped_allocator: bool | None = None,
        kernel_tracker_max_interval: int | None = None,
        kernel_tracker_max_bytes: int | None = None,
        kernel_tracker_max_pending: int | None = None,
        internal_fragmentation_fraction: float | None = None,
        use_cuda_malloc_async: bool | None = None,
        disallow_retry_on_allocation_failure: bool | None = None,
        gpu_host_mem_limit_in_mb: float | None = None,
        gpu_host_mem_disallow_growth: bool | None = None,
        num_virtual_devices_per_gpu: int | None = None,
        gpu_system_memory_size_in_mb: int | None = None,
        populate_pjrt_gpu_client_creation_info: bool | None = None,
        node_id: int | None = None,
        stream_merge_options: _StreamMergeOptions | dict[str, Any] | None = None,
    ) -> None: ...

class GPUOptions(Message):
    Experimental = GPUOptionsExperimental
    per_process_gpu_memory_fraction: float
    allow_growth: bool
    allocator_type: str
    deferred_deletion_bytes: int
    visible_device_list: str
    polling_active_delay_usecs: int
    polling_inactive_delay_msecs: int
    force_gpu_compatible: bool
    @property
    def experimental(self) -> GPUOptionsExperimental: ...
    def __init__(
        self,
        *,
        per_process_gpu_memory_fraction: float | None = None,
        allow_growth: bool | None = None,
        allocator_type: str | bytes | None = None,
        deferred_deletion_bytes: int | None = None,
        visible_device_list: str | bytes | None = None,
        polling_active_delay_usecs: int | None = None,
        polling_inactive_delay_msecs: int | None = None,
        force_gpu_compatible: bool | None = None,
        experimental: GPUOptionsExperimental | dict[str, Any] | None = None,
    ) -> None: ...

class OptimizerOptions(Message):
    do_common_subexpression_elimination: bool
    do_constant_folding: bool
    max_folded_constant_in_bytes: int
    do_function_inlining: bool
    opt_level: int
    global_jit_level: int
    cpu_global_jit: bool
    def __init__(
        self,
        *,
        do_common_subexpression_elimination: bool | None = None,
        do_constant_folding: bool | None = None,
        max_folded_constant_in_bytes: int | None = None,
        do_function_inlining: bool | None = None,
        opt_level: int | None = None,
        global_jit_level: int | None = None,
        cpu_global_jit: bool | None = None,
    ) -> None: ...

class GraphOptions(Message):
    enable_recv_scheduling: bool
    @property
    def optimizer_options(self) -> OptimizerOptions: ...
    build_cost_model: int
    build_cost_model_after: int
    infer_shapes: bool
    place_pruned_graph: bool
    enable_bfloat16_sendrecv: bool
    timeline_step: int
    def __init__(
        self,
        *,
        enable_recv_scheduling: bool | None = None,
        optimizer_options: OptimizerOptions | dict[str, Any] | None = None,
        build_cost_model: int | None = None,
        build_cost_model_after: int | None = None,
        infer_shapes: bool | None = None,
        place_pruned_graph: bool | None = None,
        enable_bfloat16_sendrecv: bool | None = None,
        timeline_step: int | None = None,
    ) -> None: ...

class ConfigProto(Message):
    @property
    def device_count(self) -> MutableMapping[str, int]: ...
    intra_op_parallelism_threads: int
    inter_op_parallelism_threads: int
    use_per_session_threads: bool
    placement_period: int
    @property
    def device_filters(self) -> MutableSequence[str]: ...
    @property
    def gpu_options(self) -> GPUOptions: ...
    @property
    def pluggable_device_options(self) -> GPUOptions: ...
    allow_soft_placement: bool
    log_device_placement: bool
    @property
    def graph_options(self) -> GraphOptions: ...
    operation_timeout_in_ms: int
    isolate_session_state: bool
    share_cluster_devices_in_session: bool
    def __init__(
        self,
        *,
        device_count: Mapping[str, int] | None = None,
        intra_op_parallelism_threads: int | None = None,
        inter_op_parallelism_threads: int | None = None,
        use_per_session_threads: bool | None = None,
        placement_period: int | None = None,
        device_filters: Iterable[str | bytes] | None = None,
        gpu_options: GPUOptions | dict[str, Any] | None = None,
        pluggable_device_options: GPUOptions | dict[str, Any] | None = None,
        allow_soft_placement: bool | None = None,
        log_device_placement: bool | None = None,
        graph_options: GraphOptions | dict[str, Any] | None = None,
        operation_timeout_in_ms: int | None = None,
        isolate_session_state: bool | None = None,
        share_cluster_devices_in_session: bool | None = None,
    ) -> None: ...
