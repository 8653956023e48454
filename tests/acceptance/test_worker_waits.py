"""A worker that starts before its PostgreSQL does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.serving import PATIENCE, free_port


def test_a_worker_waits_for_the_database_says_so_and_still_heeds_a_signal(tmp_path: Path) -> None:
    url = f"postgresql+asyncpg://user:secret@127.0.0.1:{free_port()}/nowhere"
    command = [sys.executable, "-m", "soliplex.ingester.cli", "worker"]
    environment = os.environ | {"DOC_DB_URL": url, "DATA_DIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "waiting up to 120 seconds for the database" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "cannot be reached" in errors
