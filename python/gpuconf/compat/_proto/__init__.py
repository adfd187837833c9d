# SPDX-License-Identifier: Apache-2.0
"""Messages with the interface of Protocol Buffers, and the table of their fields."""
