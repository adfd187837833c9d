"""What the real marimo shows of gpuconf's objects, in a browser: alone and in lists, in its dark and its light
theme.
"""

import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from contextlib import closing, suppress
from pathlib import Path

import pytest
import script

pytest.importorskip("marimo", reason="make test-integrations installs marimo")
pytest.importorskip("selenium", reason="make test-integrations installs selenium")
from collections.abc import Iterator

import chromium
from lab import Browser

pytestmark = pytest.mark.skipif(
    not Path(chromium.DRIVER).exists(), reason="Debian's packages chromium and chromium-driver are missing"
)

# The last line of each cell is what it shows. Names that a cell reads from another one are its function's arguments.
CELLS = {
    "visible": ("", "import gpuconf\ngpuconf.simulate('2xH100-80GB')\ngpuconf.visible_devices()", "gpuconf"),
    "one": ("gpuconf", "gpuconf.visible_devices()[0]", ""),
    "physical": ("gpuconf", "gpuconf.config.list_physical_devices()", ""),
    "buffer": (
        "gpuconf",
        "with gpuconf.memory.tag('weights'): weights = gpuconf.memory.allocate('2GiB')\n"
        "with gpuconf.memory.measure() as measured, gpuconf.memory.record() as recording: "
        "gpuconf.memory.allocate('1GiB').free()\n"
        "weights",
        "weights, measured, recording",
    ),
    "logical": ("gpuconf, weights", "gpuconf.config.list_logical_devices()", ""),
    "buffers": ("weights", "[weights]", ""),
    "stats": ("gpuconf, weights", "gpuconf.memory.stats()", ""),
    "usage": ("gpuconf, weights", "gpuconf.memory.usage()", ""),
    "map": ("gpuconf, weights", "gpuconf.memory.memory_map()", ""),
    "measured": ("measured", "measured", ""),
    "plan": ("gpuconf, recording", "gpuconf.plan(recording, limit='1GiB', gpu='A10')", ""),
    "release": ("gpuconf, weights", "gpuconf.memory.release()", ""),
    "tensor": ("gpuconf", "gpuconf.constant([[1.0, 2.0]])", ""),
    "dictionary": ("gpuconf, weights", "{'stats': gpuconf.memory.stats(), 'map': gpuconf.memory.memory_map()}", ""),
}

OUTPUTS = "return [...document.querySelectorAll('.output-area')].map(output => output.innerText)"


def program() -> str:
    """The notebook as marimo writes it."""
    cells = [
        f"@app.cell\ndef _({reads}):\n{textwrap.indent(source, '    ')}\n    return "
        f"({', '.join(filter(None, [writes]))},)"
        if writes
        else f"@app.cell\ndef _({reads}):\n{textwrap.indent(source, '    ')}\n    return"
        for reads, source, writes in CELLS.values()
    ]
    return "\n\n\n".join(["import marimo\n\napp = marimo.App()", *cells, 'if __name__ == "__main__":\n    app.run()\n'])


@pytest.fixture(params=["dark", "light"])
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Browser]:
    """A browser that shows the notebook as an app."""
    (tmp_path / "pyproject.toml").write_text(f'[tool.marimo.display]\ntheme = "{request.param}"\n')
    (tmp_path / "shown.py").write_text(program())
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    home = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CONFIG", "CACHE", "STATE", "DATA")}
    command = [sys.executable, "-m", "marimo", "run", "shown.py", "--headless", "--no-token", f"--port={port}"]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=tmp_path, env={**script.plain(), **home}, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 60
        while True:
            assert time.monotonic() < end and server.poll() is None, (tmp_path / "log").read_text()  # noqa: PT018
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30).close()
                break
            time.sleep(0.1)
        with Browser(1400, 3000) as browser:
            browser.driver.get(f"http://127.0.0.1:{port}")
            browser.wait(f"const shown = (() => {{ {OUTPUTS} }})(); return shown.length == {len(CELLS)}")
            yield browser
    finally:
        server.terminate()
        server.wait(30)


def test_shown(page: Browser, request: pytest.FixtureRequest) -> None:
    """It refuses HTML in a subclass of str, and shows tuples in a list as lists of numbers, if they do not say
    otherwise.
    """
    if file := chromium.picture_file(f"marimo-{request.node.name}"):
        page.picture(file)
    text = {name: " ".join(shown.split()) for name, shown in zip(CELLS, page.script(OUTPUTS), strict=True)}
    assert [name for name, shown in text.items() if "went wrong" in shown] == []
    for name in ("visible", "one"):
        assert "CUDA name memory capability" in text[name]
        assert "NVIDIA H100 80GB HBM3 79.18GiB 9.0" in text[name]
    assert "/physical_device:GPU:1" in text["visible"]
    assert "PhysicalDevice /physical_device:GPU:1 GPU" in text["physical"]
    assert "LogicalDevice /device:GPU:1 GPU" in text["logical"]
    assert text["buffer"].startswith("Buffer of 2.00GiB on /device:GPU:0")
    assert text["buffer"] in text["buffers"]
    assert "bytes_in_use 2.00GiB" in text["stats"]
    assert "gpuconf weights 2.00GiB 2.00GiB 1" in text["usage"]
    assert "gpuconf weights 2.00GiB" in text["map"]
    assert text["measured"].startswith("Measurement library tag before peak after all 2.00GiB 3.00GiB 2.00GiB")
    assert text["plan"].startswith("Plan: does not fit")
    assert "2.00GiB still in use" in text["release"]
    assert text["tensor"] == "Tensor (1, 2) float32 on GPU:0 [[1. 2.]]"
    assert '"stats": MemoryStats num_allocs' in text["dictionary"]
    assert text["map"] in text["dictionary"]
    contrasts = chromium.contrasts(page.driver, ".output-area")
    assert len(contrasts) > 150
    assert min(contrasts) >= 4.5  # WCAG AA
    apart = (
        "return [...document.querySelectorAll('.output-area td')].map(cell => "
        "parseFloat(getComputedStyle(cell).paddingRight))"
    )
    assert min(page.script(apart)) >= 6
