# The list of commands. `make help` prints it.
#
# Everything is installed from this tree into one environment, .venv. You need Python 3.10 or newer with its headers,
# a C compiler and Go. The build downloads Go as a wheel if PATH has none.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := -m pip install --quiet --disable-pip-version-check
GO_TEST := go test -tags=invariants
GO_SOURCES := gocore pybind tests_go benchmarks
PYTHON_SOURCES := python pybind gocore tests_go tests_py examples benchmarks docs/conf.py

# How many processes run the Python tests, each file in one of them; 0: this one. Most of a test is waiting: with two on
# two cores, each used a third of one.
TEST_WORKERS ?= 4

# The sources of the installed package. A change to any of them reinstalls it.
SOURCES := pyproject.toml go.mod go.sum $(shell find gocore pybind python -type f -regextype posix-extended \
	-regex '.*\.(go|c|h|S|s|cpp|py|pyi|map|pgo)')

# go-nvml calls functions that NVIDIA has deprecated, to support old drivers.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

# Random Go tests draw the same inputs in each run, so that a change of the result is a change of the sources; make soak
# draws new ones.
export RAPID_SEED ?= 1

# Go from PATH if it is new enough, else from the wheel in the environment.
BEFORE_PATH := $(shell $(PYTHON) pybind/build/hatch_build.py --before-path "$(abspath $(BIN))")
export PATH := $(if $(BEFORE_PATH),$(BEFORE_PATH):)$(PATH):$(abspath $(BIN))

# pip does not compile the modules of the tools: most of them are never imported. Python compiles those that are, and
# has to keep them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: $(shell sed -nE 's/^([a-z][a-z-]*):.*/\1/p' Makefile)

help: ## print this list
	@sed -nE 's/^([a-z%-]+):.*## (.*)/\1|\2/p' Makefile | awk -F '|' '{printf "  make %-17s %s\n", $$1, $$2}'

%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "gpuconf needs Python 3.10 or newer; set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv $* || { rm -rf $*; \
		echo "Python cannot create an environment: install python3-venv (Debian and Ubuntu), then try again." >&2; exit 1; }

# The package, built and installed from this tree.
$(VENV)/installed: $(BIN)/python $(SOURCES)
	@echo "building and installing gpuconf into $(VENV) (about a minute the first time)"
	@$(BIN)/python $(PIP) --force-reinstall --no-deps .
	@touch $@

$(VENV)/go: $(VENV)/installed
	@missing=$$($(BIN)/python pybind/build/hatch_build.py --missing-go) && \
		{ test -z "$$missing" || $(BIN)/python $(PIP) $$missing; }
	@touch $@

# What tests and checks need in addition, in exact versions.
$(VENV)/dev: $(VENV)/go pyproject.toml
	@echo "installing the tools for tests and checks into $(VENV)"
	@$(BIN)/python $(PIP) --no-compile 'gpuconf[dev,docs]'
	@touch $@

# $(call environment,NAME,FILES,ARGUMENTS,bare): .venv-NAME/ready is an environment of its own with gpuconf, or without
# it if bare, and with what pip's ARGUMENTS install of FILES; else with what the one file lists, and the tests' tools.
GO_IF_MISSING = $$$$($$(PYTHON) pybind/build/hatch_build.py --missing-go)
TEST_TOOLS := $(shell sed -nE \
	's/^ *"((pytest|pytest-xdist|hypothesis|ipykernel|nbclient|plotly|distributed|ray)==[^"]*)",.*/\1/p' pyproject.toml)
define environment
.venv-$(1)/ready: $(if $(4),,$(SOURCES)) $(2)
	@$$(MAKE) --no-print-directory VENV=.venv-$(1) $(if $(4),.venv-$(1)/bin/python,install)
	@echo "installing what $(2) lists into .venv-$(1)"
	@.venv-$(1)/bin/python $(PIP) $(or $(3),-r $(2) $(TEST_TOOLS) $(GO_IF_MISSING))
	@touch $$@
endef
$(eval $(call environment,docs,pyproject.toml,'.[docs]'))
$(eval $(call environment,oracle,tests_py/oracle/requirements/requirements.txt))
$(eval $(call environment,jax,tests_py/oracle/requirements/requirements-jax.txt))
$(eval $(call environment,jax-plan,tests_py/oracle/requirements/requirements-jax-plan.txt))
$(eval $(call environment,cover,tests_py/cover/requirements.txt))
$(eval $(call environment,integrations,tests_py/integrations/requirements.txt))
RELEASE := pybind/build/requirements/release.txt
$(eval $(call environment,wheels,$(RELEASE),--require-hashes --only-binary :all: -r $(RELEASE),bare))
PEERS := benchmarks/peers/requirements.txt
$(eval $(call environment,peers,$(PEERS),--no-deps -r $(PEERS) $(GO_IF_MISSING),bare))

# A set of PyTorch, CuPy and Numba has 6 to 8 GB. uv installs it: an older pip may choose another CUDA for PyTorch than
# for CuPy.
SET ?= torch-2.15-cuda13
export UV := uv==0.13.9
SETS := tests_py/frameworks/requirements
SET_PYTHON := .venv-frameworks/$(SET)/bin/python
SET_PYTEST := $(SET_PYTHON) -m pytest -rs
$(eval $(call environment,frameworks/$(SET),$(SETS)/$(SET).txt tests_py/frameworks/test_libraries.txt,\
	$(UV) && \
	$(SET_PYTHON) -m uv pip install -q --python $(SET_PYTHON) -r $(SETS)/$(SET).txt $(TEST_TOOLS) && \
	$(SET_PYTHON) -m uv pip install -q --python $(SET_PYTHON) --no-deps -r tests_py/frameworks/test_libraries.txt))

install: $(VENV)/installed ## create the environment and install the package into it

demo: $(VENV)/installed ## show the main features, on simulated GPUs if there are none
	@$(BIN)/python examples/demo.py

test: test-go test-py ## run all Go and Python tests

# With the tests' tags, so that vet and the tests share what they compile.
vet: $(VENV)/go
	go vet -tags=invariants $(GO_SOURCES:%=./%/...)
	go vet ./gocore/base/invariants

test-go: $(VENV)/dev vet ## run the Go tests, with invariants checked
	$(GO_TEST) -vet=off ./tests_go/...

test-py: $(VENV)/dev ## run the Python tests, without those of make test-integrations
	$(BIN)/python -m pytest --ignore tests_py/integrations -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder

# -short leaves out long tests that have one goroutine.
race: $(VENV)/dev ## run the Go tests of packages with goroutines under the race detector
	$(GO_TEST) -race -short $$(go run ./tests_go/arch/goroutines)

# Targets with parts, which WHAT chooses. tests_py/parts.py has them, with the variables that they take.
soak: ## run random operations for long: the parts allocator, ledger, forks, guard, crowd and random
fuzz: ## fuzz the parsers and the allocator, and load changed snapshots
generate: ## write generated sources anew; WHAT=requirements, driver, trees or picture: the others
check: ## run a check that takes long or downloads: workflows, types, c-api, reproducible, versions, ...
test-suites: ## run others' tests: the parts foreign, simulated, pytorch, workflow, neighbours and tensorflow
bench: ## measure what gpuconf costs, or WHAT=allocator, fleet, or profile for the compiler
accuracy: ## compare rehearsals, or the sizes of WHAT=operators, with recordings of real GPUs (an hour)
soak fuzz generate check test-suites bench accuracy: $(VENV)/dev
	@$(BIN)/python tests_py/parts.py $@ $(WHAT)

mutants: $(VENV)/dev ## change PACKAGE (bfc) in 30 places and write which changes its tests notice (up to 40 minutes)
	@$(BIN)/python tests_go/mutants/run.py $(or $(PACKAGE),bfc)

C_FILES = git ls-files '*.c' '*.h' '*.cc' '*.cpp'
lint: $(VENV)/dev ## check formatting, style and types
	@test -z "$$(gofmt -l $(GO_SOURCES) | grep -v /_gpuconf/)" || { gofmt -l $(GO_SOURCES); exit 1; }
	$(C_FILES) | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/mypy

fmt: $(VENV)/dev ## format the sources
	gofmt -w $(GO_SOURCES)
	$(C_FILES) | xargs $(BIN)/clang-format -i
	$(BIN)/ruff check --fix --quiet $(PYTHON_SOURCES)
	$(BIN)/ruff format --quiet $(PYTHON_SOURCES)

check-generated: $(VENV)/dev ## fail if a committed generated file is out of date
	@CHECK=--check $(BIN)/python tests_py/parts.py generate

docs: .venv-docs/ready ## build the documentation site in build/docs
	.venv-docs/bin/python -m sphinx -b html -q -W --keep-going docs build/docs

wheel: $(VENV)/dev ## build dist/*.whl and the sdist, and check the wheel
	rm -rf dist
	go mod download
	GOPROXY=off $(BIN)/python -m build --outdir dist .
	$(BIN)/python tests_py/wheel/check.py dist

wheels: .venv-wheels/ready ## build dist/*.whl for all Linux machines (glibc 2.28, x86-64 and arm64)
	.venv-wheels/bin/python pybind/build/wheels.py dist

test-frameworks: .venv-frameworks/$(SET)/ready ## test with libraries of a SET, or only its WHAT=simulated_programs
	$(SET_PYTEST) tests_py/frameworks $(if $(WHAT),-m $(WHAT),tests_py/memory/test_interchange.py)

test-jax-plan: .venv-jax-plan/ready ## test gpuconf plan with programs of JAX, without a GPU (downloads 2 GB)
	.venv-jax-plan/bin/python -m pytest -rs tests_py/frameworks/rehearsed/test_rehearsed_jax.py

# HAMI_CORE=DIR is a checkout of HAMi-core, and CUDA_INCLUDE=DIR a folder with cuda.h and nvml.h, for its tests.
test-clients: .venv-frameworks/$(SET)/ready ## test with others' own programs on the simulated driver (downloads them)
	GPUCONF_TEST_DOWNLOADS=1 HAMI_CORE="$(HAMI_CORE)" CUDA_INCLUDE="$(CUDA_INCLUDE)" $(SET_PYTEST) \
		tests_py/clients tests_py/simulation/test_simulated_clients.py tests_py/simulation/test_simulated_ipc.py \
		tests_py/frameworks/simulated/test_torch_simulated.py

test-cover: .venv-cover/ready .venv-frameworks/$(SET)/ready ## try writes, random programs and kills in each cover
	COVER_FULL=1 COVER_PYTORCH=$(abspath $(SET_PYTHON)) .venv-cover/bin/python -m pytest -rs tests_py/cover

# Real programs come from Debian's packages; this says which are missing.
test-integrations: .venv-integrations/ready ## test with a browser, Prometheus, clusters, Slurm and ssh
	@$(PYTHON) tests_py/integrations/debian_packages.py
	.venv-integrations/bin/python -m pytest -rs tests_py/integrations

oracle: .venv-oracle/ready .venv-jax/ready ## compare with TensorFlow, test beside TensorFlow and JAX (downloads 2 GB)
	@PATH="$(PATH):$(abspath .venv-oracle/bin)" .venv-oracle/bin/python tests_py/oracle/run.py $(ORACLE_ARGS)
	.venv-oracle/bin/python -m pytest -rs tests_py/frameworks/test_tensorflow.py
	.venv-jax/bin/python -m pytest -rs tests_py/frameworks/test_jax.py

# On a machine with a GPU, with only Python, the driver, and a wheel built elsewhere (make wheel, or WHEEL=path).
export WHEEL ?= $(firstword $(wildcard dist/*_$(shell uname -m).whl))
gpu-workspaces: ## record the workspaces of cuDNN's convolutions on this machine's GPU (PYTHON has PyTorch)
	@mkdir -p build
	$(PYTHON) benchmarks/accuracy/drawn/convolutions.py --out build/workspaces.jsonl --seconds 840 --processes 1

gpu-%: ## test (gpu-test), measure (gpu-bench) or do all in steps (gpu-all); gpu-rules is for gpu-all without Go
	@$(PYTHON) tests_py/parts.py gpu $*

count: ## count the product's files and lines of code, or the lines of WHAT=simulator
	@$(PYTHON) tests_py/parts.py count $(WHAT)

clean: ## remove everything that the other targets created
	rm -rf $(VENV) .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
