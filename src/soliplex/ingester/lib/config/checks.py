"""What a value must not be: the shape of a problem, checks of one value, and rules that join several settings."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr

if TYPE_CHECKING:
    from soliplex.ingester.lib.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with one setting, and what to do about it; as text, one line."""

    setting: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.problem}; {self.fix}"


class Unfit(ValueError):  # noqa: N818 - never seen outside; read as "this value is unfit"
    """A validator's refusal of one value. It does not know the setting's name; the inspection adds it."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}; {fix}")
        self.problem = problem
        self.fix = fix


class Contradictions(ValueError):  # noqa: N818 - as Unfit
    """Settings that are well formed one by one and do not fit together."""

    def __init__(self, broken: Sequence[Rule]) -> None:
        super().__init__("\n".join(str(rule.problem) for rule in broken))
        self.broken = tuple(broken)


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition over several settings, and the problem there is when it is broken."""

    settings: frozenset[str]
    is_broken: Callable[[Settings], bool]
    problem: Problem


MOST_DAYS = 36_500


def broken_rules(settings: Settings) -> list[Rule]:
    return [rule for rule in RULES if rule.is_broken(settings)]


def http_address(value: str) -> str:
    """Accept an http(s) address, and drop the slash at its end so that paths can be appended."""
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise Unfit("is not an http address", "write it as http://host:port/path")
    return value.rstrip("/")


def http_addresses(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(http_address, values))


OPENDAL_SERVICES = ("azblob", "azdls", "azfile", "b2", "cos", "gcs", "obs", "oss", "swift", "tos", "webdav", "webhdfs")
"""Those that keep objects for good. OpenDAL also speaks to caches, which do not, and to drives made for people."""


def store_name(value: str) -> str:
    if value not in {"fs", "db", "s3", *OPENDAL_SERVICES}:
        raise Unfit(f"{value!r} is not a store", f"write fs, db or s3; or one of {', '.join(OPENDAL_SERVICES)}")
    return value


def options(value: SecretStr) -> SecretStr:
    try:
        given = json.loads(value.get_secret_value())
    except json.JSONDecodeError:
        given = None
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise Unfit("is not a JSON object of texts", 'write {"container": "documents", "account_name": "…"}')
    return value


def folder_name(value: str) -> str:
    """Accept the name of a folder below another; `rag` and `custom` hold what has no setting."""
    if not re.fullmatch(r"[\w-][\w .-]*", value):
        raise Unfit(f"{value!r} is not a folder's name", "write letters, digits, - and _ only")
    if value in {"rag", "custom"}:
        raise Unfit(f"{value!r} is the folder of other artifacts", "choose another name")
    return value


def rate(value: str) -> str:
    if not re.fullmatch(r"[1-9]\d*/(second|minute|hour|day)", value):
        raise Unfit(f"{value!r} is not a rate", "write a number and a period, such as 1000/minute")
    return value


def signing_secrets(value: SecretStr) -> SecretStr:
    """Accept keys that sign webhooks, with commas between them."""
    if not all(_is_signing_secret(key.strip()) for key in value.get_secret_value().split(",")):
        raise Unfit("is not base64", "make one with `openssl rand -base64 32`; a leading whsec_ is allowed")
    return value


def named_secrets(value: SecretStr) -> SecretStr:
    """Accept keys that sign webhooks, by name."""
    for keys in json.loads(options(value).get_secret_value()).values():
        signing_secrets(SecretStr(keys))
    return value


def _is_signing_secret(text: str) -> bool:
    try:
        return bool(base64.b64decode(text.removeprefix("whsec_"), validate=True))
    except binascii.Error:
        return False


def targets(items: tuple[str, ...]) -> tuple[str, ...]:
    """Accept names of hosts, addresses and networks."""
    for item in items:
        if not re.fullmatch(r"[\w.*-]+|[\da-fA-F.:]+(/\d{1,3})?", item) or ("/" in item and not _is_network(item)):
            raise Unfit(f"{item!r} is neither a host nor a network", "write hooks.example.internal or 10.1.0.0/16")
    return items


def trace_url(value: str) -> str:
    """Refuse an address that would be the same for every trace."""
    if "{trace_id}" not in value:
        raise Unfit("has no {trace_id} in it", "write it as http://host/trace/{trace_id}")
    return value


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def days_by_name(items: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse items that are no name with a number of days, such as `fetch=7`."""
    for item in items:
        name, separator, days = item.partition("=")
        try:
            is_right = bool(name.strip() and separator) and 0 < float(days) <= MOST_DAYS
        except ValueError:
            is_right = False
        if not is_right:
            raise ValueError(f"{item!r} is not a name with its days, such as fetch=7")
    return items


def split_items(value: Any) -> Any:
    """Read a list from text: a JSON array, or items separated by commas."""
    if not isinstance(value, str):
        return value
    if not value.lstrip().startswith("["):
        return [item.strip() for item in value.split(",") if item.strip()]
    try:
        return json.loads(value)
    except json.JSONDecodeError as exc:
        raise Unfit("is not a JSON array", 'write ["one", "two"], or one,two') from exc


def upper_case(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _rule(settings: Sequence[str], is_broken: Callable[[Settings], bool], *, problem: str, fix: str) -> Rule:
    """The first of `settings` is the one the problem is told of."""
    return Rule(frozenset(settings), is_broken, Problem(settings[0], problem, fix))


RULES = (
    _rule(
        ["API_KEY", "API_KEY_ENABLED"],
        lambda s: s.api_key_enabled and s.api_key is None,
        problem="is not set although API_KEY_ENABLED is true",
        fix="set API_KEY, or API_KEY_ENABLED=false",
    ),
    _rule(
        ["PRODUCTION_MODE", "API_KEY_ENABLED", "AUTH_TRUST_PROXY_HEADERS"],
        lambda s: s.production_mode and not (s.api_key_enabled or s.auth_trust_proxy_headers),
        problem="is on while nobody is asked who they are",
        fix="set API_KEY_ENABLED=true with an API_KEY, or AUTH_TRUST_PROXY_HEADERS=true behind a proxy that signs in",
    ),
    _rule(
        ["WORKER_CHECKIN_TIMEOUT", "WORKER_CHECKIN_INTERVAL"],
        lambda s: s.worker_checkin_timeout <= s.worker_checkin_interval,
        problem="is not longer than WORKER_CHECKIN_INTERVAL, so living workers would be taken for dead",
        fix="set it to several times WORKER_CHECKIN_INTERVAL",
    ),
    _rule(
        ["GOOGLE_TRANSLATE_API_KEY", "USE_GOOGLE_LANGUAGE_DETECTION"],
        lambda s: s.use_google_language_detection and s.google_translate_api_key is None,
        problem="is not set although USE_GOOGLE_LANGUAGE_DETECTION is true",
        fix="set GOOGLE_TRANSLATE_API_KEY, or USE_GOOGLE_LANGUAGE_DETECTION=false",
    ),
    _rule(
        ["RETRY_LONGEST_DELAY_SECONDS", "RETRY_FIRST_DELAY_SECONDS"],
        lambda s: s.retry_longest_delay_seconds < s.retry_first_delay_seconds,
        problem="is shorter than RETRY_FIRST_DELAY_SECONDS",
        fix="make it at least as long",
    ),
    _rule(
        ["WEBHOOK_LONGEST_DELAY_SECONDS", "WEBHOOK_FIRST_DELAY_SECONDS"],
        lambda s: s.webhook_longest_delay_seconds < s.webhook_first_delay_seconds,
        problem="is shorter than WEBHOOK_FIRST_DELAY_SECONDS",
        fix="make it at least as long",
    ),
    _rule(
        ["ARTIFACT_S3__BUCKET", "FILE_STORE_TARGET"],
        lambda s: s.file_store_target == "s3" and not s.artifact_s3.bucket,
        problem="is not set although FILE_STORE_TARGET is s3",
        fix="name the bucket, or set FILE_STORE_TARGET=fs",
    ),
    _rule(
        ["ARTIFACT_S3__ACCESS_SECRET", "ARTIFACT_S3__ACCESS_KEY_ID"],
        lambda s: (s.artifact_s3.access_key_id is None) != (s.artifact_s3.access_secret is None),
        problem="and ARTIFACT_S3__ACCESS_KEY_ID go together, and one of them is missing",
        fix="set both, or neither",
    ),
    _rule(
        ["INPUT_S3__ACCESS_SECRET", "INPUT_S3__ACCESS_KEY_ID"],
        lambda s: (s.input_s3.access_key_id is None) != (s.input_s3.access_secret is None),
        problem="and INPUT_S3__ACCESS_KEY_ID go together, and one of them is missing",
        fix="set both, or neither",
    ),
    _rule(
        [
            "DOCUMENT_STORE_DIR",
            "PARSED_MARKDOWN_STORE_DIR",
            "PARSED_JSON_STORE_DIR",
            "CHUNKS_STORE_DIR",
            "EMBEDDINGS_STORE_DIR",
        ],
        lambda s: len(set(s.artifact_dirs)) < len(s.artifact_dirs),
        problem="and the other *_STORE_DIR settings name a folder twice, so artifacts would overwrite one another",
        fix="give each a folder of its own",
    ),
    _rule(
        ["USER_PARAM_DIR", "PARAM_DIR"],
        lambda s: s.user_param_dir.resolve() == s.param_dir.resolve(),
        problem="is the same folder as PARAM_DIR, so clients could delete the shipped parameter sets",
        fix="give it a folder of its own",
    ),
    _rule(
        ["OPENAI_API_KEY", "OPENAI_BASE_URL", "LLM_BACKEND"],
        lambda s: s.llm_backend == "openai" and s.openai_api_key is None and s.openai_base_url is None,
        problem="is not set although LLM_BACKEND is openai",
        fix="set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that needs no key",
    ),
    _rule(
        ["AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "LLM_BACKEND"],
        lambda s: s.llm_backend == "azure" and (s.azure_openai_api_key is None or s.azure_openai_endpoint is None),
        problem="and AZURE_OPENAI_ENDPOINT are both needed when LLM_BACKEND is azure",
        fix="set both, or LLM_BACKEND=openai",
    ),
)
