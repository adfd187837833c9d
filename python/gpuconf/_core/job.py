# SPDX-License-Identifier: Apache-2.0
"""Long-running work of the core that Ctrl-C can interrupt at any time."""

from __future__ import annotations

from collections.abc import Callable

from .._typing import Any
from .handle import Handle
from .message import loads
from .native import core

# The length of one wait in Go. Python handles signals between two waits.
_STEP_MS = 20


class Job(Handle):
    """A job of the core, which runs on its own thread. Use it as a context manager: leaving the block ends the job."""

    def __init__(self, function: Callable[..., int], *args: Any) -> None:
        super().__init__(core.pybind_CloseJob)
        self.open(function, *args)

    def feed(self, *texts: str) -> None:
        """Pass a job its input, before it starts."""
        for text in texts:
            core.pybind_FeedJob(self.number, text)

    def finish(self, progress: Callable[[float], None] | None = None) -> dict[str, Any]:
        """Wait for the job and return its result. Raises what the job raises.

        ``progress`` is called all the time with how much is done, from 0 to 1.
        """
        while not core.pybind_WaitJob(self.number, _STEP_MS):
            if progress is not None:
                progress(core.pybind_JobProgress(self.number) / 1000)
        result: dict[str, Any] = loads(core.pybind_JobResult(self.number))
        return result

    def pages(self) -> list[str]:
        """Return the events that the job produced, as CSV without a header, in pages of a few thousand lines."""
        pages: list[str] = []
        while page := core.pybind_JobPage(self.number, len(pages)):
            pages.append(page)
        return pages

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ending():
            self.close()
