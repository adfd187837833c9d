"""The values of ``--guard``."""

MODES = ("auto", "driver", "proxy", "preload", "off")
