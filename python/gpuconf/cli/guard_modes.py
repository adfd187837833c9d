# SPDX-License-Identifier: Apache-2.0
"""The values of ``--guard``."""

MODES = ("auto", "driver", "proxy", "preload", "off")
