"""Cut blocks of GPU configuration out of public repositories: ``rule.md`` says how.

python benchmarks/public_code/blocks.py OUT REPOSITORY=GIT_DIRECTORY...

writes a file for each block into a folder, OUT, and prints the counts as JSON.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HIT = re.compile(
    r"set_memory_growth|set_visible_devices|set_(logical|virtual)_device_configuration|list_(physical|logical)_devices"
    r"|experimental_list_devices|ConfigProto|GPUOptions|is_gpu_available|gpu_device_name|list_local_devices|allow_growth"
    r"|per_process_gpu_memory_fraction|MirroredStrategy|OneDeviceStrategy|CentralStorageStrategy|TPUClusterResolver"
    r"|is_built_with_|set_soft_device_placement|set_log_device_placement|mixed_precision|get_memory_info|get_device_details"
    r"|enable_tensor_float_32|set_(intra|inter)_op_parallelism"
)
# What stands beside a match and is kept, too.
_BESIDE = re.compile(
    r"clear_session|set_session|set_floatx|set_seed|set_random_seed|__version__|CUDA_|TF_|NVIDIA_|get_logger|set_verbosity"
    r"|set_global_policy|set_policy|eager_execution|executing_eagerly|_v2_behavior|_initializer\(\)|initialize_all_variables"
    r"|enable_resource_variables|reset_default_graph|get_build_info|set_jit|run_functions_eagerly"
)
# What reads something from outside, or never ends.
_OUTSIDE = re.compile(
    r"\binput\(|\bopen\(|subprocess|os\.system|popen|argparse|parse_args|sys\.argv|sys\.exit|\bexit\(|\bquit\(|time\.sleep|socket"
)
_LIBRARIES = {"tensorflow", "numpy", *sys.stdlib_module_names}
_BUILT_IN = {*dir(builtins), "__name__", "__file__"}
_MOST = 8
_LARGEST = 500_000
# Names of repositories that hold no Python programs for TensorFlow.
NOT_PYTHON = re.compile(
    r"java|scala|swift|\.net|dotnet|ocaml|nim$|\.jl|js\b|lite|android|unity|docs?\b|runtime|mlir|serving|website|typescript|kotlin"
    r"|KTensorFlow|directml|musa|ofx|accelerate|[-_](fe|be|hud)$|Mern|2048|pytorch$|/tensorflow$|weapon|steam|source-engine|sourcemod"
    r"|ruby|nodejs|-node$|perl|-ios|chef|micropython|sharp$|-rs$|ondevice|-web$|deploy$|-shop",
    re.IGNORECASE,
)


def free(node: ast.AST) -> set[str]:
    """The names that a statement or an expression reads and does not bind itself."""
    read = {
        each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, (ast.Load, ast.Del))
    }
    inner = {
        name.id
        for each in ast.walk(node)
        if isinstance(each, ast.comprehension)
        for name in ast.walk(each.target)
        if isinstance(name, ast.Name)
    }
    inner |= {arg.arg for each in ast.walk(node) if isinstance(each, ast.Lambda) for arg in each.args.args}
    return read - inner - _BUILT_IN


def bound(node: ast.AST) -> set[str]:
    """The names that a statement binds."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(each.asname or each.name.partition(".")[0]) for each in node.names}
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _bodies(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], ast.arguments | None]]:
    """The module's body, and those of functions."""
    yield tree.body, None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.body, node.args


def _has_hit(body: Iterable[ast.AST]) -> bool:
    """Whether a body itself matches, without the functions and classes in it."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
            continue
        parts = [part for part in _parts(node) if part]
        if parts:
            if any(map(_has_hit, parts)) or HIT.search(_header(node)):
                return True
        elif HIT.search(ast.unparse(node)):
            return True
    return False


def _parts(node: ast.AST) -> list[list[ast.stmt]]:
    """The bodies of a compound statement."""
    handlers = [handler.body for handler in getattr(node, "handlers", [])]
    return (
        [
            getattr(node, "body", None) or [],
            *handlers,
            getattr(node, "orelse", None) or [],
            getattr(node, "finalbody", None) or [],
        ]
        if isinstance(node, (ast.If, ast.For, ast.With, ast.Try, ast.While))
        else []
    )


def _header(node: ast.AST) -> str:
    """The text of what a compound statement has before its body."""
    return " ".join(ast.unparse(each) for each in _expressions(node))


def _expressions(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.If, ast.While)):
        return [node.test]
    if isinstance(node, ast.For):
        return [node.iter]
    if isinstance(node, ast.With):
        return [item.context_expr for item in node.items]
    if isinstance(node, ast.Try):
        return [handler.type for handler in node.handlers if handler.type]
    return []


class Cutter:
    """Cuts one block."""

    def __init__(self, known: set[str]) -> None:
        self.known = known
        self.ours: set[str] = set()  # what the kept statements bind
        self.definitions: set[int] = set()  # kept only where something needs them

    def cut(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of a body that stay."""
        return [kept for node in body if (kept := self._kept(node)) is not None]

    def _kept(self, node: ast.stmt) -> ast.stmt | None:
        if isinstance(
            node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.While, ast.Global, ast.Nonlocal, ast.Delete)
        ):
            return None
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._import(node)
        if _parts(node):
            return self._compound(node)
        text = ast.unparse(node)
        if _OUTSIDE.search(text) or not free(node) <= self.known:
            return None
        if isinstance(node, (ast.Return, ast.Pass, ast.Raise, ast.Break, ast.Continue)):
            return node
        if HIT.search(text) or _BESIDE.search(text) or free(node) & self.ours:
            self.ours |= bound(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and not free(node) & _tensorflow_names:
            self.definitions.add(id(node))
        else:
            return None
        self.known |= bound(node)
        return node

    def _import(self, node: ast.Import | ast.ImportFrom) -> ast.stmt | None:
        module = node.names[0].name if isinstance(node, ast.Import) else node.module or ""
        if (
            module.partition(".")[0] not in _LIBRARIES
            or (isinstance(node, ast.ImportFrom) and node.level)
            or _OUTSIDE.search(module)
        ):
            return None
        if module.startswith("tensorflow"):
            _tensorflow_names.update(bound(node))
        self.known |= bound(node)
        self.definitions.add(id(node))
        return node

    def _compound(self, node: ast.stmt) -> ast.stmt | None:
        header = _expressions(node)
        reads = set().union(*map(free, header)) if header else set()
        if not reads <= self.known or _OUTSIDE.search(_header(node)):
            return None
        binds: set[str] = set()
        if isinstance(node, ast.For):
            binds = bound(node.target)
        if isinstance(node, ast.With):
            binds = set().union(*(bound(item.optional_vars) for item in node.items if item.optional_vars))
        mine = bool(HIT.search(_header(node)) or _BESIDE.search(_header(node)) or reads & self.ours) and not isinstance(
            node, ast.Try
        )
        self.known |= binds
        if mine:
            self.ours |= binds
        found = False
        for name in ("body", "orelse", "finalbody"):
            part = getattr(node, name, None)
            if part:
                found |= _has(part)
                setattr(node, name, self.cut(part) or ([ast.Pass()] if name == "body" else []))
        for handler in getattr(node, "handlers", []):
            if handler.name:
                self.known.add(handler.name)
                self.ours.add(handler.name)
            handler.body = self.cut(handler.body) or [ast.Pass()]
        worth = any(
            not isinstance(each, (ast.Pass, ast.Return, ast.Raise, ast.Break, ast.Continue))
            for part in _parts(node)
            for each in part
        )
        return node if mine or (found and worth) else None


def _has(part: list[ast.stmt]) -> bool:
    return bool(HIT.search(text := "\n".join(map(ast.unparse, part))) or _BESIDE.search(text))


_tensorflow_names: set[str] = set()


def _pruned(body: list[ast.stmt], definitions: set[int], needed: set[str]) -> list[ast.stmt]:
    """Leave out definitions that nothing below needs. ``needed`` grows."""
    stay: list[ast.stmt] = []
    for node in reversed(body):
        if id(node) in definitions and not bound(node) & needed:
            continue
        for name in ("finalbody", "orelse", "body"):
            part = getattr(node, name, None)
            if part:
                for handler in reversed(getattr(node, "handlers", [])) if name == "body" else []:
                    handler.body = _pruned(handler.body, definitions, needed) or [ast.Pass()]
                setattr(node, name, _pruned(part, definitions, needed) or ([ast.Pass()] if name == "body" else []))
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            node.names = [each for each in node.names if (each.asname or each.name.partition(".")[0]) in needed]
        needed |= free(node)
        stay.insert(0, node)
    return stay


def block_of(source: str) -> str | None:
    """Return the block of a file, or None if it has none."""
    tree = ast.parse(source)
    _tensorflow_names.clear()
    body, arguments = next((found for found in _bodies(tree) if _has_hit(found[0])), (None, None))
    if body is None:
        return None
    cutter = Cutter(set())
    if arguments is None:
        kept = cutter.cut(body)
        kept = _pruned(kept, cutter.definitions, set())
    else:
        for node in tree.body:  # what the function may need of the module
            if isinstance(node, (ast.Import, ast.ImportFrom)) or (
                isinstance(node, ast.Assign) and not HIT.search(ast.unparse(node))
            ):
                cutter._kept(node)
        outer = [node for node in tree.body if id(node) in cutter.definitions]
        defaults = dict(zip([each.arg for each in arguments.args][::-1], arguments.defaults[::-1], strict=False))
        given = {name: value for name, value in defaults.items() if isinstance(value, ast.Constant)}
        cutter.known |= set(given)
        cutter.known -= {each.arg for each in arguments.args} - set(given)
        inner = cutter.cut(body)
        needed: set[str] = set()
        inner = _pruned(inner, cutter.definitions, needed)
        if not inner:
            return None
        function = ast.parse("def block():\n    pass\nblock()").body
        function[0].body = inner  # type: ignore[attr-defined]
        function[0].args = ast.arguments(  # type: ignore[attr-defined]
            [], [ast.arg(name) for name in given], None, [], [], None, list(given.values())
        )
        kept = [*_pruned(outer, cutter.definitions, needed), *function]
    text = ast.unparse(ast.fix_missing_locations(ast.Module(kept, [])))
    lines = [line for line in text.splitlines() if not re.match(r"\s*(import|from) ", line)]
    if "tensorflow" not in text or not HIT.search("\n".join(lines)):
        return None
    compile(text, "block", "exec")
    return text


def source_of(path: str, data: bytes) -> str:
    """Return a file's Python source."""
    text = data.decode()
    if path.endswith(".py"):
        return text
    cells = json.loads(text)["cells"]
    code = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return "\n".join(line for cell in code for line in cell.splitlines() if not line.lstrip().startswith(("%", "!")))


def _git(directory: str, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", f"--git-dir={directory}", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    ).stdout


def _matching(directory: str) -> set[str]:
    """The files that match: `git grep` is much faster than reading each file."""
    command = ["git", f"--git-dir={directory}", "grep", "-l", "-z", "-E", HIT.pattern, "HEAD", "--", "*.py", "*.ipynb"]
    found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode(
        errors="replace"
    )
    return {name.removeprefix("HEAD:") for name in found.split("\0")}


def blocks_of(directory: str) -> tuple[dict[str, str], int]:
    """Return the blocks of a repository that the rule takes, by path, and how many there were."""
    listed = _git(directory, "ls-tree", "-r", "-l", "-z", "HEAD").decode(errors="replace").split("\0")
    paths = []
    for row in filter(None, listed):
        about, _, path = row.partition("\t")
        size = about.split()[3]
        if path == "tensorflow/python/eager/context.py":
            return {}, 0
        if (
            path.endswith((".py", ".ipynb"))
            and "site-packages/" not in path
            and size.isdigit()
            and int(size) <= _LARGEST
        ):
            paths.append(path)
    found: dict[str, str] = {}
    for path in sorted(set(paths) & _matching(directory)):
        try:
            data = _git(directory, "show", f"HEAD:{path}")
            if not HIT.search(data.decode(errors="replace")):
                continue
            text = block_of(source_of(path, data))
        except (SyntaxError, ValueError, KeyError, TypeError, RecursionError, subprocess.CalledProcessError):
            continue  # not Python 3, not a notebook, or not in the snapshot
        if text is not None and text not in found.values():
            found[path] = text
    names = list(found)
    taken = names if len(names) <= _MOST else [names[i * len(names) // _MOST] for i in range(_MOST)]
    return {name: found[name] for name in taken}, len(found)


def main(out: str, *repositories: str) -> None:
    """Write the blocks."""
    taken: dict[str, int] = {}
    everything: set[str] = set()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for each in repositories:
        repository, _, directory = each.partition("=")
        found, _ = blocks_of(directory)
        for number, text in enumerate(found.values()):
            if text not in everything:
                everything.add(text)
                taken[repository] = taken.get(repository, 0) + 1
                (folder / f"{re.sub(r'[^A-Za-z0-9]', '_', repository)}__{number}.py").write_text(text + "\n")
    print(json.dumps({"blocks": sum(taken.values()), "repositories": taken}))


if __name__ == "__main__":
    main(*sys.argv[1:])
