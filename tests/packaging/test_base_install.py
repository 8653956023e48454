"""The package without extras ingests and is searched, by the parser `fast` and an embedder over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.embedding_server import DIM, embedding_server

PIP = ("-m", "pip", "--disable-pip-version-check", "-qq")
PARAMS = f"""\
id: remote
config:
  parse:
    parser: fast
  embed:
    provider: openai
    model: any
    vector_dim: {DIM}
  store:
    data_dir: lancedb
"""


def install(python: Path, installer: str, wheel: Path) -> None:
    pip, uv = (str(python), *PIP, "install"), ("uv", "pip", "install", "--quiet", "--python", str(python))
    if installer == "uv":
        subprocess.run((str(python), *PIP, "install", "uv"), check=True)
        uv = (str(python), "-m", *uv)
    subprocess.run((*(uv if installer == "uv" else pip), str(wheel)), check=True)


class BaseInstall:
    """Commands of the package in its environment, in a folder of their own."""

    def __init__(self, python: Path, folder: Path, embedder: str) -> None:
        self._bin, self._folder = python.parent, folder
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PARAM_DIR": str(folder / "params")}
        self._environment |= {"EMBED_LLM_URL": embedder, "DEFAULT_PARAM_ID": "remote", "LOG_LEVEL": "WARNING"}

    async def json(self, *arguments: str) -> Any:
        process = await asyncio.create_subprocess_exec(
            *(str(self._bin / "si-cli"), *arguments, "--json"),
            cwd=self._folder,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        assert process.returncode == 0, (output + errors).decode()
        return json.loads(output)

    def has(self, module: str) -> bool:
        importing = (str(self._bin / "python"), "-c", f"import {module}")
        return subprocess.run(importing, check=False, capture_output=True).returncode == 0


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("installer", ["uv", pytest.param("pip", marks=pytest.mark.slow)])
async def test_the_package_without_extras_ingests_and_is_searched(
    installer: str, wheel: Path, empty_python: Path, tmp_path: Path
) -> None:
    await asyncio.to_thread(install, empty_python, installer, wheel)
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "remote.yaml").write_text(PARAMS)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "lens.md").write_text("# Lenses\n\nA first-order lens is 2.59 metres tall.\n")
    (tmp_path / "notes" / "lamp.html").write_text("<h1>Lamps</h1><p>An Argand lamp burns oil.</p>")
    async with embedding_server() as server:
        base = BaseInstall(empty_python, tmp_path, f"{server.address}/v1")
        assert not base.has("onnxruntime")
        assert not base.has("docling")
        await base.json("ingest", "notes")
        found = await base.json("search", "A first-order lens is 2.59 metres tall.")
    embedded = " ".join(text for asked in server.asked for text in asked["input"])
    assert "An Argand lamp burns oil." in embedded
    assert "lens.md" in json.dumps(found)
