# SPDX-License-Identifier: Apache-2.0
"""The policies of plans, for Python."""
