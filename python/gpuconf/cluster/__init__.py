# SPDX-License-Identifier: Apache-2.0
"""The parts that :mod:`gpuconf.dask` and :mod:`gpuconf.ray` share: cards, the share of one process, and the memory of
all processes.
"""
