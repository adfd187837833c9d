# SPDX-License-Identifier: Apache-2.0
"""The metadata hook: the project's URLs, and README as PyPI shows it.

Where the repository is, a maintainer says when they build a release: GPUCONF_REPOSITORY=https://HOST/OWNER/gpuconf, and
GPUCONF_DOCUMENTATION for the documentation's site. README's links to files of the repository become links to that
version there. Without the variable PyPI would show dead links, so they become plain text, and pictures are left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # in tests of the functions
    MetadataHookInterface = object

REPOSITORY, DOCUMENTATION = "GPUCONF_REPOSITORY", "GPUCONF_DOCUMENTATION"

# A picture or a link whose target is neither a URL nor a heading of the page.
_RELATIVE = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!https?://|#)([^()\s]+)\)")


def readme(text: str, repository: str | None, version: str) -> str:
    """Return README for a page outside of the repository."""

    def absolute(found: re.Match[str]) -> str:
        picture, label, target = found.groups()
        if repository is None:
            return "" if picture else label
        return f"{picture}[{label}]({repository}/{'raw' if picture else 'blob'}/v{version}/{target})"

    return _RELATIVE.sub(absolute, text)


def urls(repository: str | None, documentation: str | None) -> dict[str, str]:
    """Return the project's URLs, as far as they are known. Raises SystemExit for what is no address."""
    for name, url in ((REPOSITORY, repository), (DOCUMENTATION, documentation)):
        if url is not None and not re.fullmatch(r"https://[^\s/]+/\S*[^\s/]", url):
            raise SystemExit(f"{name} is {url!r}: it should be an address such as https://example.org/owner/gpuconf")
    known = {}
    if documentation:
        known["Documentation"] = documentation
    if repository:
        known |= {
            "Source": repository,
            "Issues": f"{repository}/issues",
            "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
            "Security": f"{repository}/blob/HEAD/SECURITY.md",
        }
    return known


class MetadataHook(MetadataHookInterface):  # type: ignore[misc]
    """Sets ``readme`` and ``urls``."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the two fields."""
        repository, documentation = (os.environ.get(name) or None for name in (REPOSITORY, DOCUMENTATION))
        metadata["urls"] = urls(repository, documentation)
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme(text, repository, metadata["version"])}
