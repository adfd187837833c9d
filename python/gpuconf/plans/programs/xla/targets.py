# SPDX-License-Identifier: Apache-2.0
"""The description of a card that XLA compiles for: the text of a GpuTargetConfigProto.

The numbers are those of gocore/machine/models, and the limits of grids and blocks those of NVIDIA's programming guide.
"""

from __future__ import annotations

from ..target_cards import Card

# XLA publishes descriptions of these models (xla/backends/gpu/target_config/specs). A test compares the table with four
# of them.
DESCRIBED = ("A100-40GB", "A100-80GB", "B200-180GB", "GB200-186GB", "H100-80GB", "H200-141GB", "P100-16GB", "V100-16GB")
_CUDA = "13.0.0"
_CUDNN = (9, 10, 0)
_FIRST = {12: (5, 0), 13: (7, 5)}  # the first compute capability for which a CUDA version compiles
_KINDS = (
    (9, 0),
    (10, 0),
    (10, 3),
    (11, 0),
    (12, 0),
    (12, 1),
)  # whose code may use instructions that later cards lack, such as sm_90a


def is_described(card: Card) -> bool:
    """Whether XLA publishes a description of the card."""
    return card.name in DESCRIBED


def why_not(card: Card, cuda: int) -> str:
    """Return why a version of CUDA does not compile for a card; "" if it does."""
    first = _FIRST.get(cuda, (0, 0))
    if card.capability >= first:
        return ""
    return f"CUDA {cuda}, for which this JAX is built, needs compute capability {first[0]}.{first[1]}"


def description(card: Card) -> str:
    """Return the description of a card."""
    has, usable = card.hardware, card.usable()
    bandwidth = 2 * has["memory_mhz"] * 1_000_000 * has["bus_bits"] // 8
    major, minor = card.capability
    suffix, extension = ("a", "ACCELERATED_FEATURES") if card.capability in _KINDS else ("", "NONE")
    cudnn = ".".join(map(str, _CUDNN))
    return f"""\
gpu_device_info {{
  name: "{card.product}"
  device_vendor: "NVIDIA Corporation"
  platform_version: "Compute Capability {major}.{minor}{suffix}"
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {extension} }}
  core_count: {has["multiprocessors"]}
  fpus_per_core: {has["lanes"]}
  clock_rate_ghz: {has["clock_mhz"] / 1000}
  device_memory_size: {(usable.low + usable.high) // 2}
  memory_bandwidth: {bandwidth or 100_000_000_000}
  l2_cache_size: {has["l2"]}
  shared_memory_per_core: {has["shared"]}
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: {has["shared_block"]}
  registers_per_core_limit: {has["registers"]}
  registers_per_block_limit: 65536
  threads_per_core_limit: {has["threads"]}
  threads_per_block_limit: 1024
  threads_per_warp: 32
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  device_address_bits: 64
  driver_version: "{_CUDA}"
  runtime_version: "{_CUDA}"
  compile_time_toolkit_version: "{_CUDA}"
  dnn_version: "{cudnn}"
}}
platform_name: "CUDA"
dnn_version_info {{ major: {_CUDNN[0]} minor: {_CUDNN[1]} patch: {_CUDNN[2]} }}
device_description_str: "{card.product}"
"""
