"""A Python program that a test runs beside it, and asks what an expression is."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import IO, Any

ANSWERS = """
for line in iter(sys.stdin.readline, ""):
    print(json.dumps(eval(line)), flush=True)
"""


class AskedProgram:
    """Code that imports json and sys, and then answers each line of its input, an expression, with a line of JSON.

    It ends with the block.
    """

    def __init__(self, code: str, *words: str, **options: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code + ANSWERS, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        self.pid = self.process.pid
        self.stdin: IO[str] = self.process.stdin  # type: ignore[assignment]
        self.stdout: IO[str] = self.process.stdout  # type: ignore[assignment]

    def __enter__(self) -> AskedProgram:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def say(self, expression: str) -> None:
        self.stdin.write(expression + "\n")
        self.stdin.flush()

    def hear(self) -> Any:
        return json.loads(self.stdout.readline())

    def ask(self, expression: str) -> Any:
        self.say(expression)
        return self.hear()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
