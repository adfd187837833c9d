"""The page of Dask's dashboard that shows GPU memory, in a real browser."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: make test-integrations installs it")
pytest.importorskip("bokeh", reason="bokeh is not installed: make test-integrations installs it")

from collections.abc import Iterator

import chromium
from script import environment
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

pytestmark = pytest.mark.skipif(
    not Path(chromium.DRIVER).exists(), reason="Debian's packages chromium and chromium-driver are missing"
)

# Two workers on one card. Each line on standard input is the size of what a task allocates and keeps.
PROGRAM = """
import sys
import distributed, gpuconf, gpuconf.dask

def hold(size):
    with gpuconf.memory.tag("weights"):
        kept.append(gpuconf.memory.allocate(size))

if __name__ == "__main__":
    cluster = gpuconf.dask.LocalCluster(workers_per_gpu=2, simulate="A100-40GB", dashboard_address="127.0.0.1:0")
    with cluster, distributed.Client(cluster) as client:
        client.run(lambda: setattr(__import__("builtins"), "kept", []))
        print(cluster.dashboard_link, flush=True)
        for line in sys.stdin:
            client.submit(hold, line.strip(), workers=["gpu0-1"], pure=False).result()
            print("held", flush=True)
"""

# All text of the page. Bokeh's parts have shadow trees of their own.
TEXT = """
const text = node => [...node.childNodes].map(child =>
    child.nodeType == 3 ? child.data : ["STYLE", "SCRIPT"].includes(child.nodeName) ? "" :
    (child.shadowRoot ? text(child.shadowRoot) : "") + " " + text(child)).join("");
return text(document.body).replace(/\\s+/g, " ");
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from chromium.browser(tmp_path_factory.mktemp("profile"))


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "program.py").write_text(PROGRAM)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, tmp_path / "program.py"], env=environment(), **pipes) as running:
        yield running
        running.stdin.close()
        assert running.wait(60) == 0


def hold(program: subprocess.Popen[str], size: str) -> None:
    program.stdin.write(f"{size}\n")
    program.stdin.flush()
    assert program.stdout.readline() == "held\n"


def test_the_page_shows_memory_live(browser: Any, program: subprocess.Popen[str]) -> None:
    link = program.stdout.readline().strip()
    chromium.resize(browser, 1200, 900)
    browser.get(link)
    WebDriverWait(browser, 60).until(lambda b: b.find_element(By.LINK_TEXT, "Gpuconf")).click()
    assert browser.current_url.endswith("/gpuconf")
    WebDriverWait(browser, 60).until(lambda b: b.title == "Dask: GPU memory")

    def shows(*expected: str) -> None:
        WebDriverWait(browser, 60).until(lambda b: all(text in b.execute_script(TEXT) for text in expected))

    shows("0B in use by 2 processes on 1 card", "gpu0-0", "gpu0-1", "19.50GiB")
    hold(program, "3GiB")
    shows("3.00GiB in use by 2 processes on 1 card", "weights", "gpuconf")
    hold(program, "9GiB")
    shows("12.00GiB in use by 2 processes on 1 card")
    bars = "return Bokeh.documents[0].get_model_by_name('gpuconf_bars').renderers.map(r => r.data_source.data)"
    limits, used = browser.execute_script(bars)
    assert sorted(limits["y"]) == ["gpu0-0 GPU:0", "gpu0-1 GPU:0"]
    assert list(used["what"]) == ["gpuconf, weights"]
    if file := chromium.picture_file("dask-dashboard"):
        browser.save_screenshot(str(file))
    assert [
        entry
        for entry in browser.get_log("browser")
        if entry["level"] == "SEVERE" and "favicon" not in entry["message"]
    ] == []
