"""What users of a free-threaded Python see: one sentence, from the build and from the first use."""

from __future__ import annotations

import sys
from pathlib import Path

from script import execute

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
