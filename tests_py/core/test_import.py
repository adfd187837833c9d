"""What ``import gpuconf`` does to a process, and where it works. What users of a free-threaded Python see: one
sentence, from the build and from the first use.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from pathlib import Path

import gpuconf
import pytest
from gpuconf._core import _gpuconf
from gpuconf._core.native import core
from gpuconf._core.public import _MOVED
from script import execute, run, run_well

LIBRARY = Path(gpuconf.library_path())
PACKAGE = LIBRARY.parent.parent
USE = "import gpuconf; gpuconf.simulate('T4'); gpuconf.memory.allocate(1000).free(); print('used')"


def readelf(*options: str) -> str:
    return execute(["readelf", "--wide", *options, LIBRARY], check=True).stdout


def exported_symbols() -> set[str]:
    symbols = set()
    for line in readelf("--dyn-syms").splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND":
            symbols.add(fields[7].partition("@")[0])
    return symbols


@pytest.mark.parametrize("simulated", ["", "T4"])
def test_import_loads_neither_the_core_nor_cuda_nor_heavy_modules(simulated: str) -> None:
    out = run_well(
        """
        import sys
        before = set(sys.modules)
        import gpuconf
        print(*sorted(set(sys.modules) - before))
        print([line for line in open("/proc/self/maps") if "gpuconf" in line or "libcuda" in line or "nvidia" in line])
        """,
        flags=["-I"],
        env={"GPUCONF_SIMULATE": simulated},
    )
    modules, maps = out.splitlines()
    assert maps == "[]"
    loaded = {name.partition(".")[0] for name in modules.split()}
    own = {name for name in modules.split() if name.startswith("gpuconf.")} - {f"gpuconf.{old}" for old in _MOVED}
    assert own == {
        "gpuconf._core",
        "gpuconf._core.fork",
        "gpuconf._core.public",
        *(["gpuconf.simulation"] if simulated else []),
    }
    heavy = {
        "asyncio", "ctypes", "dataclasses", "importlib_metadata", "inspect", "json", "logging", "multiprocessing",
        "numpy", "pickle", "re", "socket", "subprocess", "tempfile", "torch", "typing", "unittest", "urllib",
    }  # fmt: skip
    assert loaded & heavy == set()


def test_the_first_call_imports_only_what_it_needs() -> None:
    """Each of these takes a fifth of the time in which the core is loaded, or more."""
    out = run_well("""
        import sys
        before = set(sys.modules)
        import gpuconf
        gpuconf.simulate("T4")
        gpuconf.config.list_physical_devices()
        left_out = {"ctypes", "logging", "threading", "traceback", "typing", "subprocess", "weakref"}
        print(sorted(left_out & (set(sys.modules) - before)))
        print([name for name in sys.modules if name.startswith(("gpuconf.plans.", "gpuconf.leases.l"))])
        """)
    assert out == "[]\n[]\n"


def test_import_starts_no_thread_and_touches_no_signal() -> None:
    run_well("""
        import os, signal
        before = {s: signal.getsignal(s) for s in signal.valid_signals()}
        import gpuconf
        assert len(os.listdir("/proc/self/task")) == 1
        assert before == {s: signal.getsignal(s) for s in signal.valid_signals()}
        """)


def test_the_three_lists_of_public_names_agree() -> None:
    """What type checkers see, what ``import *`` takes, and what is resolved on first use."""
    stub = ast.parse(Path(gpuconf.__file__).with_suffix(".pyi").read_text())
    seen = {
        alias.name: (node.module or "")
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }
    as_tensorflow = gpuconf._AS_TENSORFLOW
    assert seen == {
        **gpuconf._HOMES,
        **dict.fromkeys(gpuconf._SUBMODULES, ""),
        **dict.fromkeys(as_tensorflow, "compat.v2"),
    }
    unlisted = {"float32", "float64", "int32", *as_tensorflow}  # they need NumPy; TensorFlow's
    unlisted |= {"dask", "ray"}  # they need these
    unlisted |= {"load_ipython_extension", "unload_ipython_extension"}  # they need IPython, which looks for them
    assert {*gpuconf.__all__} == {*seen, "__version__", "get_include"} - unlisted
    assert gpuconf.__all__ == sorted(gpuconf.__all__)
    listed = next(node for node in stub.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(listed.value) == gpuconf.__all__


@pytest.mark.parametrize("name", gpuconf.__all__)
def test_every_name_loads_first(name: str) -> None:
    """In a process that has used nothing else: in any order, the modules import each other."""
    out = run_well(
        f"import gpuconf; first = gpuconf.{name}; print(first is gpuconf.{name}, getattr(first, '__module__', "
        "'gpuconf'))"
    )
    same, module = out.split()
    assert same == "True"
    assert module.startswith("gpuconf")


def test_classes_have_their_public_module_whatever_was_loaded_first() -> None:
    out = run_well("""
        import gpuconf
        gpuconf.simulate("T4")
        device, = gpuconf.visible_devices()
        print(type(device).__module__, type(gpuconf.simulate("T4")).__module__, type(gpuconf.constant(1.0)).__module__)
        import pickle
        print(pickle.loads(pickle.dumps(device)) == device)
        gpus = gpuconf._core.runtime.physical_devices()
        print(type(gpus[0]).__module__)
        """)
    assert out.split() == ["gpuconf", "gpuconf", "gpuconf", "True", "gpuconf.config"]


def test_a_pickle_loads_where_nothing_is_imported() -> None:
    for value in (
        "gpuconf.config.PhysicalDevice('/physical_device:GPU:0', 'GPU')",
        "gpuconf.visible_devices()[0]",
        "gpuconf.plan",
    ):
        dumped = run_well(f"import gpuconf, pickle; gpuconf.simulate('T4'); print(pickle.dumps({value}).hex())").strip()
        again = run_well(f"import pickle; print(pickle.dumps(pickle.loads(bytes.fromhex('{dumped}'))).hex())").strip()
        assert again == dumped


def test_threads_that_use_the_first_names_at_once() -> None:
    for _ in range(5):
        run_well("""
            import sys, threading
            import gpuconf
            sys.setswitchinterval(1e-6)
            barrier, failed = threading.Barrier(len(gpuconf.__all__)), []
            def use(name):
                barrier.wait()
                try:
                    getattr(gpuconf, name)
                except BaseException as error:
                    failed.append((name, error))
            threads = [threading.Thread(target=use, args=(name,)) for name in gpuconf.__all__]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert not failed, failed
            """)


def test_a_fork_waits_for_an_import_but_not_for_ever(tmp_path: Path) -> None:
    """Another thread's import of a module is finished before a fork.

    An import that waits for the fork itself gives way.
    """
    (tmp_path / "numpy.py").write_text(
        "import sys\nsys.begun.set()\nsys.done.wait(sys.lasts_s)\nraise ImportError('no')\n"
    )
    out = run_well(f"""
        import os, sys, threading, time, warnings
        import gpuconf
        warnings.simplefilter("ignore")
        sys.path.insert(0, {str(tmp_path)!r})
        sys.begun, sys.done = threading.Event(), threading.Event()

        def use():
            try:
                gpuconf.float32
            except RuntimeError:
                pass

        for sys.lasts_s in (0.3, 30):
            sys.begun.clear()
            thread = threading.Thread(target=use)
            thread.start()
            sys.begun.wait()
            begin = time.monotonic()
            pid = os.fork()
            if pid == 0:
                sys.done.set()
                try:
                    gpuconf.float32  # would hang on Python's lock of the module, if the import had not ended
                except RuntimeError:
                    os._exit(3)
            took = time.monotonic() - begin
            if sys.lasts_s == 30:
                os.kill(pid, 9)
            print(0.2 < took < 10, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), thread.is_alive())
            sys.done.set()
            thread.join()
            sys.done.clear()
        """)
    assert out.splitlines() == ["True 3 False", "True -9 True"]


def test_help_and_star_import() -> None:
    out = run_well("""
        from gpuconf import *
        import gpuconf
        print(configure is gpuconf.configure, config is gpuconf.config)
        help(gpuconf)
        """)
    assert out.startswith("True True\nHelp on package gpuconf:")
    for listed in ("class Configuration(", "class Plan(", "allocate", "visible_devices("):
        assert listed in out


def test_a_missing_name_loads_nothing() -> None:
    out = run_well("""
        import sys
        import gpuconf
        before = set(sys.modules)
        try:
            gpuconf.no_such_name
        except AttributeError as error:
            print(error.name)
        print(set(sys.modules) - before - {"gpuconf._missing", "gpuconf._typing"})
        """)
    assert out.split() == ["no_such_name", "set()"], "beyond what makes the error"


def test_every_public_name_is_there_after_the_import() -> None:
    for module in (
        gpuconf,
        gpuconf.config,
        gpuconf.config.experimental,
        gpuconf.memory,
        gpuconf.errors,
        gpuconf.debugging,
    ):
        assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_sessions_are_loaded_when_they_are_named() -> None:
    for way in (
        "import gpuconf; v1 = gpuconf.compat.v1",
        "from gpuconf.compat import v1",
        "from gpuconf import *; v1 = compat.v1",
    ):
        assert (
            run_well(f"import gpuconf\nassert 'compat' in dir(gpuconf)\n{way}\nprint(v1.Session.__name__)")
            == "Session\n"
        )


def test_works_with_all_symbols_bound_at_once() -> None:
    assert run_well(USE, env={"LD_BIND_NOW": "1"}) == "used\n"


def test_works_isolated() -> None:
    assert run_well(USE, flags=["-I"]) == "used\n"


def test_works_in_a_folder_that_was_deleted() -> None:
    """The line that initialized the runtime is remembered, and a relative file name can't be made absolute there."""
    out = run_well("""
        import os, tempfile
        gone = tempfile.mkdtemp()
        os.chdir(gone)
        os.rmdir(gone)
        import gpuconf
        def called():
            gpuconf.simulate("T4")
            gpuconf.memory.allocate(1000).free()
        called()
        try:
            gpuconf.config.set_visible_devices([])
        except RuntimeError as error:
            print(error)
        """)
    assert "<string>:9 (memory.allocate)" in out


def test_works_with_a_home_that_is_not_to_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert (
            run_well(USE, env={"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)})
            == "used\n"
        )
        assert list(tmp_path.iterdir()) == []
    finally:
        tmp_path.chmod(0o700)


def test_works_in_a_script_whose_name_is_no_text(tmp_path: Path) -> None:
    out = run_well(f"""
        import os, subprocess, sys
        name = {str(tmp_path)!r}.encode() + b"/\\xff.py"
        with open(name, "w") as f:
            f.write('''
        import gpuconf
        def called():
            gpuconf.simulate("T4")
            gpuconf.memory.allocate(1000).free()
        called()
        try:
            gpuconf.config.set_visible_devices([])
        except RuntimeError as error:
            print(ascii(str(error)))
        '''.replace("\\n        ", "\\n"))
        sys.exit(subprocess.run([sys.executable, name]).returncode)
        """)
    assert "udcff.py:5 (memory.allocate)" in out


def test_exports_the_module_and_the_c_symbols_only() -> None:
    symbols = exported_symbols()
    assert "PyInit__gpuconf" in symbols
    assert {s for s in symbols if not s.startswith("gpuconf_")} == {"PyInit__gpuconf"}


def test_exports_every_function_of_the_header() -> None:
    header = Path(gpuconf.get_include(), "gpuconf.h").read_text()
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    declared = set(re.findall(r"\b(gpuconf_\w+)\(", code))
    assert {"gpuconf_abi_version", "gpuconf_malloc", "gpuconf_free", "gpuconf_last_error"} <= declared
    assert declared <= exported_symbols()


def test_needs_nothing_but_the_c_library_and_names_no_folder() -> None:
    dynamic = readelf("--dynamic")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert [
        name for name in needed if not re.fullmatch(r"(libc|libpthread|libdl|libm|ld-linux[-\w]*)\.so\.\d", name)
    ] == []
    assert "(RPATH)" not in dynamic
    assert "(RUNPATH)" not in dynamic


def test_a_missing_binary_says_what_to_do(tmp_path: Path) -> None:
    out = run_well(f"""
        import os, shutil, sys
        package = {str(tmp_path / "gpuconf")!r}
        shutil.copytree({str(PACKAGE)!r}, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        sys.path.insert(0, {str(tmp_path)!r})
        import gpuconf
        assert gpuconf.__file__.startswith(package), gpuconf.__file__
        for attempt in range(2):
            try:
                gpuconf.config.list_physical_devices()
            except gpuconf.errors.UnavailableError as error:
                print(isinstance(error, RuntimeError), error)
        shutil.copy({str(LIBRARY)!r}, package + "/_core")
        sys.path_importer_cache.clear()
        print(len(gpuconf.config.list_physical_devices()))
        """)
    first, second, then = out.splitlines()
    assert first == second
    assert first.startswith("True gpuconf's compiled core is missing (")
    assert "pip" in first
    assert then == "1"


def test_the_stub_has_the_functions_of_the_binary() -> None:
    stub = (LIBRARY.parent / "_gpuconf.pyi").read_text()
    functions = {name for name, value in vars(_gpuconf).items() if callable(value)}
    assert set(re.findall(r"^def (\w+)\(", stub, re.M)) == functions - {"GoPyInit"}


def test_python_uses_every_function_of_the_binary() -> None:
    stub = (LIBRARY.parent / "_gpuconf.pyi").read_text()
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    bound = re.findall(r"^def (pybind_\w+)\(", stub, re.M)
    assert [name for name in bound if f"core.{name}" not in sources] == []


def test_leaves_no_handle_and_no_hook_behind(two_gpus: None) -> None:
    """The Python files that gopy makes would register a hook that stops the world after each of Python's
    collections.
    """
    with gpuconf.memory.allocate(1000), gpuconf.memory.measure(), gpuconf.device("GPU:1"):
        gpuconf.config.get_visible_devices()
        with pytest.raises(ValueError, match="No matching devices"):
            gpuconf.memory.stats("GPU:7")
    assert _gpuconf.NumHandles() == 0
    assert [hook for hook in gc.callbacks if "gpuconf" in repr(hook) or "gopy" in repr(hook)] == []


def test_the_core_has_no_attribute_that_the_binary_lacks() -> None:
    with pytest.raises(AttributeError):
        core.pybind_NoSuchFunction  # noqa: B018
    assert not hasattr(core, "__wrapped__")


def test_the_module_may_be_imported_again() -> None:
    run_well("""
        import sys
        for _ in range(3):
            import gpuconf
            gpuconf.simulate("T4")
            with gpuconf.memory.allocate(1000) as buffer:
                assert gpuconf.memory.stats().live_blocks == 1
            for name in [n for n in sys.modules if n.partition(".")[0] == "gpuconf"]:
                del sys.modules[name]
        """)


def test_an_unknown_file_of_that_name_is_an_import_error_of_its_own(tmp_path: Path) -> None:
    """A binary that is there but can't be loaded is not "missing"."""
    done = run(f"""
        import shutil, sys
        package = {str(tmp_path / "gpuconf")!r}
        shutil.copytree({str(PACKAGE)!r}, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        open(package + "/_core/_gpuconf.abi3.so", "w").write("no library")
        sys.path.insert(0, {str(tmp_path)!r})
        import gpuconf
        gpuconf.config.list_physical_devices()
        """)
    assert done.code == 1
    assert "ImportError" in done.stderr
    assert "missing" not in done.stderr


ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "gpuconf does not support free-threaded builds of Python: its core uses the stable ABI, which they lack."


def said(code: str) -> str:
    done = execute([sys.executable, "-c", code])
    assert done.returncode == 1
    return done.stderr


def test_the_build_says_so() -> None:
    code = f"import sys, sysconfig; sys.path.insert(0, {str(ROOT / 'pybind' / 'build')!r}); import hatch_build; "
    code += (
        "ask = sysconfig.get_config_var; sysconfig.get_config_var = lambda name: 1 if name == 'Py_GIL_DISABLED' "
        "else ask(name); "
    )
    code += (
        "hook = hatch_build.GoBuildHook.__new__(hatch_build.GoBuildHook); hook._BuildHookInterface__root = "
        f"{str(ROOT)!r}; "
    )
    assert SENTENCE in said(code + "hook.initialize('standard', {})").splitlines()[-1]


def test_the_first_use_says_so() -> None:
    """Such a Python imports no module whose name ends with .abi3.so."""
    code = "import importlib.machinery as m, sys; sys.abiflags = 't'; m.EXTENSION_SUFFIXES.remove('.abi3.so'); "
    code += "kinds = (m.ExtensionFileLoader, m.EXTENSION_SUFFIXES), (m.SourceFileLoader, ['.py']); "
    code += "sys.path_hooks[1:] = [m.FileFinder.path_hook(*kinds)]; sys.path_importer_cache.clear(); "
    code += "import gpuconf; gpuconf.visible_devices()"
    assert said(code).splitlines()[-1].startswith(f"gpuconf.errors.UnavailableError: {SENTENCE}")
