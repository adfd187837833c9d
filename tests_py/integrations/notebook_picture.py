"""Draw README's picture of the notebook kit: a notebook in a real JupyterLab.

``make generate WHAT=picture`` runs this.
"""

import sys
import tempfile
from pathlib import Path

from lab import Browser, Lab

CELLS = (
    "%load_ext gpuconf\n%gpu limit 6GiB --growth",
    "%%gpumem\n"
    'with gpuconf.memory.tag("weights"):\n'
    '    weights = gpuconf.memory.allocate("2GiB")\n'
    'with gpuconf.memory.tag("activations"):\n'
    '    kept = [gpuconf.memory.allocate("256MiB") for _ in range(8)]\n'
    "for one in kept[::2]:\n"
    "    one.free()",
    "%gpu map GPU:0",
)

# From the second cell to the last one.
PLACE = """
const cells = [...document.querySelectorAll('.jp-Cell')].map(cell => cell.getBoundingClientRect())
return [cells[1].top, cells.at(-1).bottom]
"""


def main(path: Path) -> None:
    """Run the cells and save what the browser shows of them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Lab(Path(folder), "JupyterLab Light", GPUCONF_SIMULATE="2xH100-80GB") as lab,
    ):
        lab.write("picture.ipynb", ("import gpuconf", *CELLS))
        with Browser(820, 900) as browser:
            browser.open(lab, "picture.ipynb")
            browser.run_all()
            # No cell below is marked.
            browser.script("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
            top, bottom = browser.script(PLACE)
            browser.picture(path, {"x": 45, "y": top, "width": 720, "height": bottom - top})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
