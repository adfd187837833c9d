"""Chromium without a window."""

import os
from collections.abc import Iterator
from pathlib import Path

from selenium import webdriver

# Where Debian's packages chromium and chromium-driver put them.
CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"

_CONTRASTS = """
const channel = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
const luminance = rgb => 0.2126 * channel(rgb[0]) + 0.7152 * channel(rgb[1]) + 0.0722 * channel(rgb[2])
const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true})
const parse = color => {  // in whichever color space the page names it
    canvas.clearRect(0, 0, 1, 1)
    canvas.fillStyle = color
    canvas.fillRect(0, 0, 1, 1)
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data
    return [red, green, blue, alpha / 255]
}
const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]))
const behind = element => {
    const layers = []
    for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor))
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255])
}
const contrast = (a, b) => {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p)
  return (x + 0.05) / (y + 0.05)
}
return [...document.querySelectorAll(['td', 'th', 'b', 'code'].map(tag => `${arguments[0]} ${tag}`).join())]
    .filter(element => element.innerText.trim())
    .map(element => contrast(over(parse(getComputedStyle(element).color), behind(element)), behind(element)))
"""


def browser(profile: Path) -> Iterator[webdriver.Chrome]:
    """Yield a browser with its own profile. It ends with the generator."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        *"--headless=new --no-sandbox --disable-gpu --hide-scrollbars".split(),
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def picture_file(name: str) -> Path | None:
    """Return the file for a picture to look at, in the folder that PICTURES names; None if it names none."""
    if "PICTURES" not in os.environ:
        return None
    folder = Path(os.environ["PICTURES"])
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.png"


def resize(driver: webdriver.Chrome, width: int, height: int) -> None:
    """Set the size of the page. A window cannot be as narrow as a telephone."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def prefer(driver: webdriver.Chrome, scheme: str) -> None:
    """Prefer a ``light`` or a ``dark`` page."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def contrasts(driver: webdriver.Chrome, within: str) -> list[float]:
    """Return the contrast of each text with what is behind it, in WCAG 2's measure, in elements that a CSS selector
    finds.
    """
    found: list[float] = driver.execute_script(_CONTRASTS, within)
    return found
