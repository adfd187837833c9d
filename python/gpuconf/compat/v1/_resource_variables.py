# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.enable_resource_variables``, which has no effect: gpuconf has one kind of variable."""

from __future__ import annotations


def enable_resource_variables() -> None:
    """Has no effect."""


def disable_resource_variables() -> None:
    """Has no effect."""
