# SPDX-License-Identifier: Apache-2.0
"""The messages' fields for type checkers, from messages.proto by tests_py/oracle/message_stubs.py."""

from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Any, ClassVar, Generic, TypeVar

from ._fields import Enum
from ._message import Message

_M = TypeVar("_M", bound=Message)
_K = TypeVar("_K")

class _Messages(MutableSequence[_M], Generic[_M]):
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __delitem__(self, index: Any) -> None: ...
    def __len__(self) -> int: ...
    def insert(self, index: int, value: _M) -> None: ...
    def add(self, **fields: Any) -> _M: ...
    def sort(self, *, key: Any = None, reverse: bool = False) -> None: ...
    def MergeFrom(self, other: Iterable[_M]) -> None: ...

class _Scalars(MutableSequence[_K], Generic[_K]):
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __delitem__(self, index: Any) -> None: ...
    def __len__(self) -> int: ...
    def insert(self, index: int, value: _K) -> None: ...
    def sort(self, *, key: Any = None, reverse: bool = False) -> None: ...
    def MergeFrom(self, other: Iterable[_K]) -> None: ...

class _MessageMap(Mapping[_K, _M], Generic[_K, _M]):
    def __getitem__(self, key: _K) -> _M: ...
    def __delitem__(self, key: _K) -> None: ...
    def __iter__(self) -> Any: ...
    def __len__(self) -> int: ...
    def get_or_create(self, key: _K) -> _M: ...
    def MergeFrom(self, other: _MessageMap[_K, _M]) -> None: ...

DataType: Enum

class ConfigProto(Message):
    class Experimental(Message):
        MlirBridgeRollout: ClassVar[Enum]
        MLIR_BRIDGE_ROLLOUT_UNSPECIFIED: ClassVar[int]
        MLIR_BRIDGE_ROLLOUT_ENABLED: ClassVar[int]
        MLIR_BRIDGE_ROLLOUT_DISABLED: ClassVar[int]
        collective_group_leader: str
        executor_type: str
        recv_buf_max_chunk: int
        use_numa_affinity: bool
        collective_deterministic_sequential_execution: bool
        collective_nccl: bool
        share_session_state_in_clusterspec_propagation: bool
        disable_thread_spinning: bool
        share_cluster_devices_in_session: bool
        @property
        def session_metadata(self) -> _SessionMetadata: ...
        optimize_for_static_graph: bool
        enable_mlir_bridge: bool
        mlir_bridge_rollout: int
        enable_mlir_graph_optimization: bool
        disable_output_partition_graphs: bool
        xla_fusion_autotuner_thresh: int
        use_tfrt: bool
        enable_multi_host: bool
        tfrt_use_ifrt: bool
        backend_server_port: int
        target_tpu: bool
        target_gpu: bool
        stream_merge_threshold: int
        disable_functional_ops_lowering: bool
        xla_prefer_single_graph_cluster: bool
        @property
        def coordination_config(self) -> _CoordinationServiceConfig: ...
        disable_optimize_for_static_graph: bool
        disable_eager_executor_streaming_enqueue: bool
        finalize_function_library_runtime: bool
        finalize_resource_manager: bool
        tf2xla_dump_dir: str
        online_cost_analysis: bool
        def __init__(
            self,
            *,
            collective_group_leader: str | bytes | None = None,
            executor_type: str | bytes | None = None,
            recv_buf_max_chunk: int | None = None,
            use_numa_affinity: bool | None = None,
            collective_deterministic_sequential_execution: bool | None = None,
            collective_nccl: bool | None = None,
            share_session_state_in_clusterspec_propagation: bool | None = None,
            disable_thread_spinning: bool | None = None,
            share_cluster_devices_in_session: bool | None = None,
            session_metadata: _SessionMetadata | dict[str, Any] | None = None,
            optimize_for_static_graph: bool | None = None,
            enable_mlir_bridge: bool | None = None,
            mlir_bridge_rollout: int | str | None = None,
            enable_mlir_graph_optimization: bool | None = None,
            disable_output_partition_graphs: bool | None = None,
            xla_fusion_autotuner_thresh: int | None = None,
            use_tfrt: bool | None = None,
            enable_multi_host: bool | None = None,
            tfrt_use_ifrt: bool | None = None,
            backend_server_port: int | None = None,
            target_tpu: bool | None = None,
            target_gpu: bool | None = None,
            stream_merge_threshold: int | None = None,
            disable_functional_ops_lowering: bool | None = None,
            xla_prefer_single_graph_cluster: bool | None = None,
            coordination_config: _CoordinationServiceConfig | dict[str, Any] | None = None,
            disable_optimize_for_static_graph: bool | None = None,
            disable_eager_executor_streaming_enqueue: bool | None = None,
            finalize_function_library_runtime: bool | None = None,
            finalize_resource_manager: bool | None = None,
            tf2xla_dump_dir: str | bytes | None = None,
            online_cost_analysis: bool | None = None,
        ) -> None: ...

    @property
    def device_count(self) -> MutableMapping[str, int]: ...
    intra_op_parallelism_threads: int
    inter_op_parallelism_threads: int
    use_per_session_threads: bool
    @property
    def session_inter_op_thread_pool(self) -> _Messages[_ThreadPoolOptionProto]: ...
    placement_period: int
    @property
    def device_filters(self) -> _Scalars[str]: ...
    @property
    def gpu_options(self) -> _GPUOptions: ...
    @property
    def pluggable_device_options(self) -> _GPUOptions: ...
    allow_soft_placement: bool
    log_device_placement: bool
    @property
    def graph_options(self) -> _GraphOptions: ...
    operation_timeout_in_ms: int
    @property
    def rpc_options(self) -> _RPCOptions: ...
    @property
    def cluster_def(self) -> _ClusterDef: ...
    isolate_session_state: bool
    share_cluster_devices_in_session: bool
    @property
    def experimental(self) -> _ConfigProto.Experimental: ...
    def __init__(
        self,
        *,
        device_count: Mapping[str, int] | None = None,
        intra_op_parallelism_threads: int | None = None,
        inter_op_parallelism_threads: int | None = None,
        use_per_session_threads: bool | None = None,
        session_inter_op_thread_pool: Iterable[_ThreadPoolOptionProto | dict[str, Any]] | None = None,
        placement_period: int | None = None,
        device_filters: Iterable[str | bytes] | None = None,
        gpu_options: _GPUOptions | dict[str, Any] | None = None,
        pluggable_device_options: _GPUOptions | dict[str, Any] | None = None,
        allow_soft_placement: bool | None = None,
        log_device_placement: bool | None = None,
        graph_options: _GraphOptions | dict[str, Any] | None = None,
        operation_timeout_in_ms: int | None = None,
        rpc_options: _RPCOptions | dict[str, Any] | None = None,
        cluster_def: _ClusterDef | dict[str, Any] | None = None,
        isolate_session_state: bool | None = None,
        share_cluster_devices_in_session: bool | None = None,
        experimental: _ConfigProto.Experimental | dict[str, Any] | None = None,
    ) -> None: ...

class ThreadPoolOptionProto(Message):
    num_threads: int
    global_name: str
    def __init__(
        self,
        *,
        num_threads: int | None = None,
        global_name: str | bytes | None = None,
    ) -> None: ...

class GPUOptions(Message):
    class Experimental(Message):
        class VirtualDevices(Message):
            @property
            def memory_limit_mb(self) -> _Scalars[float]: ...
            @property
            def priority(self) -> _Scalars[int]: ...
            @property
            def device_ordinal(self) -> _Scalars[int]: ...
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

        @property
        def virtual_devices(self) -> _Messages[_GPUOptions.Experimental.VirtualDevices]: ...
        num_virtual_devices_per_gpu: int
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
        gpu_system_memory_size_in_mb: int
        populate_pjrt_gpu_client_creation_info: bool
        node_id: int
        @property
        def stream_merge_options(self) -> _GPUOptions.Experimental.StreamMergeOptions: ...
        def __init__(
            self,
            *,
            virtual_devices: Iterable[_GPUOptions.Experimental.VirtualDevices | dict[str, Any]] | None = None,
            num_virtual_devices_per_gpu: int | None = None,
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
            gpu_system_memory_size_in_mb: int | None = None,
            populate_pjrt_gpu_client_creation_info: bool | None = None,
            node_id: int | None = None,
            stream_merge_options: _GPUOptions.Experimental.StreamMergeOptions | dict[str, Any] | None = None,
        ) -> None: ...

    per_process_gpu_memory_fraction: float
    allow_growth: bool
    allocator_type: str
    deferred_deletion_bytes: int
    visible_device_list: str
    polling_active_delay_usecs: int
    polling_inactive_delay_msecs: int
    force_gpu_compatible: bool
    @property
    def experimental(self) -> _GPUOptions.Experimental: ...
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
        experimental: _GPUOptions.Experimental | dict[str, Any] | None = None,
    ) -> None: ...

class GraphOptions(Message):
    enable_recv_scheduling: bool
    @property
    def optimizer_options(self) -> _OptimizerOptions: ...
    build_cost_model: int
    build_cost_model_after: int
    infer_shapes: bool
    place_pruned_graph: bool
    enable_bfloat16_sendrecv: bool
    timeline_step: int
    @property
    def rewrite_options(self) -> _RewriterConfig: ...
    def __init__(
        self,
        *,
        enable_recv_scheduling: bool | None = None,
        optimizer_options: _OptimizerOptions | dict[str, Any] | None = None,
        build_cost_model: int | None = None,
        build_cost_model_after: int | None = None,
        infer_shapes: bool | None = None,
        place_pruned_graph: bool | None = None,
        enable_bfloat16_sendrecv: bool | None = None,
        timeline_step: int | None = None,
        rewrite_options: _RewriterConfig | dict[str, Any] | None = None,
    ) -> None: ...

class OptimizerOptions(Message):
    GlobalJitLevel: ClassVar[Enum]
    DEFAULT: ClassVar[int]
    OFF: ClassVar[int]
    ON_1: ClassVar[int]
    ON_2: ClassVar[int]
    Level: ClassVar[Enum]
    L1: ClassVar[int]
    L0: ClassVar[int]
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
        opt_level: int | str | None = None,
        global_jit_level: int | str | None = None,
        cpu_global_jit: bool | None = None,
    ) -> None: ...

class RewriterConfig(Message):
    class CustomGraphOptimizer(Message):
        name: str
        @property
        def parameter_map(self) -> _MessageMap[str, _AttrValue]: ...
        def __init__(
            self,
            *,
            name: str | bytes | None = None,
            parameter_map: Mapping[str, _AttrValue | dict[str, Any]] | None = None,
        ) -> None: ...

    CpuLayout: ClassVar[Enum]
    NO_CONVERSION_ON_CPU: ClassVar[int]
    NCHW_TO_NHWC: ClassVar[int]
    NHWC_TO_NCHW: ClassVar[int]
    MemOptType: ClassVar[Enum]
    DEFAULT_MEM_OPT: ClassVar[int]
    NO_MEM_OPT: ClassVar[int]
    MANUAL: ClassVar[int]
    SWAPPING_HEURISTICS: ClassVar[int]
    RECOMPUTATION_HEURISTICS: ClassVar[int]
    SCHEDULING_HEURISTICS: ClassVar[int]
    HEURISTICS: ClassVar[int]
    NumIterationsType: ClassVar[Enum]
    DEFAULT_NUM_ITERS: ClassVar[int]
    ONE: ClassVar[int]
    TWO: ClassVar[int]
    Toggle: ClassVar[Enum]
    DEFAULT: ClassVar[int]
    ON: ClassVar[int]
    OFF: ClassVar[int]
    AGGRESSIVE: ClassVar[int]
    EXPERIMENTAL_MLIR: ClassVar[int]
    EXPERIMENTAL_BOTH: ClassVar[int]
    cpu_layout_conversion: int
    layout_optimizer: int
    constant_folding: int
    shape_optimization: int
    remapping: int
    common_subgraph_elimination: int
    arithmetic_optimization: int
    dependency_optimization: int
    loop_optimization: int
    function_optimization: int
    debug_stripper: int
    disable_model_pruning: bool
    scoped_allocator_optimization: int
    pin_to_host_optimization: int
    implementation_selector: int
    auto_mixed_precision: int
    auto_mixed_precision_mkl: int
    auto_mixed_precision_onednn_bfloat16: int
    auto_mixed_precision_cpu: int
    disable_meta_optimizer: bool
    disable_tfg_optimizer: bool
    use_plugin_optimizers: int
    experimental_conditional_code_motion: int
    meta_optimizer_iterations: int
    min_graph_nodes: int
    experimental_disable_compressed_tensor_optimization: bool
    experimental_disable_folding_quantization_emulation: bool
    memory_optimization: int
    memory_optimizer_target_node_name_scope: str
    meta_optimizer_timeout_ms: int
    @property
    def auto_parallel(self) -> _AutoParallelOptions: ...
    fail_on_optimizer_errors: bool
    @property
    def scoped_allocator_opts(self) -> _ScopedAllocatorOptions: ...
    @property
    def optimizers(self) -> _Scalars[str]: ...
    @property
    def custom_optimizers(self) -> _Messages[_RewriterConfig.CustomGraphOptimizer]: ...
    @property
    def inter_optimizer_verifier_config(self) -> _VerifierConfig: ...
    @property
    def post_optimization_verifier_config(self) -> _VerifierConfig: ...
    def __init__(
        self,
        *,
        cpu_layout_conversion: int | str | None = None,
        layout_optimizer: int | str | None = None,
        constant_folding: int | str | None = None,
        shape_optimization: int | str | None = None,
        remapping: int | str | None = None,
        common_subgraph_elimination: int | str | None = None,
        arithmetic_optimization: int | str | None = None,
        dependency_optimization: int | str | None = None,
        loop_optimization: int | str | None = None,
        function_optimization: int | str | None = None,
        debug_stripper: int | str | None = None,
        disable_model_pruning: bool | None = None,
        scoped_allocator_optimization: int | str | None = None,
        pin_to_host_optimization: int | str | None = None,
        implementation_selector: int | str | None = None,
        auto_mixed_precision: int | str | None = None,
        auto_mixed_precision_mkl: int | str | None = None,
        auto_mixed_precision_onednn_bfloat16: int | str | None = None,
        auto_mixed_precision_cpu: int | str | None = None,
        disable_meta_optimizer: bool | None = None,
        disable_tfg_optimizer: bool | None = None,
        use_plugin_optimizers: int | str | None = None,
        experimental_conditional_code_motion: int | str | None = None,
        meta_optimizer_iterations: int | str | None = None,
        min_graph_nodes: int | None = None,
        experimental_disable_compressed_tensor_optimization: bool | None = None,
        experimental_disable_folding_quantization_emulation: bool | None = None,
        memory_optimization: int | str | None = None,
        memory_optimizer_target_node_name_scope: str | bytes | None = None,
        meta_optimizer_timeout_ms: int | None = None,
        auto_parallel: _AutoParallelOptions | dict[str, Any] | None = None,
        fail_on_optimizer_errors: bool | None = None,
        scoped_allocator_opts: _ScopedAllocatorOptions | dict[str, Any] | None = None,
        optimizers: Iterable[str | bytes] | None = None,
        custom_optimizers: Iterable[_RewriterConfig.CustomGraphOptimizer | dict[str, Any]] | None = None,
        inter_optimizer_verifier_config: _VerifierConfig | dict[str, Any] | None = None,
        post_optimization_verifier_config: _VerifierConfig | dict[str, Any] | None = None,
    ) -> None: ...

class AutoParallelOptions(Message):
    enable: bool
    num_replicas: int
    def __init__(
        self,
        *,
        enable: bool | None = None,
        num_replicas: int | None = None,
    ) -> None: ...

class ScopedAllocatorOptions(Message):
    @property
    def enable_op(self) -> _Scalars[str]: ...
    def __init__(
        self,
        *,
        enable_op: Iterable[str | bytes] | None = None,
    ) -> None: ...

class AttrValue(Message):
    class ListValue(Message):
        @property
        def s(self) -> _Scalars[bytes]: ...
        @property
        def i(self) -> _Scalars[int]: ...
        @property
        def f(self) -> _Scalars[float]: ...
        @property
        def b(self) -> _Scalars[bool]: ...
        @property
        def type(self) -> _Scalars[int]: ...
        @property
        def shape(self) -> _Messages[_TensorShapeProto]: ...
        @property
        def tensor(self) -> _Messages[_TensorProto]: ...
        @property
        def func(self) -> _Messages[_NameAttrList]: ...
        def __init__(
            self,
            *,
            s: Iterable[bytes] | None = None,
            i: Iterable[int] | None = None,
            f: Iterable[float] | None = None,
            b: Iterable[bool] | None = None,
            type: Iterable[int | str] | None = None,
            shape: Iterable[_TensorShapeProto | dict[str, Any]] | None = None,
            tensor: Iterable[_TensorProto | dict[str, Any]] | None = None,
            func: Iterable[_NameAttrList | dict[str, Any]] | None = None,
        ) -> None: ...

    s: bytes
    i: int
    f: float
    b: bool
    type: int
    @property
    def shape(self) -> _TensorShapeProto: ...
    @property
    def tensor(self) -> _TensorProto: ...
    @property
    def list(self) -> _AttrValue.ListValue: ...
    @property
    def func(self) -> _NameAttrList: ...
    placeholder: str
    def __init__(
        self,
        *,
        s: bytes | None = None,
        i: int | None = None,
        f: float | None = None,
        b: bool | None = None,
        type: int | str | None = None,
        shape: _TensorShapeProto | dict[str, Any] | None = None,
        tensor: _TensorProto | dict[str, Any] | None = None,
        list: _AttrValue.ListValue | dict[str, Any] | None = None,
        func: _NameAttrList | dict[str, Any] | None = None,
        placeholder: str | bytes | None = None,
    ) -> None: ...

class TensorShapeProto(Message):
    class Dim(Message):
        size: int
        name: str
        def __init__(
            self,
            *,
            size: int | None = None,
            name: str | bytes | None = None,
        ) -> None: ...

    @property
    def dim(self) -> _Messages[_TensorShapeProto.Dim]: ...
    unknown_rank: bool
    def __init__(
        self,
        *,
        dim: Iterable[_TensorShapeProto.Dim | dict[str, Any]] | None = None,
        unknown_rank: bool | None = None,
    ) -> None: ...

class TensorProto(Message):
    dtype: int
    @property
    def tensor_shape(self) -> _TensorShapeProto: ...
    version_number: int
    tensor_content: bytes
    @property
    def half_val(self) -> _Scalars[int]: ...
    @property
    def float_val(self) -> _Scalars[float]: ...
    @property
    def double_val(self) -> _Scalars[float]: ...
    @property
    def int_val(self) -> _Scalars[int]: ...
    @property
    def string_val(self) -> _Scalars[bytes]: ...
    @property
    def scomplex_val(self) -> _Scalars[float]: ...
    @property
    def int64_val(self) -> _Scalars[int]: ...
    @property
    def bool_val(self) -> _Scalars[bool]: ...
    @property
    def dcomplex_val(self) -> _Scalars[float]: ...
    @property
    def resource_handle_val(self) -> _Messages[_ResourceHandleProto]: ...
    @property
    def variant_val(self) -> _Messages[_VariantTensorDataProto]: ...
    @property
    def uint32_val(self) -> _Scalars[int]: ...
    @property
    def uint64_val(self) -> _Scalars[int]: ...
    float8_val: bytes
    def __init__(
        self,
        *,
        dtype: int | str | None = None,
        tensor_shape: _TensorShapeProto | dict[str, Any] | None = None,
        version_number: int | None = None,
        tensor_content: bytes | None = None,
        half_val: Iterable[int] | None = None,
        float_val: Iterable[float] | None = None,
        double_val: Iterable[float] | None = None,
        int_val: Iterable[int] | None = None,
        string_val: Iterable[bytes] | None = None,
        scomplex_val: Iterable[float] | None = None,
        int64_val: Iterable[int] | None = None,
        bool_val: Iterable[bool] | None = None,
        dcomplex_val: Iterable[float] | None = None,
        resource_handle_val: Iterable[_ResourceHandleProto | dict[str, Any]] | None = None,
        variant_val: Iterable[_VariantTensorDataProto | dict[str, Any]] | None = None,
        uint32_val: Iterable[int] | None = None,
        uint64_val: Iterable[int] | None = None,
        float8_val: bytes | None = None,
    ) -> None: ...

class ResourceHandleProto(Message):
    class DtypeAndShape(Message):
        dtype: int
        @property
        def shape(self) -> _TensorShapeProto: ...
        def __init__(
            self,
            *,
            dtype: int | str | None = None,
            shape: _TensorShapeProto | dict[str, Any] | None = None,
        ) -> None: ...

    device: str
    container: str
    name: str
    hash_code: int
    maybe_type_name: str
    @property
    def dtypes_and_shapes(self) -> _Messages[_ResourceHandleProto.DtypeAndShape]: ...
    def __init__(
        self,
        *,
        device: str | bytes | None = None,
        container: str | bytes | None = None,
        name: str | bytes | None = None,
        hash_code: int | None = None,
        maybe_type_name: str | bytes | None = None,
        dtypes_and_shapes: Iterable[_ResourceHandleProto.DtypeAndShape | dict[str, Any]] | None = None,
    ) -> None: ...

class VariantTensorDataProto(Message):
    type_name: str
    metadata: bytes
    @property
    def tensors(self) -> _Messages[_TensorProto]: ...
    def __init__(
        self,
        *,
        type_name: str | bytes | None = None,
        metadata: bytes | None = None,
        tensors: Iterable[_TensorProto | dict[str, Any]] | None = None,
    ) -> None: ...

class NameAttrList(Message):
    name: str
    @property
    def attr(self) -> _MessageMap[str, _AttrValue]: ...
    def __init__(
        self,
        *,
        name: str | bytes | None = None,
        attr: Mapping[str, _AttrValue | dict[str, Any]] | None = None,
    ) -> None: ...

class VerifierConfig(Message):
    Toggle: ClassVar[Enum]
    DEFAULT: ClassVar[int]
    ON: ClassVar[int]
    OFF: ClassVar[int]
    verification_timeout_in_ms: int
    structure_verifier: int
    def __init__(
        self,
        *,
        verification_timeout_in_ms: int | None = None,
        structure_verifier: int | str | None = None,
    ) -> None: ...

class RPCOptions(Message):
    use_rpc_for_inprocess_master: bool
    compression_algorithm: str
    compression_level: int
    cache_rpc_response: bool
    disable_session_connection_sharing: bool
    num_channels_per_target: int
    def __init__(
        self,
        *,
        use_rpc_for_inprocess_master: bool | None = None,
        compression_algorithm: str | bytes | None = None,
        compression_level: int | None = None,
        cache_rpc_response: bool | None = None,
        disable_session_connection_sharing: bool | None = None,
        num_channels_per_target: int | None = None,
    ) -> None: ...

class ClusterDef(Message):
    @property
    def job(self) -> _Messages[_JobDef]: ...
    def __init__(
        self,
        *,
        job: Iterable[_JobDef | dict[str, Any]] | None = None,
    ) -> None: ...

class JobDef(Message):
    name: str
    @property
    def tasks(self) -> MutableMapping[int, str]: ...
    def __init__(
        self,
        *,
        name: str | bytes | None = None,
        tasks: Mapping[int, str | bytes] | None = None,
    ) -> None: ...

class SessionMetadata(Message):
    name: str
    version: int
    def __init__(
        self,
        *,
        name: str | bytes | None = None,
        version: int | None = None,
    ) -> None: ...

class CoordinationServiceConfig(Message):
    service_type: str
    service_leader: str
    enable_health_check: bool
    cluster_register_timeout_in_ms: int
    cluster_register_with_barrier: bool
    heartbeat_timeout_in_ms: int
    @property
    def coordinated_job_list(self) -> _Messages[_CoordinatedJob]: ...
    shutdown_barrier_timeout_in_ms: int
    agent_destruction_without_shutdown: bool
    @property
    def recoverable_jobs(self) -> _Scalars[str]: ...
    allow_new_incarnation_to_reconnect: bool
    force_disable: bool
    poll_for_error_from_service_at_startup: bool
    def __init__(
        self,
        *,
        service_type: str | bytes | None = None,
        service_leader: str | bytes | None = None,
        enable_health_check: bool | None = None,
        cluster_register_timeout_in_ms: int | None = None,
        cluster_register_with_barrier: bool | None = None,
        heartbeat_timeout_in_ms: int | None = None,
        coordinated_job_list: Iterable[_CoordinatedJob | dict[str, Any]] | None = None,
        shutdown_barrier_timeout_in_ms: int | None = None,
        agent_destruction_without_shutdown: bool | None = None,
        recoverable_jobs: Iterable[str | bytes] | None = None,
        allow_new_incarnation_to_reconnect: bool | None = None,
        force_disable: bool | None = None,
        poll_for_error_from_service_at_startup: bool | None = None,
    ) -> None: ...

class CoordinatedJob(Message):
    name: str
    num_tasks: int
    def __init__(
        self,
        *,
        name: str | bytes | None = None,
        num_tasks: int | None = None,
    ) -> None: ...

class DeviceAttributes(Message):
    name: str
    device_type: str
    memory_limit: int
    @property
    def locality(self) -> _DeviceLocality: ...
    incarnation: int
    physical_device_desc: str
    xla_global_id: int
    def __init__(
        self,
        *,
        name: str | bytes | None = None,
        device_type: str | bytes | None = None,
        memory_limit: int | None = None,
        locality: _DeviceLocality | dict[str, Any] | None = None,
        incarnation: int | None = None,
        physical_device_desc: str | bytes | None = None,
        xla_global_id: int | None = None,
    ) -> None: ...

class DeviceLocality(Message):
    bus_id: int
    numa_node: int
    @property
    def links(self) -> _LocalLinks: ...
    def __init__(
        self,
        *,
        bus_id: int | None = None,
        numa_node: int | None = None,
        links: _LocalLinks | dict[str, Any] | None = None,
    ) -> None: ...

class LocalLinks(Message):
    @property
    def link(self) -> _Messages[_InterconnectLink]: ...
    def __init__(
        self,
        *,
        link: Iterable[_InterconnectLink | dict[str, Any]] | None = None,
    ) -> None: ...

class InterconnectLink(Message):
    device_id: int
    type: str
    strength: int
    def __init__(
        self,
        *,
        device_id: int | None = None,
        type: str | bytes | None = None,
        strength: int | None = None,
    ) -> None: ...

class RunOptions(Message):
    TraceLevel: ClassVar[Enum]
    NO_TRACE: ClassVar[int]
    SOFTWARE_TRACE: ClassVar[int]
    HARDWARE_TRACE: ClassVar[int]
    FULL_TRACE: ClassVar[int]
    trace_level: int
    timeout_in_ms: int
    inter_op_thread_pool: int
    output_partition_graphs: bool
    report_tensor_allocations_upon_oom: bool
    def __init__(
        self,
        *,
        trace_level: int | str | None = None,
        timeout_in_ms: int | None = None,
        inter_op_thread_pool: int | None = None,
        output_partition_graphs: bool | None = None,
        report_tensor_allocations_upon_oom: bool | None = None,
    ) -> None: ...

class RunMetadata(Message):
    @property
    def partition_graphs(self) -> _Messages[_GraphDef]: ...
    def __init__(
        self,
        *,
        partition_graphs: Iterable[_GraphDef | dict[str, Any]] | None = None,
    ) -> None: ...

class NodeDef(Message):
    name: str
    op: str
    @property
    def input(self) -> _Scalars[str]: ...
    device: str
    def __init__(
        self,
        *,
        name: str | bytes | None = None,
        op: str | bytes | None = None,
        input: Iterable[str | bytes] | None = None,
        device: str | bytes | None = None,
    ) -> None: ...

class VersionDef(Message):
    producer: int
    min_consumer: int
    @property
    def bad_consumers(self) -> _Scalars[int]: ...
    def __init__(
        self,
        *,
        producer: int | None = None,
        min_consumer: int | None = None,
        bad_consumers: Iterable[int] | None = None,
    ) -> None: ...

class GraphDef(Message):
    @property
    def node(self) -> _Messages[_NodeDef]: ...
    @property
    def versions(self) -> _VersionDef: ...
    def __init__(
        self,
        *,
        node: Iterable[_NodeDef | dict[str, Any]] | None = None,
        versions: _VersionDef | dict[str, Any] | None = None,
    ) -> None: ...

_ConfigProto = ConfigProto
_ThreadPoolOptionProto = ThreadPoolOptionProto
_GPUOptions = GPUOptions
_GraphOptions = GraphOptions
_OptimizerOptions = OptimizerOptions
_RewriterConfig = RewriterConfig
_AutoParallelOptions = AutoParallelOptions
_ScopedAllocatorOptions = ScopedAllocatorOptions
_AttrValue = AttrValue
_TensorShapeProto = TensorShapeProto
_TensorProto = TensorProto
_ResourceHandleProto = ResourceHandleProto
_VariantTensorDataProto = VariantTensorDataProto
_NameAttrList = NameAttrList
_VerifierConfig = VerifierConfig
_RPCOptions = RPCOptions
_ClusterDef = ClusterDef
_JobDef = JobDef
_SessionMetadata = SessionMetadata
_CoordinationServiceConfig = CoordinationServiceConfig
_CoordinatedJob = CoordinatedJob
_DeviceAttributes = DeviceAttributes
_DeviceLocality = DeviceLocality
_LocalLinks = LocalLinks
_InterconnectLink = InterconnectLink
_RunOptions = RunOptions
_RunMetadata = RunMetadata
_NodeDef = NodeDef
_VersionDef = VersionDef
_GraphDef = GraphDef
