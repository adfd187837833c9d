"""``tf.compat.v2``: ``config`` is the very module ``gpuconf.config``, under this name too."""

from __future__ import annotations

import sys

from ... import config

__all__ = ["config"]

# So that "import gpuconf.compat.v2.config" finds it as well.
sys.modules[__name__ + ".config"] = config


def __dir__() -> list[str]:
    return __all__
