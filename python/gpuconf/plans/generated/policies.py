# SPDX-License-Identifier: Apache-2.0
"""The policies of plans, from gocore/plan/plan/policy.go. Written by pybind/build/generate.py; DO NOT EDIT."""

from __future__ import annotations

POLICIES = (
    "pytorch",
    "pytorch-expandable",
    "pytorch-max-split",
    "pytorch-roundup",
    "tensorflow",
    "regions",
    "virtual",
)
NEED_VIRTUAL = (
    "pytorch-expandable",
    "virtual",
)
OF_GPUCONF = (
    "regions",
    "virtual",
)
