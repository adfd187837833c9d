# SPDX-License-Identifier: Apache-2.0
"""The software bill of materials of the wheel, in CycloneDX's JSON: what the binary was linked with, as Go recorded it
there.

The build hook puts it into ``*.dist-info/sboms`` (PEP 770). It has no time and no random number, so that a build can be
repeated.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from typing import Any

NAME = "gpuconf.cdx.json"

# The license of each module that is linked in; a module that is missing here fails the build, so that its license is
# read first.
LICENSES = {
    "github.com/NVIDIA/go-nvml": "Apache-2.0",
    "github.com/go-python/gopy": "BSD-3-Clause",
    "golang.org/x/sys": "BSD-3-Clause",
    "gonum.org/v1/gonum": "BSD-3-Clause",
}


def document(go: str, binary: Path, version: str) -> str:
    """The document for a binary that this Go built. Raises SystemExit for a module whose license is not known."""
    lines = subprocess.run([go, "version", "-m", str(binary)], capture_output=True, text=True, check=True).stdout
    # Go's own library and runtime are a part of the binary. The first line is "PATH: go1.26.6".
    parts = [_component("stdlib", lines.partition("\n")[0].rpartition(": go")[2], "BSD-3-Clause", "")]
    for name, number, digest in re.findall(r"^\tdep\t(\S+)\t(\S+)\t?(\S*)$", lines, re.M):
        if name not in LICENSES:
            raise SystemExit(
                f"gpuconf: {name} is linked in, and its license is not in pybind/build/sbom.py: read it and add it "
                "there."
            )
        parts.append(_component(name, number, LICENSES[name], digest))
    root = f"pkg:pypi/gpuconf@{version}"
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": "gpuconf",
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": root, "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    return json.dumps(bill, indent=2) + "\n"


def _component(name: str, version: str, license_id: str, digest: str) -> dict[str, Any]:
    """A module. Its digest is Go's own of the module's files, "h1:" and SHA-256 in base64, as in go.sum."""
    reference = f"pkg:golang/{name}@{version}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
        "licenses": [{"license": {"id": license_id}}],
    }
    if digest.startswith("h1:"):
        component["hashes"] = [{"alg": "SHA-256", "content": base64.b64decode(digest[3:]).hex()}]
    return component
