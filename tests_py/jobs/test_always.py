# SPDX-License-Identifier: Apache-2.0
"""Whatever way a program of ``gpuconf run --simulate`` starts Python, that Python runs gpuconf's startup code.

``torch`` is a module of one line here, which says whether it did. ``frameworks/simulated/test_always_simulated.py`` has
PyTorch itself.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

import gpuconf
import pytest
from command import COMMAND
from script import environment

PACKAGE = Path(gpuconf.__file__).parent
LIBRARY = PACKAGE / "_always" / "libgpuconf-always.so"
LINE = Path(sysconfig.get_path("purelib"), "gpuconf_startup.pth")
ON = {"GPUCONF_STARTUP": "1", "GPUCONF_SIMULATE": "T4"}
SIMULATED = "simulated T4\n"

TORCH = """
import os, sys
print("simulated" if "gpuconf" in sys.modules else "on the CPU", os.environ.get("GPUCONF_SIMULATE"))
"""


class Program:
    """A folder with a program that imports the stand-in, and what runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "lib").mkdir()
        (folder / "lib" / "torch.py").write_text(TORCH)
        self.path = folder / "train.py"
        self.path.write_text(f"import sys\nsys.path.insert(0, {str(folder / 'lib')!r})\nimport torch\n")

    def started(self, words: Sequence[object], **variables: str) -> subprocess.CompletedProcess[str]:
        command, env = list(map(str, words)), environment(variables)
        return subprocess.run(
            command, capture_output=True, text=True, env=env, cwd=self.folder, timeout=60, check=False
        )

    def run(self, *words: object, **variables: str) -> tuple[int, str, str]:
        done = self.started([COMMAND, "run", "--simulate=T4", "--", *words], **variables)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        "python train.py",
        "python -I train.py",
        "python -E train.py",
        "python -S train.py",
        "python -X dev train.py",  # its allocator frees the hook
        "env PYTHONMALLOC=debug python train.py",
        "env PYTHONPATH=/nowhere python train.py",
        "env LD_PRELOAD= LD_LIBRARY_PATH=/nowhere python -I train.py",
        "env -u GPUCONF_STARTUP -u LD_PRELOAD python -I train.py",
        "env -i {python} -I train.py",
        "env -i {python} -E -m train",
        "env -i {python} -I folder",
        "sh -c 'PYTHONPATH=. exec python -I train.py'",
        "sh -c 'cd / && env -i sh -c \"{python} -I {folder}/train.py\"'",
        "sh -c 'env -i {python} -I < train.py'",
        "./train.sh",
        "./script",
    ],
)
def test_a_python_is_simulated(program: Program, words: str) -> None:
    (program.folder / "folder").mkdir()
    shutil.copy(program.path, program.folder / "folder" / "__main__.py")
    (program.folder / "train.sh").write_text(f"PYTHONPATH=. env -i {sys.executable} -E train.py\n")
    (program.folder / "script").write_text(f"#!{sys.executable} -I\n{program.path.read_text()}")
    for name in ("train.sh", "script"):
        (program.folder / name).chmod(0o755)
    split = shlex.split(words.format(python=sys.executable, folder=program.folder))
    assert program.run(*split) == (0, SIMULATED, "")


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run(command, env={}, check=True)",
        "subprocess.run(command, env={}, check=True, close_fds=False)",  # by posix_spawn, where Python does
        "os.posix_spawn(command[0], command, {}); os.wait()",
        "os.posix_spawnp(command[0], command, {}); os.wait()",
        "os.environ.clear(); os.system(' '.join(command))",
        "os.environ.clear(); sys.stdout.write(os.popen(' '.join(command)).read())",
        "os.environ.clear(); os.execv(command[0], command)",
        "os.execve(command[0], command, {})",
        "os.execve(os.open(command[0], os.O_RDONLY), command, {})",
        "libc.execl(path, path, b'-I', b'train.py', None)",
        "os.environ.clear(); libc.execl(path, path, b'-I', b'train.py', None)",
        "libc.execle(path, path, b'-I', b'train.py', None, (ctypes.c_char_p * 1)())",
        "os.environ.clear(); libc.execlp(path, path, b'-I', b'train.py', None)",
        "os.environ.clear(); libc.execvp(path, (ctypes.c_char_p * 4)(path, b'-I', b'train.py'))",
        "libc.execvpe(path, (ctypes.c_char_p * 4)(path, b'-I', b'train.py'), (ctypes.c_char_p * 1)())",
        "libc.execveat(-100, path, (ctypes.c_char_p * 4)(path, b'-I', b'train.py'), (ctypes.c_char_p * 1)(), 0)",
    ],
)
def test_each_way_to_start_a_program_keeps_what_makes_it_simulated(program: Program, code: str) -> None:
    before = f"import ctypes, os, subprocess, sys\ncommand = [{sys.executable!r}, '-I', 'train.py']\n"
    before += "path, libc = command[0].encode(), ctypes.CDLL(None)\n"
    assert program.run(sys.executable, "-c", before + code) == (0, SIMULATED, "")


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_of_multiprocessing(program: Program, method: str) -> None:
    (program.folder / "pool.py").write_text(f"""
import multiprocessing, os, sys
sys.path.insert(0, {str(program.folder / "lib")!r})
def work():
    import torch
if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    one = multiprocessing.get_context({method!r}).Process(target=work)
    one.start()
    one.join()
    sys.exit(one.exitcode)
""")
    assert program.run("env", "-i", sys.executable, "-E", "pool.py") == (0, SIMULATED, "")


@pytest.mark.parametrize("has_gpuconf", [False, True])
def test_a_virtual_environment(program: Program, has_gpuconf: bool) -> None:
    venv.create(program.folder / "venv", with_pip=False, symlinks=True)
    python = program.folder / "venv" / "bin" / "python"
    if has_gpuconf:
        (site,) = (program.folder / "venv").glob("lib/python*/site-packages")
        for name in ("gpuconf", "_gpuconf_startup.py", "gpuconf_startup.pth"):
            (site / name).symlink_to(LINE.parent / name)
    for options in ([], ["-I"]):
        assert program.run(python, *options, "train.py") == (0, SIMULATED, "")
        assert program.run("env", "-i", python, *options, "train.py") == (0, SIMULATED, "")


def test_the_layout_of_conda(program: Program) -> None:
    """A prefix of its own, with the program and the libraries below it, and nothing of a virtual environment."""
    prefix, version = program.folder / "conda", f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    python = prefix / "bin" / version
    shutil.copy(Path(sys.base_prefix, "bin", version), python)
    (prefix / "lib" / version).symlink_to(Path(sys.base_prefix, "lib", version))
    variables = {"LD_LIBRARY_PATH": f"{sys.base_prefix}/lib"}  # for one with a libpython
    words = ("env", "PYTHONPATH=/nowhere", f"PYTHONHOME={prefix}", python, "train.py")
    assert program.run(*words, **variables) == (0, SIMULATED, "")


@pytest.mark.skipif(shutil.which("uv", path=environment()["PATH"]) is None, reason="uv is not installed")
def test_uv_run(program: Program) -> None:
    words = ["uv", "run", "--quiet", "--offline", "--no-project", "--python", sys.executable]
    assert program.run(*words, "train.py", UV_CACHE_DIR=str(program.folder / "cache")) == (0, SIMULATED, "")
    words += ["python", "-I", "train.py"]
    assert program.run(*words, UV_CACHE_DIR=str(program.folder / "cache")) == (0, SIMULATED, "")


def compiled(folder: Path, code: str, *options: str) -> Path:
    (folder / "one.c").write_text(code)
    subprocess.run(["cc", "-o", folder / "one", folder / "one.c", *options], check=True, capture_output=True)
    return folder / "one"


def test_a_static_binary_that_starts_python(program: Program) -> None:
    code = "#include <unistd.h>\nint main(int n, char **words) { return execv(words[1], words + 1); }"
    try:
        static = compiled(program.folder, code, "-static")
    except subprocess.CalledProcessError:
        pytest.skip("this machine has no static libc")
    assert program.run(static, sys.executable, "-I", "train.py") == (0, SIMULATED, "")


def test_a_program_that_loads_python_and_starts_it_twice(program: Program) -> None:
    name = f"libpython{sys.version_info[0]}.{sys.version_info[1]}.so.1.0"
    places = (Path(sysconfig.get_config_var("LIBDIR"), name), Path("/usr/lib/x86_64-linux-gnu", name))
    library = next((place for place in places if place.exists()), None)
    if library is None:
        pytest.skip(f"there is no {name}")
    code = f"""
#include <dlfcn.h>
#define CALL(name, argument) ((int (*)())dlsym(library, #name))(argument)
int main(int n, char **words)
{{
    void *library = dlopen("{library}", RTLD_NOW | RTLD_GLOBAL);
    CALL(Py_Initialize, 0); CALL(PyRun_SimpleString, words[1]); CALL(Py_Finalize, 0);
    CALL(Py_Initialize, 0); CALL(PyRun_SimpleString, words[2]); CALL(Py_Finalize, 0);
    return 0;
}}
"""
    host = compiled(program.folder, code, "-w", "-ldl")
    source = f"import _json\n{program.path.read_text()}"
    assert program.run(host, source, source) == (0, SIMULATED * 2, "")


def test_the_command_simulate_does_the_same(program: Program) -> None:
    done = program.started([COMMAND, "simulate", "T4", "--", "env", "-i", sys.executable, "-I", "train.py"])
    assert (done.stdout, done.stderr) == (SIMULATED, "")


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_what_cannot_be_rehearsed_ends_before_it_uses_a_framework(program: Program, library: str) -> None:
    """It said so at the start of each Python, and ran the program as it is."""
    (program.folder / "lib" / "gpuconf.py").write_text("raise ImportError('broken')")
    (program.folder / "lib" / "jax.py").write_text(TORCH)
    program.path.write_text(f"print('before')\nimport {library}\n")
    words = ["env", f"PYTHONPATH={program.folder}/lib", sys.executable, "train.py"]
    done = program.started([COMMAND, "plan", "--gpu=T4", "--", *words])
    said = f"before\ngpuconf plan: {sys.executable} is not rehearsed: ImportError: broken\n"
    assert (done.returncode, done.stdout, done.stderr[: len(said)]) == (1, "", said)
    assert "on the CPU" not in done.stderr


def test_a_program_with_a_limit_has_it_too(program: Program) -> None:
    limited = [COMMAND, "run", "--simulate=T4", "--memory=1GiB", "--", "env", "-i", sys.executable, "-I", "train.py"]
    with program.path.open("a") as file:
        file.write(f"sys.path.append({str(PACKAGE.parent)!r})\nimport gpuconf\n")
        file.write("gpuconf.config.list_logical_devices('GPU')\nprint(gpuconf.memory.stats('GPU:0').bytes_limit)\n")
    done = program.started(limited)
    assert (done.stdout, done.stderr, done.returncode) == (f"{SIMULATED}{1 << 30}\n", "", 0)


def test_the_programs_own_libraries_stay_before_ours(program: Program) -> None:
    code = "import os; print(os.environ['LD_PRELOAD'].split(), os.environ['LD_LIBRARY_PATH'])"
    own = compiled(program.folder, "int one;", "-shared", "-fPIC")
    variables = [f"LD_PRELOAD={own}", "LD_LIBRARY_PATH=/nowhere"]
    expected = f"{[f'{own}:{LIBRARY}']} {PACKAGE}/_simulator:/nowhere\n"
    assert program.run("env", "-i", *variables, sys.executable, "-c", code) == (0, expected, "")
    out = program.run(sys.executable, "-c", "import os; print(os.environ['LD_PRELOAD'])", LD_PRELOAD=str(own))
    assert out == (0, f"{own} {LIBRARY}\n", "")


def test_it_can_be_left_out(program: Program) -> None:
    assert program.run("env", "GPUCONF_DISABLE=1", sys.executable, "train.py") == (0, "on the CPU T4\n", "")
    assert program.run("env", "-u", "GPUCONF_SIMULATE", sys.executable, "train.py")[1] == "on the CPU None\n"
    done = program.started([COMMAND, "run", "--", sys.executable, "train.py"])
    assert done.stdout == "on the CPU None\n"
    assert done.stderr.startswith("gpuconf run: no option is given, so the program runs as without gpuconf.")


@pytest.mark.parametrize("options", [(), ("-I",)])
def test_a_python_that_cannot_load_gpuconf_ends_before_pytorch(program: Program, options: tuple[str, ...]) -> None:
    (program.folder / "lib" / "gpuconf.py").write_text("raise ImportError('broken')")
    caught = "print('before')\ntry: import torch\nexcept BaseException: pass"
    source = program.path.read_text().replace("import torch", caught)
    program.path.write_text(f"{source}\nprint('on the CPU')")
    code, out, error = program.run(sys.executable, *options, "train.py")
    assert (code, out) == (1, "before\n")
    assert error == f"gpuconf run --simulate: {sys.executable} sees no simulated GPUs for torch: broken\n"


def old_python() -> str | None:
    """A Python from before 3.8, which has no audit hooks."""
    here = [shutil.which(f"python3.{minor}") for minor in (6, 7)]
    found = [*filter(None, here), *map(str, Path.home().glob(".pyenv/versions/3.[67].*/bin/python"))]
    works = (one for one in found if subprocess.run([one, "-c", ""], capture_output=True, check=False).returncode == 0)
    return next(works, None)


def test_a_python_without_audit_hooks_ends_when_it_loads_pytorch(program: Program) -> None:
    python = old_python()
    if python is None:
        pytest.skip("there is no Python before 3.8")
    loading = "try: ctypes.CDLL('/nowhere/libtorch_global_deps.so')\nexcept OSError: pass"
    (program.folder / "lib" / "torch.py").write_text(f"import ctypes\n{loading}\nprint('on the CPU')\n")
    error = "gpuconf: PyTorch sees no simulated GPUs in a Python before 3.10\n"
    assert program.run(python, "-I", "train.py") == (1, "", error)


def test_a_library_that_runs_in_every_program_is_not_seen_by_them(program: Program) -> None:
    assert program.run("sh", "-c", "echo out; echo error >&2; exit 3") == (3, "out\n", "error\n")
    assert program.run("perl", "-e", "print 1 + 1") == (0, "2", "")


# The .pth file


def test_the_line_starts_what_is_not_preloaded(program: Program) -> None:
    for options in ([], ["-I"], ["-E"]):
        done = program.started([sys.executable, *options, "train.py"], **ON)
        assert (done.stdout, done.stderr) == (SIMULATED, "")


def test_the_line_imports_nothing_without_its_variable(program: Program) -> None:
    assert len(LINE.read_text().splitlines()) == 1
    show = "import sys; print(*sorted(sys.modules))"
    with_it = program.started([sys.executable, "-I", "-c", show]).stdout
    names = set(with_it.split())
    assert not {name for name in names if "gpuconf" in name}
    venv.create(program.folder / "venv", with_pip=False, symlinks=True)
    python = program.folder / "venv" / "bin" / "python"
    (site,) = (program.folder / "venv").glob("lib/python*/site-packages")
    without = program.started([python, "-I", "-c", show]).stdout
    shutil.copy(LINE, site)
    assert program.started([python, "-I", "-c", show]).stdout == without


@pytest.mark.parametrize("left", [(), ("_gpuconf_startup.py",), ("_gpuconf_startup.py", "gpuconf/")])
def test_a_package_that_is_half_removed_prints_nothing(program: Program, left: tuple[str, ...]) -> None:
    venv.create(program.folder / "venv", with_pip=False, symlinks=True)
    (site,) = (program.folder / "venv").glob("lib/python*/site-packages")
    shutil.copy(LINE, site)
    for name in left:
        (site / name).mkdir() if name.endswith("/") else shutil.copy(LINE.parent / name, site)
    words = [program.folder / "venv" / "bin" / "python", "-c", "import sys; print(sys.path[1:])"]
    done = program.started(words)
    for variables in ({}, ON):
        again = program.started(words, **variables)
        assert (again.stdout, again.stderr, again.returncode) == (done.stdout, "", 0)


# In a cover, /etc/ld.so.preload has the library, and /run/gpuconf what its maker knows

COVER = """
set -e
mount --make-rprivate /
mkdir -p {folder}/upper {folder}/work {folder}/run
mount -t tmpfs none {folder}/run && mkdir {folder}/run/upper {folder}/run/work
mount -t overlay overlay -o lowerdir=/etc,upperdir={folder}/run/upper,workdir={folder}/run/work /etc
mount -t tmpfs none /run
mkdir /run/gpuconf
printf '%s\\0' {variables} > /run/gpuconf/environment
touch /run/gpuconf/tried
echo {library} > /etc/ld.so.preload
"""


@pytest.fixture
def cover(program: Program) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Returns what runs lines of a shell in a cover."""
    variables = " ".join(f"{name}={value}" for name, value in (*ON.items(), ("OTHER", "1")))
    before = COVER.format(folder=program.folder, variables=variables, library=LIBRARY)

    def run(lines: str) -> subprocess.CompletedProcess[str]:
        return program.started(["unshare", "--mount", "sh", "-c", f"{before}\n{lines}"])

    if shutil.which("unshare") is None or run("true").returncode != 0:
        pytest.skip("this machine does not allow mounts")
    return run


def test_nothing_leaves_the_cover(program: Program, cover: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    python = sys.executable
    for words in (
        f"{python} train.py",
        f"env -i {python} -I train.py",
        f"env -i LD_PRELOAD= GPUCONF_SIMULATE=T4 {python} -S train.py",
    ):
        done = cover(words)
        assert (done.stdout, done.stderr) == (SIMULATED, ""), words
    assert cover(f"GPUCONF_SIMULATE=L4 {python} -I train.py").stdout == "simulated L4\n", "what is there stays"
    assert cover("env -i env").stdout.splitlines().count("OTHER=1") == 1
    assert "LD_PRELOAD" not in cover("env -i env").stdout


def test_a_cover_notes_at_which_sockets_and_fifos_nobody_answers(
    program: Program, cover: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    os.mkfifo(program.folder / "old")
    os.utime(program.folder / "old", (0, 0))
    (program.folder / "try.py").write_text("""
import os, socket, threading
def attempt(function, *arguments):
    try:
        function(*arguments)
        print("done")
    except OSError as error:
        print(error.errno)
attempt(socket.socket(socket.AF_UNIX).connect, "/run/nobody")
attempt(socket.socket(socket.AF_UNIX).connect, "\\0abstract")
attempt(socket.socket().connect, ("127.0.0.1", 1))
listener = socket.socket(socket.AF_UNIX)
listener.bind("/run/own")
listener.listen()
attempt(socket.socket(socket.AF_UNIX).connect, "/run/own")
attempt(os.open, "old", os.O_WRONLY | os.O_NONBLOCK)
os.mkfifo("/run/new")
attempt(os.open, "/run/new", os.O_WRONLY | os.O_NONBLOCK)
attempt(os.open, "/run/nothing", os.O_RDONLY)
reader = threading.Thread(target=open, args=["old"], daemon=True)
reader.start()
reader.join(0.5)
print(reader.is_alive(), flush=True)
os._exit(0)
""")
    old = str(program.folder / "old")
    done = cover(f"sleep 1.1; touch /run/gpuconf/environment; {sys.executable} try.py; cat /run/gpuconf/tried")
    assert done.stderr == ""
    assert done.stdout.split() == ["2", "111", "111", "done", "6", "6", "2", "True", "/run/nobody", old, old]
