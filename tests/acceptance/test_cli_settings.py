from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from soliplex.ingester.cli.lazy import load_command
from soliplex.ingester.cli.main import COMMANDS
from soliplex.ingester.cli.program import exit_code_of
from soliplex.ingester.cli.settings import copy_files
from soliplex.ingester.lib.config import shipped_config_dir
from soliplex.ingester.lib.errors import ConfigurationError, EngineError, NotFoundError

SOURCES = Path(__file__).parents[2] / "src"

type Finished = subprocess.CompletedProcess[str]
type Run = Callable[..., Finished]


def run_python(*arguments: str, cwd: Path, **variables: str) -> Finished:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES), "SECRETS_DIR": str(cwd), **variables}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def cli(tmp_path: Path) -> Run:
    """`si-cli` in an empty folder, with an environment that holds only what the test gives."""
    for kind in ("workflows", "params"):
        (tmp_path / "config" / kind).mkdir(parents=True)

    def run(*arguments: str, **variables: str) -> Finished:
        return run_python("-m", "soliplex.ingester.cli", *arguments, cwd=tmp_path, **variables)

    return run


def test_help_lists_every_command_with_its_sentence(cli: Run) -> None:
    answer = cli("--help")
    assert answer.returncode == 0
    for name, target in COMMANDS.items():
        sentence = load_command(name, target).get_short_help_str(limit=200)
        line = next(line for line in answer.stdout.splitlines() if line.split()[:1] == [name])
        assert line.split(maxsplit=1)[1] == sentence


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys; sys.argv = ['si-cli', '--help']\n"
        "from soliplex.ingester.cli import main\n"
        "try: main()\n"
        "except SystemExit: print('IMPORTED', *sys.modules)"
    )
    answer = run_python("-c", program, cwd=tmp_path)
    imported = set(answer.stdout.partition("IMPORTED")[2].split())
    heavy = {"pydantic", "sqlalchemy", "sqlmodel", "fastapi", "httpx", "lancedb", "haiku", "docling", "rich.console"}
    assert "typer" in imported
    assert imported & heavy == set()


def test_the_version_is_told(cli: Run) -> None:
    answer = cli("--version")
    assert answer.returncode == 0
    assert answer.stdout.startswith("si-cli ")


def test_the_diagnostic_program_tells_its_version_and_its_help(tmp_path: Path) -> None:
    program = "from soliplex.ingester.diag import main; main()"
    assert run_python("-c", program, "--version", cwd=tmp_path).stdout.startswith("si-diag ")
    assert "Usage: si-diag" in run_python("-c", program, "--help", cwd=tmp_path).stdout


def test_an_unknown_command_is_answered_with_the_nearest(cli: Run) -> None:
    answer = cli("validat-settings")
    assert answer.returncode == 2
    assert "Did you mean 'validate-settings'?" in answer.stderr


def test_good_settings_are_shown_with_where_they_came_from(cli: Run, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("WORKER_TASK_COUNT=7\n")
    (tmp_path / "api_key").write_text("hush")
    name = "a-name-that-fills-more-than-one-line-of-a-terminal" * 5
    url = f"postgresql://someone:hush@localhost/{name}"
    answer = cli("validate-settings", DOC_DB_URL=url)
    assert answer.returncode == 0
    assert "hush" not in answer.stdout
    rows = {cells[1]: cells[2:4] for line in answer.stdout.splitlines() if len(cells := columns(line)) > 3}
    assert rows["DOC_DB_URL"] == [f"postgresql+asyncpg://someone:***@localhost/{name}", "environment"]
    assert rows["WORKER_TASK_COUNT"] == ["7", ".env"]
    assert rows["API_KEY"] == ["**********", "secret file"]
    assert rows["LOG_LEVEL"] == ["INFO", "default"]


def columns(line: str) -> list[str]:
    return [cell.strip() for cell in line.replace("┃", "│").split("│")]


def test_every_wrong_setting_is_named_on_a_line_with_its_fix(cli: Run) -> None:
    answer = cli(
        "validate-settings",
        DOC_DB_URL="postgresql+psycopg2://someone:hush@localhost/soliplex",
        WORKER_TASK_COUNT="many",
        API_KEY_ENABLED="true",
    )
    assert answer.returncode == 1
    lines = answer.stdout.splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == ["API_KEY", "DOC_DB_URL", "WORKER_TASK_COUNT"]
    assert all("; " in line for line in lines)
    assert "hush" not in answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_misspelt_name_in_dotenv_is_a_warning_and_not_a_failure(cli: Run, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DOC_DB_ULR=sqlite:///x.db\n")
    answer = cli("validate-settings")
    assert answer.returncode == 0
    assert "warning: DOC_DB_ULR: is not a setting; did you mean DOC_DB_URL?" in answer.stdout


def test_the_same_is_told_as_json(cli: Run) -> None:
    good = json.loads(cli("validate-settings", "--json", LOG_FORMAT="json").stdout)
    assert good["settings"]["LOG_FORMAT"] == {"value": "json", "from": "environment"}
    assert good["problems"] == good["warnings"] == []
    answer = cli("validate-settings", "--json", DB_POOL_SIZE="none")
    assert answer.returncode == 1
    (problem,) = json.loads(answer.stdout)["problems"]
    assert problem["setting"] == "DB_POOL_SIZE"
    assert problem["fix"]


def test_a_dotenv_is_written_and_not_overwritten(cli: Run, tmp_path: Path) -> None:
    assert cli("init-env").returncode == 0
    text = (tmp_path / ".env").read_text()
    assert "# DOC_DB_URL=sqlite+aiosqlite:///data/documents.db" in text
    assert cli("validate-settings").returncode == 0

    (tmp_path / ".env").write_text("DEBUG=false\n")
    answer = cli("init-env")
    assert answer.returncode == 1
    assert answer.stderr == "error: .env exists already; --force replaces it\n"
    assert (tmp_path / ".env").read_text() == "DEBUG=false\n"

    assert cli("init-env", "--force").returncode == 0
    assert (tmp_path / ".env").read_text() == text
    assert cli("init-env", "-").stdout == text


@pytest.mark.parametrize("place", ["environment", ".env"])
def test_debug_shows_the_traceback_of_an_expected_error(cli: Run, tmp_path: Path, place: str) -> None:
    (tmp_path / ".env").write_text("DEBUG=true\n" if place == ".env" else "")
    answer = cli("init-env", **({"DEBUG": "true"} if place == "environment" else {}))
    assert answer.returncode == 1
    assert "Traceback" in answer.stderr
    assert answer.stderr.splitlines()[-1].startswith("error: ")


def test_the_shipped_configuration_is_copied_for_editing(cli: Run, tmp_path: Path) -> None:
    answer = cli("init-config")
    assert answer.returncode == 0
    for kind in ("workflows", "params"):
        shipped = {file.name: file.read_bytes() for file in shipped_config_dir(kind).iterdir() if file.is_file()}
        copied = {file.name: file.read_bytes() for file in (tmp_path / "config" / kind).iterdir()}
        assert copied == shipped
        assert all(f"created config/{kind}/{name}" in answer.stdout.splitlines() for name in shipped)


def test_a_copy_keeps_what_was_edited_unless_forced(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    for name in ("edited", "missing", "same"):
        (source / name).write_text("shipped")
    (target / "edited").write_text("mine")
    (target / "same").write_text("shipped")

    done = [line.split()[0] for line in copy_files(source, target, force=False)]
    assert done == ["kept", "created", "unchanged"]
    assert (target / "edited").read_text() == "mine"
    assert (target / "missing").read_text() == "shipped"

    done = [line.split()[0] for line in copy_files(source, target, force=True)]
    assert done == ["replaced", "unchanged", "unchanged"]
    assert (target / "edited").read_text() == "shipped"


def test_an_error_exits_with_the_code_of_its_nearest_kind() -> None:
    class SpecialError(NotFoundError):
        pass

    assert exit_code_of(ConfigurationError("A", "is wrong", "mend it")) == 2
    assert exit_code_of(SpecialError("batch", 1)) == 1
    assert exit_code_of(EngineError("any other")) == 1


def test_a_coroutine_function_can_be_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    command = load_command("greet", f"{__name__}:greet")
    command(["you"], standalone_mode=False)
    assert capsys.readouterr().out == "hello you\n"


async def greet(name: str) -> None:
    print(f"hello {name}")  # noqa: T201 - what a command does
