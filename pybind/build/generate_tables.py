# SPDX-License-Identifier: Apache-2.0
"""The files that pybind/build/generate.py writes from tables of another language.

For Python the layout of budget files and the policies of plans, for C every NVML function that the pinned go-nvml
calls, for Go the names of CUDA's errors, for type checkers the public names.
"""

from __future__ import annotations

import ast
import contextlib
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python" / "gpuconf"

# Files that C and Python share, by the header of each: the constants that Python needs, and the structs, each with the
# array that Python reads apart from it.
BUDGET = ROOT / "gocore" / "lease" / "budget" / "budget.h"
GATE = BUDGET.with_name("gate.h")
CONSTANTS = {
    BUDGET: (
        *("BUDGET_MAGIC", "BUDGET_VERSION", "BUDGET_INSTANCE", "HEADER_BYTES", "MAX_CARDS", "MAX_SLOTS", "MAX_NESTED"),
        *("SHARES", "LOCKS", "LAUNCHER_LOCK", "BYTES_MASK"),
    ),
    GATE: ("GATE_MAGIC", "GATE_HEADER_BYTES", "GATE_THREADS", "GATE_THREAD_BYTES"),
}
STRUCTS = {
    BUDGET: {"budget_header": "card", "budget_card": "", "budget_slot": "", "budget_share": ""},
    GATE: {"gate": "", "gate_thread": ""},
}
LETTERS = {"uint32_t": "I", "uint64_t": "Q"}

# The public names, and the stub that type checkers read in place of the module.
PUBLIC = PYTHON / "__init__.py"

POLICIES = ROOT / "gocore" / "plan" / "plan" / "policy.go"

# The simulator's table of CUDA's errors, the Go file that has their numbers and names, and the simulator's numbers.
ERRORS = ROOT / "gocore" / "sim" / "cuda" / "errors.h"
NAMES = ROOT / "gocore" / "machine" / "gpu" / "result_names.go"
NUMBERS = ERRORS.with_name("results.h")

NVML = ROOT / "gocore" / "machine" / "nvml" / "symbols.h"
NVML_MODULE = "github.com/NVIDIA/go-nvml"


def module(text: str, source: Path, lines: list[str]) -> str:
    """Return a Python module with lines from a source."""
    name = source.relative_to(ROOT)
    head = f'"""{text}, from {name}. Written by pybind/build/generate.py; DO NOT EDIT."""'
    return "\n".join(
        ["# SPDX-License-Identifier: Apache-2.0", head, "", "from __future__ import annotations", "", *lines, ""]
    )


def constants(header: str) -> dict[str, int | bytes]:
    """Return the values of all constants of the header."""
    values: dict[str, int | bytes] = {}
    for name, text in re.findall(r"(?m)^#define (\w+) +(.+?)(?: */\*.*)?$", header):
        if text.startswith('"'):
            values[name] = text.strip('"').encode()
        else:
            expression = re.sub(r"U?INT64_C\((\d+)\)", r"\1", text)
            values[name] = eval(expression, {}, values)
    return values


def fields(source: Path, name: str, known: dict[str, int | bytes]) -> list[tuple[str, str]]:
    """Return the members of a struct, each with its letters for the module struct."""
    header = source.read_text()
    body = re.search(rf"(?ms)^struct {name} \{{\n(.*?)^\}};", header)
    if not body:
        raise SystemExit(f"{source.name} has no struct {name}")
    members: list[tuple[str, str]] = []
    for line in re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL).splitlines():
        parts = re.fullmatch(r"\s*(struct \w+|\w+) (.+?);\s*", line)
        if not parts:
            if line.strip():
                raise SystemExit(f"struct {name} has a line that is no member: {line!r}")
            continue
        for member in parts[2].split(", "):
            field, _, count = member.partition("[")
            if field == STRUCTS[source][name]:
                continue
            length = eval(count.rstrip("]").replace("/", "//"), {}, dict(known)) if count else 0
            letters = f"{length * (8 if parts[1] == 'uint64_t' else 1)}s" if length else LETTERS[parts[1]]
            members.append((field, letters))
    return members


def layout(source: Path, text: str) -> str:
    """Return the module with the layout of a file."""
    known = constants(source.read_text())
    lines = ["import struct", "", "from ..._typing import NamedTuple", ""]
    for name in CONSTANTS[source]:
        value = known[name]
        lines.append(f'{name} = b"{value.decode()}"' if isinstance(value, bytes) else f"{name} = {value}")
    for name in STRUCTS[source]:
        members = fields(source, name, known)
        title = "".join(part.title() for part in name.split("_"))
        lines += ["", "", f"class {title}(NamedTuple):", f'    """struct {name}."""', ""]
        lines += [f"    {field}: {'bytes' if letters.endswith('s') else 'int'}" for field, letters in members]
        constant, letters = name.removeprefix("budget_").upper(), "".join(letters for _, letters in members)
        lines += ["", "", f'{constant} = struct.Struct("<{letters}")']
    return module(text, source, lines)


def budget_layout() -> str:
    """Return the module with the layout of budget files."""
    return layout(BUDGET, "The layout of budget files")


def gate_layout() -> str:
    """Return the module with the layout of gate files."""
    return layout(GATE, "The layout of gate files")


def policies() -> str:
    """Return the module with the policies of plans, which Python lists without the core."""
    source = POLICIES.read_text()
    names = dict(re.findall(r'(?m)^\t(\w+) +Policy = "([a-z-]+)"', source))
    body = re.search(r"(?ms)^var policies = \[\]properties\{\n(.*?)^\}", source)
    rows = re.findall(r'(?m)^\t\{(\w+), "(\w+)", (true|false)\},$', body[1]) if body else []
    if not body or len(rows) != body[1].count("\n") or sorted(row[0] for row in rows) != sorted(names):
        raise SystemExit(f"{POLICIES.name}: the table must have a row for each constant, and nothing else")
    lists = {
        "POLICIES": [names[policy] for policy, _, _ in rows],
        "NEED_VIRTUAL": [names[policy] for policy, _, needs_virtual in rows if needs_virtual == "true"],
        "OF_GPUCONF": [names[policy] for policy, of, _ in rows if of == "gpuconf"],
    }
    lines = []
    for name, members in lists.items():
        lines += [f"{name} = (", *(f'    "{member}",' for member in members), ")"]
    return module("The policies of plans", POLICIES, lines)


def public_names() -> str:
    """Return __init__.pyi, from the tables of __init__.py."""
    tables: dict[str, Any] = {}
    for node in ast.parse(PUBLIC.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name) and target.id != "__all__":
            with contextlib.suppress(NameError):  # what is made of other modules
                tables[target.id] = eval(ast.unparse(node.value), {"frozenset": frozenset})
    homes, modules = tables["_HOMES"], tables["_SUBMODULES"]
    imports = [f"from . import {name} as {name}" for name in sorted(modules)]
    imports += [f"from .{home} import {name} as {name}" for name, home in homes.items()]
    imports += [f"from .compat.v2 import {name} as {name}" for name in sorted(tables["_AS_TENSORFLOW"])]
    listed = sorted({"__version__", "get_include", *homes, *modules}.difference(tables["_UNLISTED"]))
    names = ["__all__ = [", *(f'    "{name}",' for name in listed), "]"]
    private = ["_HOMES: dict[str, str]", "_SUBMODULES: frozenset[str]", "_AS_TENSORFLOW: frozenset[str]"]
    functions = ["def get_include() -> str: ...", "def __dir__() -> list[str]: ..."]
    text = module(
        "The types of the public names", PUBLIC, [*imports, "", "__version__: str", *private, *names, "", *functions]
    )
    return text.replace("from __future__ import annotations\n\n", "")


def errors_of_cuda() -> list[tuple[str, str]]:
    """Return the number and the name of each error of CUDA that the simulator knows."""
    return re.findall(r"(?m)^ERROR\(([1-9]\d*), \d+, CUDA_ERROR_(\w+),", ERRORS.read_text())


def result_names() -> str:
    """Return result_names.go: CUDA's errors as constants, and their names."""
    rows = errors_of_cuda()
    head = f"// Code generated by pybind/build/generate.py from {ERRORS.relative_to(ROOT)}; DO NOT EDIT."
    constants = [("Error" + name.title().replace("_", ""), n) for n, name in rows]
    width = max(len(name) for name, _ in constants)
    lines = [
        *("package gpu", "", "// The errors of the driver, by CUDA's numbers.", "const ("),
        *(f"\t{name:<{width}} Result = {n}" for name, n in constants),
        *(")", "", "var resultNames = map[Result]string{"),
        *(f'\t{n + ":":<5}"CUDA_ERROR_{name}",' for n, name in rows),
        "}",
    ]
    return "\n".join(["// SPDX-License-Identifier: Apache-2.0", "", head, "", *lines, ""])


def result_numbers() -> str:
    """Return results.h: CUDA's errors as the simulator names them. <sys/mman.h> has another MAP_FAILED."""
    head = f"/* Code generated by pybind/build/generate.py from {ERRORS.name}; DO NOT EDIT. */"
    names = {"MAP_FAILED": "MAP_FAILED_IN_DRIVER"}
    rows = [f"\t{names.get(name, name)} = {n}," for n, name in [("0", "SUCCESS"), *errors_of_cuda()]]
    return "\n".join(["/* SPDX-License-Identifier: Apache-2.0 */", head, "typedef enum {", *rows, "} CUresult;", ""])


def nvml_symbols() -> str:
    """Return symbols.h, from the version of go-nvml that go.mod requires."""
    listing = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", NVML_MODULE],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    version, _, folder = listing.stdout.strip().partition(" ")
    if not folder:
        raise SystemExit(listing.stderr or f"{NVML_MODULE} is not downloaded: run go mod download")
    source = Path(folder, "pkg", "nvml")
    calls = {name for file in source.glob("*.go") for name in re.findall(r"\bC\.(nvml\w+)\(", file.read_text())}
    answers = re.findall(
        r"\b(nvmlReturn_t|char\*)\s+(?:DECLDIR\s+)?(nvml\w+)\s*\(", (source / "nvml.h").read_text(), re.M
    )
    # A function with another return type would need a third kind of trampolines_missing in trampolines.c.
    kinds = {name: {"nvmlReturn_t": "STATUS", "char*": "TEXT"}[answer] for answer, name in answers if name in calls}
    head = f"/* Code generated by pybind/build/generate.py from go-nvml {version}; DO NOT EDIT. */"
    return "\n".join([head, *(f"{kind}({name})" for name, kind in sorted(kinds.items())), ""])


def generate() -> dict[Path, str]:
    """Return the files, by path."""
    return {
        PYTHON / "jobs" / "generated" / "budget_layout.py": budget_layout(),
        PYTHON / "jobs" / "generated" / "gate_layout.py": gate_layout(),
        PYTHON / "plans" / "generated" / "policies.py": policies(),
        NVML: nvml_symbols(),
        NAMES: result_names(),
        NUMBERS: result_numbers(),
        PUBLIC.with_suffix(".pyi"): public_names(),
    }
