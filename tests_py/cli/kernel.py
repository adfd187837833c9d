"""A new Jupyter kernel, and what a notebook would show of the cells that it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from jupyter_client.manager import KernelManager
from script import environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Cell(NamedTuple):
    """What a cell showed."""

    status: str  # "ok", "error"
    stdout: str
    stderr: str
    shown: list[dict[str, str]]  # by MIME type, of each display and result
    error: str  # the name of the exception

    @property
    def text(self) -> str:
        """The text of all displays and results."""
        return "\n".join(formats["text/plain"] for formats in self.shown)

    @property
    def html(self) -> str:
        """The HTML of all displays and results."""
        return "\n".join(formats.get("text/html", "") for formats in self.shown)


class Kernel:
    """A kernel of this interpreter. As a context manager it shuts the kernel down."""

    def __init__(self, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self._manager = KernelManager(kernel_name="python3")
        folders = {"IPYTHONDIR": str(cwd / ".ipython"), "PYTHONPATH": str(cwd)}
        self._manager.start_kernel(cwd=str(cwd), env=environment({**folders, **(env or {})}))
        self._client: Any = None
        self._connect()

    def _connect(self) -> None:
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def completions(self, code: str) -> list[str]:
        """What the Tab key offers at the end of a line."""
        reply = self._client.complete(code, len(code), reply=True, timeout=30)
        return sorted(reply["content"]["matches"])

    def run(self, code: str, interrupt_at: str = "", timeout: float = 30) -> Cell:
        """Run a cell. With ``interrupt_at``, interrupt the kernel as soon as the cell has printed that."""
        streams = {"stdout": "", "stderr": ""}
        shown: list[dict[str, str]] = []

        def see(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                streams[content["name"]] += content["text"]
                if interrupt_at and interrupt_at in content["text"]:
                    time.sleep(0.2)
                    self._manager.interrupt_kernel()
            elif message["msg_type"] in ("display_data", "execute_result"):
                shown.append(content["data"])

        reply = self._client.execute_interactive(code, timeout=timeout, output_hook=see, allow_stdin=False)["content"]
        return Cell(reply["status"], streams["stdout"], streams["stderr"], shown, reply.get("ename", ""))

    def restart(self) -> None:
        """Restart, as a notebook's menu does."""
        self._client.stop_channels()
        self._manager.restart_kernel(now=True)
        self._connect()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return bool(self._manager.is_alive())
