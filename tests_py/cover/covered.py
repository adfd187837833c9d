# SPDX-License-Identifier: Apache-2.0
"""Run a program in a cover, as a rehearsal does:
``python covered.py MODE WORD ...``; exits with the program's status.
"""

import os
import select
import signal
import sys
from typing import NoReturn

from gpuconf.plans.programs.cover import Cover, Options


def interrupted(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main(mode: str, words: list[str]) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    cover = Cover(Options(only=mode))
    try:
        cover.start(words, os.environ, stdout=1, stderr=2)
        cover.go({})
        while (status := cover.poll()) is None:
            select.select([cover], [], [])
    finally:
        cover.close()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
