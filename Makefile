# Two targets matter to a newcomer: `make run` (a tour, no key needed) and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test check figures fuzz crash lint types clean

run: $(VENV)/installed
	$(BIN)/leeward --model offline --script examples/tour.leeward

test: lint types $(VENV)/installed-dev
	$(BIN)/pytest

check: lint types $(VENV)/installed-dev
	$(BIN)/python bench/style_metrics.py . | $(BIN)/python bench/style_bars.py

figures: $(VENV)/installed-dev
	$(BIN)/python bench/pipeline.py
	$(BIN)/python bench/command.py
	$(BIN)/python bench/batch.py
	$(BIN)/python bench/turn.py
	$(BIN)/python bench/fetch.py
	$(BIN)/python bench/process.py
	$(BIN)/python bench/audit.py
	$(BIN)/python bench/sessions.py
	$(BIN)/python bench/files.py
	$(BIN)/python bench/overflow.py
	$(BIN)/python bench/checkpoints.py

# Random command lines against what a real bash starts; a short version of it is part of the suite.
fuzz: $(VENV)/installed-dev
	$(BIN)/python tests/fuzz/command_fuzz.py
	$(BIN)/python tests/fuzz/command_quiet_fuzz.py
	$(BIN)/python tests/fuzz/git_quiet_fuzz.py

# A thousand kills at any moment, and every write of the database failing in turn; half an hour.
# A short version of it is part of the suite. With strace more ways to fail are tried.
crash: $(VENV)/installed-dev
	$(BIN)/python tests/fuzz/crash.py 1000
	$(BIN)/python tests/fuzz/faults.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .

types: $(VENV)/installed-dev
	$(BIN)/mypy -p leeward

# The sources are linked, not copied: only a change of the dependencies needs another installation.
$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Leeward needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
