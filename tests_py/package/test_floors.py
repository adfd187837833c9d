"""Imports of the Python package run downwards only. Each file, package and identifier that ARCHITECTURE.md and the
rooms' README.md name exists.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import gpuconf
import pytest

ROOT = Path(gpuconf.__file__).parent

# The rooms of python/gpuconf from the bottom up. A room is a package, a module, or "gpuconf" itself. It imports only
# from floors below its own; within a room any order is fine as long as there is no cycle.
FLOORS = (
    ("_typing",),
    ("_missing",),
    ("errors",),
    ("_core",),
    ("config",),
    ("debugging", "memory"),
    ("tensors",),
    ("machine", "simulation"),
    ("allocators",),
    ("leases",),
    ("jobs",),
    ("cluster", "plans"),
    ("gpuconf",),
    ("compat", "dask", "metrics", "notebook", "pytest_plugin", "ray"),
    ("cli",),
    ("__main__", "_startup"),
)
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}

# Arrows that point up on purpose: what a module resolves on first use, by name.
LAZY = {
    ("gpuconf", "compat"),
    ("gpuconf", "dask"),
    ("gpuconf", "metrics"),
    ("gpuconf", "notebook"),
    ("gpuconf", "ray"),
    ("leases", "jobs"),
    ("memory", "plans"),
}


def name_of(path: Path) -> str:
    parts = ["gpuconf", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "gpuconf"


def run_time_nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes except those that only type checkers see."""
    found: list[ast.AST] = []
    todo = [tree]
    while todo:
        node = todo.pop()
        found.append(node)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            todo += node.orelse
        else:
            todo += ast.iter_child_nodes(node)
    return found


def imports(module: str, source: str, is_package: bool = False) -> dict[str, set[str]]:
    """The modules of gpuconf that a module imports at run time, also inside functions, and the names that it uses from
    each.
    """
    found: dict[str, set[str]] = {}
    for node in run_time_nodes(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            package = module.split(".") if is_package else module.split(".")[:-1]
            base = ".".join(package[: len(package) - node.level + 1] + ([node.module] if node.module else []))
            for alias in node.names:
                if f"{base}.{alias.name}" in SOURCES:
                    found.setdefault(f"{base}.{alias.name}", set())
                else:
                    found.setdefault(base, set()).add(alias.name)
    return found


def all_imports() -> dict[str, dict[str, set[str]]]:
    found = {module: imports(module, path.read_text(), path.name == "__init__.py") for module, path in SOURCES.items()}
    for home in (*gpuconf._SUBMODULES, *gpuconf._HOMES.values()):  # imported by name on first use
        found["gpuconf"].setdefault(f"gpuconf.{home}", set())
    return found


def upward(module: str, imported: str) -> str:
    """What is wrong with an import, or ""."""
    here, there = room_of(module), room_of(imported)
    if here not in LEVEL:
        return f"{module}: {here} has no floor: give it one in tests_py/package/test_floors.py"
    if here == there or (here, there) in LAZY or LEVEL[there] < LEVEL[here]:
        return ""
    return (
        f"{module} imports {imported}: {here} is on floor {LEVEL[here]}, {there} on floor {LEVEL[there]}. "
        "Move what both need to a floor below, or let the upper one register itself"
    )


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """A cycle of imports, or []."""
    state: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> list[str]:
        state[module] = 1
        path.append(module)
        for other in sorted(graph.get(module, ())):
            if state.get(other) == 1:
                return [*path[path.index(other) :], other]
            if other not in state and (found := visit(other)):
                return found
        path.pop()
        state[module] = 2
        return []

    for module in sorted(graph):
        if module not in state and (found := visit(module)):
            return found
    return []


def test_imports_point_downwards() -> None:
    broken = [upward(module, imported) for module, found in all_imports().items() for imported in found]
    assert not [text for text in broken if text]


def test_there_are_no_cycles() -> None:
    # A package's __init__ imports its own modules, which are loaded through it: that is no cycle.
    # What gpuconf resolves on first use is no cycle either: importing gpuconf does not import it.
    graph = {
        module: {
            other for other in found if not module.startswith(f"{other}.") and (module, room_of(other)) not in LAZY
        }
        for module, found in all_imports().items()
    }
    assert cycle(graph) == []


def test_no_module_takes_another_ones_private_names() -> None:
    taken = [
        f"{module} takes {name} of {imported}"
        for module, found in all_imports().items()
        for imported, names in found.items()
        for name in names
        if name.startswith("_") and not name.startswith("__") and name != "_gpuconf"  # the binary
    ]
    for module, path in SOURCES.items():
        tree = ast.parse(path.read_text())
        found = imports(module, path.read_text(), path.name == "__init__.py")
        modules = {other.rpartition(".")[2] for other, names in found.items() if not names}
        taken += [
            f"{module}:{node.lineno} takes {node.value.id}.{node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
            if node.attr.startswith("_") and not node.attr.startswith("__")
        ]
    assert not taken


def test_every_room_has_a_floor_and_every_floor_a_room() -> None:
    assert {room_of(module) for module in SOURCES} == set(LEVEL)


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("gpuconf._core.x", "from ..memory import _buffer", "on floor 3, memory on floor 5"),
        ("gpuconf.memory.x", "def f():\n    from ..tensors import tensor", "on floor 5, tensors on floor 6"),
        ("gpuconf.machine.x", "from ..simulation import simulate", "on floor 7, simulation on floor 7"),
        ("gpuconf.attic.x", "from .. import errors", "attic has no floor"),
        ("gpuconf.memory.x", "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from ..tensors import tensor", ""),
        ("gpuconf.cli.x", "from ..plans import plan", ""),
    ],
    ids=["upwards", "inside a function", "sideways", "a room without a floor", "for a type checker only", "downwards"],
)
def test_the_rules_bite(module: str, source: str, complaint: str) -> None:
    found = [text for imported in imports(module, source) if (text := upward(module, imported))]
    assert (complaint in found[0]) if complaint else not found


def test_a_cycle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = ("gocore", "pybind", "python", "tests_go", "tests_py", "docs")
DOCUMENTS = [
    REPOSITORY / "ARCHITECTURE.md",
    *sorted(REPOSITORY.glob("gocore/*/README.md")),
    *(REPOSITORY / room / "README.md" for room in ("pybind", "python")),
]
NAMES = {name for path in DOCUMENTS for name in re.findall(r"`(\w[\w./]+)`", path.read_text(encoding="utf-8"))}
PATHS = {name for name in NAMES if "/" in name or re.search(r"\.(go|py|c|h|md)$", name)}

# Of other projects, and of the operating system.
FOREIGN = {"GODEBUG", "GOMEMLIMIT", "sigwait", "libc10_cuda.so"}


def files() -> list[Path]:
    return [path.relative_to(REPOSITORY) for part in FOLDERS for path in (REPOSITORY / part).rglob("*")] + [
        path.relative_to(REPOSITORY) for path in REPOSITORY.glob("*.*")
    ]


def test_it_is_short() -> None:
    assert len(DOCUMENTS[0].read_text(encoding="utf-8").splitlines()) <= 200


def test_the_files_and_folders_exist() -> None:
    known = {path.parts[-count:] for path in files() for count in range(1, len(path.parts) + 1)}
    assert len(PATHS) > 50
    assert [name for name in PATHS if Path(name).parts not in known] == []


def test_the_identifiers_exist() -> None:
    words: set[str] = set()
    for path in files():
        if path.suffix in {".go", ".py", ".c", ".h", ".pyi", ".toml"}:
            words.update(re.findall(r"\w+", (REPOSITORY / path).read_text(encoding="utf-8", errors="replace")))
    missing = {
        name for name in NAMES - PATHS - FOREIGN if not words.issuperset(part for part in name.split(".") if part)
    }
    assert missing == set()
