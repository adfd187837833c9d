"""Runs the commands of examples/github-actions.yml, which users copy, as they are, in a new environment and in a
package of a user.

    python tests_py/integrations/suites/users_workflow.py FOLDER

FOLDER is made anew. ``bash -e`` runs the text of each step, as on GitHub's machines. What differs from there: Python is
this one, and pip finds gpuconf's wheel of this tree in FOLDER/wheels. It prints the time of each step and the size of
what was installed. It exits with 1 if a step fails or if the package's tests did not run on simulated GPUs.
"""

import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import package_with_cuda_tests

ROOT = Path(__file__).resolve().parents[3]


def steps() -> list[tuple[str, str]]:
    """Return the name and the commands of each step that has commands."""
    workflow = yaml.safe_load((ROOT / "examples" / "github-actions.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    return [(step["name"], step["run"]) for step in job["steps"] if "run" in step]


def variables(folder: Path) -> dict[str, str]:
    """Return a job's environment: the new Python is the first one, and nothing says what gpuconf or CUDA should do."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GPUCONF_", "CUDA_", "PYTEST_", "PYTHON"))
    }
    wheels = f"{kept.get('PIP_FIND_LINKS', '')} {folder / 'wheels'}".strip()
    return kept | {"PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}", "PIP_FIND_LINKS": wheels}


def size(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def main() -> int:
    """Run all steps."""
    folder = Path(sys.argv[1]).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / "package"
    package.mkdir(parents=True)
    package_with_cuda_tests.write(package)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder / "wheels"), str(ROOT)], check=True)
    venv.create(folder / "venv", with_pip=True)
    before, said = size(folder / "venv"), ""
    for name, commands in steps():
        since = time.monotonic()
        done = subprocess.run(
            ["bash", "-e", "-c", commands],
            cwd=package,
            env=variables(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(f"{name}: {time.monotonic() - since:.0f} s, exit code {done.returncode}", flush=True)
        said = done.stdout
        if done.returncode:
            print(said)
            return 1
    print(f"installed: {(size(folder / 'venv') - before) / 1e9:.2f} GB")
    print(said)
    return int(package_with_cuda_tests.PASSED not in said or "gpuconf: simulated GPUs: 2xT4" not in said)


if __name__ == "__main__":
    raise SystemExit(main())
