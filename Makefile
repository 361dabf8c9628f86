# Two targets matter to a newcomer: `make run` (a tour, no key needed) and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# An unpacked source archive holds them below src/leeward; from there they are moved to where a checkout has them.
ROOMS := security memory tools runtime

.PHONY: run test test-all tests test-versions lock check figures attacks fuzz crash races soak hostile lint types docs build clean

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

# Each worker would compile every test anew where nothing is written: ten seconds of a processor.
test test-all tests: export PYTHONDONTWRITEBYTECODE :=

# Types are checked beside the suite, whose summary comes last; whichever fails, all of it does.
test: lint $(VENV)/installed-dev
	$(BIN)/mypy -p leeward & \
	$(BIN)/pytest $(PARALLEL) -m 'not slow'; suite=$$?; \
	wait $$! || { echo "mypy found errors: see above, or run make types" >&2; exit 1; }; \
	exit $$suite

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
	$(VENV)-lock/bin/python -c 'import tomllib; \
		extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
		print(*extras["docs"], sep="\n")' \
	| $(VENV)-lock/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
		--no-header --no-annotate --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--output-file docs/requirements.lock -

check: lint types $(VENV)/installed-dev
	$(BIN)/python bench/style_metrics.py . | $(BIN)/python bench/style_bars.py

figures: $(VENV)/installed-dev
	$(BIN)/python bench/pipeline.py
	$(BIN)/python bench/command.py
	$(BIN)/python bench/day.py
	$(BIN)/python bench/batch.py
	$(BIN)/python bench/turn.py
	$(BIN)/python bench/many.py
	$(BIN)/python bench/fetch.py
	$(BIN)/python bench/process.py
	$(BIN)/python bench/audit.py
	$(BIN)/python bench/sessions.py
	$(BIN)/python bench/files.py
	$(BIN)/python bench/overflow.py
	$(BIN)/python bench/distill.py
	$(BIN)/python bench/checkpoints.py
	$(BIN)/python bench/changes.py
	$(BIN)/python bench/redaction.py
	$(BIN)/python bench/provenance.py
	$(BIN)/python bench/scan.py
	$(BIN)/python bench/lost_model.py --plot docs/lost_model.svg
	$(BIN)/python bench/lost_model.py --unseen
	$(BIN)/python bench/start.py
	$(BIN)/python bench/servers.py
	$(BIN)/python bench/skills.py

# Random command lines against what a real bash starts, random names of files against the bounds of what is
# looked up for a verdict, and random changes of a tree against what the secret index finds in it; a short
# version of each is part of the suite.
fuzz: $(VENV)/installed-dev
	$(BIN)/python tests/fuzz/command_fuzz.py
	$(BIN)/python tests/fuzz/command_quiet_fuzz.py
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

# Headless runs whose standard input and tools do not want to end; half an hour. A short version of it is part
# of the suite.
SOAK_RUNS ?= 1000
soak: $(VENV)/installed-dev
	$(BIN)/python bench/soak.py $(SOAK_RUNS)

# Hostile lines, run, and the world around them compared: so many on each rung that can be had here, as this
# user and, where that is root, as an ordinary one; then the lines of a working day, bare and on trial. An
# hour. Short versions are part of the suite.
HOSTILE_LINES ?= 3000
hostile: $(VENV)/installed-dev
	for rung in trial read_only landlock none; do \
		$(BIN)/python tests/fuzz/hostile.py $(HOSTILE_LINES) 1 $$rung || exit 1; \
	done
	$(BIN)/python tests/fuzz/ordinary.py

# Sessions in which what is read is hostile and the model obeys it, and ordinary ones as a control.
attacks: $(VENV)/installed-dev
	$(BIN)/pytest -q -s -p no:cacheprovider tests/test_attacks.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .

types: $(VENV)/installed-dev
	$(BIN)/mypy -p leeward
	$(BIN)/python .ci/public_types.py

# The documentation as a site, below dist/docs. A dead link fails it.
docs: $(VENV)-docs/installed
	$(VENV)-docs/bin/python -m sphinx -b html -c docs -q -W --keep-going . dist/docs
	cp dist/docs/README.html dist/docs/index.html

$(VENV)-docs/installed: docs/requirements.lock
	test -x $(VENV)-docs/bin/python || $(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --require-hashes --requirement docs/requirements.lock
	touch $@

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
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-highest $(VENV)-lock $(VENV)-docs dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
