# SPDX-License-Identifier: Apache-2.0
"""Which operations are computed if only those on small tensors are."""

only = False
