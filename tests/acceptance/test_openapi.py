"""The OpenAPI document: schemathesis makes requests of it, right and wrong ones, and finds nothing to complain of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.serving import Server, serving

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "tests" / "support" / "schemathesis.toml"
SEED = 20301
EXAMPLES = 5
ENDLESS = ("/api/v1/events", "/api/v1/goals/events")


def schemathesis(server: Server, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it as a client would, on all routes but those whose answers do not end."""
    program = Path(sys.executable).with_name("schemathesis")
    command = [
        *(str(program), "--config-file", str(SETTINGS), "run", f"{server.url}/openapi.json"),
        *(word for path in ENDLESS for word in ("--exclude-path", path)),
        *("--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES)),
        *("--seed", str(SEED), "--continue-on-failure", "--no-color"),
    ]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "tests.support.schemathesis_hooks", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_schemathesis_finds_nothing(database_url: str, tmp_path: Path) -> None:
    settings = {
        "DOC_DB_URL": database_url,
        "RATE_LIMIT_INGEST": "1000000/second",
        "USER_PARAM_DIR": str(tmp_path / "user_params"),
    }
    with serving(tmp_path, "--no-worker", environment=settings) as server:
        found = schemathesis(server, tmp_path)
        assert found.returncode == 0, found.stdout + found.stderr
        assert not [line for line in server.lines() if "Traceback" in line]
