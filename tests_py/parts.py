"""Run the parts of make's targets that have several: ``make soak WHAT=ledger``.

``python tests_py/parts.py TARGET [PART...]`` runs these parts, or those of ``DEFAULT``; a target without a default
prints its parts. A part is a line of what it is for and a command of bash. ``$PY`` is this Python, and
make's variables are in the environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEST = "go test -tags=invariants"
PIP = "$PY -m pip install --quiet --disable-pip-version-check"
SUITES = "$PY tests_py/integrations/suites"
DEFAULT = {
    "soak": ("allocator", "ledger", "forks", "guard", "crowd", "random"),
    "fuzz": ("parsers", "snapshots"),
    "generate": ("sources",),
    "bench": ("all",),
    "accuracy": ("programs",),
    "count": ("product",),
}
PARTS = {
    "soak": {
        "allocator": (
            "random operations while the driver fails at random: SOAK of them, from SEED",
            f"SOAK=${{SOAK:-10000000}} SEED=${{SEED:-1}} {TEST} ./tests_go/devices/devmgr -run '^TestSoak$' "
            "-count=1 -v -timeout 0",
        ),
        "ledger": (
            "64 processes that lease and die, for SOAK_LEDGER seconds",
            f"SOAK_LEDGER=${{SOAK_LEDGER:-600}} {TEST} ./tests_go/lease/ledger -run '^TestSoak$' "
            "-count=1 -v -timeout 0",
        ),
        "forks": (
            "FORKS forks of each kind",
            "$PY tests_py/core/fork_matrix.py --forks ${FORKS:-200} --seed ${SEED:-1}\n"
            "$PY tests_py/core/fork_first_use.py --forks ${FORKS:-200}",
        ),
        "guard": (
            "4 processes under the guard, for SOAK_GUARD operations each",
            "$PY tests_py/guard/guard_soak.py --steps ${SOAK_GUARD:-1000000} --seed ${SEED:-1}",
        ),
        "turns": (
            "SCHEDULES random schedules of programs that take turns, from SEED times as many on",
            f"SCHEDULES=${{SCHEDULES:-100000}} SEED=${{SEED:-0}} {TEST} ./tests_go/lease/turns -count=1 -v -timeout 0",
        ),
        "faults": (
            "programs that take turns, while each call of the driver fails with each code, 4 at a time",
            "TURN_FAULTS=4 $PY -m pytest tests_py/jobs/test_killed_turns.py",
        ),
        "parked": (
            "programs that take turns and call the driver while parked, stopped and without agents, for SOAK_PARKED s",
            "PYTHONPATH=tests_py $PY tests_py/jobs/turns_soak.py --seconds ${SOAK_PARKED:-300} --seed ${SEED:-1}",
        ),
        "crowd": (
            "processes and threads on simulated cards, for SOAK_CROWD seconds four times",
            "CROWD_SECONDS=${SOAK_CROWD:-300} SEED=${SEED:-1} $PY -m pytest tests_py/simulation/test_crowd.py",
        ),
        "random": (
            "the random Go tests with SOAK_RAPID new inputs each",
            f"RAPID_SEED=0 RAPID_CHECKS=${{SOAK_RAPID:-2000}} {TEST} ./tests_go/... -timeout 0",
        ),
    },
    "fuzz": {
        "parsers": (
            "each parser and the allocator, for FUZZTIME each; PATTERN chooses targets",
            "$PY tests_go/fuzz.py ${FUZZTIME:-30s} ${PATTERN:-}",
        ),
        "values": (
            "PROGRAMS random programs of PyTorch on a simulated GPU beside the CPU, from SEED, with SET's PyTorch",
            ".venv-frameworks/${SET:-torch-2.15-cuda13}/bin/python "
            "tests_py/frameworks/values/random_programs_on_simulated_gpus.py "
            "--programs ${PROGRAMS:-20000} --seed ${SEED:-1}",
        ),
        "snapshots": (
            "load MUTANTS changed snapshots",
            "$PY tests_py/plans/snapshot_mutants.py ${MUTANTS:-100000}",
        ),
    },
    "generate": {
        "sources": (
            "the binding, ConfigProto's types and the simulator's functions; CHECK=--check compares",
            "\n".join(
                f"$PY {script} ${{CHECK:-}}"
                for script in (
                    "pybind/build/generate.py",
                    "tests_py/oracle/message_stubs.py",
                    "tests_py/oracle/tensorflow_names.py",
                    "tests_py/driver/functions.py",
                )
            ),
        ),
        "requirements": (
            "the versions and hashes of what the build downloads",
            f"{PIP} $UV\n$PY pybind/build/requirements/lock.py",
        ),
        "driver": (
            "what NVIDIA's drivers (Debian's packages, 15 MB) answer without a GPU; it needs apt's tools",
            "$PY tests_py/driver/headers.py\n$PY tests_py/driver/record.py\n$PY tests_py/driver/functions.py",
        ),
        "trees": (
            "the trees of cuDNN's workspaces, of recorded convolutions; it installs scikit-learn",
            f"{PIP} scikit-learn==1.9.1\n$PY benchmarks/accuracy/drawn/fit.py --write",
        ),
        "picture": (
            "docs/notebook.png, a notebook in JupyterLab",
            "$PY tests_py/integrations/debian_packages.py chromium chromium-driver\n"
            "$MAKE .venv-integrations/ready\n"
            ".venv-integrations/bin/python tests_py/integrations/notebook_picture.py docs/notebook.png",
        ),
    },
    "check": {
        "workflows": (
            "the files in .github/workflows, and the workflow for users; go.sum of Go's proxy has actionlint's hash",
            "lint='go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12'\n"
            "$lint\n$lint examples/github-actions.yml",
        ),
        "types": (
            "a type checker knows the types of 99 % of the names (downloads pyright with Node.js, 280 MB)",
            f"{PIP} basedpyright==1.40.2\n$PY tests_py/wheel/known_types.py",
        ),
        "c-api": (
            "the examples in C, C++ and Rust, and with CMake: make test leaves out what is not installed",
            "for tool in c++ cmake rustc; do\n"
            '    command -v $tool >/dev/null || { echo "install $tool (Debian: g++, cmake, rustc)" >&2; exit 1; }\n'
            "done\n"
            "$PY -m pytest -rs tests_py/memory/test_standalone.py tests_py/memory/test_c_abi.py "
            "tests_py/simulation/test_simulated_clients.py",
        ),
        "reproducible": (
            "two wheels of the last commit, built in different folders, are equal",
            "$MAKE .venv-wheels/ready\n.venv-wheels/bin/python tests_py/wheel/reproducible.py",
        ),
        "oldest-pytest": (
            "the pytest plugin with the oldest pytest that pyproject.toml names (downloads it)",
            'oldest=$(sed -nE \'s/^pytest = \\["pytest>=([^"]*)"\\]/\\1/p\' pyproject.toml)\n'
            "rm -rf build/pytest\n"
            f"{PIP} --no-deps --target build/pytest pytest==$oldest.0 pluggy iniconfig\n"
            "PYTHONPATH=$PWD/build/pytest $PY -m pytest -p no:cacheprovider tests_py/pytest_plugin",
        ),
        "versions": (
            "older versions of gpuconf, built from the repository's history, share a ledger with this one",
            "PYTHONPATH=tests_py:tests_py/jobs $PY tests_py/wheel/previous.py",
        ),
        "arm64": (
            "Python tests on the arm64 wheel under qemu (downloads it and an arm64 Python; needs apt on Debian)",
            "$MAKE wheels\n$PY tests_py/wheel/arm64.py dist",
        ),
        "python314": (
            "the Python tests on the x86-64 wheel under CPython 3.14 (downloads it; needs apt on Debian)",
            "$MAKE wheels\n$PY tests_py/wheel/python314.py dist",
        ),
        "real-driver": (
            "the guard over NVIDIA's DRIVERS (Debian's packages, 15 MB), without a GPU; nothing is installed",
            "$PY tests_py/driver/guard_over_driver.py ${DRIVERS:-}",
        ),
        "cuda-headers": (
            "the simulated CUDA runtime's layouts and statuses are those of NVIDIA's headers (downloads 2 GB)",
            "$PY tests_py/wheel/cuda_headers.py",
        ),
        "torch-imports": (
            "the functions of CUDA's libraries that PyTorch TORCH=version imports and the simulator lacks (1 GB)",
            'folder="build/torch-${TORCH:?say which PyTorch, as in TORCH=2.15.0}"\n'
            f'{PIP} --no-deps --upgrade --target "$folder" "torch==$TORCH"\n'
            '$PY tests_py/wheel/torch_imports.py "$folder/torch/lib"\n'
            'rm -rf "$folder"',
        ),
    },
    "test-suites": {
        "foreign": (
            "suites of other projects with and without the pytest plugin (downloads them)",
            f"{SUITES}/foreign_suites.py build/foreign-suites",
        ),
        "simulated": (
            "suites of PyTorch packages on the CPU and on simulated GPUs (downloads them)",
            f"{SUITES}/suites_on_simulated_gpus.py build/foreign-suites",
        ),
        "pytorch": (
            "a sample of PyTorch's own tests; PYTORCH_TESTS is their folder, else it comes from Debian's archive; "
            "PYTORCH_FILES chooses",
            f'{SUITES}/pytorch_suite.py build/foreign-suites --tests "${{PYTORCH_TESTS:-}}" ${{PYTORCH_FILES:-}}',
        ),
        "workflow": (
            "each command of examples/github-actions.yml in a new environment (downloads PyTorch, 1.3 GB)",
            f"{SUITES}/users_workflow.py build/users-workflow\nrm -rf build/users-workflow",
        ),
        "neighbours": (
            "packages that look for TensorFlow, under --as-tensorflow (downloads them, 7 GB)",
            f"{PIP} --target build/neighbours -r tests_py/integrations/suites/neighbours_of_tensorflow.txt\n"
            f"{PIP} --target build/neighbours --no-deps tf_keras\n"
            f"{SUITES}/neighbours_of_tensorflow.py build/neighbours",
        ),
        "tensorflow": (
            "TensorFlow's tests of these APIs from a checkout, TENSORFLOW=DIR; their table is in conformance.md",
            '$PY tests_py/tensorflow_tests/run.py "${TENSORFLOW:-}"',
        ),
    },
    "bench": {
        "all": ("what gpuconf costs: benchmarks/reports/benchmarks.md", "$PY benchmarks/run.py"),
        "allocator": (
            "the allocator beside others (downloads 300 MB); MINIMALLOC=DIR adds CSV files id,lower,upper,size",
            "$MAKE .venv-peers/ready\n"
            'PATH="$PATH:$PWD/.venv-peers/bin" .venv-peers/bin/python benchmarks/peers/run.py '
            '--minimalloc "${MINIMALLOC:-}" ${BENCH_ARGS:-}',
        ),
        "gate": ("what the open gate of a program that takes turns adds to a launch", "$PY benchmarks/gate.py"),
        "fleet": (
            "gpuconf plan --fleet, and benchmarks/reports/fleet.md (20 minutes on an idle machine)",
            "$PY benchmarks/fleet.py ${BENCH_ARGS:-}",
        ),
        "profile": (
            "the profile of the allocator, which go build finds by its name and compiles the extension module with",
            "mkdir -p build/profile\n"
            "go test -trimpath -run '^$' -bench 'Laws/.*/(exact|tensorflow-rule)' -benchtime 50x "
            "-o build/profile/bfc.test -cpuprofile build/profile/cpu ./tests_go/pool/bfc\n"
            "go tool pprof -proto -output pybind/_gpuconf/default.pgo build/profile/cpu",
        ),
    },
    "accuracy": {
        "programs": (
            "rehearsals beside runs recorded on GPUs (an hour; benchmarks/accuracy/run.py says what it needs)",
            "$PY benchmarks/accuracy/run.py ${ACCURACY_ARGS:-}",
        ),
        "operators": (
            "what PyTorch 2.11's operators allocate on a simulated H200 and a real one (20 minutes; needs TORCH_2_11)",
            'PATH="$(dirname "$TORCH_2_11"):$PATH" "$TORCH_2_11" -m gpuconf run --simulate H200-141GB --values none -- '
            '"$TORCH_2_11" benchmarks/accuracy/operator_recorder.py build/operators --processes 6 --at-once 1 '
            "--seconds 7200 --patience 20\n"
            "$PY benchmarks/accuracy/operator_compare.py benchmarks/data/accuracy/operators_h200.jsonl.xz "
            "build/operators/operators.jsonl.gz --unseen",
        ),
    },
    "gpu": {
        "test": ("a wheel on this machine's GPU, with the libraries installed there", "$PY tests_py/gpu/run.py $WHEEL"),
        "bench": ("measure a wheel on this machine's GPU", "$PY benchmarks/gpu.py $WHEEL"),
        "all": (
            "every case and benchmark for a GPU, in steps; call it again to continue (GPU_ARGS='--minutes 9')",
            "$PY tests_py/gpu/unattended.py --page benchmarks/reports/gpu-results.md ${GPU_ARGS:-} $WHEEL",
        ),
        "turns": (
            "what is unknown of programs that take turns, in at most eight minutes; it has not run on a card",
            "$PY tests_py/gpu/turns_on_a_card.py $WHEEL",
        ),
        "rules": (
            "compile the rules that tests_go/machine/drivertest states of a driver, for a machine without Go",
            f"$MAKE .venv/dev\n{TEST} -c -o dist/driver-rules_$(uname -m) ./tests_go/machine/cuda",
        ),
    },
    "count": {
        "product": ("the product's files and lines of code", "$PY tests_py/package/count_lines.py"),
        "simulator": ("the simulator's lines, and its tables apart", "$PY tests_py/simulator_sources.py"),
    },
}


def run(target: str, names: list[str]) -> int:
    """Run parts one after another, and return the exit status of the first that fails."""
    parts = PARTS[target]
    names = names or list(DEFAULT.get(target, ()))
    if not names or not set(names) <= set(parts):
        print(f"make {target} WHAT=PART, where PART is one of", *(f"  {n}: {parts[n][0]}" for n in parts), sep="\n")
        return 2
    environment = {"MAKE": "make"} | os.environ | {"PY": sys.executable}
    for name in names:
        print(f"{target}, {name}: {parts[name][0]}", flush=True)
        status = subprocess.run(["bash", "-euc", parts[name][1]], cwd=ROOT, env=environment, check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
