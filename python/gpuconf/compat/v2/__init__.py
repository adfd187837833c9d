"""``tf.compat.v2``: ``config`` is the module ``gpuconf.config``."""

from __future__ import annotations

import sys

from ... import config

__all__ = ["config"]

# Makes "import gpuconf.compat.v2.config" work.
sys.modules[__name__ + ".config"] = config


def __dir__() -> list[str]:
    return __all__
