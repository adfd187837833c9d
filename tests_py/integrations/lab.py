"""A JupyterLab server, and a browser that shows notebooks in it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import chromium
import nbformat
from selenium.webdriver.support.wait import WebDriverWait

_READY = """
const panel = window.jupyterapp.shell.currentWidget
await panel.context.ready
await panel.sessionContext.ready
"""

SETTINGS: dict[str, dict[str, Any]] = {
    "@jupyterlab/apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    # So that a picture shows all cells, and no dialog.
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none", "autoStartDefaultKernel": True},
}


class Lab:
    """A JupyterLab of this environment in a folder. As a context manager it ends the server and its kernels."""

    def __init__(self, folder: Path, theme: str, **environment: str) -> None:
        self.folder = folder
        home = folder / ".home"
        for name, settings in {**SETTINGS, "@jupyterlab/apputils-extension/themes": {"theme": theme}}.items():
            path = home / "settings" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(settings))
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GPUCONF_", "JUPYTER", "CUDA_", "TF_"))
        }
        places = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"]
        command += ["--IdentityProvider.token=", "--expose-app-in-browser", f"--ServerApp.root_dir={folder}"]
        own = {"JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "IPYTHONDIR": str(home / "ipython")}
        with (home / "log").open("w") as log:
            self._server = subprocess.Popen(
                command, env={**kept, **places, **own, **environment}, cwd=folder, stdout=subprocess.DEVNULL, stderr=log
            )
        self.url = self._wait_for(home / "runtime")

    def _wait_for(self, runtime: Path) -> str:
        end = time.monotonic() + 60
        while time.monotonic() < end and self._server.poll() is None:
            time.sleep(0.1)
            for path in runtime.glob("jpserver-*.json"):
                with suppress(OSError, ValueError):  # the file is not complete, or the server does not listen yet
                    url = str(json.loads(path.read_text())["url"])
                    urllib.request.urlopen(f"{url}api/status", timeout=30).close()
                    return url
        self._server.kill()
        raise RuntimeError(f"JupyterLab did not start: {(runtime.parent / 'log').read_text()[-2000:]}")

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.terminate()
        self._server.wait(30)

    def write(self, name: str, cells: Iterable[str]) -> None:
        """Write a notebook of code cells."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
        }
        nbformat.write(notebook, self.folder / name)


class Browser:
    """A headless Chromium. As a context manager it ends."""

    def __init__(self, width: int, height: int) -> None:
        with ExitStack() as stack:
            profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            self.driver = stack.enter_context(contextmanager(chromium.browser)(Path(profile)))
            self.driver.set_script_timeout(60)
            chromium.resize(self.driver, width, height)
            self._stack = stack.pop_all()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def script(self, code: str, *arguments: object) -> Any:
        """Run JavaScript in the page. Returns its result."""
        return self.driver.execute_script(code, *arguments)

    def wait(self, code: str, seconds: float = 60) -> Any:
        """Wait until JavaScript returns something true. Returns it."""
        return WebDriverWait(self.driver, seconds, 0.1).until(lambda _: self.script(code))

    def open(self, lab: Lab, name: str) -> None:
        """Show a notebook, without the side bars."""
        self.driver.get(f"{lab.url}doc/tree/{name}")
        self.wait("return window.jupyterapp && document.querySelectorAll('.jp-CodeCell').length")

    def run_all(self) -> None:
        """Run all cells, and wait until the last one has ended."""
        self._await(f"{_READY} await window.jupyterapp.commands.execute('notebook:run-all-cells')")

    def start_all(self) -> None:
        """Run all cells, without waiting for them."""
        self._await(f"{_READY} window.jupyterapp.commands.execute('notebook:run-all-cells')")

    def command(self, name: str) -> None:
        """Run one of JupyterLab's commands."""
        self._await(f"await window.jupyterapp.commands.execute({name!r})")

    def save(self) -> None:
        """Save the notebook, with its outputs."""
        self._await("await window.jupyterapp.shell.currentWidget.context.save()")

    def _await(self, code: str) -> None:
        failed = self.driver.execute_async_script(
            f"const done = arguments[0]; (async () => {{ {code} }})().then(() => done(''), error => "
            "done(String(error)))"
        )
        assert failed == "", failed

    def picture(self, path: Path, clip: dict[str, float] | None = None) -> None:
        """Save a screenshot of the window, or of a rectangle of it: x, y, width and height."""
        options = {} if clip is None else {"clip": {**clip, "scale": 1}}
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", options)
        path.write_bytes(base64.b64decode(taken["data"]))
