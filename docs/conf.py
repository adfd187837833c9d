"""Sphinx's configuration of the documentation: ``make docs``. It needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gpuconf
from docutils import nodes
from sphinx.util import inspect

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "gpuconf"
copyright = "the gpuconf authors, Apache-2.0"  # noqa: A001 - Sphinx's name
version = release = gpuconf.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
# The button copies what one types, without the prompt and what was printed.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
exclude_patterns = ["*.txt"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# The modules that import the libraries that they are for, which the environment of `make docs` lacks.
autodoc_mock_imports = ["bokeh", "click", "cuda", "cupy", "dask", "distributed", "numba", "ray", "torch"]

# Signatures with types. Names that only a type checker sees stay as they are written.
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 88

html_theme = "furo"
pygments_dark_style = "monokai"  # the theme's own underlines the names of modules, like links
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"gpuconf {release}"
html_copy_source = False
html_show_sourcelink = False


def without_constructor(
    _app: Sphinx, what: str, _name: str, found: Any, _options: Any, signature: str | None, returned: str | None
) -> Any:
    """Leave out the signature of a class that only gpuconf makes, and the parameter that takes wrong names.

    A class below one of a library that is not imported has the signature of its own constructor.
    """
    if type(found).__name__ == "Made":
        return "", returned
    if what == "class" and "__init__" in vars(found) and any("__sphinx_mock__" in vars(base) for base in found.__mro__):
        signature = inspect.stringify_signature(
            inspect.signature(found.__init__, bound_method=True), unqualified_typehints=True
        )
    return signature and signature.replace(", **unknown: object", ""), returned


def without_last_line(_app: Sphinx, page: nodes.document) -> None:
    """Leave out the empty line by which doctest finds the end of an example's output in Markdown."""
    for block in page.findall(nodes.literal_block):
        block.rawsource = text = block.astext().rstrip("\n")
        block.children = []
        block += nodes.Text(text)


def with_labels(_app: Sphinx, page: nodes.document) -> None:
    """Let a table of four columns or more stand as a list where it is too wide, each cell with its column's title.

    site.css shows the titles there: on phones, and everywhere if there are seven columns.
    """
    for table in page.findall(nodes.table):
        rows = list(table.findall(nodes.row))
        titles = [cell.astext() for cell in rows[0]]
        if len(titles) < 4:
            continue
        table["classes"] += ["labeled", "records"] if len(titles) > 6 else ["labeled"]
        for row in rows[1:]:
            for title, cell in zip(titles[1:], row[1:], strict=True):
                if title and cell.children:
                    cell[0].insert(0, nodes.inline("", f"{title}: ", classes=["label"]))


def with_reports(_app: Sphinx, _name: str, text: list[str]) -> None:
    """Let links to the reports, which are no pages of the site, lead to copies of their files."""
    text[0] = text[0].replace("](../benchmarks/reports/", "](path:../benchmarks/reports/")


def setup(app: Sphinx) -> None:
    """Connect the hooks."""
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("doctree-read", without_last_line)
    app.connect("doctree-read", with_labels)
    app.connect("source-read", with_reports)
