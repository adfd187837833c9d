"""The blocks of code on the pages of the documentation, and which of them run in an environment of their own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_NO_GPU = "tests_py/frameworks/allocators/test_readme.py"

# Where a block of Python runs that test_docs.py does not run, by page and beginning; after a colon, why it cannot run
# anywhere.
ELSEWHERE = {
    ("README.md", "import gpuconf"): _NO_GPU,
    ("README.md", "import cupy"): _NO_GPU,
    ("docs/limits.md", "import gpuconf"): _NO_GPU,
    ("docs/frameworks.md", "import gpuconf\ngpuconf.configure("): _NO_GPU,
    ("docs/frameworks.md", "card = "): _NO_GPU,
    ("docs/memory.md", "with gpuconf.memory.tag("): _NO_GPU,
    ("docs/frameworks.md", "import cupy, gpuconf"): "nowhere: CuPy compiles and launches these kernels on a GPU only",
    ("docs/clusters.md", "cluster = dask_jobqueue.SLURMCluster("): "tests_py/integrations/test_dask_worker.py",
}


class Block(NamedTuple):
    """A block of code."""

    page: str
    code: str

    def starts(self, page: str, beginning: str) -> bool:
        """Whether it is the page's block that begins so."""
        return self.page == page and self.code.startswith(beginning)


def blocks(language: str) -> list[Block]:
    """Return all blocks of a language: ``python`` or ``console``."""
    return [
        Block(page, code)
        for page in PAGES
        for kind, code in _BLOCK.findall((ROOT / page).read_text())
        if kind == language
    ]


def block(page: str, beginning: str) -> str:
    """Return the code of the page's one block of Python that begins so."""
    (found,) = [one.code for one in blocks("python") if one.starts(page, beginning)]
    return found
