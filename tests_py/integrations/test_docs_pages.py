"""The documentation in a real browser: every page fits a phone and a desktop, in light and dark."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: make test-integrations installs it")
pytest.importorskip("sphinx", reason="sphinx is not installed: make test-integrations installs it")

from collections.abc import Iterator

import chromium

pytestmark = pytest.mark.skipif(
    not Path(chromium.DRIVER).exists(), reason="Debian's packages chromium and chromium-driver are missing"
)

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from chromium.browser(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "sphinx", "-b", "html", "-q", DOCS, folder], check=True)
    return folder


# The texts of the page that reach beyond its right edge, and the tables that scroll. Blocks of code may.
BEYOND = """
const tables = [...document.querySelectorAll('article table')]
    .filter(e => e.scrollWidth > e.parentElement.clientWidth + 1);
const texts = [...document.querySelectorAll('article :is(h1, h2, h3, p, li, dt) *, article :is(h1, h2, h3)')];
return texts.filter(e => !e.closest('pre, table') && e.getBoundingClientRect().right > window.innerWidth)
    .concat(tables).map(e => e.textContent);
"""


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_the_window(browser: Any, site: Path, width: int, scheme: str) -> None:
    chromium.resize(browser, width, 1000)
    chromium.prefer(browser, scheme)
    pages = [page for page in sorted(site.rglob("*.html")) if "_modules" not in page.parts]
    assert len(pages) > 20
    backgrounds = set()
    for page in pages:
        browser.get(page.as_uri())
        inner, needed = browser.execute_script("return [window.innerWidth, document.documentElement.scrollWidth]")
        assert needed <= inner, f"{page.name} needs {needed} pixels of {inner}"
        assert browser.execute_script(BEYOND) == [], page.name
        backgrounds.add(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert len(backgrounds) == 1
    shade = max(int(part) for part in backgrounds.pop().strip("rgba()").split(",")[:3])
    assert shade > 200 if scheme == "light" else shade < 60
