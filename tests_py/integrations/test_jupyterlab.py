"""The notebook kit in a real JupyterLab, as a browser shows it: in the dark and the light theme, wide and narrow."""

import textwrap
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("selenium", reason="make test-integrations installs selenium and JupyterLab")
from collections.abc import Iterator

import chromium
from lab import Browser, Lab

pytestmark = pytest.mark.skipif(
    not Path(chromium.DRIVER).exists(), reason="Debian's packages chromium and chromium-driver are missing"
)

CELLS = {
    "load": "%load_ext gpuconf\nimport gpuconf\ngpuconf.simulate('2xH100-80GB')",
    "limit": "%gpu limit 6GiB --growth",
    "physical": "gpuconf.config.list_physical_devices()",
    "measured": """
        %%gpumem
        with gpuconf.memory.tag('weights'):
            weights = gpuconf.memory.allocate('2GiB')
        with gpuconf.memory.tag('activations'):
            kept = [gpuconf.memory.allocate('256MiB') for _ in range(8)]
            for one in kept[::2]: one.free()""",
    "devices": "%gpu",
    "map": "%gpu map",
    "stats": "gpuconf.memory.stats()",
    "measurement": """
        with gpuconf.memory.measure() as measured, gpuconf.memory.record() as recording:
            gpuconf.memory.allocate('1GiB').free()
        measured""",
    "plan": "gpuconf.plan(recording, limit='1GiB', gpu='A10')",
    "tensor": "gpuconf.constant([[1.0, 2.0]])",
    "buffer": "weights",
    "visible": "gpuconf.visible_devices()",
    "usage": "gpuconf.memory.usage()",
    "release": "%gpu release",
    "refused": "%gpu limit 7GiB",
}

# For each bar: its width, and for each of its parts the color and the width.
BARS = """
return [...document.querySelectorAll('.jp-RenderedHTML div[style*=overflow]')].map(bar => [
    bar.getBoundingClientRect().width,
    [...bar.children].map(part => [getComputedStyle(part).backgroundColor, part.getBoundingClientRect().width]),
])
"""

# The widest table, less the width of the output that holds it. The tables of plans and of all names of GPUs have a
# scroll bar.
OVERFLOW = """
return Math.max(...[...document.querySelectorAll('.jp-RenderedHTML table')]
    .filter(table => table.rows[0].cells.length < 8)
    .map(table => table.scrollWidth - table.closest('.jp-OutputArea-output').clientWidth))
"""

HTML = "return [...document.querySelectorAll('.jp-RenderedHTML')]"
OUTPUTS = (
    "return [...document.querySelectorAll('.jp-CodeCell')].map(cell => cell.querySelector('.jp-OutputArea').innerText)"
)


@pytest.fixture(scope="module", params=["JupyterLab Dark", "JupyterLab Light"])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab with a notebook whose cells have run."""
    with Lab(tmp_path_factory.mktemp("lab"), request.param) as lab:
        lab.write("shown.ipynb", (textwrap.dedent(cell).strip() for cell in CELLS.values()))
        with Browser(1400, 1000) as browser:
            browser.open(lab, "shown.ipynb")
            browser.run_all()
            browser.save()
            assert len(browser.script(HTML)) == 14
        yield lab


def outputs(browser: Browser) -> dict[str, str]:
    return dict(zip(CELLS, browser.script(OUTPUTS), strict=True))


def picture(browser: Browser, request: pytest.FixtureRequest) -> None:
    """Save a picture to look at."""
    if file := chromium.picture_file(request.node.name):
        browser.picture(file)


@pytest.mark.parametrize("width", [1400, 600])
def test_shown(lab: Lab, width: int, request: pytest.FixtureRequest) -> None:
    with Browser(width, 4400) as browser:
        browser.open(lab, "shown.ipynb")
        browser.wait("return document.querySelectorAll('.jp-RenderedHTML').length == 14")
        picture(browser, request)
        text = outputs(browser)
        assert "simulated: 2xH100-80GB" in text["limit"]
        assert "NVIDIA H100" in text["physical"]
        assert "this cell took 4.00GiB at its peak and left 3.00GiB on GPU:0" in text["measured"]
        assert "activations" in text["devices"]
        assert "does not fit" in text["plan"]
        assert text["refused"].startswith("UsageError: %gpu: ")
        assert "  GPU:0: limit 6.00GiB, " in text["refused"]
        assert "Traceback" not in text["refused"]
        contrasts = chromium.contrasts(browser.driver, ".jp-RenderedHTML")
        assert len(contrasts) > 200
        assert min(contrasts) >= 4.5  # WCAG AA
        bars = browser.script(BARS)
        assert len(bars) > 12
        assert all(whole >= 40 and all(part >= 2 for _, part in parts) for whole, parts in bars)
        assert browser.script(OVERFLOW) <= 0


def test_a_notebook_of_another_person(lab: Lab, request: pytest.FixtureRequest) -> None:
    """JupyterLab filters the HTML of a notebook that the user has not run. All of ours passes."""
    notebook = nbformat.read(lab.folder / "shown.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.metadata.pop("trusted", None)
    notebook.cells.append(nbformat.v4.new_code_cell("'changed'"))  # so that its signature is unknown
    nbformat.write(notebook, lab.folder / "received.ipynb")
    with Browser(1400, 3600) as browser:
        browser.open(lab, "received.ipynb")
        browser.wait("return document.querySelectorAll('.jp-RenderedHTML').length == 14")
        picture(browser, request)
        assert browser.script("return window.jupyterapp.shell.currentWidget.model.trusted") is not True
        text = dict(zip((*CELLS, "changed"), browser.script(OUTPUTS), strict=True))
        assert "this cell took 4.00GiB at its peak and left 3.00GiB on GPU:0" in text["measured"]
        assert min(chromium.contrasts(browser.driver, ".jp-RenderedHTML")) >= 4.5
        assert len(browser.script(BARS)) > 12


def test_interrupt_from_the_menu(lab: Lab) -> None:
    """A waiting allocation ends when the user interrupts the kernel."""
    waiting = (
        "kept = gpuconf.memory.allocate('78GiB')\nprint('now', 'waiting')\ngpuconf.memory.allocate('1GiB', wait=600)"
    )
    lab.write("waiting.ipynb", [CELLS["load"], waiting])
    with Browser(1400, 1000) as browser:
        browser.open(lab, "waiting.ipynb")
        browser.start_all()
        browser.wait(f"{OUTPUTS}[1].includes('now waiting')")
        browser.command("notebook:interrupt-kernel")
        browser.wait(f"{OUTPUTS}[1].includes('KeyboardInterrupt')")
