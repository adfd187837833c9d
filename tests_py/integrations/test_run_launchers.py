"""``gpuconf run`` with programs that start Python in their own way:
OpenTelemetry, Datadog, uv, and each around the other.
"""

import os
import sys
import venv
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
SHOW = """
import sys
modules = ("opentelemetry.instrumentation.auto_instrumentation", "ddtrace")
print("gpuconf_startup" in sys.modules, *(name in sys.modules for name in modules))
"""
RUN = [str(BIN / "gpuconf"), "run", "--memory", "1GiB", "--simulate", "T4", "--"]
OTEL, DATADOG = str(BIN / "opentelemetry-instrument"), str(BIN / "ddtrace-run")
QUIET = {
    "OTEL_TRACES_EXPORTER": "none",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
    "DD_TRACE_ENABLED": "false",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
}


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python without any package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")


def run(words: list[str], tmp_path: Path) -> str:
    script = tmp_path / "show.py"
    script.write_text(SHOW)
    env = {**os.environ, **QUIET, "GPUCONF_LEDGER": str(tmp_path / "ledger"), "PATH": f"{BIN}:{os.environ['PATH']}"}
    env.pop("VIRTUAL_ENV", None)
    done = script.completed([*words, str(script)], env=env, timeout=120, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("words", "active"),
    [
        ([*RUN, "python"], "True False False"),
        ([*RUN, OTEL, sys.executable], "True True False"),
        ([OTEL, *RUN, sys.executable], "True True False"),
        ([*RUN, DATADOG, sys.executable], "True False True"),
        ([DATADOG, *RUN, sys.executable], "True False True"),
        ([*RUN, DATADOG, OTEL, sys.executable], "True True False"),  # OpenTelemetry does not run Datadog's startup code
    ],
    ids=["none", "in: OpenTelemetry", "around: OpenTelemetry", "in: Datadog", "around: Datadog", "both"],
)
def test_every_startup_code_runs(words: list[str], active: str, tmp_path: Path) -> None:
    assert run(words, tmp_path) == f"{active}\n"


def test_uv_and_another_environment(tmp_path: Path, bare_python: str) -> None:
    assert run([*RUN, bare_python], tmp_path) == "True False False\n"
    uv = [str(BIN / "uv"), "run", "--no-project", "--offline", "--quiet", "--python"]
    assert run([*RUN, *uv, bare_python], tmp_path) == "True False False\n"
