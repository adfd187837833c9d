# SPDX-License-Identifier: Apache-2.0
"""How many cards hold many recorded jobs, and which jobs share a card."""
