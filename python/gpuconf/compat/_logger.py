# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's logger, for the warnings of the TensorFlow-shaped modules and for programs that use
``tf.get_logger``.
"""

from __future__ import annotations

import logging
import sys

from .._core.fork import module_lock

_lock = module_lock(globals(), "_lock")
_configured = False


def get_logger() -> logging.Logger:
    """Return TensorFlow's logger, which is named ``"tensorflow"``.

    As in TensorFlow, the first call adds a handler that writes to ``sys.stderr``, unless the root logger has handlers
    already. In an interactive interpreter it writes to ``sys.stdout``, from level INFO on.

    >>> get_logger().name
    'tensorflow'
    """
    global _configured
    with _lock:
        logger = logging.getLogger("tensorflow")
        if not _configured:
            if not logging.getLogger().handlers and not logger.handlers:
                interactive = hasattr(sys, "ps1") or sys.flags.interactive
                if interactive:
                    logger.setLevel(logging.INFO)
                handler = logging.StreamHandler(sys.stdout if interactive else sys.stderr)
                handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
                logger.addHandler(handler)
            _configured = True
        return logger
