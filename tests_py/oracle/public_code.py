"""Blocks of public code that configure GPUs: how they are drawn, and how many end and print as with TensorFlow.

    python tests_py/oracle/public_code.py draw MIRROR WORK     write the blocks to WORK, and add them to the list here
    python tests_py/oracle/public_code.py draw MIRROR WORK 3   the same, as a part of their own
    python tests_py/oracle/public_code.py judge WORK PART      run one part of the list on TensorFlow and on gpuconf

**Repositories.** ``MIRROR`` has a bare copy of each. A search of repository names for the words of ``NAMES`` gave about
100 of the 143: the first hits of each word, at most as many as ``NAMES`` says, without those of other languages and
uses (``OTHERS``) and those of which no copy could be fetched. About 45 were chosen by hand, for what they are known
for: textbooks, courses, translations and computing centres' pages; at least 37 of the 83 blocks are from these. So
the list is no random sample of public code.

**The rule.** Of the newest commit, text documents, notebooks and Python files of at most ``LINES`` lines count if they
have one of ``STRINGS``, which no name of TensorFlow's suggests. Of these, a block is a fenced block, a cell or a file
that

- is Python without a shell's and IPython's lines, with the imports of the blocks before it (of TensorFlow, NumPy and
  the standard library) and ``import tensorflow as tf`` where it has none;
- calls TensorFlow, and at least half of these calls configure, place or measure (``SETTINGS``);
- is no other block's twin but for comments, texts and numbers; at most 3 of a file and 12 of a repository count.

TensorFlow runs each without GPUs, since those of imaginary_gpus.cc compute nothing but zeros; a block that calls only
``SETTINGS`` runs on the machines of ``MACHINES``, beginning with the one that the block's hash chooses. The first on
which it ends with 0 within ``SECONDS`` is the block's machine. A block without one is tried once more after all blocks
before it in its file, without GPUs, if the whole is short and meets the rule; else it is not in the list. TensorFlow
says of its build what its wheel for GPUs says. The hash also says which part a block is in: the second is not read
before the first is fixed. A line that two runs of TensorFlow print differently is not compared.

The rule was changed twice. Longer files, and more blocks of a file and of a repository, were allowed before the first
list. After that list had been judged, blocks that compute lost their imaginary GPUs, and blocks were tried after those
before them in their file; the list was drawn anew, and a part of it is other blocks. Blocks of the words of ``MORE``
were added later, all hits that could be fetched; none was chosen by hand. So were those of ``WORDS``, ``PATHS`` and
``FILES``, in this order, as far as repositories could be fetched: rows of the index's answers in their order, without
looking into them; of the last four paths fewer, and none whose name is about another subject. Words and paths whose
answers named other things (sound, games) were left out. 105 repositories of the first ones had 12 blocks; ``FILES`` was
added then, before one of them had been run or read. ``THIRD`` is a third part, which is judged once: its blocks are of
repositories without a block in the list. A twin of a block of the earlier list does not count, and neither
does one that starts programs, removes files or downloads (``OUTSIDE``).

The code is other people's: ``public_code.txt`` has where it is, and its hash.
"""

import ast
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
LIST = HERE / "public_code.txt"
NAMES = {
    "tensorflow-notes": 12,
    "tensorflow2": 12,
    "tensorflow-gpu": 40,
    "learn-tensorflow": 12,
    "tensorflow-tutorial": 12,
    "tensorflow-install": 12,
    "gpu-setup": 12,
    "deep-learning-notes": 12,
    "distributed-tensorflow": 20,
    "tensorflow-book": 12,
    "handson-ml": 12,
}
# Words of a second drawing, at most 12 hits of each: their blocks come to those of the first.
MORE = ("tensorflow-practice", "tensorflow-course", "tensorflow-guide", "keras-gpu", "tf-gpu")
# Of a third drawing: at most 12 hits of each word, and repositories that have a file at a path: 12 of each of PATHS, 25
# of each of FILES.
WORDS = "tensorflow-learning tensorflow-examples hpc-docs"
PATHS = """
docs/tensorflow.md tensorflow.md TensorFlow.md docs/TensorFlow.md docs/software/tensorflow.md
tf_gpu.py tensorflow_gpu.py tf_gpu.ipynb tensorflow_gpu.ipynb
"""
FILES = """
tf_gpu_test.py test_tf_gpu.py check_tf_gpu.py tensorflow_gpu_test.py tf-gpu.py tf_gpu_check.py tensorflow-gpu.md
tensorflow-gpu.ipynb tf_gpu_test.ipynb tensorflow_gpu_test.ipynb check_tensorflow_gpu.py verify_tensorflow.py
check_tf.py tensorflow-test.ipynb distributed_training.ipynb GPU测试.py gpu测试.py 分布式训练.ipynb tensorflow安装.md
check_gpu.ipynb GPU_test.ipynb gpu_test.ipynb test_gpu.ipynb
"""
# Of a third sample, drawn after the second had been read: at most 10 hits of each word, in this order, without
# repositories of earlier draws. (The paths gpu_memory.py and gpu.ipynb were looked up first; nearly all of their
# repositories are about PyTorch, and none was fetched.)
THIRD = """
tensorflow-benchmark tensorflow-multi multi-gpu-tensorflow tensorflow-basics tensorflow-performance tf-distribute
tensorflow-distribut tensorflow-notebook tensorflow-tips tf2-tutorial tensorflow-workshop tensorflow-fundamentals
tensorflow-windows tensorflow-tutorials tensorflow_tutorial
"""
# The words above gave 12 blocks, so at most 40 hits of each of these were added, before one was judged or read.
THIRD_TOO = "tensorflow_gpu tensorflow-cuda gpu-tensorflow"
OTHERS = re.compile(r"js|sharp|DotNet|ofx|docker|webgpu|wgpu|2048|torch|yolo|llm|gpt|llama|rust", re.IGNORECASE)
STRINGS = (
    """
显存|显卡|메모리|그래픽|メモリ|の使用|видеопам|видеокарт|placa de v|memória|tarjeta gr|memoria
carte graph|mémoire|Grafikkarte|Speicher|ekran kart|card đồ|scheda video|pamięci
Num GPUs|Physical GPU|GPU is|GPU was|Is GPU|Is there|have been initialized|set before
out of memory|OOM|nvidia-smi|CUDA_VISIBLE|hogging|Colab|conda|Number of devices
several GPUs|multiple GPUs|multi-gpu|Found GPU|Default GPU|is installed|cuDNN|CUDA
on the GPU|on GPU|GPUs
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
SETTINGS = re.compile(
    r"tensorflow\.(compat\.v[12]\.|python\.)?(config\b|device$|distribute\b|(Interactive)?Session$|ConfigProto"
    r"|GPUOptions|test\.|sysconfig|client\.device_lib|debugging\.set_log"
    r"|(keras\.)?backend\.(tensorflow_backend\.)?(set|get|clear)_ses"
    r"|train\.(ClusterSpec|Server)|DeviceSpec|get_logger|logging\b|executing_eagerly|enable_|disable_|profiler"
    r"|contrib\.distribute|saved_model\.load_options|Version|tpu\b|keras\.mixed_precision|keras\.utils\.multi_gpu)"
)
MACHINES = ("2xT4", "T4", "")
# What a block does that is not run here: it starts programs (one uninstalled TensorFlow), removes files, or downloads.
OUTSIDE = re.compile(r"subprocess|os\.(system|popen|exec|remove|kill)|rmtree|unlink|\bpip3?\b|requests|urllib|get_file")
LINES, SECONDS, OF_FILE, OF_REPOSITORY = 150, 60, 3, 12
SUFFIXES = (".md", ".rst", ".ipynb", ".py", ".txt")


class Block(NamedTuple):
    """A block, and where it is."""

    repository: str
    path: str
    number: int
    source: str
    settings: bool  # it calls nothing else
    whole: str  # the same after all blocks before it in its file; "" if these are too long, or mostly do other things

    @property
    def key(self) -> str:
        """What stands for the block in the list."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]


def blocks_of(path: str, text: str) -> list[str]:
    """The blocks of a file, in order."""
    if path.endswith(".ipynb"):
        try:
            cells = json.loads(text)["cells"]
        except (ValueError, KeyError, TypeError):
            return []
        return ["".join(cell.get("source", "")) for cell in cells if cell.get("cell_type") == "code"]
    if path.endswith(".py"):
        return [text] if text.count("\n") <= LINES else []
    fenced = re.findall(r"^ *```[^\n]*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    literal = re.findall(r"^\.\. code[^\n]*\n((?:[ \t]+[^\n]*\n|\n)+)", text, re.MULTILINE)
    return fenced + literal


def python_of(block: str) -> ast.Module | None:
    """A block as Python: of a dialogue its input, without a shell's and IPython's lines."""
    lines = block.replace("\r", "").expandtabs().splitlines()
    if any(line.lstrip().startswith(">>> ") for line in lines):
        lines = [line.lstrip()[4:] for line in lines if line.lstrip().startswith((">>> ", "... "))]
    lines = [line for line in lines if not line.lstrip().startswith(("!", "%"))]
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    try:
        return ast.parse("\n".join(line[margin:] for line in lines))
    except (SyntaxError, ValueError):
        return None


def imports_of(module: ast.Module) -> list[ast.stmt]:
    """The imports of TensorFlow, NumPy and the standard library."""
    allowed = sys.stdlib_module_names | {"tensorflow", "numpy"}
    return [
        line
        for line in module.body
        if (isinstance(line, ast.Import) and all(name.name.split(".")[0] in allowed for name in line.names))
        or (isinstance(line, ast.ImportFrom) and (line.module or "").split(".")[0] in allowed)
    ]


def calls_of(module: ast.Module) -> list[str]:
    """The names of TensorFlow's that a program calls."""
    names: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "tensorflow":
                    names[name.asname or "tensorflow"] = name.name if name.asname else "tensorflow"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tensorflow":
            names |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    calls = []
    for node in ast.walk(module):
        words = []
        name = node.func if isinstance(node, ast.Call) else None
        while isinstance(name, ast.Attribute):
            words.append(name.attr)
            name = name.value
        if isinstance(name, ast.Name) and name.id in names:
            calls.append(".".join([names[name.id], *reversed(words)]))
    return calls


def shape_of(module: ast.Module) -> str:
    """What twins have in common."""
    return re.sub(r"Constant\([^)]*\)", "", ast.dump(module))


def collect(mirror: Path) -> list[Block]:
    """All blocks of the mirrored repositories that the rule describes."""
    seen: set[str] = set()
    blocks = []
    listed = {row.split("\t")[3] for row in LIST.read_text().splitlines()}

    def order(folder: Path) -> tuple[bool, bytes]:
        return folder.name.replace("+", "/", 1) not in listed, hashlib.sha256(folder.name.encode()).digest()

    for folder in sorted(mirror.iterdir(), key=order):
        if not (folder / "repo").is_dir():
            continue
        name, of_repository = folder.name.replace("+", "/", 1), list[Block]()
        for path, text in _files(folder / "repo"):
            of_file, imports, before = 0, [], list[ast.stmt]()
            for number, block in enumerate(blocks_of(path, text)):
                module = python_of(block)
                if module is None:
                    continue
                calls_it = "tensorflow" in block or re.search(r"\btf\.", block)
                body = ast.Module([*({ast.unparse(line): line for line in imports}.values()), *module.body], [])
                if "tensorflow" not in ast.unparse(body):
                    body.body.insert(0, ast.parse("import tensorflow as tf").body[0])
                imports += imports_of(module)
                before += module.body
                calls = calls_of(body) if calls_it else []
                settings = sum(SETTINGS.match(name) is not None for name in calls)
                if not settings or settings * 2 < len(calls) or of_file == OF_FILE or shape_of(module) in seen:
                    continue
                seen.add(shape_of(module))
                of_file += 1
                source = ast.unparse(ast.fix_missing_locations(body)) + "\n"
                if OUTSIDE.search(source) and name not in listed:
                    continue
                of_repository.append(Block(name, path, number, source, settings == len(calls), whole_of(before)))
        blocks += sorted(of_repository, key=lambda block: block.key)[:OF_REPOSITORY]
    return blocks


def whole_of(body: list[ast.stmt]) -> str:
    """Return a file's blocks up to one as a program, if it is short and mostly configures, places or measures."""
    module = ast.Module(body, [])
    calls = calls_of(module)
    source = ast.unparse(ast.fix_missing_locations(module)) + "\n"
    settings = sum(SETTINGS.match(name) is not None for name in calls)
    fits = source.count("\n") <= LINES and settings * 2 >= len(calls)
    return source if fits and not OUTSIDE.search(source) else ""


def _files(repository: Path) -> list[tuple[str, str]]:
    """The files of the newest commit that have TensorFlow's name and one of ``STRINGS``."""
    git, environ = ["git", "-C", str(repository)], {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    listed = subprocess.run([*git, "ls-tree", "-rlz", "HEAD"], capture_output=True, text=True, check=False).stdout
    names = {}
    for row in filter(None, listed.split("\0")):
        about, _, path = row.partition("\t")
        _, kind, name, size = about.split()
        if kind == "blob" and path.endswith(SUFFIXES) and size.isdigit() and int(size) <= 1_000_000:
            names[path] = name
    command, rows = [*git, "cat-file", "--batch"], "\n".join(names.values()).encode() + b"\n"
    content = subprocess.run(command, input=rows, capture_output=True, env=environ, check=False).stdout
    files, start = [], 0
    for path in names:
        end = content.find(b"\n", start)
        head, start = content[start:end], end + 1
        if head.endswith(b"blob %d" % (size := int(head.split()[-1]) if head[-1:].isdigit() else -1)):
            text = content[start : start + size].decode(errors="replace")
            start += size + 1
            if "tensorflow" in text and any(string in text for string in STRINGS):
                files.append((path, text))
    return files


def results(mode: str, programs: list[tuple[str, str, str]]) -> dict[str, tuple[int, str, str]]:
    """What became of programs (name, source, machine): each one's exit code, output and errors."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(programs, file)
        file.flush()
        command = [sys.executable, __file__, "run", mode, file.name]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return {name: (code, out, err) for name, code, out, err in map(json.loads, done.stdout.splitlines())}


def run(mode: str, file: str) -> None:
    """Run programs as ``tests_py/run_programs.py`` does, with a limit of time."""
    sys.path[:0] = [str(HERE.parent)]
    sys.path.append(str(HERE.parents[1] / "benchmarks" / "public_code"))
    import compare
    import run_programs as runner

    table = runner.programs()
    table.clear()
    for name, source, machine in json.loads(Path(file).read_text()):
        table[name] = runner.Program(name, source, machine, [], {}, "", "", [], 0)
    become = runner.become

    def limited(program: Any, mode: str) -> None:
        signal.alarm(SECONDS)
        os.chdir(tempfile.mkdtemp())
        if mode == "tensorflow":
            compare.build_for_gpus()
        become(program, mode)

    runner.become = limited
    runner.main(mode, list(table))


def draw(mirror: Path, work: Path, part: str = "") -> None:
    """Write the blocks that TensorFlow runs to its end, and their list. Without ``part``, the hash chooses it."""
    blocks = {block.key: block for block in collect(mirror)}
    print(len(blocks), "blocks before TensorFlow runs them", flush=True)
    machines: dict[str, str] = {}
    for turn in range(len(MACHINES)):
        order = {
            key: MACHINES[(int(key, 16) + turn) % len(MACHINES)] if block.settings else ""
            for key, block in sorted(blocks.items())
            if key not in machines and (block.settings or not turn)
        }
        programs = [(key, blocks[key].source, machine) for key, machine in order.items()]
        ended = results("tensorflow", programs)
        machines |= {key: order[key] for key, (code, _, _) in ended.items() if code == 0}
        print(len(machines), "run to their end", flush=True)
    whole = {
        block.key: block
        for block in (each._replace(source=each.whole) for key, each in blocks.items() if key not in machines)
        if block.source
    }
    ended = results("tensorflow", [(key, block.source, "") for key, block in whole.items()])
    blocks |= whole
    machines |= {key: "" for key, (code, _, _) in ended.items() if code == 0 and key not in machines}
    print(len(machines), "with the blocks before them", flush=True)
    work.mkdir(exist_ok=True)
    rows = {row.split("\t")[1]: row for row in LIST.read_text().splitlines()}
    for key in sorted(machines):
        (work / f"{key}.py").write_text(blocks[key].source)
        chosen = part or str(1 + int(key[-1], 16) % 2)
        rows.setdefault(key, "\t".join([chosen, key, machines[key] or "-", *map(str, blocks[key][:3])]))
    LIST.write_text("".join(f"{rows[key]}\n" for key in sorted(rows)))


def judge(work: Path, part: str) -> None:
    """Run the blocks of a part on both, and say how many end and print alike."""
    sys.path[:0] = [str(HERE.parent)]
    from oracle.programs import _same

    rows = [row.split("\t") for row in LIST.read_text().splitlines() if row.startswith(part)]
    rows = [row for row in rows if (work / f"{row[1]}.py").exists()]  # those of the repositories that were drawn there
    programs = [(row[1], (work / f"{row[1]}.py").read_text(), row[2].strip("-")) for row in rows]
    theirs, again, ours = (results(mode, programs) for mode in ("tensorflow", "tensorflow", "installed"))
    files = {row[1] for row in rows if row[4].endswith(".py")}
    counts: dict[bool, Counter[str]] = {whole: Counter() for whole in (False, True)}
    needs: Counter[str] = Counter()
    for name, _, machine in programs:
        (code, out, _), (_, second, _), (our_code, our_out, our_err) = theirs[name], again[name], ours[name]
        lines, others = out.splitlines(), our_out.splitlines()
        if len(lines) == len(others) == len(second.splitlines()):
            fixed = [line == other for line, other in zip(lines, second.splitlines(), strict=True)]
            lines, others = ([line for line, same in zip(of, fixed, strict=True) if same] for of in (lines, others))
        ends, prints = our_code == code, _same(others, lines)
        needs.update(re.findall(r"(\S+) needs TensorFlow", our_err) if not ends else ())
        counts[name in files].update(blocks=1, ends=ends, prints=ends and prints)
        if not (ends and prints):
            print("==", name, machine, "ends" if ends else our_err.splitlines()[-1:])
            print("\n".join(f"  TensorFlow {line!r}\n  gpuconf    {other!r}" for line, other in _unlike(lines, others)))
    for what, count in (("all", counts[False] + counts[True]), ("whole files", counts[True])):
        rates = {each: f"{count[each] / count['blocks']:.1%}" for each in ("ends", "prints") if count["blocks"]}
        print(what, dict(count), rates)
    print(needs.most_common())


def _unlike(lines: list[str], others: list[str]) -> list[tuple[str, str]]:
    pairs = [(lines[i] if i < len(lines) else "", others[i] if i < len(others) else "") for i in range(40)]
    return [(line, other) for line, other in pairs if line != other][:3]


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*sys.argv[2:])
    elif sys.argv[1] == "draw":
        draw(Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
    else:
        judge(Path(sys.argv[2]), sys.argv[3])
