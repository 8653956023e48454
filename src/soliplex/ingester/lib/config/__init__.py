"""The settings: what can be configured, where a value comes from, and what is wrong with it.

    areas.py         every setting, by area        fields.py         settings as flat, named leaves
    settings.py      Settings: the areas together  sources.py        secret files, and where a value came from
    checks.py        what values must not be       inspection.py     every problem at once; load_settings
    database_url.py  DOC_DB_URL                    shipped_files.py  the workflows and parameters in the package
    reference.py     the reference page and the .env template, written from the fields

Nothing is read when this package is imported. A process reads its settings once, where it starts (`lib/wiring.py`), and
passes them down; `get_settings` is for what strangers call by its name.
"""

from soliplex.ingester.lib.config.areas import (
    DatabaseSettings,
    DocumentSettings,
    GeneralSettings,
    LanguageModelSettings,
    OrchestratorSettings,
    S3Settings,
    SegmenterSettings,
    ServerSettings,
    StorageSettings,
    TraceSettings,
    WorkerSettings,
    WorkflowSettings,
)
from soliplex.ingester.lib.config.checks import Problem
from soliplex.ingester.lib.config.database_url import mask_password, normalise_database_url
from soliplex.ingester.lib.config.inspection import (
    InvalidSettings,
    Report,
    inspect_settings,
    load_settings,
    log_warnings,
    problems,
)
from soliplex.ingester.lib.config.settings import AREAS, Settings
from soliplex.ingester.lib.config.shipped_files import shipped_config_dir
from soliplex.ingester.lib.wiring import get_settings

__all__ = [
    "AREAS",
    "DatabaseSettings",
    "DocumentSettings",
    "GeneralSettings",
    "InvalidSettings",
    "LanguageModelSettings",
    "OrchestratorSettings",
    "Problem",
    "Report",
    "S3Settings",
    "SegmenterSettings",
    "ServerSettings",
    "Settings",
    "StorageSettings",
    "TraceSettings",
    "WorkerSettings",
    "WorkflowSettings",
    "get_settings",
    "inspect_settings",
    "load_settings",
    "log_warnings",
    "mask_password",
    "normalise_database_url",
    "problems",
    "shipped_config_dir",
]
