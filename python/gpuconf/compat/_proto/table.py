# SPDX-License-Identifier: Apache-2.0
"""The fields of the messages: those of ``ConfigProto`` in TensorFlow 2.21, of every message that it contains, and of
others.

A field is ``[oneof NAME:] TYPE NAME = NUMBER``. ``make oracle`` compares this table with the descriptors in
TensorFlow's wheel.
"""

from __future__ import annotations

MESSAGES = {
    "ConfigProto": """
        map<string, int32> device_count = 1
        int32 intra_op_parallelism_threads = 2
        int32 inter_op_parallelism_threads = 5
        bool use_per_session_threads = 9
        repeated ThreadPoolOptionProto session_inter_op_thread_pool = 12
        int32 placement_period = 3
        repeated string device_filters = 4
        GPUOptions gpu_options = 6
        GPUOptions pluggable_device_options = 18
        bool allow_soft_placement = 7
        bool log_device_placement = 8
        GraphOptions graph_options = 10
        int64 operation_timeout_in_ms = 11
        RPCOptions rpc_options = 13
        ClusterDef cluster_def = 14
        bool isolate_session_state = 15
        bool share_cluster_devices_in_session = 17
        ConfigProto.Experimental experimental = 16
    """,
    "ThreadPoolOptionProto": """
        int32 num_threads = 1
        string global_name = 2
    """,
    "GPUOptions": """
        double per_process_gpu_memory_fraction = 1
        bool allow_growth = 4
        string allocator_type = 2
        int64 deferred_deletion_bytes = 3
        string visible_device_list = 5
        int32 polling_active_delay_usecs = 6
        int32 polling_inactive_delay_msecs = 7
        bool force_gpu_compatible = 8
        GPUOptions.Experimental experimental = 9
    """,
    "GPUOptions.Experimental": """
        repeated GPUOptions.Experimental.VirtualDevices virtual_devices = 1
        int32 num_virtual_devices_per_gpu = 15
        bool use_unified_memory = 2
        int32 num_dev_to_dev_copy_streams = 3
        string collective_ring_order = 4
        bool timestamped_allocator = 5
        int32 kernel_tracker_max_interval = 7
        int32 kernel_tracker_max_bytes = 8
        int32 kernel_tracker_max_pending = 9
        double internal_fragmentation_fraction = 10
        bool use_cuda_malloc_async = 11
        bool disallow_retry_on_allocation_failure = 12
        float gpu_host_mem_limit_in_mb = 13
        bool gpu_host_mem_disallow_growth = 14
        int32 gpu_system_memory_size_in_mb = 16
        bool populate_pjrt_gpu_client_creation_info = 17
        int32 node_id = 18
        GPUOptions.Experimental.StreamMergeOptions stream_merge_options = 19
    """,
    "GPUOptions.Experimental.VirtualDevices": """
        repeated float memory_limit_mb = 1
        repeated int32 priority = 2
        repeated int32 device_ordinal = 3
    """,
    "GPUOptions.Experimental.StreamMergeOptions": """
        bool merge_host_to_device_stream = 1
        bool merge_device_to_host_stream = 2
        bool merge_device_to_device_stream = 3
    """,
    "GraphOptions": """
        bool enable_recv_scheduling = 2
        OptimizerOptions optimizer_options = 3
        int64 build_cost_model = 4
        int64 build_cost_model_after = 9
        bool infer_shapes = 5
        bool place_pruned_graph = 6
        bool enable_bfloat16_sendrecv = 7
        int32 timeline_step = 8
        RewriterConfig rewrite_options = 10
    """,
    "OptimizerOptions": """
        bool do_common_subexpression_elimination = 1
        bool do_constant_folding = 2
        int64 max_folded_constant_in_bytes = 6
        bool do_function_inlining = 4
        OptimizerOptions.Level opt_level = 3
        OptimizerOptions.GlobalJitLevel global_jit_level = 5
        bool cpu_global_jit = 7
    """,
    "RewriterConfig": """
        RewriterConfig.CpuLayout cpu_layout_conversion = 50
        RewriterConfig.Toggle layout_optimizer = 1
        RewriterConfig.Toggle constant_folding = 3
        RewriterConfig.Toggle shape_optimization = 13
        RewriterConfig.Toggle remapping = 14
        RewriterConfig.Toggle common_subgraph_elimination = 24
        RewriterConfig.Toggle arithmetic_optimization = 7
        RewriterConfig.Toggle dependency_optimization = 8
        RewriterConfig.Toggle loop_optimization = 9
        RewriterConfig.Toggle function_optimization = 10
        RewriterConfig.Toggle debug_stripper = 11
        bool disable_model_pruning = 2
        RewriterConfig.Toggle scoped_allocator_optimization = 15
        RewriterConfig.Toggle pin_to_host_optimization = 18
        RewriterConfig.Toggle implementation_selector = 22
        RewriterConfig.Toggle auto_mixed_precision = 23
        RewriterConfig.Toggle auto_mixed_precision_mkl = 25
        RewriterConfig.Toggle auto_mixed_precision_onednn_bfloat16 = 31
        RewriterConfig.Toggle auto_mixed_precision_cpu = 29
        bool disable_meta_optimizer = 19
        bool disable_tfg_optimizer = 32
        RewriterConfig.Toggle use_plugin_optimizers = 28
        RewriterConfig.Toggle experimental_conditional_code_motion = 30
        RewriterConfig.NumIterationsType meta_optimizer_iterations = 12
        int32 min_graph_nodes = 17
        bool experimental_disable_compressed_tensor_optimization = 26
        bool experimental_disable_folding_quantization_emulation = 27
        RewriterConfig.MemOptType memory_optimization = 4
        string memory_optimizer_target_node_name_scope = 6
        int64 meta_optimizer_timeout_ms = 20
        AutoParallelOptions auto_parallel = 5
        bool fail_on_optimizer_errors = 21
        ScopedAllocatorOptions scoped_allocator_opts = 16
        repeated string optimizers = 100
        repeated RewriterConfig.CustomGraphOptimizer custom_optimizers = 200
        VerifierConfig inter_optimizer_verifier_config = 300
        VerifierConfig post_optimization_verifier_config = 301
    """,
    "AutoParallelOptions": """
        bool enable = 1
        int32 num_replicas = 2
    """,
    "ScopedAllocatorOptions": """
        repeated string enable_op = 1
    """,
    "RewriterConfig.CustomGraphOptimizer": """
        string name = 1
        map<string, AttrValue> parameter_map = 2
    """,
    "AttrValue": """
        oneof value: bytes s = 2
        oneof value: int64 i = 3
        oneof value: float f = 4
        oneof value: bool b = 5
        oneof value: DataType type = 6
        oneof value: TensorShapeProto shape = 7
        oneof value: TensorProto tensor = 8
        oneof value: AttrValue.ListValue list = 1
        oneof value: NameAttrList func = 10
        oneof value: string placeholder = 9
    """,
    "TensorShapeProto": """
        repeated TensorShapeProto.Dim dim = 2
        bool unknown_rank = 3
    """,
    "TensorShapeProto.Dim": """
        int64 size = 1
        string name = 2
    """,
    "TensorProto": """
        DataType dtype = 1
        TensorShapeProto tensor_shape = 2
        int32 version_number = 3
        bytes tensor_content = 4
        repeated int32 half_val = 13
        repeated float float_val = 5
        repeated double double_val = 6
        repeated int32 int_val = 7
        repeated bytes string_val = 8
        repeated float scomplex_val = 9
        repeated int64 int64_val = 10
        repeated bool bool_val = 11
        repeated double dcomplex_val = 12
        repeated ResourceHandleProto resource_handle_val = 14
        repeated VariantTensorDataProto variant_val = 15
        repeated uint32 uint32_val = 16
        repeated uint64 uint64_val = 17
        bytes float8_val = 18
    """,
    "ResourceHandleProto": """
        string device = 1
        string container = 2
        string name = 3
        uint64 hash_code = 4
        string maybe_type_name = 5
        repeated ResourceHandleProto.DtypeAndShape dtypes_and_shapes = 6
    """,
    "ResourceHandleProto.DtypeAndShape": """
        DataType dtype = 1
        TensorShapeProto shape = 2
    """,
    "VariantTensorDataProto": """
        string type_name = 1
        bytes metadata = 2
        repeated TensorProto tensors = 3
    """,
    "AttrValue.ListValue": """
        repeated bytes s = 2
        repeated int64 i = 3
        repeated float f = 4
        repeated bool b = 5
        repeated DataType type = 6
        repeated TensorShapeProto shape = 7
        repeated TensorProto tensor = 8
        repeated NameAttrList func = 9
    """,
    "NameAttrList": """
        string name = 1
        map<string, AttrValue> attr = 2
    """,
    "VerifierConfig": """
        int64 verification_timeout_in_ms = 1
        VerifierConfig.Toggle structure_verifier = 2
    """,
    "RPCOptions": """
        bool use_rpc_for_inprocess_master = 1
        string compression_algorithm = 2
        int32 compression_level = 3
        bool cache_rpc_response = 4
        bool disable_session_connection_sharing = 5
        int32 num_channels_per_target = 6
    """,
    "ClusterDef": """
        repeated JobDef job = 1
    """,
    "JobDef": """
        string name = 1
        map<int32, string> tasks = 2
    """,
    "ConfigProto.Experimental": """
        string collective_group_leader = 1
        string executor_type = 3
        int32 recv_buf_max_chunk = 4
        bool use_numa_affinity = 5
        bool collective_deterministic_sequential_execution = 6
        bool collective_nccl = 7
        bool share_session_state_in_clusterspec_propagation = 8
        bool disable_thread_spinning = 9
        bool share_cluster_devices_in_session = 10
        SessionMetadata session_metadata = 11
        bool optimize_for_static_graph = 12
        bool enable_mlir_bridge = 13
        ConfigProto.Experimental.MlirBridgeRollout mlir_bridge_rollout = 17
        bool enable_mlir_graph_optimization = 16
        bool disable_output_partition_graphs = 14
        int64 xla_fusion_autotuner_thresh = 15
        bool use_tfrt = 18
        bool enable_multi_host = 27
        bool tfrt_use_ifrt = 32
        int32 backend_server_port = 28
        bool target_tpu = 29
        bool target_gpu = 30
        int32 stream_merge_threshold = 31
        bool disable_functional_ops_lowering = 21
        bool xla_prefer_single_graph_cluster = 22
        CoordinationServiceConfig coordination_config = 23
        bool disable_optimize_for_static_graph = 24
        bool disable_eager_executor_streaming_enqueue = 26
        bool finalize_function_library_runtime = 33
        bool finalize_resource_manager = 34
        string tf2xla_dump_dir = 35
        bool online_cost_analysis = 36
    """,
    "SessionMetadata": """
        string name = 1
        int64 version = 2
    """,
    "CoordinationServiceConfig": """
        string service_type = 1
        string service_leader = 2
        bool enable_health_check = 3
        int64 cluster_register_timeout_in_ms = 4
        bool cluster_register_with_barrier = 14
        int64 heartbeat_timeout_in_ms = 5
        repeated CoordinatedJob coordinated_job_list = 10
        int64 shutdown_barrier_timeout_in_ms = 7
        bool agent_destruction_without_shutdown = 8
        repeated string recoverable_jobs = 9
        bool allow_new_incarnation_to_reconnect = 11
        bool force_disable = 12
        bool poll_for_error_from_service_at_startup = 13
    """,
    "CoordinatedJob": """
        string name = 1
        int32 num_tasks = 2
    """,
}

ENUMS = {
    "ConfigProto.Experimental.MlirBridgeRollout": """
        MLIR_BRIDGE_ROLLOUT_UNSPECIFIED = 0
        MLIR_BRIDGE_ROLLOUT_ENABLED = 1
        MLIR_BRIDGE_ROLLOUT_DISABLED = 2
    """,
    "DataType": """
        DT_INVALID = 0
        DT_FLOAT = 1
        DT_DOUBLE = 2
        DT_INT32 = 3
        DT_UINT8 = 4
        DT_INT16 = 5
        DT_INT8 = 6
        DT_STRING = 7
        DT_COMPLEX64 = 8
        DT_INT64 = 9
        DT_BOOL = 10
        DT_QINT8 = 11
        DT_QUINT8 = 12
        DT_QINT32 = 13
        DT_BFLOAT16 = 14
        DT_QINT16 = 15
        DT_QUINT16 = 16
        DT_UINT16 = 17
        DT_COMPLEX128 = 18
        DT_HALF = 19
        DT_RESOURCE = 20
        DT_VARIANT = 21
        DT_UINT32 = 22
        DT_UINT64 = 23
        DT_FLOAT8_E5M2 = 24
        DT_FLOAT8_E4M3FN = 25
        DT_FLOAT8_E4M3FNUZ = 26
        DT_FLOAT8_E4M3B11FNUZ = 27
        DT_FLOAT8_E5M2FNUZ = 28
        DT_INT4 = 29
        DT_UINT4 = 30
        DT_INT2 = 31
        DT_UINT2 = 32
        DT_FLOAT4_E2M1FN = 33
        DT_FLOAT_REF = 101
        DT_DOUBLE_REF = 102
        DT_INT32_REF = 103
        DT_UINT8_REF = 104
        DT_INT16_REF = 105
        DT_INT8_REF = 106
        DT_STRING_REF = 107
        DT_COMPLEX64_REF = 108
        DT_INT64_REF = 109
        DT_BOOL_REF = 110
        DT_QINT8_REF = 111
        DT_QUINT8_REF = 112
        DT_QINT32_REF = 113
        DT_BFLOAT16_REF = 114
        DT_QINT16_REF = 115
        DT_QUINT16_REF = 116
        DT_UINT16_REF = 117
        DT_COMPLEX128_REF = 118
        DT_HALF_REF = 119
        DT_RESOURCE_REF = 120
        DT_VARIANT_REF = 121
        DT_UINT32_REF = 122
        DT_UINT64_REF = 123
        DT_FLOAT8_E5M2_REF = 124
        DT_FLOAT8_E4M3FN_REF = 125
        DT_FLOAT8_E4M3FNUZ_REF = 126
        DT_FLOAT8_E4M3B11FNUZ_REF = 127
        DT_FLOAT8_E5M2FNUZ_REF = 128
        DT_INT4_REF = 129
        DT_UINT4_REF = 130
        DT_INT2_REF = 131
        DT_UINT2_REF = 132
        DT_FLOAT4_E2M1FN_REF = 133
    """,
    "OptimizerOptions.GlobalJitLevel": """
        DEFAULT = 0
        OFF = -1
        ON_1 = 1
        ON_2 = 2
    """,
    "OptimizerOptions.Level": """
        L1 = 0
        L0 = -1
    """,
    "RewriterConfig.CpuLayout": """
        NO_CONVERSION_ON_CPU = 0
        NCHW_TO_NHWC = 1
        NHWC_TO_NCHW = 2
    """,
    "RewriterConfig.MemOptType": """
        DEFAULT_MEM_OPT = 0
        NO_MEM_OPT = 1
        MANUAL = 2
        SWAPPING_HEURISTICS = 4
        RECOMPUTATION_HEURISTICS = 5
        SCHEDULING_HEURISTICS = 6
        HEURISTICS = 3
    """,
    "RewriterConfig.NumIterationsType": """
        DEFAULT_NUM_ITERS = 0
        ONE = 1
        TWO = 2
    """,
    "RewriterConfig.Toggle": """
        DEFAULT = 0
        ON = 1
        OFF = 2
        AGGRESSIVE = 3
        EXPERIMENTAL_MLIR = 4
        EXPERIMENTAL_BOTH = 5
    """,
    "VerifierConfig.Toggle": """
        DEFAULT = 0
        ON = 1
        OFF = 2
    """,
}

DEVICE_ATTRIBUTES = {
    "DeviceAttributes": """
        string name = 1
        string device_type = 2
        int64 memory_limit = 4
        DeviceLocality locality = 5
        fixed64 incarnation = 6
        string physical_device_desc = 7
        int64 xla_global_id = 8
    """,
    "DeviceLocality": """
        int32 bus_id = 1
        int32 numa_node = 2
        LocalLinks links = 3
    """,
    "LocalLinks": """
        repeated InterconnectLink link = 1
    """,
    "InterconnectLink": """
        int32 device_id = 1
        string type = 2
        int32 strength = 3
    """,
}

# Without the attributes, functions and libraries.
GRAPH_DEF = {
    "NodeDef": """
        string name = 1
        string op = 2
        repeated string input = 3
        string device = 4
    """,
    "VersionDef": """
        int32 producer = 1
        int32 min_consumer = 2
        repeated int32 bad_consumers = 3
    """,
    "GraphDef": """
        repeated NodeDef node = 1
        VersionDef versions = 4
    """,
}
