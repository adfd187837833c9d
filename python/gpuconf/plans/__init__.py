# SPDX-License-Identifier: Apache-2.0
"""Plan whether a recorded job fits on a GPU, and plot the result. ``gpuconf.plan`` is the public name."""
