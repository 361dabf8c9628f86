# Two targets matter to a newcomer: `make run` (a tour, no key needed) and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# An unpacked source archive holds them below src/leeward; from there they are moved to where a checkout has them.
ROOMS := security memory tools runtime

.PHONY: run test test-all tests test-versions lock check figures fuzz crash races lint types build clean

# What the parsers that verdicts rest on are asked about: command lines, URLs, patterns, pages, schemas.
PARSER_TESTS := tests/security tests/tools/declare tests/tools/search tests/tools/test_lookup.py \
	tests/tools/http/test_readable.py tests/tools/http/test_select.py

run: $(VENV)/installed
	$(BIN)/leeward --model offline --script examples/tour.leeward
	@if $(BIN)/leeward check shell '{"command": "touch x"}' | grep -q 'trial run'; \
	then $(BIN)/leeward --model offline --script examples/trials.leeward; \
	else echo "Nothing can be run on trial here; leeward doctor says why."; fi

# On every core; whoever is done takes tests over from others.
PARALLEL := -n auto --dist worksteal

# How many examples a property is tried on (tests/conftest.py): few here; as many as ever with `ci` or `thorough`.
test: export HYPOTHESIS_PROFILE ?= fast

test: lint types $(VENV)/installed-dev
	$(BIN)/pytest $(PARALLEL) -m 'not slow'

# What `make test` leaves out: repetitions, kills, builds and benches.
test-all: $(VENV)/installed-dev
	$(BIN)/pytest $(PARALLEL) -m slow

# The suite alone, with both.
tests: $(VENV)/installed-dev
	$(BIN)/pytest $(PARALLEL)

# The security tests with the lowest and with the highest allowed versions of those parsers, each in a
# folder of its own; a quarter of an hour.
test-versions: requirements.lock
	for end in lowest highest; do \
		test -x $(VENV)-$$end/bin/python || $(PYTHON) -m venv $(VENV)-$$end || exit 1; \
		$(VENV)-$$end/bin/python .ci/versions.py $$end --parsers >$(VENV)-$$end/parsers.txt || exit 1; \
		for wanted in '--require-hashes -r requirements.lock' '--no-deps --editable .' \
			"--no-deps --upgrade -r $(VENV)-$$end/parsers.txt"; do \
			$(VENV)-$$end/bin/python -m pip install --quiet $$wanted || exit 1; \
		done; \
		$(VENV)-$$end/bin/python -m pip freeze | grep -iE '^(ada|google|jsonschema|selectolax|tree)'; \
		$(VENV)-$$end/bin/pytest -p no:cacheprovider $(PARSER_TESTS) || exit 1; \
	done

# Pins everything that development installs, with the hashes of its files for every system. Resolved with
# the oldest Python that is supported: it needs all that newer ones need. No address of a registry gets in.
lock:
	test -x $(VENV)-lock/bin/python || $(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
		|| { echo "The lock is made with Python 3.11; name it with: make PYTHON=python3.11 lock"; exit 1; }
	$(VENV)-lock/bin/python -m pip install --quiet 'pip-tools>=7.5,<8'
	$(VENV)-lock/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --extra dev \
		--no-header --no-annotate --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--output-file requirements.lock pyproject.toml

check: lint types $(VENV)/installed-dev
	$(BIN)/python bench/style_metrics.py . | $(BIN)/python bench/style_bars.py

figures: $(VENV)/installed-dev
	$(BIN)/python bench/pipeline.py
	$(BIN)/python bench/command.py
	$(BIN)/python bench/day.py
	$(BIN)/python bench/batch.py
	$(BIN)/python bench/turn.py
	$(BIN)/python bench/fetch.py
	$(BIN)/python bench/process.py
	$(BIN)/python bench/audit.py
	$(BIN)/python bench/sessions.py
	$(BIN)/python bench/files.py
	$(BIN)/python bench/overflow.py
	$(BIN)/python bench/checkpoints.py
	$(BIN)/python bench/changes.py

# Random command lines against what a real bash starts, random names of files against the bounds of what is
# looked up for a verdict, and random changes of a tree against what the secret index finds in it; a short
# version of each is part of the suite.
fuzz: $(VENV)/installed-dev
	$(BIN)/python tests/fuzz/command_fuzz.py
	$(BIN)/python tests/fuzz/command_quiet_fuzz.py
	$(BIN)/python tests/fuzz/git_quiet_fuzz.py
	$(BIN)/python tests/fuzz/names_fuzz.py
	$(BIN)/python tests/fuzz/index_fuzz.py

# A thousand kills at any moment, five hundred of whoever keeps what a trial run changed, and every write of
# the database failing in turn; three quarters of an hour. A short version of it is part of the suite. With
# strace more ways to fail are tried.
KEEP_KILLS ?= 500
crash: $(VENV)/installed-dev
	$(BIN)/python tests/fuzz/crash.py 1000
	$(BIN)/python tests/fuzz/keep_fuzz.py $(KEEP_KILLS)
	$(BIN)/python tests/fuzz/faults.py

# Processes that find a damaged database at once; a short version of it is part of the suite.
races: $(VENV)/installed-dev
	$(BIN)/python tests/fuzz/begin_anew.py 200

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .

types: $(VENV)/installed-dev
	$(BIN)/mypy -p leeward

# A source archive, and a wheel made from what is in it.
build: $(VENV)/installed-dev
	rm -rf dist
	$(BIN)/python -m hatchling build -t sdist -d dist
	mkdir -p dist/unpacked
	tar -xzf dist/leeward-*.tar.gz -C dist/unpacked --strip-components 1
	cd dist/unpacked && ../../$(BIN)/python -m hatchling build -t wheel -d ..
	rm -rf dist/unpacked

$(ROOMS):
	mv src/leeward/$@ $@
	ln -s ../../$@ src/leeward/$@

# The sources are linked, not copied: only a change of the dependencies needs another installation.
$(VENV)/installed: pyproject.toml | $(ROOMS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Leeward needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed requirements.lock
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-highest $(VENV)-lock dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
