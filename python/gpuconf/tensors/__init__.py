# SPDX-License-Identifier: Apache-2.0
"""Eager tensors, the operations on them, and the placement log. ``gpuconf`` has the public names."""
