# SPDX-License-Identifier: Apache-2.0
"""Switches of ``tf.compat.v1`` that have no effect: gpuconf has one kind of variables and of shapes, and no loops."""

from __future__ import annotations


def disable_control_flow_v2() -> None:
    """Has no effect."""


def disable_resource_variables() -> None:
    """Has no effect."""


def disable_v2_tensorshape() -> None:
    """Has no effect."""


def enable_control_flow_v2() -> None:
    """Has no effect."""


def enable_resource_variables() -> None:
    """Has no effect."""


def enable_v2_tensorshape() -> None:
    """Has no effect."""
