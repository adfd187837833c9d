"""The values of ``--guard``."""

MODES = ("auto", "proxy", "preload", "off")
