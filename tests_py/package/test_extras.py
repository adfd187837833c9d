"""Everything that needs an optional package says so in one line of one form, with one class: which command installs
it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from script import run, run_well

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "gpuconf"

# An extra: the module that is missing, and what needs it, as calls, and what the line begins with.
CALLS = {
    "plot": ("matplotlib", {"gpuconf.plan(trace).plot('memory.png')": "plots need matplotlib"}),
    "report": ("plotly", {"gpuconf.memory.report(trace, 'memory.html')": "the report needs plotly"}),
    "fleet": ("numpy", {"gpuconf.plan_fleet([trace], 'T4', phases=True)": "phases need NumPy"}),
    "torch": (
        "torch",
        {
            "gpuconf.allocators.torch": "gpuconf.allocators.torch needs PyTorch",
            "gpuconf.rehearse('A10').__enter__()": "gpuconf.rehearse needs PyTorch, built for CUDA",
        },
    ),
    "cupy": ("cupy", {"gpuconf.allocators.cupy": "gpuconf.allocators.cupy needs CuPy"}),
    "numba": ("numba", {"gpuconf.allocators.numba": "gpuconf.allocators.numba needs numba-cuda"}),
    "prometheus": ("prometheus_client", {"gpuconf.metrics.register()": "metrics need prometheus-client"}),
    "otel": ("opentelemetry", {"gpuconf.metrics.instrument()": "metrics need the OpenTelemetry SDK"}),
    "dask": (
        "distributed",
        {"gpuconf.dask": "gpuconf.dask needs Dask", "gpuconf.plan_fleet([trace], 'T4', dask=True)": "dask= needs Dask"},
    ),
    "ray": ("ray", {"gpuconf.ray": "gpuconf.ray needs Ray"}),
    "numpy": ("numpy", {"gpuconf.constant(1)": "tensors and sessions need NumPy"}),
    "toml": ("tomli", {"settings()": r".*gpuconf.toml has settings, for which Python 3.10 needs tomli"}),
}

# Commands whose only line is the same.
COMMANDS = {
    "plan trace.csv --plot memory.png": (
        "matplotlib",
        "gpuconf plan: plots need matplotlib: pip install 'gpuconf[plot]'",
    ),
    "plan trace.csv --html memory.html": (
        "plotly",
        "gpuconf plan: the report needs plotly: pip install 'gpuconf[report]'",
    ),
    "export --once": (
        "prometheus_client",
        "gpuconf export: metrics need prometheus-client: pip install 'gpuconf[prometheus]'",
    ),
}

# Extras without which everything works: less colorful, slower, on the CPU, or not at all, as a plugin without its host.
# The core looks for cuBLAS itself: tests_py/tensors/test_gpu_operations.py has its line, of the same form.
# tests_py/frameworks/rehearsed/test_rehearsed_jax.py has the line of jax-plan.
NOT_NEEDED = {"jax-plan", "cli", "pytest", "blas", "cublas-cu13", "cublas-cu12", "cublas-cu11", "docs", "dev"}

WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
"""

PROGRAM = """
import gpuconf

gpuconf.simulate("T4")
trace = "trace.csv"

def settings():
    from gpuconf._core import settings_file
    sys.modules["tomllib"] = None  # as on Python 3.10
    settings_file._toml("gpuconf.toml", b"limit = '6GiB'")

try:
    {call}
except gpuconf.errors.MissingPackageError as error:
    assert isinstance(error, ImportError) and isinstance(error, NotImplementedError), type(error).__mro__
    print(error)
"""

TRACE = """Thread,Time,Action,Pointer,Size,Stream
1,10:00:00.000000,allocate,0x1000000,2097152,0
1,10:00:00.250000,free,0x1000000,2097152,0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "trace.csv").write_text(TRACE)
    return tmp_path


@pytest.mark.parametrize(("extra", "call"), [(extra, call) for extra, (_, calls) in CALLS.items() for call in calls])
def test_a_call_names_its_extra(extra: str, call: str, folder: Path) -> None:
    module, calls = CALLS[extra]
    line = run_well(WITHOUT.format(modules=[module, "cuda"]) + PROGRAM.format(call=call), cwd=folder)
    assert re.fullmatch(rf"{calls[call]}: pip install 'gpuconf\[{extra}\]'\n", line), line


def test_a_failed_rehearsal_leaves_the_simulated_cards(folder: Path) -> None:
    call = "gpuconf.rehearse('A10').__enter__()"
    program = WITHOUT.format(modules=["torch"]) + PROGRAM.format(call=call) + "print(gpuconf.simulated())"
    assert run_well(program, cwd=folder).splitlines()[-1] == "T4"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_the_same_line(command: str, folder: Path) -> None:
    module, line = COMMANDS[command]
    program = (
        f"{WITHOUT.format(modules=[module])}from gpuconf.cli.main import main; sys.exit(main({command.split()!r}))"
    )
    done = run(program, cwd=folder, env={"GPUCONF_SIMULATE": "T4"})
    assert (done.code, done.stdout, done.stderr) == (1, "", f"{line}\n")


def test_a_package_that_fails_to_import_is_named_with_the_reason(folder: Path) -> None:
    (folder / "matplotlib.py").write_text("raise ImportError('libX11.so.6: cannot open shared object file')")
    done = run(
        "import gpuconf; gpuconf.plan('trace.csv').plot('memory.png')", cwd=folder, env={"PYTHONPATH": str(folder)}
    )
    assert done.stderr.splitlines()[-1] == (
        "gpuconf.errors.MissingPackageError: plots need matplotlib (libX11.so.6: cannot open shared object file): "
        "pip install 'gpuconf[plot]'"
    )


def test_every_extra_is_here() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = re.search(r"^\[project\.optional-dependencies\]\n(.*?)^\[", project, re.M | re.S)
    assert section
    assert set(re.findall(r"^([\w-]+) = \[", section[1], re.M)) == {*CALLS, *NOT_NEEDED}


def test_one_function_writes_the_line() -> None:
    """Each call of it is tried above; the other texts with the command are not about a missing package."""
    others = {"libraries.py": "note", "cards.py": "an older version"}
    texts, called = [], set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and "pip install" in str(node.value) and "gpuconf[" in str(node.value):
                texts.append((path.name, "``pip" in str(node.value)))  # a docstring may name it
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("texts.missing", "_texts.missing"):
                called.add(str(ast.literal_eval(node.args[2])))
    assert {name for name, documented in texts if not documented} - others.keys() == {"texts.py"}
    assert called == {*CALLS, "cli", "jax-plan"}
