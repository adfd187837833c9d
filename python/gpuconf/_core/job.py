"""Work of the core that takes long, and that Ctrl-C ends at any time."""

from __future__ import annotations

from collections.abc import Callable

from .._typing import Any
from .handle import Handle
from .native import core

# One wait in Go. Python looks for signals between two.
_STEP_MS = 20


class Job(Handle):
    """A job of the core, which works on a thread of its own. Use it as a context manager: leaving the block ends the job."""

    def __init__(self, function: Callable[..., int], *args: Any) -> None:
        super().__init__(core.pybind_CloseJob)
        self.open(function, *args)

    def finish(self) -> dict[str, Any]:
        """Wait until it is done, and return its result. Raises what the job raises."""
        import json

        while not core.pybind_WaitJob(self.number, _STEP_MS):
            pass
        result: dict[str, Any] = json.loads(core.pybind_JobResult(self.number))
        return result

    def pages(self) -> list[str]:
        """The events that it has made, as CSV without a header, in pages of some thousand lines."""
        pages: list[str] = []
        while page := core.pybind_JobPage(self.number, len(pages)):
            pages.append(page)
        return pages

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ending():
            self.close()
