# SPDX-License-Identifier: Apache-2.0
"""Recordings: whether a recorded job fits, and what its memory was."""
