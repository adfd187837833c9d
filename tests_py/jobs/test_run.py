"""``gpuconf run``, and gpuconf in place of TensorFlow."""

from __future__ import annotations

import importlib.util
import os
import pickle
import re
import resource
import subprocess
import sys
import textwrap
import types
import venv
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from command import COMMAND
from script import environment, run_well


def run(*arguments: str, cwd: Path, **more: Any) -> tuple[int, str, str]:
    """Run the command, and leave out what it says without an option."""
    env = environment({**more.pop("env", {}), "PYTHONDONTWRITEBYTECODE": "1"})
    done = subprocess.run(
        [*more.pop("command", [COMMAND, "run"]), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=cwd,
        env=env,
        **more,
    )
    return done.returncode, done.stdout, re.sub(f"gpuconf run: .*?{re.escape(NOTHING)}", "", done.stderr)


# After why: the program has no limit.
NOTHING = (
    ", so the program runs as without gpuconf. gpuconf's own options come before the program's name, as in gpuconf run "
    "--memory 10GiB python train.py\n"
)


def script(folder: Path, code: str, name: str = "script.py") -> str:
    (folder / name).write_text(textwrap.dedent(code))
    return name


# The command line

SHOW = "import sys; print(sys.argv, __name__, sys.flags.optimize)"


@pytest.mark.parametrize(
    ("words", "argv", "optimize"),
    [
        (["show.py", "a", "--as-tensorflow", "--", "-m"], ["show.py", "a", "--as-tensorflow", "--", "-m"], 0),
        (["--as-tensorflow", "--simulate=T4", "show.py", "--simulate"], ["show.py", "--simulate"], 0),
        (["--", "show.py", "--", "x"], ["show.py", "--", "x"], 0),
        (["--simulate", "T4", "--as-tensorflow", "--", "show.py", "-h"], ["show.py", "-h"], 0),
        (["python", "-O", "show.py", "-c", "x"], ["show.py", "-c", "x"], 1),
        (["--as-tensorflow", "python3", "-W", "ignore", "-Xdev", "show.py"], ["show.py"], 0),
        (["--as-tensorflow", sys.executable, "-O", "show.py", "-I"], ["show.py", "-I"], 1),
        (["--as-tensorflow", "-c", SHOW, "-m", "--simulate"], ["-c", "-m", "--simulate"], 0),
        (["--", "-c", SHOW, "--"], ["-c", "--"], 0),
        (["--as-tensorflow", "-", "x"], ["-", "x"], 0),
    ],
    ids=["script", "options", "--", "both", "python", "python3", "path", "-c", "-- -c", "-"],
)
def test_options_end_at_the_program(tmp_path: Path, words: list[str], argv: list[str], optimize: int) -> None:
    script(tmp_path, SHOW, "show.py")
    assert run(*words, cwd=tmp_path, input=SHOW) == (0, f"{argv} __main__ {optimize}\n", "")


def test_the_version_of_tensorflow_before_it_is_imported(tmp_path: Path) -> None:
    """As programs ask for it that check what is installed first. Other packages are found as ever."""
    program = "from importlib.metadata import version; print(version('tensorflow'), version('pytest') != '')"
    assert run("--as-tensorflow", "-c", program, cwd=tmp_path) == (0, "2.21.0 True\n", "")
    assert run("--as-tensorflow=1", "-c", program, cwd=tmp_path) == (0, "1.15.5 True\n", "")


@pytest.mark.parametrize("module", ["tensorflow", "gone"])
def test_a_program_without_tensorflow_hears_of_what_takes_its_place(tmp_path: Path, module: str) -> None:
    program = f"import sys; sys.modules.update(tensorflow=None); import {module}"
    _, _, err = run("--simulate", "T4", "-c", program, cwd=tmp_path)
    assert ("gpuconf run --as-tensorflow" in err) == (module == "tensorflow")


def test_a_module_runs_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    script(tmp_path, "import sys, package; print(sys.argv[1:], __package__, sys.path[0])", "package/__main__.py")
    script(tmp_path, "", "package/__init__.py")
    wanted = (0, f"['-m', 'x'] package {tmp_path}\n", "")
    assert run("--as-tensorflow", "-m", "package", "-m", "x", cwd=tmp_path) == wanted
    by_module = [sys.executable, "-m", "gpuconf", "run"]
    assert run("--as-tensorflow", "-m", "package", "-m", "x", cwd=tmp_path, command=by_module) == wanted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "gpuconf run: no program: after the options, name a command or a Python script"),
        (["--as-tensorflow"], "no program"),
        (["--simulat", "T4", "x.py"], "there is no option '--simulat'. Did you mean --simulate?"),
        (["-u", "x.py"], "there is no option '-u'. "),
        (["--simulate"], "--simulate needs SPEC, such as --simulate 2xT4: simulated GPUs"),
        (["--simulate", "Z80", "x.py"], 'gpuconf run: --simulate: cannot simulate "Z80": unknown GPU model "Z80"'),
        (["--simulate", "", "x.py"], "gpuconf run: --simulate needs SPEC"),
        (["--json-report", "", "--simulate=T4", "--memory=1GiB", "x.py"], "needs the name of a file, but got ''"),
        (["-m"], "gpuconf run: -m needs the name of a module"),
        (["--as-tensorflow", "python", "-I", "x.py"], "gpuconf run: --as-tensorflow does not work with -I"),
        (["--as-tensorflow", "python", "-X", "dev", "-uBE", "x.py"], "does not work with -uBE"),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_wrong_usage(tmp_path: Path, words: list[str], message: str) -> None:
    code, out, err = run(*words, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        (
            ["--growth", "python", "--memory", "10GiB", "plain.py"],
            "gpuconf run: --memory is passed to python: gpuconf's own options come before",
        ),
        (["--growth", "plain.py", "--simulate=T4"], "gpuconf run: --simulate is passed to plain.py: "),
        (["--growth", "own.py", "--memory", "5"], "gpuconf run: --memory is passed to own.py: "),
        (["--growth", "python", "-c", "1", "--memory", "5"], "gpuconf run: --memory is passed to python: "),
        (["--growth", "python", "-c", "import sys; sys.argv", "--memory", "5"], ""),
        (["--growth", "has.py", "--memory", "5"], ""),
        (["--growth", "calls.py", "--memory", "5"], ""),
        (["--growth", "--", "sh", "plain.sh", "--gpus", "2"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_after_the_program_are_noticed(tmp_path: Path, words: list[str], noted: str) -> None:
    """Those that the program may have are its own: docker run --gpus all is no mistake."""
    script(tmp_path, "", "plain.py")
    script(tmp_path, "import gpuconf\ngpuconf.memory", "own.py")
    script(tmp_path, "import argparse\nargparse.ArgumentParser().add_argument('--memory')", "has.py")
    script(tmp_path, "import this_package\nthis_package.main()", "calls.py")
    (tmp_path / "plain.sh").write_text("true\n")
    err = run(*words, cwd=tmp_path)[2]
    assert noted in err
    assert ("is passed to" in err) == bool(noted)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["calls.py", "--memory", "5"], f"--memory is passed to {sys.executable}"),
        (["sh", "plain.sh", "--gpus", "2"], "--gpus is passed to sh"),
        (["sh", "plain.sh"], "no option is given"),
    ],
)
def test_a_command_that_does_nothing_says_so(tmp_path: Path, words: list[str], why: str) -> None:
    """Whatever the program reads: it has no limit."""
    script(tmp_path, "import sys", "calls.py")
    (tmp_path / "plain.sh").write_text("true\n")
    done = subprocess.run(
        [COMMAND, "run", *words],
        cwd=tmp_path,
        env=environment({}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("", f"gpuconf run: {why}{NOTHING}")


# The program runs as if Python had been called


def test_it_is_as_without_gpuconf(tmp_path: Path) -> None:
    """The path, the main module, the traceback and the exit code."""
    script(
        tmp_path,
        """
        import multiprocessing, os, sys
        print(sys.path, sorted(globals()), __file__, __spec__, type(__loader__),
              sys.modules["__main__"].__dict__ is globals())
        print("gpuconf" in sys.modules, "argparse" in sys.modules)
        raise SystemError("at the end")
        """,
        "folder.py",
    )
    plain = run("folder.py", "x", cwd=tmp_path, command=[sys.executable])
    assert plain[0] == 1
    assert plain[2].endswith("SystemError: at the end\n")
    assert run("--as-tensorflow", "folder.py", "x", cwd=tmp_path) == plain


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(7)", 7), ("sys.exit('no')", 1), ("os.kill(os.getpid(), 15)", -15)]
)
def test_exit_codes(tmp_path: Path, end: str, code: int) -> None:
    assert run("--as-tensorflow", "-c", f"import os, sys\n{end}", cwd=tmp_path)[0] == code


@pytest.mark.parametrize("command", [["run"], ["run", "--memory", "1GiB"], ["simulate", "T4"]], ids=" ".join)
def test_a_program_that_cannot_start(tmp_path: Path, command: list[str]) -> None:
    """The exit codes are those of env, timeout and shells."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("#!/bin/sh\n")
    (tmp_path / "bare").write_bytes(b"\x7fOTHER\0")
    (tmp_path / "bare").chmod(0o755)
    cases = [
        ("no-such-command", 127, "command not found"),
        (str(tmp_path / "missing"), 127, "command not found"),
        ("./folder", 126, "it is a folder, and no program"),
        ("./text", 126, "the file is not executable: chmod +x ./text"),
        ("./bare", 126, "Exec format error: it is no program of this machine, and no script"),
    ]
    env = {"GPUCONF_SIMULATE": "T4", "GPUCONF_LEDGER": str(tmp_path / "ledger")}
    for program, code, why in cases:
        found = run(*command[1:], program, cwd=tmp_path, command=[COMMAND, command[0]], env=env)
        assert found == (code, "", f"gpuconf {command[0]}: {program}: {why}\n")


@pytest.mark.parametrize("command", [["run"], ["run", "--memory", "1GiB"], ["simulate", "T4"]], ids=" ".join)
def test_a_script_without_a_first_line(tmp_path: Path, command: list[str]) -> None:
    """As in bash, env and nice, /bin/sh runs it, with its arguments, by its path or from PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bare").write_text('echo "$0" "$@"\nexit 7\n')
    (tmp_path / "bin" / "bare").chmod(0o755)
    env = {
        "GPUCONF_SIMULATE": "T4",
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "GPUCONF_LEDGER": str(tmp_path / "ledger"),
    }
    for program, path in (("bare", f"{tmp_path}/bin/bare"), ("bin/bare", "bin/bare")):
        found = run(*command[1:], program, "a b", cwd=tmp_path, command=[COMMAND, command[0]], env=env)
        assert found == (7, f"{path} a b\n", "")


@pytest.mark.parametrize("options", [[], ["--memory", "1GiB"]], ids=" ".join)
@pytest.mark.parametrize("name", ["python", "python3", f"python3.{sys.version_info[1]}"])
def test_python_is_that_of_path(tmp_path: Path, options: list[str], name: str) -> None:
    """As in a shell: pyenv's, a module's, or a container's. It was gpuconf's own, which has other libraries."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / name).write_text('#!/bin/sh\necho of PATH: "$@"\n')
    (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "x.py").write_text("import sys; print(sys.executable)")
    env = {
        "GPUCONF_SIMULATE": "T4",
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "GPUCONF_LEDGER": str(tmp_path / "ledger"),
    }
    env["VIRTUAL_ENV"] = sys.prefix  # means nothing: what counts of an activated environment is its PATH
    assert run(*options, name, "x.py", cwd=tmp_path, env=env) == (0, "of PATH: x.py\n", "")
    assert run(*options, "x.py", cwd=tmp_path, env=env) == (0, f"{sys.executable}\n", "")


@pytest.mark.parametrize("seconds", ["nan", "-1", "soon", "1e9"])
def test_a_timeout_that_is_no_time(tmp_path: Path, seconds: str) -> None:
    code, out, err = run(
        "--memory", "1GiB", f"--timeout={seconds}", "true", cwd=tmp_path, env={"GPUCONF_SIMULATE": "T4"}
    )
    assert (code, out) == (2, "")
    upper = "to 999999999" if seconds == "1e9" else "or more"
    what = f"a number of seconds (without --timeout the wait has no limit), 0 {upper}"
    assert f"--timeout must be {what}, but got {seconds!r}" in err
    assert "None" not in err


@pytest.mark.parametrize(
    "words", [["run"], ["run", "--memory=1GiB"], ["simulate", "T4"], ["lease", "--memory=1GiB", "--"]], ids=" ".join
)
def test_a_program_without_a_name(tmp_path: Path, words: list[str]) -> None:
    """That is what an unset variable in quotes gives; it was a traceback."""
    found = run(*words[1:], "", cwd=tmp_path, command=[COMMAND, words[0]], env={"GPUCONF_SIMULATE": "T4"})
    assert found == (2, "", f"gpuconf {words[0]}: the name of the program is empty\n")


def test_a_command_comes_before_a_file_of_its_name(tmp_path: Path) -> None:
    """The word was taken for a script: make, pytest and dask are names of folders, too."""
    (tmp_path / "true").write_text("this is text")
    (tmp_path / "echo").mkdir()
    script(tmp_path, "print('no')", "echo/__main__.py")
    assert run("true", cwd=tmp_path) == (0, "", "")
    assert run("echo", "x", cwd=tmp_path) == (0, "x\n", "")
    assert run("./echo", cwd=tmp_path) == (0, "no\n", "")
    (tmp_path / "echo").rename(tmp_path / "program")
    assert run("program", cwd=tmp_path) == (0, "no\n", "")


def test_the_limits_and_signals_of_the_process_are_kept(tmp_path: Path) -> None:
    """Go raises the limit of open files; checking a simulation loads Go."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    show = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(500, soft), hard))

    code, out, err = run("--simulate", "2xT4", "-c", show, cwd=tmp_path, preexec_fn=lower)
    assert (code, out, err) == (0, f"{(min(500, soft), hard)}\n", "")


def test_a_missing_script_is_pythons_error(tmp_path: Path) -> None:
    code, _, err = run("missing.py", cwd=tmp_path)
    assert code == 2
    assert "can't open file" in err


# As TensorFlow

MODULES = """
import os
import tensorflow as tf
import tensorflow
import tensorflow.compat.v1 as tf1
import tensorflow.compat.v2 as tf2
import tensorflow.config.experimental
from tensorflow.compat.v1 import ConfigProto, Session
from tensorflow.python.client import device_lib
from tensorflow.compat.v1.config import experimental
from tensorflow import config, errors as failures

import gpuconf.compat.v1, gpuconf.compat.v2
assert tf is tensorflow is tf2 is tf.compat.v2 is gpuconf.compat.v2
assert tf1 is tf.compat.v1 is gpuconf.compat.v1
assert config is tf.config is tf1.config is gpuconf.config
assert tensorflow.config.experimental is experimental is gpuconf.config.experimental
assert failures is tf.errors is gpuconf.errors
assert ConfigProto is gpuconf.compat.v1.ConfigProto
assert tf.__spec__.name == "gpuconf.compat.v2"
print([d.name for d in device_lib.list_local_devices()])
"""


def test_every_module_is_loaded_once(tmp_path: Path) -> None:
    out = "['/device:CPU:0', '/device:GPU:0', '/device:GPU:1']\n"
    assert run("--as-tensorflow", "--simulate", "2xT4", script(tmp_path, MODULES), cwd=tmp_path) == (0, out, "")


def test_children_find_it_too(tmp_path: Path) -> None:
    """Spawned workers, a forkserver's, and a Python that is called by name."""
    script(
        tmp_path,
        """
        import multiprocessing, subprocess, sys

        def gpus(_):
            import tensorflow as tf
            return len(tf.config.list_physical_devices("GPU")), tf.__name__

        if __name__ == "__main__":
            for method in ("spawn", "forkserver"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(pool.map(gpus, [0]), flush=True)  # before the next child writes
            subprocess.run([sys.executable, "-c", "import tensorflow; print(tensorflow.__name__)"], check=True)
        """,
    )
    wanted = "[(4, 'gpuconf.compat.v2')]\n" * 2 + "gpuconf.compat.v2\n"
    assert run("--as-tensorflow", "--simulate", "4xA100-40GB", "script.py", cwd=tmp_path) == (0, wanted, "")


def test_the_users_own_sitecustomize_runs(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    script(tmp_path, "import builtins; builtins.seen = __file__", "own/sitecustomize.py")
    env = {"PYTHONPATH": str(tmp_path / "own")}
    show = "import sitecustomize, tensorflow; print(seen, sitecustomize.__file__ == seen, tensorflow.__name__)"
    out = f"{tmp_path / 'own' / 'sitecustomize.py'} True gpuconf.compat.v2\n"
    assert run("--as-tensorflow", "-c", show, cwd=tmp_path, env=env) == (0, out, "")
    script(tmp_path, "raise KeyError('of the user')", "own/sitecustomize.py")
    code, out, err = run(
        "--as-tensorflow", "-c", "import tensorflow; print(tensorflow.__name__)", cwd=tmp_path, env=env
    )
    assert (code, out) == (0, "gpuconf.compat.v2\n")
    assert "KeyError: 'of the user'" in err


@pytest.fixture(scope="module")
def another_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without gpuconf."""
    folder = tmp_path_factory.mktemp("another")
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def test_a_python_without_gpuconf_says_so(tmp_path: Path, another_python: Path) -> None:
    """Finding the real TensorFlow there instead, on real GPUs, would be worse."""
    code, out, err = run("--as-tensorflow", str(another_python), "-c", "print(1); import tensorflow", cwd=tmp_path)
    assert (code, out) == (1, "1\n")
    assert err.endswith(
        f"ImportError: gpuconf run --as-tensorflow: gpuconf is not installed for {another_python} (No module named "
        "'gpuconf')\n"
    )


def test_a_tensorflow_that_python_itself_has_imported_is_refused(tmp_path: Path, another_python: Path) -> None:
    early = next(another_python.parent.parent.glob("lib/python*/site-packages")) / "early.pth"
    early.write_text("import sys, types; sys.modules['tensorflow'] = types.ModuleType('tensorflow')\n")
    try:
        code, out, err = run("--as-tensorflow", str(another_python), "-c", "print(1)", cwd=tmp_path)
    finally:
        early.unlink()
    assert (code, out) == (1, "")
    assert err == f"gpuconf run --as-tensorflow: TensorFlow itself is already imported when {another_python} starts\n"


# In a process that runs already


@pytest.fixture
def installed(without_tensorflow: None) -> None:
    """Install it."""
    gpuconf.install_as_tensorflow()


@pytest.mark.usefixtures("installed")
def test_it_can_be_installed_twice() -> None:
    finders = list(sys.meta_path)
    gpuconf.install_as_tensorflow()
    assert sys.meta_path == finders
    import tensorflow

    gpuconf.install_as_tensorflow()
    assert tensorflow is gpuconf.compat.v2
    assert sys.meta_path == finders


def test_it_is_refused_beside_tensorflow_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    real = types.ModuleType("tensorflow")
    real.__file__ = "/somewhere/tensorflow/__init__.py"
    monkeypatch.setitem(sys.modules, "tensorflow", real)
    finders = list(sys.meta_path)
    with pytest.raises(
        RuntimeError, match=r"already imported \(/somewhere/tensorflow/__init__.py\).*before the first import"
    ):
        gpuconf.install_as_tensorflow()
    assert sys.meta_path == finders


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "name",
    [f"tensorflow.{name}" for name in ("keras.wrappers", "nothing", "sys", "_ops", "config.x", "test.x")],
)
def test_what_gpuconf_does_not_have_can_not_be_imported(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="tensorflow") as caught:
        __import__(name)
    assert caught.value.name in (name, name.rpartition(".")[0])
    assert name not in sys.modules


@pytest.mark.usefixtures("installed")
def test_the_path_in_the_wheel_is_found() -> None:
    import tensorflow._api.v2.compat.v1 as tf1

    assert tf1 is gpuconf.compat.v1
    with pytest.raises(ModuleNotFoundError, match=r"tensorflow\._api\.nothing"):
        importlib.import_module("tensorflow._api.nothing")


@pytest.mark.usefixtures("installed")
def test_other_modules_are_found_as_before() -> None:
    for name in ("tensorflow_probability", "tensorflows", "nothing.tensorflow"):
        with pytest.raises(ModuleNotFoundError, match=f"^No module named '{name.split('.')[0]}'$"):
            __import__(name)
    assert importlib.util.find_spec("json") is not None


@pytest.mark.usefixtures("installed", "one_gpu")
def test_what_is_shown_and_pickled_is_gpuconf() -> None:
    import tensorflow as tf

    spec = importlib.util.find_spec("tensorflow")
    assert spec is not None
    assert os.path.samefile(spec.origin or "", gpuconf.compat.v2.__file__ or "")
    assert repr(tf.compat.v1) == repr(gpuconf.compat.v1)
    gpu = tf.config.list_physical_devices("GPU")[0]
    sent = pickle.dumps((gpu, tf.config.LogicalDeviceConfiguration(1024)))
    assert b"tensorflow" not in sent
    assert pickle.loads(sent) == (gpu, gpuconf.config.LogicalDeviceConfiguration(1024))
    assert tf.config.LogicalDeviceConfiguration.__module__ == "gpuconf.config"


def test_threads_that_import_it_at_once_find_one_module() -> None:
    run_well(
        """
        import sys, threading
        import gpuconf
        gpuconf.install_as_tensorflow()
        sys.setswitchinterval(1e-6)
        found, barrier = [], threading.Barrier(8)
        def look(i):
            barrier.wait()
            if i % 2:
                import tensorflow.compat.v1 as tf1
            else:
                from tensorflow.compat import v1 as tf1
            found.append(tf1)
        threads = [threading.Thread(target=look, args=(i,)) for i in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert len(found) == 8 and all(one is gpuconf.compat.v1 for one in found), found
        """
    )
