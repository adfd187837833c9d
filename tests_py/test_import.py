"""What ``import gpuconf`` does to a process, and where it works."""

from __future__ import annotations

import gc
import re
import subprocess
from pathlib import Path

import gpuconf
import pytest
from gpuconf._core import _gpuconf
from gpuconf._core.native import core
from script import run, run_well

LIBRARY = Path(gpuconf.library_path())
PACKAGE = LIBRARY.parent.parent
USE = "import gpuconf; gpuconf.simulate('T4'); gpuconf.memory.allocate(1000).free(); print('used')"


def readelf(*options: str) -> str:
    return subprocess.run(["readelf", "--wide", *options, LIBRARY], capture_output=True, text=True, check=True).stdout


def exported_symbols() -> set[str]:
    symbols = set()
    for line in readelf("--dyn-syms").splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND":
            symbols.add(fields[7].partition("@")[0])
    return symbols


def test_import_loads_neither_the_core_nor_cuda_nor_heavy_modules() -> None:
    out = run_well(
        """
        import sys
        before = set(sys.modules)
        import gpuconf
        print(*sorted(set(sys.modules) - before))
        print([line for line in open("/proc/self/maps") if "gpuconf" in line or "libcuda" in line or "nvidia" in line])
        """,
        flags=["-I"],
    )
    modules, maps = out.splitlines()
    assert maps == "[]"
    loaded = {name.partition(".")[0] for name in modules.split()}
    assert "gpuconf._core._gpuconf" not in modules.split()
    assert "gpuconf._core.hostmemory" not in modules.split()
    assert "gpuconf.compat" not in modules.split()  # sessions and graphs wait until somebody names them
    heavy = {
        "asyncio", "ctypes", "dataclasses", "importlib_metadata", "inspect", "json", "logging", "multiprocessing", "numpy",
        "pickle", "re", "socket", "subprocess", "tempfile", "torch", "typing", "unittest", "urllib",
    }  # fmt: skip
    assert loaded & heavy == set()


def test_import_starts_no_thread_and_touches_no_signal() -> None:
    run_well(
        """
        import os, signal
        before = {s: signal.getsignal(s) for s in signal.valid_signals()}
        import gpuconf
        assert len(os.listdir("/proc/self/task")) == 1
        assert before == {s: signal.getsignal(s) for s in signal.valid_signals()}
        """
    )


def test_every_public_name_is_there_after_the_import() -> None:
    for module in (gpuconf, gpuconf.config, gpuconf.config.experimental, gpuconf.memory, gpuconf.errors, gpuconf.debugging):
        assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_sessions_are_loaded_when_they_are_named() -> None:
    for way in ("import gpuconf; v1 = gpuconf.compat.v1", "from gpuconf.compat import v1", "from gpuconf import *; v1 = compat.v1"):
        assert run_well(f"import gpuconf\nassert 'compat' in dir(gpuconf)\n{way}\nprint(v1.Session.__name__)") == "Session\n"


def test_works_with_all_symbols_bound_at_once() -> None:
    assert run_well(USE, env={"LD_BIND_NOW": "1"}) == "used\n"


def test_works_isolated() -> None:
    assert run_well(USE, flags=["-I"]) == "used\n"


def test_works_in_a_folder_that_was_deleted() -> None:
    """The line that initialized the runtime is remembered, and a relative file name can't be made absolute there."""
    out = run_well(
        """
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
        """
    )
    assert "<string>:9 (memory.allocate)" in out


def test_works_with_a_home_that_is_not_to_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert run_well(USE, env={"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}) == "used\n"
        assert list(tmp_path.iterdir()) == []
    finally:
        tmp_path.chmod(0o700)


def test_works_in_a_script_whose_name_is_no_text(tmp_path: Path) -> None:
    out = run_well(
        f"""
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
        """
    )
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
    assert [name for name in needed if not re.fullmatch(r"(libc|libpthread|libdl|libm|ld-linux[-\w]*)\.so\.\d", name)] == []
    assert "(RPATH)" not in dynamic
    assert "(RUNPATH)" not in dynamic


def test_a_missing_binary_says_what_to_do(tmp_path: Path) -> None:
    out = run_well(
        f"""
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
        """
    )
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


@pytest.mark.usefixtures("two_gpus")
def test_leaves_no_handle_and_no_hook_behind() -> None:
    """The Python files that gopy makes would register a hook that stops the world after each of Python's collections."""
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
    run_well(
        """
        import sys
        for _ in range(3):
            import gpuconf
            gpuconf.simulate("T4")
            with gpuconf.memory.allocate(1000) as buffer:
                assert gpuconf.memory.stats().live_blocks == 1
            for name in [n for n in sys.modules if n.partition(".")[0] == "gpuconf"]:
                del sys.modules[name]
        """
    )


def test_an_unknown_file_of_that_name_is_an_import_error_of_its_own(tmp_path: Path) -> None:
    """A binary that is there but can't be loaded is not "missing"."""
    done = run(
        f"""
        import shutil, sys
        package = {str(tmp_path / "gpuconf")!r}
        shutil.copytree({str(PACKAGE)!r}, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        open(package + "/_core/_gpuconf.abi3.so", "w").write("no library")
        sys.path.insert(0, {str(tmp_path)!r})
        import gpuconf
        gpuconf.config.list_physical_devices()
        """
    )
    assert done.code == 1
    assert "ImportError" in done.stderr
    assert "missing" not in done.stderr
