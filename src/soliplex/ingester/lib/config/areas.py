"""Every setting, by area. A field's name in capitals is its environment variable; its description is its documentation.

Durations are plain seconds here, since a person types them; the rest of the code turns them into `timedelta`.
A default that depends on another setting gives in `json_schema_extra` the text to document. A setting that no code
reads says there why not (`unused`): `tests/unit/test_settings_are_read.py` holds it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings

from soliplex.ingester.lib.config.checks import (
    days_by_name,
    folder_name,
    http_address,
    http_addresses,
    named_secrets,
    options,
    rate,
    signing_secrets,
    split_items,
    store_name,
    targets,
    trace_url,
    upper_case,
)
from soliplex.ingester.lib.config.database_url import normalise_database_url
from soliplex.ingester.lib.config.shipped_files import config_dir

DOCKER_SECRETS_DIR = Path("/run/secrets")

Count = Annotated[int, Field(ge=1)]
CountOrNone = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SecondsOrNone = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
DaysOrNone = Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
LanguageCode = Annotated[str, Field(pattern="^[a-z]{2}$")]
Secret = Annotated[SecretStr, Field(min_length=1)]
Items = Annotated[tuple[str, ...], BeforeValidator(split_items)]
Folder = Annotated[Path, AfterValidator(Path.expanduser)]
FolderName = Annotated[str, AfterValidator(folder_name)]
HttpAddress = Annotated[str, AfterValidator(http_address)]
DaysByName = Annotated[tuple[str, ...], BeforeValidator(split_items), AfterValidator(days_by_name)]
HttpAddresses = Annotated[tuple[str, ...], BeforeValidator(split_items), AfterValidator(http_addresses)]


class S3Settings(BaseModel):
    """One bucket, and how to reach it. A description here continues that of the field which holds the bucket."""

    # Not extra="forbid": an unknown name is warned of together with the nearest one that exists.
    model_config = ConfigDict(extra="ignore", frozen=True)

    bucket: Text | None = Field(default=None, description="its name.")
    endpoint_url: HttpAddress | None = Field(default=None, description="address of its S3 service; unset, that of AWS.")
    access_key_id: Text | None = Field(
        default=None, description="id of the access key; unset, the machine's own identity."
    )
    access_secret: Secret | None = Field(default=None, description="secret that belongs to the access key.")
    region: Text | None = Field(default=None, description="its region, where the service needs one.")


class GeneralSettings(BaseSettings):
    """Where things are kept, and what the program says about itself."""

    data_dir: Folder = Field(
        default=Path("data"),
        description="Folder for everything kept on this machine, unless a setting below says otherwise.",
    )
    secrets_dir: Folder | None = Field(
        default_factory=lambda: DOCKER_SECRETS_DIR if DOCKER_SECRETS_DIR.is_dir() else None,
        description="Folder of secret files, each named after a setting and holding its value; used when it exists.",
        json_schema_extra={"default": str(DOCKER_SECRETS_DIR)},
    )
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(upper_case)] = Field(
        default="INFO", description="Least severity that is logged: DEBUG, INFO, WARNING, ERROR or CRITICAL."
    )
    log_format: Literal["console", "json"] = Field(
        default="console", description="`console` for people, `json` for one object per line."
    )
    debug: bool = Field(
        default=False, description="Show tracebacks on the command line and details in the server's error answers."
    )


class DatabaseSettings(GeneralSettings):
    """The database that records documents, runs and workers: SQLite or PostgreSQL."""

    doc_db_url: Annotated[str, AfterValidator(normalise_database_url)] = Field(
        default_factory=lambda values: f"sqlite+aiosqlite:///{values['data_dir'].as_posix()}/documents.db",
        description="Address of the database, as `sqlite:///path/to/file.db` or "
        "`postgresql://user:password@host:5432/name`; the asynchronous driver is filled in.",
        json_schema_extra={"default": "sqlite+aiosqlite:///{DATA_DIR}/documents.db"},
        repr=False,
    )
    db_pool_size: Count = Field(default=10, description="Connections kept open per process.")
    db_max_overflow: CountOrNone = Field(default=10, description="Connections opened beyond the pool under load.")
    db_pool_recycle_seconds: Seconds = Field(default=3600, description="Age at which a pooled connection is replaced.")
    sqlite_busy_timeout_seconds: Seconds = Field(
        default=30, description="Longest wait for another writer's lock (SQLite)."
    )


class StorageSettings(GeneralSettings):
    """Where raw documents and what is made of them are stored."""

    file_store_target: Annotated[str, AfterValidator(store_name)] = Field(
        default="fs",
        description="Where artifacts live: `fs` a folder, `db` the database, `s3` the bucket ARTIFACT_S3, or another "
        "service of OpenDAL, such as `azblob` or `gcs`, with FILE_STORE_OPTIONS.",
    )
    file_store_options: Annotated[Secret, AfterValidator(options)] | None = Field(
        default=None,
        description="Options of a service of OpenDAL other than `s3`: a JSON object of texts; may hold secrets.",
    )
    file_store_dir: Folder = Field(
        default_factory=lambda values: (
            values["data_dir"] / "file_store"
            if values.get("file_store_target", "fs") in {"fs", "db"}
            else Path("file_store")
        ),
        description="Folder of the artifacts, taken as written; in a bucket it is the prefix, by default `file_store`.",
        json_schema_extra={"default": "{DATA_DIR}/file_store"},
    )
    file_store_compression: Literal["none", "zstd"] = Field(
        default="none",
        description="How new artifacts are compressed. What is stored already stays readable whatever this says.",
    )
    file_store_reserve: ByteSize = Field(
        default=ByteSize(256 * 1024 * 1024),
        ge=0,
        description="Space that uploads leave free on the disk; one that would need it is answered 413.",
        json_schema_extra={"default": "256MiB"},
    )
    document_store_dir: FolderName = Field(default="raw", description="Folder below FILE_STORE_DIR for raw documents.")
    parsed_markdown_store_dir: FolderName = Field(
        default="markdown", description="Folder below FILE_STORE_DIR for parsed Markdown."
    )
    parsed_json_store_dir: FolderName = Field(
        default="json", description="Folder below FILE_STORE_DIR for parsed structure."
    )
    chunks_store_dir: FolderName = Field(default="chunks", description="Folder below FILE_STORE_DIR for chunks.")
    embeddings_store_dir: FolderName = Field(
        default="embeddings", description="Folder below FILE_STORE_DIR for embeddings."
    )
    lancedb_dir: Annotated[Text, AfterValidator(os.path.expanduser)] = Field(
        default_factory=lambda values: (values["data_dir"] / "lancedb").as_posix(),
        description="Folder that holds the LanceDB databases, or `s3://bucket/prefix`, reached with the keys, endpoint "
        "and region of ARTIFACT_S3; taken as written.",
        json_schema_extra={"default": "{DATA_DIR}/lancedb"},
    )
    artifact_s3: S3Settings = Field(default_factory=S3Settings, description="Bucket for artifacts")
    input_s3: S3Settings = Field(default_factory=S3Settings, description="Bucket of `s3://` documents")
    input_file_roots: Annotated[tuple[Folder, ...], BeforeValidator(split_items)] = Field(
        default=(), description="Folders that `file://` document addresses may be read from; none means no such reads."
    )
    input_http_timeout_seconds: Seconds = Field(
        default=300, description="Longest that fetching one `http(s)://` document may take."
    )
    allow_private_addresses: bool = Field(
        default=False,
        description="Let `http(s)://` documents and callbacks lie on private, loopback and link-local addresses.",
    )
    upload_size_limit: ByteSize = Field(
        default=ByteSize(4 * 1024**3),
        gt=0,
        description="Largest document to take in, in bytes or with a unit as in `4GiB`; a larger one is answered 413.",
        json_schema_extra={"default": "4GiB"},
    )
    max_file_size_limit: ByteSize = Field(
        default=ByteSize(64 * 1024 * 1024),
        gt=0,
        description="Largest file to segment, in bytes or with a unit as in `64MiB`; a larger one is answered 413.",
        json_schema_extra={"default": "64MiB"},
    )
    mimetype_magic_lookahead: Count = Field(
        default=5000, description="Bytes at a file's beginning that are looked at to tell its type."
    )

    @property
    def artifact_dirs(self) -> tuple[str, ...]:
        """The folders below `file_store_dir`; each kind of artifact needs its own."""
        return (
            self.document_store_dir,
            self.parsed_markdown_store_dir,
            self.parsed_json_store_dir,
            self.chunks_store_dir,
            self.embeddings_store_dir,
        )


class DocumentSettings(BaseSettings):
    """Parsing, chunking, embedding and search."""

    docling_server_url: HttpAddresses = Field(
        default=(),
        description="Address of a docling-serve, such as `http://localhost:5001/v1`, or several with commas between "
        "them; unset, documents are parsed in the worker itself.",
    )
    docling_chunk_server_url: HttpAddress | None = Field(
        default=None,
        description="Address of a docling-serve that chunks, in earlier installations.",
        json_schema_extra={
            "unused": "Not used: the worker cuts documents itself, so that an edit leaves the other chunks as they are."
        },
    )
    docling_http_timeout: Seconds = Field(
        default=600, description="Seconds to wait for docling-serve to finish a document."
    )
    parse_timeout_seconds: SecondsOrNone = Field(
        default=600,
        description="Longest that a process of the worker may read a document, or a part of a long one, before it is "
        "ended and the document's bare text is taken, if there is any; 0 means no limit.",
    )
    parse_coverage_warning: float = Field(
        default=0.97,
        ge=0,
        le=1,
        description="Share of the words in a PDF's text layer that must be in what was read of it; where it is less, "
        "the parse step warns. 0 means never.",
    )
    text_size_limit: ByteSize = Field(
        default=ByteSize(64 * 1024 * 1024),
        gt=0,
        description="Largest text, such as Markdown, HTML, CSV or a log, to parse as one document, in bytes or with a "
        "unit as in `64MiB`; a larger one fails with that reason.",
        json_schema_extra={"default": "64MiB"},
    )
    stop_phrases: Items = Field(
        default=(), description="Phrases to leave out: a chunk that contains one is not stored."
    )
    embed_batch_size: Count = Field(default=1000, description="Most texts sent to an embedding provider in one call.")
    embed_http_timeout_seconds: Seconds = Field(
        default=120, description="Longest wait for an embedding provider to answer one call."
    )
    embedding_cache_limit: CountOrNone = Field(
        default=500_000,
        description="Most vectors kept in the database, so that no text is embedded twice; those unused for longest "
        "are dropped, and 0 keeps none. One of the local model takes 2 kB.",
    )
    embed_llm_url: HttpAddress | None = Field(
        default=None, description="Address of an OpenAI-compatible server that embeds, where it is not OPENAI_BASE_URL."
    )
    ollama_base_url: HttpAddress = Field(default="http://localhost:11434", description="Address of Ollama.")
    do_rag: bool = Field(default=True, description="Write to LanceDB in the store step; false leaves search untouched.")


class WorkflowSettings(BaseSettings):
    """Workflow and parameter files, and which of them are used when a caller names none."""

    workflow_dir: Folder = Field(
        default_factory=lambda: config_dir("workflows"),
        description="Folder of workflow files; where the default does not exist, the shipped workflows are used.",
        json_schema_extra={"default": "config/workflows"},
    )
    default_workflow_id: Text = Field(default="batch_split", description="Workflow that runs when a caller names none.")
    param_dir: Folder = Field(
        default_factory=lambda: config_dir("params"),
        description="Folder of parameter sets; where the default does not exist, the shipped sets are used.",
        json_schema_extra={"default": "config/params"},
    )
    user_param_dir: Folder = Field(
        default=Path("config/user_params"),
        description="More parameter sets, of this machine alone. Those that clients save are in the database.",
    )
    default_param_id: Text = Field(
        default="default", description="Parameter set that is used when a caller names none."
    )


class WorkerSettings(BaseSettings):
    """How much a worker does at once, how it notices trouble, and how it retries."""

    worker_task_count: Count = Field(
        default=5,
        description="Size of the pool for store steps, and of the pool for steps without a pool of their own.",
    )
    docling_concurrency: Count = Field(default=3, description="Size of the pool for parse steps.")
    engine_extensions: Items = Field(
        default=(
            "soliplex.ingester.lib.workflow.extension",
            "soliplex.ingester.segmenter.jobs.extension",
            "soliplex.ingester.goals.extension",
        ),
        description="Modules, separated by commas, that a worker imports: they give types of steps a pool of their "
        "own, and handlers values to ask for. The three that are shipped know documents, segmentation jobs and goals.",
    )
    flow_modules: Items = Field(
        default=(),
        description="Modules, separated by commas, whose functions a flow may name that a client defines over HTTP, "
        "with the modules below them.",
    )
    ingest_queue_concurrency: Count = Field(
        default=20,
        description="Most uploads a server takes in at the same time, not counting those whose client is slow.",
    )
    ingest_worker_concurrency: Count = Field(
        default=10,
        description="Steps that a worker executes at once, in earlier installations.",
        json_schema_extra={"unused": "Not used: pools take their size from DOCLING_CONCURRENCY and WORKER_TASK_COUNT."},
    )
    worker_batch_size: Count = Field(default=400, description="Most steps claimed in one transaction.")
    worker_poll_interval_seconds: Seconds = Field(
        default=1, description="Seconds between looks for work that no wake-up announced."
    )
    worker_checkin_interval: Seconds = Field(default=120, description="Seconds between a worker's heartbeats.")
    worker_checkin_timeout: Seconds = Field(
        default=600, description="Seconds without a heartbeat after which a worker counts as dead."
    )
    worker_liveness_interval_seconds: Seconds = Field(
        default=0.5, description="Seconds between looks at whether the processes of other workers are still there."
    )
    worker_stop_timeout_seconds: SecondsOrNone = Field(
        default=30, description="Seconds a stopping worker gives its running steps before it hands them back."
    )
    worker_metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = Field(
        default=None,
        description="Port at which `si-cli worker` answers `/metrics`, `/health` and `/health/ready`; 0 takes a free "
        "one. Unset, it listens nowhere.",
    )
    worker_metrics_host: Text = Field(
        default="127.0.0.1",
        description="Address of that port; `0.0.0.0` is every one of this machine. Keys and TRUSTED_HOSTS hold there, "
        "too.",
    )
    step_timeout_seconds: SecondsOrNone = Field(
        default=3600,
        description="Longest one attempt at a step may take, unless the workflow says otherwise; 0 means no limit.",
    )
    step_patience_seconds: SecondsOrNone = Field(
        default=3600,
        description="How long a step, or the handler of an event, waits for a worker that knows its workflow and can "
        "import its handler, while there are workers, before it fails; 0 fails it at once.",
    )
    step_memory_limit_mib: CountOrNone = Field(
        default=4096, description="Memory one isolated step may use, in MiB; 0 means no limit."
    )
    isolation_processes: Count = Field(default=2, description="Processes that run isolated steps, such as parsing.")
    retry_first_delay_seconds: SecondsOrNone = Field(
        default=2, description="Wait before the first retry; it doubles each time."
    )
    retry_longest_delay_seconds: SecondsOrNone = Field(default=300, description="Ceiling of the wait between retries.")
    resource_lock_ttl_seconds: Seconds = Field(
        default=300, description="Age at which a resource lock that nobody renews may be taken by another."
    )
    history_retention_days: DaysOrNone = Field(
        default=0,
        description="Days after which the runs of groups that are completed or cancelled are deleted; 0 keeps them. "
        "How long their steps took, and how they ended, stays known in sum.",
    )
    history_retention_failed_days: DaysOrNone = Field(
        default=0, description="As HISTORY_RETENTION_DAYS, for groups that failed: what failed may still be mended."
    )
    history_retention_by_workflow: DaysByName = Field(
        default=(),
        description="Days for single workflows in place of HISTORY_RETENTION_DAYS, such as `fetch=7,nightly=30`.",
    )


class TraceSettings(BaseSettings):
    """Where traces of runs go, for OpenTelemetry, and where a person looks at them."""

    trace_endpoint: HttpAddress | None = Field(
        default=None,
        description="OTLP receiver over HTTP, such as `http://localhost:4318`, that workers send a trace of each run "
        "to; unset, nothing is traced. Needs the extra `otel`. OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and "
        "OTEL_RESOURCE_ATTRIBUTES are read from the environment.",
    )
    trace_sample_ratio: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1, description="Share of runs that are traced, from 0 to 1. Every worker chooses the same runs."
    )
    trace_url_template: Annotated[HttpAddress, AfterValidator(trace_url)] | None = Field(
        default=None,
        description="Address of a page that shows a trace, with `{trace_id}` in it, such as "
        "`http://localhost:16686/trace/{trace_id}`; runs are linked to it.",
    )


class ServerSettings(BaseSettings):
    """Who may use the server, and from where."""

    production_mode: bool = Field(default=False, description="Refuse to start without authentication.")
    api_key_enabled: bool = Field(
        default=False,
        description="Ask every request for `Authorization: Bearer KEY` with API_KEY or a named key, or for the cookie "
        "of a browser that has logged in; but for health, and for pages and files that are the same on every server.",
    )
    api_key: Secret | None = Field(
        default=None,
        description="A key with all scopes. Named keys, made by `si-cli key create`, are let in beside it.",
    )
    session_hours: Annotated[float, Field(gt=0, le=8760, allow_inf_nan=False)] = Field(
        default=12, description="Hours after which a browser has to log in again."
    )
    auth_trust_proxy_headers: bool = Field(
        default=False,
        description="Believe the user named by `X-Auth-Request-User` or `X-Forwarded-User`; only behind a proxy.",
    )
    rate_limit_ingest: Annotated[str, AfterValidator(rate)] = Field(
        default="1000/minute", description="Uploads allowed per client and second, minute, hour or day; beyond it, 429."
    )
    allowed_origins: Items = Field(
        default=(),
        description="Web origins, such as `https://ui.example.org`, whose pages may call the API and change things; "
        "`*` allows all, none only the server's own.",
    )
    trusted_hosts: Items = Field(
        default=(),
        description="Host names the server answers to, such as `ingester.example.org` or `*.example.org`; `*` means "
        "any. Unset: any if every request needs the API key, else `localhost`, the name given to `--host`, and any "
        "address.",
    )
    request_head_limit: ByteSize = Field(
        default=ByteSize(64 * 1024),
        ge=1024,
        description="Most bytes of a request's address and headers together; beyond it, 431.",
        json_schema_extra={"default": "64KiB"},
    )
    request_head_timeout_seconds: Seconds = Field(
        default=20, description="Longest that a connection may take to send the head of a request; beyond it, 408."
    )
    request_body_timeout_seconds: Seconds = Field(
        default=30, description="Longest pause in the body of a request; beyond it, 408."
    )
    request_body_min_rate: ByteSize = Field(
        default=ByteSize(1000),
        gt=0,
        description="Bytes per second below which a body counts as paused; those that come make up for pauses.",
    )
    enable_hsts: bool = Field(default=False, description="Tell browsers to use HTTPS only; set it once HTTPS works.")


class LanguageModelSettings(BaseSettings):
    """The language model that tags articles, tells languages and takes goals apart. None is needed."""

    llm_backend: Literal["openai", "azure"] | None = Field(
        default=None,
        description="Service that answers: `openai`, or any server that speaks like it, or `azure`; unset, local "
        "methods do the work.",
    )
    llm_model: Text = Field(default="gpt-4o-mini", description="Model to ask; with Azure, the name of the deployment.")
    llm_max_retries: CountOrNone = Field(
        default=20, description="Retries of a language model call that fails for a while."
    )
    llm_concurrency: Count = Field(default=8, description="Most questions that a process asks the model at once.")
    llm_price_sent_tokens: Amount = Field(
        default=0, description="Price of a million tokens that are sent to the model, for the counter of costs."
    )
    llm_price_answered_tokens: Amount = Field(
        default=0, description="Price of a million tokens that the model answers, for the counter of costs."
    )
    openai_api_key: Secret | None = Field(
        default=None, description="Key for OpenAI, or for a server that speaks like it."
    )
    openai_base_url: HttpAddress | None = Field(
        default=None, description="Address of an OpenAI-compatible server; unset, that of OpenAI."
    )
    azure_openai_api_key: Secret | None = Field(default=None, description="Key for Azure OpenAI.")
    azure_openai_endpoint: HttpAddress | None = Field(default=None, description="Address of the Azure OpenAI resource.")
    azure_openai_api_version: Text = Field(default="2024-10-21", description="Version of the Azure OpenAI interface.")


class WebhookSettings(BaseSettings):
    """Webhooks: callbacks of segmentation jobs, and what workflows report by `notify_webhook`."""

    webhook_timeout_seconds: Seconds = Field(
        default=30, description="Longest that one try to deliver a webhook may take, to the end of the answer."
    )
    webhook_signing_secret: Annotated[Secret, AfterValidator(signing_secrets)] | None = Field(
        default=None,
        description="Base64 key that signs webhooks as Standard Webhooks does, or several with commas between them, "
        "the newest first; each signs. Unset, they are not signed.",
    )
    webhook_secrets: Annotated[Secret, AfterValidator(named_secrets)] | None = Field(
        default=None,
        description="Further keys, by name, for receivers with one of their own: a JSON object of texts, each as "
        "WEBHOOK_SIGNING_SECRET.",
    )
    webhook_allowed_targets: Annotated[Items, AfterValidator(targets)] = Field(
        default=(),
        description="Hosts and networks that webhooks may go to though they are private, such as "
        "`hooks.example.internal,10.1.0.0/16`.",
    )
    webhook_first_delay_seconds: SecondsOrNone = Field(
        default=5, description="Wait before a webhook is tried the second time; it doubles each time."
    )
    webhook_longest_delay_seconds: Seconds = Field(
        default=3600, description="Ceiling of the wait between two tries of a webhook."
    )
    webhook_give_up_seconds: Seconds = Field(
        default=86_400, description="Age at which a webhook that was tried in vain becomes a dead letter."
    )
    webhook_hosts_at_once: Count = Field(
        default=10, description="Hosts to which a worker delivers webhooks at the same time."
    )
    webhook_host_concurrency: Count = Field(
        default=10, description="Webhooks that are on their way to one host at the same time, of all workers together."
    )
    webhook_circuit_failures: Count = Field(
        default=10, description="Tries in a row that a host must fail before it is left alone for a while."
    )
    webhook_circuit_seconds: Seconds = Field(
        default=60, description="How long such a host is left alone; then one webhook is tried."
    )


class SegmenterSettings(BaseSettings):
    """Segmentation jobs: their limits, and how languages are told."""

    job_timeout_seconds: Seconds = Field(
        default=600, description="Longest a segmentation job may take, from when it begins, before it is stopped."
    )
    llm_tagging_timeout_seconds: Seconds = Field(default=120, description="Longest wait for one tagging answer.")
    use_google_language_detection: bool = Field(
        default=False,
        description="Ask Google Cloud Translate first which language a text is in; it needs GOOGLE_TRANSLATE_API_KEY.",
    )
    google_translate_api_key: Secret | None = Field(default=None, description="Key for Google Cloud Translate.")
    google_translate_url: HttpAddress = Field(
        default="https://translation.googleapis.com", description="Address of Google Cloud Translate."
    )
    language_detect_google_timeout_seconds: Seconds = Field(default=10, description="Longest wait for Google's answer.")
    language_detect_llm_timeout_seconds: Seconds = Field(
        default=30, description="Longest wait for the language model's answer, when it is asked for a language."
    )
    system_default_language: LanguageCode = Field(
        default="en", description="Language to assume when no method finds one: its code by ISO 639-1."
    )


class OrchestratorSettings(BaseSettings):
    """Goals: how they are taken apart, improved from experience, and reported."""

    orchestrator_max_depth: Count = Field(
        default=10, description="Deepest nesting of tasks that a goal may be broken into."
    )
    orchestrator_timeout_seconds: Seconds = Field(
        default=60, description="Longest a decomposer may take over one goal."
    )
    orchestrator_allow_shell: bool = Field(
        default=False, description="Let goals run commands of the machine that their worker is on."
    )
    orchestrator_optimization_enabled: bool = Field(
        default=True, description="Apply to the flows of goals what their earlier executions taught."
    )
    orchestrator_optimization_level: Literal["basic", "advanced", "aggressive"] = Field(
        default="advanced",
        description="`basic` tunes timeouts and attempts, `advanced` also back-off, `aggressive` also the graph.",
    )
    orchestrator_optimization_preserve_structure: bool = Field(
        default=True, description="Keep steps and edges as they were defined, at whatever level."
    )
    orchestrator_optimization_confidence: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.7, description="Least confidence with which something that was learned is applied, from 0 to 1."
    )
    orchestrator_notifications_enabled: bool = Field(
        default=True, description="Tell programs of decompositions, executions and tasks as they begin and end."
    )
    orchestrator_notifications_real_time: bool = Field(
        default=True, description="Tell listeners at once; otherwise recent events are told when they are asked for."
    )
    orchestrator_notifications_channel: Text | None = Field(
        default=None,
        description="Channel of PostgreSQL on which servers tell events by NOTIFY, such as `soliplex_events`.",
    )
