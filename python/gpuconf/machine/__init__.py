# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this process: simulation, reset and visible devices. ``gpuconf`` exports the public names."""
