# SPDX-License-Identifier: Apache-2.0
"""Programs of ``gpuconf run``: their budget, what keeps their limits, their startup and their end."""
