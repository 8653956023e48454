from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from soliplex.ingester.lib.config import (
    InvalidSettings,
    Problem,
    Settings,
    get_settings,
    inspect_settings,
    load_settings,
    log_warnings,
    mask_password,
    normalise_database_url,
    problems,
)
from soliplex.ingester.lib.config.checks import Unfit
from soliplex.ingester.lib.config.fields import as_text, leaves
from soliplex.ingester.lib.config.reference import env_template, settings_by_area
from soliplex.ingester.lib.config.shipped_files import config_dir, shipped_config_dir


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with configuration folders, and an environment that sets nothing."""
    known = {leaf.name for leaf in leaves(Settings)}
    for name in [name for name in os.environ if name.upper() in known]:
        monkeypatch.delenv(name)
    for kind in ("workflows", "params"):
        (tmp_path / "config" / kind).mkdir(parents=True)
    (tmp_path / "secrets").mkdir()
    monkeypatch.setenv("SECRETS_DIR", str(tmp_path / "secrets"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told() -> dict[str, Problem]:
    return {problem.setting: problem for problem in problems()}


def test_without_any_setting_everything_is_kept_below_the_data_folder() -> None:
    settings = load_settings()
    assert settings.doc_db_url == "sqlite+aiosqlite:///data/documents.db"
    assert settings.file_store_dir == Path("data/file_store")
    assert settings.lancedb_dir == "data/lancedb"


def test_a_data_folder_moves_what_is_not_set_and_leaves_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_DIR", "/srv/ingester")
    monkeypatch.setenv("LANCEDB_DIR", "vectors")
    settings = load_settings()
    assert settings.doc_db_url == "sqlite+aiosqlite:////srv/ingester/documents.db"
    assert settings.file_store_dir == Path("/srv/ingester/file_store")
    assert settings.lancedb_dir == "vectors"


def test_in_a_bucket_the_artifacts_do_not_carry_this_machines_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_DIR", "/srv/ingester")
    monkeypatch.setenv("FILE_STORE_TARGET", "s3")
    monkeypatch.setenv("ARTIFACT_S3__BUCKET", "artifacts")
    settings = load_settings()
    assert settings.file_store_dir == Path("file_store")
    assert settings.artifact_s3.bucket == "artifacts"


def test_the_environment_wins_over_dotenv_which_wins_over_secret_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "secrets" / "api_key").write_text("from a file\n")
    (folder / "secrets" / "LLM_MODEL").write_text("from a file")
    (folder / "secrets" / "ollama_base_url").write_text("http://file")
    (folder / ".env").write_text("LLM_MODEL=dotenv\nOLLAMA_BASE_URL=http://dotenv\n")
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://environment")
    report = inspect_settings(do_rag=False)
    assert report.settings is not None
    assert report.settings.api_key is not None
    assert report.settings.api_key.get_secret_value() == "from a file"
    assert report.settings.llm_model == "dotenv"
    assert report.settings.ollama_base_url == "http://environment"
    names = ("API_KEY", "LLM_MODEL", "OLLAMA_BASE_URL", "DO_RAG", "DEBUG")
    assert [report.origins[name] for name in names] == ["secret file", ".env", "environment", "argument", "default"]


def test_a_secret_file_can_name_a_part_of_a_group(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "secrets" / "artifact_s3__access_secret").write_text("hush")
    monkeypatch.setenv("ARTIFACT_S3__ACCESS_KEY_ID", "me")
    bucket = load_settings().artifact_s3
    assert bucket.access_key_id == "me"
    assert bucket.access_secret is not None
    assert bucket.access_secret.get_secret_value() == "hush"


def test_the_secrets_folder_can_be_named_in_dotenv(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECRETS_DIR")
    (folder / ".env").write_text("SECRETS_DIR=secrets\n")
    (folder / "secrets" / "API_KEY").write_text("hush")
    assert load_settings().api_key is not None


def test_files_that_bear_no_settings_name_are_not_opened(folder: Path) -> None:
    (folder / "secrets" / "certificate.der").write_bytes(b"\xff\xfe\x00")
    assert problems() == []


def test_a_secret_file_that_is_not_text_is_told_of(folder: Path) -> None:
    (folder / "secrets" / "API_KEY").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in told()["API_KEY"].problem


def test_a_dotenv_that_is_not_text_is_told_of(folder: Path) -> None:
    (folder / ".env").write_bytes(b"API_KEY=\xff\xfe")
    assert "cannot be read" in told()[".env"].problem


def test_an_empty_variable_sets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "")
    monkeypatch.setenv("WORKER_TASK_COUNT", "")
    settings = load_settings()
    assert settings.api_key is None
    assert settings.worker_task_count == 5


@pytest.mark.parametrize("text", ['["a, b", "c"]', ' ["a, b","c"]'])
def test_a_list_can_be_a_json_array(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOP_PHRASES", text)
    assert load_settings().stop_phrases == ("a, b", "c")


def test_a_list_can_be_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOWED_ORIGINS", "http://a, http://b,")
    assert load_settings().allowed_origins == ("http://a", "http://b")


def test_sizes_take_units_and_levels_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_FILE_SIZE_LIMIT", "1MiB")
    monkeypatch.setenv("LOG_LEVEL", "debug")
    settings = load_settings()
    assert settings.max_file_size_limit == 1024 * 1024
    assert settings.log_level == "DEBUG"


def test_a_home_folder_is_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("DATA_DIR", "~/ingester")
    assert load_settings().data_dir == Path("/home/someone/ingester")


def test_every_problem_is_told_at_once_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {
        "DOC_DB_URL": "mysql://localhost/db",
        "WORKER_TASK_COUNT": "many",
        "DB_POOL_SIZE": "0",
        "DOCLING_HTTP_TIMEOUT": "inf",
        "PRODUCTION_MODE": "perhaps",
        "FILE_STORE_TARGET": "tape",
        "STOP_PHRASES": "[not json",
        "RATE_LIMIT_INGEST": "fast",
        "MAX_FILE_SIZE_LIMIT": "large",
        "DOCLING_SERVER_URL": "localhost:5001",
        "INPUT_S3": "bucket",
        "WORKFLOW_DIR": "nowhere",
        "ARTIFACT_S3__ENDPOINT_URL": "minio",
        "WEBHOOK_SIGNING_SECRET": "not base64!",
    }
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    # A folder is looked at only when every value can be read.
    assert told().keys() == wrong.keys() - {"WORKFLOW_DIR"}
    assert all(problem.problem and problem.fix and "\n" not in str(problem) for problem in problems())


def test_a_contradiction_is_told_beside_a_value_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_TASK_COUNT", "many")
    monkeypatch.setenv("API_KEY_ENABLED", "true")
    assert told().keys() == {"WORKER_TASK_COUNT", "API_KEY"}


def test_a_rule_does_not_judge_a_setting_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_CHECKIN_INTERVAL", "1000")
    monkeypatch.setenv("WORKER_CHECKIN_TIMEOUT", "soon")
    assert told().keys() == {"WORKER_CHECKIN_TIMEOUT"}


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        ("API_KEY", {"api_key_enabled": True}),
        ("PRODUCTION_MODE", {"production_mode": True}),
        ("WORKER_CHECKIN_TIMEOUT", {"worker_checkin_interval": 60, "worker_checkin_timeout": 60}),
        ("RETRY_LONGEST_DELAY_SECONDS", {"retry_longest_delay_seconds": 1}),
        ("ARTIFACT_S3__BUCKET", {"file_store_target": "s3"}),
        ("ARTIFACT_S3__ACCESS_SECRET", {"artifact_s3": {"access_key_id": "me"}}),
        ("INPUT_S3__ACCESS_SECRET", {"input_s3": {"access_secret": "hush"}}),
        ("DOCUMENT_STORE_DIR", {"chunks_store_dir": "raw"}),
        ("USER_PARAM_DIR", {"user_param_dir": "config/params"}),
        ("OPENAI_API_KEY", {"llm_backend": "openai"}),
        ("AZURE_OPENAI_API_KEY", {"llm_backend": "azure"}),
        ("INPUT_FILE_ROOTS", {"input_file_roots": ["nowhere"]}),
        ("SECRETS_DIR", {"secrets_dir": "nowhere"}),
        ("WORKFLOW_DIR", {"workflow_dir": "nowhere"}),
        ("PARAM_DIR", {"param_dir": "nowhere"}),
    ],
)
def test_settings_that_do_not_fit_together_are_told_of(setting: str, given: dict[str, Any]) -> None:
    assert [problem.setting for problem in problems(**given)] == [setting]


def test_settings_that_contradict_one_another_cannot_be_made_by_hand_either() -> None:
    with pytest.raises(ValidationError, match="API_KEY"):
        Settings(api_key_enabled=True)


def test_loading_wrong_settings_raises_one_line_per_problem() -> None:
    with pytest.raises(InvalidSettings) as raised:
        load_settings(db_pool_size=0, api_key_enabled=True)
    assert [problem.setting for problem in raised.value.problems] == ["DB_POOL_SIZE", "API_KEY"]
    assert str(raised.value).splitlines() == [str(problem) for problem in raised.value.problems]


def test_an_override_that_is_no_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="doc_db_ulr"):
        load_settings(doc_db_ulr="sqlite:///x.db")


def test_a_misspelt_name_in_dotenv_is_warned_of_with_the_nearest(folder: Path) -> None:
    (folder / ".env").write_text("WORKER_TASKS_COUNT=9\nARTIFACT_S3__BUKET=b\nPOSTGRES_USER=x\nSHELL=zsh\n")
    report = inspect_settings()
    assert report.problems == ()
    assert {warning.setting: warning.fix for warning in report.warnings} == {
        "WORKER_TASKS_COUNT": "did you mean WORKER_TASK_COUNT?",
        "ARTIFACT_S3__BUKET": "did you mean ARTIFACT_S3__BUCKET?",
    }


def test_a_setting_that_is_made_and_has_no_effect_is_warned_of_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DOCLING_CHUNK_SERVER_URL", "http://chunks.example:5001/v1")
    (warning,) = inspect_settings().warnings
    assert str(warning).startswith("DOCLING_CHUNK_SERVER_URL: has no effect; leave it out. Not used: the worker cuts")
    log_warnings()
    assert caplog.messages == [str(warning)]


def test_the_environment_may_hold_names_that_look_like_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEYS", "x")
    assert inspect_settings().warnings == ()


def test_a_misspelt_part_of_a_group_is_warned_of_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INPUT_S3__BUKET", "b")
    assert [warning.setting for warning in inspect_settings().warnings] == ["INPUT_S3__BUKET"]


def test_the_settings_of_a_process_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    get_settings.cache_clear()
    try:
        first = get_settings()
        monkeypatch.setenv("WORKER_TASK_COUNT", "9")
        assert get_settings() is first
    finally:
        get_settings.cache_clear()


def test_settings_do_not_change() -> None:
    settings = load_settings()
    with pytest.raises(ValidationError):
        settings.debug = True  # pyright: ignore[reportAttributeAccessIssue] - the point of the test


def test_no_secret_shows_in_the_representation_of_settings() -> None:
    settings = load_settings(
        api_key="hush",
        artifact_s3={"access_key_id": "me", "access_secret": "hush"},
        doc_db_url="postgresql://u:hush@h/d",
    )
    assert "hush" not in repr(settings)
    assert not any("hush" in as_text(leaf.value_in(settings)) for leaf in leaves(Settings))


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("sqlite:///x.db", "sqlite+aiosqlite:///x.db"),
        ("sqlite+aiosqlite:////abs/x.db", "sqlite+aiosqlite:////abs/x.db"),
        ("sqlite+aiosqlite:///:memory:", "sqlite+aiosqlite:///:memory:"),
        ("postgres://u:p@h/d", "postgresql+asyncpg://u:p@h/d"),
        ("postgresql://u:p%40@h:5433/d", "postgresql+asyncpg://u:p%40@h:5433/d"),
        ("postgresql+asyncpg://u@/d?host=/run/pg", "postgresql+asyncpg://u@/d?host=/run/pg"),
        ("postgresql://u:p@[::1]:5432/d", "postgresql+asyncpg://u:p@[::1]:5432/d"),
        ("postgresql://h/d?sslmode=require", "postgresql+asyncpg://h/d?ssl=require"),
    ],
)
def test_a_database_url_gets_the_driver_that_works(written: str, used: str) -> None:
    assert normalise_database_url(written) == used


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("documents.db", "names no database driver"),
        ("://hush@h/d", "names no database driver"),
        ("mysql://u:hush@h/d", "'mysql' is not a supported database"),
        ("postgresql+psycopg2://u:hush@h/d", "the driver 'psycopg2' cannot be used"),
        ("sqlite+pysqlite:///x.db", "the driver 'pysqlite' cannot be used"),
        ("postgresql://u:hush@h", "names no database"),
        ("postgresql://u:hush@h/?ssl=require", "names no database"),
        ("postgresql://u:hush@h:port/d", "its port is not a number"),
        ("postgresql://u:hush@h:70000/d", "its port is not a number"),
        ("postgresql://u:hush@h:0/d", "its port is not a number"),
        ("postgresql://u:hu/sh@h/d", "its port is not a number"),
        ("postgresql://u:hush@[::1/d", "its port is not a number"),
        ("sqlite://x.db", "has two slashes where SQLite needs three"),
        ("sqlite://", "names no database file"),
        ("sqlite:///", "names no database file"),
        ("sqlite:///?cache=shared", "names no database file"),
    ],
)
def test_a_database_url_that_cannot_work_is_refused_without_showing_the_password(url: str, problem: str) -> None:
    with pytest.raises(Unfit) as refused:
        normalise_database_url(url)
    assert refused.value.problem.startswith(problem)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+asyncpg://u:hush@h:1/d", "postgresql+asyncpg://u:***@h:1/d"),
        ("postgresql+asyncpg://u:hu@sh@h/d", "postgresql+asyncpg://u:***@h/d"),
        ("postgresql+asyncpg://u@h/d?password=hush&ssl=on", "postgresql+asyncpg://u@h/d?password=***&ssl=on"),
        ("sqlite+aiosqlite:///data/x.db", "sqlite+aiosqlite:///data/x.db"),
        ("http://localhost:5001/v1", "http://localhost:5001/v1"),
    ],
)
def test_a_password_is_masked_wherever_a_url_holds_it(url: str, shown: str) -> None:
    assert mask_password(url) == shown


def test_configuration_comes_from_the_working_directory_if_it_is_there(folder: Path) -> None:
    assert config_dir("workflows") == Path("config/workflows")
    (folder / "config" / "workflows").rmdir()
    assert config_dir("workflows") == shipped_config_dir("workflows")
    assert shipped_config_dir("workflows").is_absolute()


def test_every_setting_belongs_to_an_area_and_has_a_sentence_of_its_own() -> None:
    listed = [leaf for area in settings_by_area().values() for leaf in area]
    assert sorted(leaf.name for leaf in listed) == sorted(leaf.name for leaf in leaves(Settings))
    assert [leaf.name for leaf in listed if not leaf.description.endswith(".")] == []
    assert len({leaf.description for leaf in listed}) == len(listed)


def test_the_dotenv_template_says_the_defaults(folder: Path) -> None:
    assignments = re.findall(r"^# ([A-Z0-9_]+)=(.*)$", env_template(), re.MULTILINE)
    assert {name for name, _ in assignments} == {leaf.name for leaf in leaves(Settings)}
    (folder / "all.env").write_text("\n".join(f"{name}={value}" for name, value in assignments))
    assert load_settings(env_file=folder / "all.env", secrets_dir=None) == load_settings(secrets_dir=None)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("DOCUMENT_STORE_DIR", "../elsewhere"),
        ("CHUNKS_STORE_DIR", "/absolute"),
        ("EMBEDDINGS_STORE_DIR", ".incoming"),
        ("PARSED_JSON_STORE_DIR", "rag"),
        ("FILE_STORE_OPTIONS", "container=documents"),
        ("FILE_STORE_OPTIONS", '{"container": 1}'),
        ("FILE_STORE_TARGET", "redis"),
    ],
)
def test_a_store_that_would_not_keep_documents_apart_and_for_good_is_refused(
    setting: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting, value)
    assert told().keys() == {setting}


def test_options_of_a_store_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FILE_STORE_OPTIONS", '{"account_key": "hush"}')
    assert "hush" not in repr(load_settings())
