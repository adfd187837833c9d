# SPDX-License-Identifier: Apache-2.0
"""The conversion of a ConfigProto to the core's options."""

from __future__ import annotations

from ..._core.message import dumps
from ..._typing import Any
from .._proto import ConfigProto


def options_of(config: ConfigProto | None, place_pruned: bool = False) -> str:
    """Return a ConfigProto as JSON for the core. For None, placement follows ``gpuconf.config``."""
    if config is None:
        return dumps({"place_pruned_graph": place_pruned})
    gpu = config.gpu_options
    more = gpu.experimental
    virtual: list[dict[str, Any]] = [
        {
            "memory_limit_mb": [repr(limit) for limit in each.memory_limit_mb],
            "priority": list(each.priority),
            "device_ordinal": list(each.device_ordinal),
        }
        for each in more.virtual_devices
    ]
    return dumps(
        {
            "device_count": dict(config.device_count),
            "visible_device_list": gpu.visible_device_list,
            "allow_growth": gpu.allow_growth,
            "allocator_type": gpu.allocator_type,
            "per_process_gpu_memory_fraction": repr(gpu.per_process_gpu_memory_fraction),
            "use_unified_memory": more.use_unified_memory,
            "gpu_system_memory_size_in_mb": more.gpu_system_memory_size_in_mb,
            "num_virtual_devices_per_gpu": more.num_virtual_devices_per_gpu,
            "virtual_devices": virtual,
            "allow_soft_placement": config.allow_soft_placement,
            "log_device_placement": config.log_device_placement,
            "place_pruned_graph": place_pruned or config.graph_options.place_pruned_graph,
            "intra_op_parallelism_threads": config.intra_op_parallelism_threads,
            "inter_op_parallelism_threads": config.inter_op_parallelism_threads,
        }
    )
