"""The licenses of what is linked into the binary:
Go's runtime and the modules that it names, against the folder LICENSES.

    python tests_py/wheel/licenses.py --write      # after a module was added or updated

Not a test module: ``make wheel`` and tests_py/package/test_license.py use it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "LICENSES"

# Beside LICENSE, what a module contains of others' and gpuconf links: the whole file, or its first comment.
NOTICES = {
    "github.com/NVIDIA/go-nvml": ["pkg/nvml/nvml.h"],
    "gonum.org/v1/gonum": ["THIRD_PARTY_LICENSES/Cephes-LICENSE"],
}

# By words of a license that this project has read; a module with another one needs a decision.
KNOWN = {
    r"Apache License\s+Version 2\.0": "Apache-2.0",
    r"Redistribution and use in source and binary forms[\s\S]*\bneither the names?\b": "BSD-3-Clause",
}


def file_name(module: str) -> str:
    """Where a module's license is: github.com/NVIDIA/go-nvml in github.com-NVIDIA-go-nvml.txt."""
    return module.replace("/", "-") + ".txt"


def linked(binary: Path) -> list[str]:
    """The modules that a Go binary was linked with, and "go" for the runtime."""
    told = subprocess.run(
        ["go", "version", "-m", str(binary)], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    return ["go", *re.findall(r"^\tdep\t(\S+)\t", told, re.M)]


def text_of(module: str) -> str:
    """The license and the notices in a module's own source, as it was linked."""
    if module == "go":
        told = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    else:
        command = ["go", "mod", "download", module]
        subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
        told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    folder = Path(told.strip())
    license_file = folder / "LICENSE"
    if not license_file.exists() and module == "go":  # Debian and the wheel keep it elsewhere
        return (FOLDER / file_name("go")).read_text(encoding="utf-8")
    parts = [license_file.read_text(encoding="utf-8")]
    for name in NOTICES.get(module, []):
        text = (folder / name).read_text(encoding="utf-8")
        if name.endswith(".h"):
            text = re.findall(r"/\*\n \*.*?\*/", text, re.S)[0]
        parts.append(f"{name}:\n\n{text}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def expression(texts: list[str]) -> str:
    """The license expression of gpuconf and of what has these licenses."""
    names = {"Apache-2.0"}
    for text in texts:
        found = [name for pattern, name in KNOWN.items() if re.search(pattern, text, re.IGNORECASE)]
        if not found:
            raise SystemExit(f"this license is not known; read it, and add it to {Path(__file__).name}:\n{text[:300]}")
        names.add(found[0])
    return " AND ".join(sorted(names))


def complaints(binary: Path, shipped: dict[str, str], declared: str) -> list[str]:
    """What is wrong with the licenses that a package ships for a binary: by file name, and its License-Expression."""
    modules, wrong = linked(binary), []
    for module in modules:
        name = file_name(module)
        if name not in shipped:
            wrong.append(f"{module} is linked in, and the package has no license of it: LICENSES/{name} is missing")
        elif shipped[name] != text_of(module):
            wrong.append(f"LICENSES/{name} differs from the license in the source of {module}")
    wanted = expression([shipped[file_name(m)] for m in modules if file_name(m) in shipped])
    if declared != wanted:
        wrong.append(f"License-Expression is {declared!r}; with what is linked in it is {wanted!r}")
    return [f"{text} (python tests_py/wheel/licenses.py --write)" for text in wrong]


def write(binary: Path) -> None:
    """Write the folder anew."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        if old.name != file_name("go"):
            old.unlink()
    for module in linked(binary):
        (FOLDER / file_name(module)).write_text(text_of(module), encoding="utf-8")


if __name__ == "__main__":
    from gpuconf._core import native

    if sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__)
    write(Path(native.__file__).parent / "_gpuconf.abi3.so")
