# SPDX-License-Identifier: Apache-2.0
"""The layout of budget files, for Python."""
