"""The HTML report in a real browser."""

import random
import re
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from gpuconf.memory import allocate, record, report, tag
from gpuconf.plans.pages import fleet_page as fleet

pytest.importorskip("selenium", reason="selenium is not installed: make test-integrations installs it")

from collections.abc import Iterator

import chromium
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

pytestmark = pytest.mark.skipif(
    not Path(chromium.DRIVER).exists(), reason="Debian's packages chromium and chromium-driver are missing"
)

MIB = 1 << 20


def forward(size: int) -> gpuconf.memory.Buffer:
    return allocate(size)


def backward(size: int) -> gpuconf.memory.Buffer:
    return allocate(size)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from chromium.browser(tmp_path_factory.mktemp("profile"))


def open_page(browser: Any, path: Path, width: int = 1400, scheme: str = "light") -> float:
    """Open a page. Return the milliseconds until all figures were drawn."""
    chromium.resize(browser, width, 1000)
    chromium.prefer(browser, scheme)
    browser.get(path.as_uri())
    drawn = WebDriverWait(browser, 60).until(
        lambda b: b.execute_script("return document.documentElement.dataset.drawn")
    )
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    return float(drawn)


@pytest.fixture
def page(two_gpus: None, tmp_path: Path) -> Path:
    for gpu in gpuconf.config.list_physical_devices("GPU"):
        gpuconf.config.experimental.set_memory_growth(gpu, True)
    with record(stacks=True) as recording:
        with tag("weights"):
            kept = [forward(8 * MIB), allocate(4 * MIB, "GPU:1")]
        with tag("<gradients>"):
            kept.append(backward(4 * MIB))
        with pytest.raises(MemoryError):
            allocate(1 << 50)
        for buffer in kept:
            buffer.free()
    report(recording, tmp_path / "page.html", limit="16MiB")
    return tmp_path / "page.html"


def hover(browser: Any, figure: str, bar: int) -> str:
    """Point at a bar and return the text that appears."""
    browser.execute_script("document.getElementById(arguments[0]).scrollIntoView({block: 'center'})", figure)
    found = browser.find_elements(By.CSS_SELECTOR, f"#{figure} .bars .point path")[bar]
    lines = (
        "return [...(document.querySelector(arguments[0])?.childNodes ?? [])].map(line => line.textContent).join(' ')"
    )

    def text(browser: Any) -> str:
        ActionChains(browser).move_to_element_with_offset(found, 1, 1).move_to_element(found).perform()
        return str(browser.execute_script(lines, f"#{figure} .hoverlayer .hovertext text"))

    return str(WebDriverWait(browser, 10).until(text))


def test_pointing_at_a_block_shows_its_call_site(browser: Any, page: Path) -> None:
    open_page(browser, page)
    first, last = hover(browser, "map-0", 0), hover(browser, "map-0", -1)
    assert "8.00MiB (8,388,608 bytes), gpuconf · weights" in first
    assert "4.00MiB (4,194,304 bytes), gpuconf · <gradients>" in last
    name = Path(__file__).name
    assert f"{name}:{forward.__code__.co_firstlineno + 1}" in first
    assert "forward at" in first
    assert "page at" in first, "its caller"
    assert f"{name}:{backward.__code__.co_firstlineno + 1}" in last
    assert "event " in first


def test_pointing_at_a_call_site_shows_its_stack(browser: Any, page: Path) -> None:
    open_page(browser, page)
    text = hover(browser, "sites-0", 1)
    assert "forward at" in text
    assert "page at" in text


def test_it_needs_no_network(browser: Any, page: Path) -> None:
    open_page(browser, page)
    assert browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []


@pytest.mark.parametrize("width", [400, 1400])
def test_it_fits_the_width(browser: Any, page: Path, width: int) -> None:
    open_page(browser, page, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    for figure in browser.find_elements(By.CLASS_NAME, "figure"):
        assert figure.size["width"] <= width
    picture(browser, f"report-{width}")


def picture(browser: Any, name: str) -> None:
    """Save what the browser shows, to look at."""
    if file := chromium.picture_file(name):
        height = browser.execute_script("return document.documentElement.scrollHeight")
        chromium.resize(browser, browser.execute_script("return innerWidth"), height)
        browser.save_screenshot(str(file))


def test_it_is_dark_where_pages_are(browser: Any, page: Path) -> None:
    """Also when that changes while the page is open."""
    text = "return getComputedStyle(document.querySelector('#time-0 .xtick text')).fill"
    background = "return getComputedStyle(document.body).backgroundColor"

    def shown(browser: Any) -> tuple[str, str]:
        return browser.execute_script(text), browser.execute_script(background)

    colors = {}
    for scheme in ("light", "dark"):
        open_page(browser, page, scheme=scheme)
        picture(browser, f"report-{scheme}")
        colors[scheme] = shown(browser)
    chromium.prefer(browser, "light")
    WebDriverWait(browser, 10).until(lambda b: shown(b) == colors["light"])
    assert colors["light"][0] != colors["dark"][0]
    assert colors["light"][1] != colors["dark"][1]


@pytest.mark.parametrize("width", [400, 1400])
def test_a_fleet(browser: Any, two_gpus: None, tmp_path: Path, width: int) -> None:
    """The cards of `gpuconf plan --fleet`: pointing at a job shows its card and its need."""
    jobs = {}
    for i in range(30):
        with record() as recording:
            allocate((5 + 2 * i) * MIB).free()
        jobs[f"<job {i}>.csv"] = recording
    fleet.write(gpuconf.plan_fleet(jobs, "40xT4:256MiB", reserve="20MiB"), tmp_path / "fleet.html")
    open_page(browser, tmp_path / "fleet.html", width, "light" if width == 400 else "dark")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    picture(browser, f"fleet-{width}")
    text = hover(browser, "cards", 0)
    assert re.search(r"T4:256MiB 0 *<job \d+>.csv: \d+.00MiB", text)


def test_a_million_events(browser: Any, two_gpus: None, tmp_path: Path) -> None:
    """The page stays small; benchmarks/report_page.py measures how long it takes to open."""
    rng = random.Random(1)
    with record(2_000_000, stacks=True) as recording:
        live: list[gpuconf.memory.Buffer] = []
        for i in range(500_000):
            live.append((forward if i % 3 else backward)(rng.randrange(1, 1 << 20)))
            if len(live) > 2000:
                live.pop(rng.randrange(2000)).free()
        for buffer in live:
            buffer.free()
    assert len(recording.trace) >= 1_000_000
    report(recording, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 10_000_000
    open_page(browser, tmp_path / "page.html")
    picture(browser, "report-million")
    assert "forward at" in hover(browser, "map-0", 5) or "backward at" in hover(browser, "map-0", 5)
