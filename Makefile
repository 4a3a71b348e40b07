# `make demo` and `make test` work from a fresh clone: they need Python 3.10 or newer, Java 17 or newer, and make.
# `make help` lists the rest.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PYTEST_ARGS ?=
# Where the archive of Java's classes is, with which each of the tests' Sparks starts faster.
export ROWMERGE_CACHE ?= $(abspath $(VENV))/cache
# Processes that tests start import compiled bytecode, also where the environment turns it off.
export PYTHONDONTWRITEBYTECODE :=
CLASS_ARCHIVE := $(VENV)/.class-archive
SOAK_MINUTES ?= 30
# What the demo's tables are: delta, or iceberg.
TARGET ?=
# The release of dbt-core that `make test-dbt` tests: 1.10, 1.11 or 1.12.
DBT ?= 1.12
# constraints.txt pins dbt-core 1.11, so the development environment serves for that release.
DBT_VENV = $(if $(filter 1.11,$(DBT)),$(VENV),.venv-dbt-$(DBT))
DBT_STAMP = $(DBT_VENV)/.installed
# Processes that run tests side by side, each with a Spark of 3 GB: while one waits for its Spark, another works.
WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

# The benchmark: TPC-H's scale factor, which engines and scenarios (patterns with commas), and more of `python -m benchmarks --help`.
SCALE ?= 1
ENGINES ?= ours,ours-iceberg-mor,delta-rs,delta-spark-dv,iceberg-spark-mor,limit-*
SCENARIOS ?= 1,2,4,5,6,8
# After how many seconds a scenario is not repeated any more.
CASE_SECONDS ?= 10
BENCH_ARGS ?=
PEERS ?= .peers
# The PySpark that the peers' jars in benchmarks/peers/pom.xml are for.
PEER_SPARK ?= 4.1.4

# The PySpark that `make test-spark` tests: 4.0, 4.1, …
SPARK ?= 4.0
SPARK_VENV := .venv-spark-$(SPARK)
# The tests of what rowmerge asks PySpark for.
SPARK_TESTS := $(addprefix tests/,unit/spark engine/test_rows.py engine/test_functions.py engine/test_rules.py engine/test_key_lookup.py \
	engine/test_round_trips.py engine/test_source_passing.py engine/test_source_writing.py engine/test_few_rows.py engine/test_kill.py \
	functional/adapter/basic functional/adapter/test_strategies.py functional/adapter/test_python_models.py functional/adapter/test_connect.py)

.PHONY: help demo test gate test-all test-dbt test-spark test-count soak lint format types layers structure prose docs
.PHONY: unit engine functional wheel java venv constraints clean
.PHONY: bench bench-all bench-smoke bench-peers bench-metadata bench-shapes bench-growth bench-reads performance-page
.DEFAULT_GOAL := help

help:
	@echo "make demo        run the flights project on real data and prove its tables with other readers; TARGET=iceberg for Iceberg"
	@echo "make test        the gate before every change: lint, types, layers, and each claim of the tests at least once (10 to 55 minutes)"
	@echo "make test-all    every test in every table format and write mode (three hours or more); make soak runs the tests that take hours"
	@echo "make test-count  count what the full suite verifies, and write the counts to docs/testing.md"
	@echo "make test-spark  a telling part of the tests on another PySpark: SPARK=4.0 (the oldest that is supported), SPARK=4.1"
	@echo "make unit        the tests that need no Spark"
	@echo "make engine      the engine's tests on Spark"
	@echo "make functional  the adapter's tests through dbt"
	@echo "make test-dbt    the demo and dbt's own adapter tests with another release of dbt-core: DBT=1.10, 1.11 or 1.12"
	@echo "make constraints pin the development environment anew in constraints.txt"
	@echo "make bench       its most telling scenarios beside other engines: SCALE=10, ENGINES='ours,delta-*' and SCENARIOS='1,8' choose"
	@echo "make bench-all   all scenarios and engines; make bench-peers brings the engines of others that need Java"
	@echo "make bench-smoke the benchmark on few rows: does it run, do the engines agree"
	@echo "make bench-metadata measure logs of many files and commits; it writes docs/performance_metadata.md"
	@echo "make bench-shapes run the grid of tables and statements of many shapes (hours): SEED=1; it writes docs/performance_shapes.md"
	@echo "make bench-growth measure how statements grow with rows, columns, files, commits, partitions and changed rows; it writes docs/performance_growth.md"
	@echo "make bench-reads count the files that queries open, and measure TPC-H, next to other engines; it writes docs/reads.md"
	@echo "make docs        build the documentation site in the folder site"
	@echo "make lint | format | prose | types | layers | structure | wheel | clean"

demo: java $(STAMP)
	$(BIN)/python integration_tests/flights/run_demo.py $(if $(TARGET),--target $(TARGET))

# The type checker uses one core for half a minute, so the tests run beside the checks. The tests end last.
test: java $(STAMP) $(CLASS_ARCHIVE)
	$(MAKE) --no-print-directory -j4 lint types layers gate

gate:
	$(PYTEST) $(PYTEST_ARGS)

test-all: java $(STAMP) $(CLASS_ARCHIVE)
	$(MAKE) --no-print-directory -j3 lint types layers
	$(PYTEST) --suite full --durations 30 $(PYTEST_ARGS)
	$(MAKE) --no-print-directory test-dbt DBT=1.12

# Stops after SOAK_MINUTES. The next run continues where this one stopped.
soak: java $(STAMP) $(CLASS_ARCHIVE)
	$(BIN)/python -m pytest --suite soak --soak-minutes $(SOAK_MINUTES) $(PYTEST_ARGS)

test-count: $(STAMP)
	$(BIN)/python -m tests.support.counts

$(CLASS_ARCHIVE): $(STAMP)
	$(BIN)/python -m rowmerge archive-classes
	@touch $@

test-spark: java $(SPARK_VENV)/.installed
	$(SPARK_VENV)/bin/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(SPARK_TESTS) $(PYTEST_ARGS)

$(SPARK_VENV)/.installed: setup.py pyproject.toml
	$(PYTHON) -m venv $(SPARK_VENV)
	$(SPARK_VENV)/bin/python -m pip install --quiet --editable '.[dev]' 'pyspark==$(SPARK).*' 'dbt-core<1.12'
	@touch $@

unit: $(STAMP)
	$(PYTEST) tests/unit $(PYTEST_ARGS)

engine: java $(STAMP)
	$(PYTEST) tests/engine $(PYTEST_ARGS)

functional: java $(STAMP)
	$(PYTEST) tests/functional $(PYTEST_ARGS)

# dbt's own adapter tests are in the folders of tests/functional/adapter. Their tables are Delta tables.
test-dbt: java $(DBT_STAMP)
	$(DBT_VENV)/bin/python integration_tests/flights/run_demo.py
	$(DBT_VENV)/bin/python -m pytest --suite full --numprocesses $(WORKERS) --dist worksteal $(filter-out %__pycache__/,$(wildcard tests/functional/adapter/*/)) \
		tests/functional/adapter/test_dbt_versions.py tests/functional/adapter/test_deprecations.py \
		tests/unit/adapter tests/unit/test_conformance.py $(PYTEST_ARGS)

lint: $(STAMP) prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Names, docstrings and comments: the rules of CONTRIBUTING.md that a program can check.
prose: $(STAMP)
	$(BIN)/python -m tests.support.prose

# The documentation site, in the folder site. A warning, such as a link to a missing page, is an error.
docs: .venv-docs/.installed
	.venv-docs/bin/zensical build --strict --config-file mkdocs.yml

# An environment of its own, because zensical and dbt-core 1.11 need different versions of pathspec.
.venv-docs/.installed: tests/requirements/docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --requirement tests/requirements/docs.txt
	@touch $@

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	PYTHONPATH=. $(BIN)/lint-imports --no-cache

# Packages and their sizes, cycles, and what is too large.
structure: $(STAMP)
	$(BIN)/python -m tests.support.structure

bench: java $(STAMP)
	PYTHONPATH=. $(BIN)/python -m benchmarks --scale $(SCALE) --engines '$(ENGINES)' --scenarios '$(SCENARIOS)' --peers $(PEERS) \
		--seconds $(CASE_SECONDS) --out benchmarks/measured/sf$(SCALE).json $(BENCH_ARGS)

# All scenarios on all engines, then what makes the page's ratios cold: some hours.
bench-all:
	$(MAKE) bench ENGINES='*' SCENARIOS='*' CASE_SECONDS=30
	$(MAKE) bench SCENARIOS='1,2,3,4,5,6,8' BENCH_ARGS='--cold 5 --add'

bench-smoke: java $(STAMP)
	PYTHONPATH=. $(BIN)/python -m benchmarks.smoke

# Of all results that are here: docs/performance.md with its plots.
performance-page: $(STAMP)
	PYTHONPATH=. $(BIN)/python -m benchmarks.report $(wildcard benchmarks/measured/sf*.json)

# Delta Lake and Iceberg on Spark: their jars, and a Python with the PySpark that these are for.
bench-peers:
	mvn --quiet -f benchmarks/peers dependency:copy-dependencies -DoutputDirectory=$(abspath $(PEERS))/jars
	$(PYTHON) -m venv $(PEERS)/python
	$(PEERS)/python/bin/python -m pip install --quiet 'pyspark==$(PEER_SPARK)' 'pyarrow>=17' 'pandas>=2,<3' numpy

# What a log of many files and commits costs: docs/performance_metadata.md.
bench-metadata: $(STAMP)
	PYTHONPATH=. $(BIN)/python -m benchmarks.metadata $(BENCH_ARGS)

# The grid of tables and statements of many shapes, which continues where it stopped: docs/performance_shapes.md.
bench-shapes: java $(STAMP)
	PYTHONPATH=. $(BIN)/python -m benchmarks.shapes --seed $(or $(SEED),1) --peers $(PEERS) --out benchmarks/measured/shapes_$(or $(SEED),1).jsonl $(BENCH_ARGS)
	PYTHONPATH=. $(BIN)/python -m benchmarks.shapes.page $(wildcard benchmarks/measured/shapes_*.jsonl)

# Growth curves, which continue where they stopped: docs/performance_growth.md.
bench-growth: java $(STAMP)
	PYTHONPATH=. $(BIN)/python -m benchmarks.growth --out benchmarks/measured/growth.jsonl $(BENCH_ARGS)
	PYTHONPATH=. $(BIN)/python -m benchmarks.growth.page benchmarks/measured/growth.jsonl

# The files that queries open and their seconds, next to the peers: docs/reads.md. BEFORE names a checkout of an earlier rowmerge.
bench-reads: java $(STAMP)
	$(READS) shapes
	$(READS) shapes --groups 'Dynamic*' --rows 1500000 --out benchmarks/measured/reads_shapes_large.json
	$(READS) figures
	$(READS) tpch --scale $(SCALE)
	PYTHONPATH=. $(BIN)/python -m benchmarks.reads.page

READS = PYTHONPATH=. $(BIN)/python -m benchmarks.reads --peers $(PEERS) $(if $(BEFORE),--before $(BEFORE)) $(BENCH_ARGS)

wheel: $(STAMP)
	rm -rf build dist
	$(BIN)/python -m build --outdir dist .

venv: $(STAMP)

$(STAMP): setup.py pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "$(PYTHON) is older than Python 3.10. Name a newer one: make PYTHON=python3.11 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

# The development environment with the packages of another release of dbt over it. pip gets no requirements to resolve, because it would
# build a package that dbt-core 1.12 requires and does not need.
.venv-dbt-%/.installed: setup.py pyproject.toml constraints.txt tests/requirements/dbt-%.txt
	$(PYTHON) -m venv .venv-dbt-$*
	.venv-dbt-$*/bin/python -m pip install --quiet --upgrade pip
	.venv-dbt-$*/bin/python -m pip install --quiet --no-deps --requirement constraints.txt
	.venv-dbt-$*/bin/python -m pip install --quiet --no-deps --requirement tests/requirements/dbt-$*.txt
	.venv-dbt-$*/bin/python -m pip install --quiet --no-deps --editable .
	@touch $@

# uv keeps a pinned version as long as setup.py accepts it; delete a line of constraints.txt to let its package move.
constraints: $(STAMP)
	$(BIN)/python -m pip install --quiet uv
	printf 'dbt-core<1.12\n' | $(BIN)/uv pip compile --quiet --universal --python-version 3.10 --extra dev --annotation-style line \
		--custom-compile-command 'make constraints' --output-file constraints.txt setup.py -

# Spark finds Java as JAVA_HOME/bin/java, else on the PATH; so does this check.
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	if [ -z "$$version" ]; then \
		echo "Spark needs Java 17 or newer, and there is none ($$java). Install a JDK 17, or set JAVA_HOME."; exit 1; \
	elif [ "$$version" -lt 17 ]; then \
		echo "Spark needs Java 17 or newer; $$java is version $$version. Install a JDK 17, or set JAVA_HOME to one."; exit 1; \
	fi

clean:
	rm -rf $(VENV) .venv-docs .venv-dbt-* .venv-spark-* .soak build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .peers
	rm -rf integration_tests/flights/target integration_tests/flights/logs
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
