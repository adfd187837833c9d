"""Chromium without a window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from selenium import webdriver

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"  # where Debian's packages chromium and chromium-driver put them


def browser(profile: Path) -> Iterator[webdriver.Chrome]:
    """Yield a browser with its own profile. It ends with the generator."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def resize(driver: webdriver.Chrome, width: int, height: int) -> None:
    """Set the size of the page. A window cannot be as narrow as a telephone."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def prefer(driver: webdriver.Chrome, scheme: str) -> None:
    """Prefer a ``light`` or a ``dark`` page."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
