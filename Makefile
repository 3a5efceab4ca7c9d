# Shortcuts for contributors. PYTHON chooses the interpreter: make quick PYTHON=.venv/bin/python
PYTHON ?= python3
JOBS   ?= 2
SCALE  ?= 1

.PHONY: help install quick test lint docs bench soak

help:
	@echo "make install  install provml and the development tools, without frameworks"
	@echo "make quick    tests that need no framework and no second process (under two minutes)"
	@echo "make test     all tests, as CI runs them; needs the extra 'test'"
	@echo "make lint     ruff, mypy, import-linter"
	@echo "make docs     regenerate the generated pages and build the site into build/docs"
	@echo "make bench    all benchmarks; they print ratios and assert nothing"
	@echo "make soak     kills, faults, damage and much of everything: hours; SCALE=0.1 takes a tenth"

install:
	$(PYTHON) -m pip install -e . --group dev

quick:
	$(PYTHON) -m pytest -q -n $(JOBS) --dist loadgroup -m "not framework and not slow and not system"

test:
	$(PYTHON) -m pytest -n $(JOBS) --dist loadgroup

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

docs:
	$(PYTHON) docs/make.py
	$(PYTHON) -m sphinx -W --keep-going -j $(JOBS) docs build/docs

bench:
	for script in tests/bench/*.py; do echo "== $$script"; $(PYTHON) $$script || exit 1; done

soak:
	$(PYTHON) tests/reliability/soak.py --scale $(SCALE)
