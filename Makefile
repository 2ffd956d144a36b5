# Two commands matter: `make verify` and `make test`. README.md has the plain commands for machines without make.

# An existing environment to use as it is (nothing is installed into it), or the folder of a new one.
VENV ?= .venv$(if $(TORCH),-torch-$(TORCH))
# A release of torch other than the pinned one, for a new environment.
TORCH ?=
# Further arguments for pytest, as in `make verify ARGS='-n auto'`.
ARGS ?=

BIN = $(if $(filter Windows_NT,$(OS)),Scripts,bin)
PLACES = $(VENV)/bin/python $(VENV)/bin/python3 $(VENV)/Scripts/python.exe $(VENV)/python.exe
PY = $(firstword $(wildcard $(PLACES)) $(VENV)/$(BIN)/python)
# The environment's own Python where there is one, else the first on the path that the lock knows.
PYTHON ?= $(or $(firstword $(wildcard $(PLACES))),$(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null && echo $$python && break; done))
PREPARE = @"$(PYTHON)" -c 'import tomllib' 2>/dev/null || { echo "Python '$(PYTHON)' is missing or older than 3.11: install Python 3.11 to 3.14, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }; \
	"$(PYTHON)" tools/environment.py "$(VENV)" --torch "$(TORCH)" --purpose

RESULTS = build/results
KEPT = spec/records
PAGE = build/spec/index.html
CHECKERS = build/npm
# jaxtyping takes the checker from a module without a dot in its name, hence the second folder on the path.
CHECKED = -o pythonpath='. tools' --jaxtyping-packages=reference,properties.strategies,properties.instruments,annotations.checked

.PHONY: help verify record test checkers lint types imports format bench lock clean

help:
	@echo 'make verify   check every claim on this machine: a table of verdicts, a record, a page'
	@echo 'make record   keep the record of the last make verify under $(KEPT), and renew what README tells of it'
	@echo 'make test     check Assay itself: its oracles, strategies, instruments, claims and code'
	@echo 'make checkers fetch from npm what make test looks at the page and the workflows with'
	@echo 'make bench    measure what the claim layer and our strategies cost and find'
	@echo 'make format   sort imports and format the code'
	@echo 'make lock     look for newer releases and pin them'
	@echo 'make clean    remove build/ (records and page); environments stay'
	@echo
	@echo 'VENV=folder   use this environment; an existing one is used as it is, a new one is made'
	@echo 'TORCH=2.14.1  make an environment with this release of torch'
	@echo 'ARGS=...      further arguments for pytest, as in ARGS="-n auto"'

# Each is made once a run of make, however many targets want it.
.PHONY: to-verify to-test to-bench
to-verify:
	$(PREPARE) verify
to-test:
	$(PREPARE) test
to-bench:
	$(PREPARE) bench

# The page is made even if a claim was contradicted; the status is then pytest's all the same.
verify: to-verify
	@status=0; \
	"$(PY)" -m pytest $(ARGS) || status=$$?; \
	if "$(PY)" -m properties.report $(KEPT) $(RESULTS) --output $(PAGE); then echo "The page: $(PAGE)"; \
	else failed=$$?; test $$status -ne 0 || status=$$failed; fi; \
	exit $$status

record: to-verify
	"$(PY)" -m properties.report keep $(RESULTS)

# -rs: what could not be tested here, such as the page where no Chromium is, is named at the end.
test: lint types imports
	"$(PY)" -m pytest spec --level quick --results=build/test/quick.json $(ARGS)
	"$(PY)" -m pytest reference/tests properties/tests -n auto -rs $(CHECKED) $(ARGS)

# The pins are tools/package-lock.json; they are copied so that nothing is written outside build/.
checkers: $(CHECKERS)/installed
$(CHECKERS)/installed: tools/package.json tools/package-lock.json
	@mkdir -p $(CHECKERS)
	cp tools/package.json tools/package-lock.json $(CHECKERS)
	npm ci --prefix $(CHECKERS) --engine-strict --ignore-scripts --no-audit --no-fund
	@touch $@

lint: to-test
	"$(PY)" -m ruff check .
	"$(PY)" -m ruff format --check .

types: to-test
	"$(PY)" -m mypy

imports: to-test
	"$(dir $(PY))lint-imports" --no-logo --cache-dir build/import-linter

format: to-test
	"$(PY)" -m ruff check --select I --fix .
	"$(PY)" -m ruff format .

bench: to-bench
	"$(PY)" -m properties.bench
	"$(PY)" -m properties.bench_flops

# The lock leaves CUDA's packages to the build of torch that is installed: a CPU build has none.
lock: to-test
	@mkdir -p build
	"$(PY)" -m uv pip compile pyproject.toml --upgrade --universal --python-version 3.11 --all-extras \
		--group pinned --group dev --group bench --quiet --no-emit-index-url --no-emit-find-links \
		--annotation-style line --custom-compile-command 'make lock' --output-file build/all.lock
	grep -v -E '^(nvidia-|cuda-|triton==)' build/all.lock > requirements.lock
	@echo 'requirements.lock is new. The next make brings an environment made here up to it.'

clean:
	rm -rf build
