"""A client that a program writes from the OpenAPI document: it compiles whole, and what it sends is understood."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any, Self, get_args, get_type_hints

import pytest

from soliplex.ingester.server import create_app
from tests.support.serving import serving

PACKAGE = "client_of_the_api"
CONTENTS = (b"The office opens at nine.", b"The office opens at ten.")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(with_worker=False).openapi()


@pytest.fixture(scope="module")
def generated(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which the package of the client lies."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "config.yaml").write_text("post_hooks: []\n", encoding="utf-8")
    command = [
        *(sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none"),
        *("--output-path", PACKAGE, "--config", "config.yaml", "--fail-on-warning"),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def modules(generated: Path) -> dict[str, ModuleType]:
    """All modules of the client, the operations by the names of their routes' functions."""
    package = importlib.import_module(PACKAGE)
    found = [each.name for each in pkgutil.walk_packages(package.__path__, f"{PACKAGE}.")]
    assert len(found) > 100, f"{generated} holds few modules"
    return {name: importlib.import_module(name) for name in found}


class Api:
    """The operations of a client, by the beginnings of their names."""

    def __init__(self, modules: dict[str, ModuleType], url: str) -> None:
        self._modules = modules
        self._client = modules[f"{PACKAGE}.client"].Client(base_url=url)
        self.file = modules[f"{PACKAGE}.types"].File

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._client.__exit__(*raised)

    def __call__(self, tag: str, operation: str, /, status: int = 200, **values: Any) -> Any:
        """Call it with these values, those of its body among them; gives what the client made of the answer."""
        start = f"{PACKAGE}.api.{tag}.{operation}_api_v1"
        function = next(self._modules[name] for name in sorted(self._modules) if name.startswith(start)).sync_detailed
        if body := get_type_hints(function).get("body"):
            (model,) = [each for each in (get_args(body) or [body]) if hasattr(each, "from_dict")]
            fields = {name: values.pop(name) for name in list(values) if name in inspect.signature(model).parameters}
            values["body"] = model(**fields)
        answer = function(client=self._client, **values)
        assert answer.status_code == status, answer.content
        return answer.parsed


def test_every_module_of_a_generated_client_can_be_imported(modules: dict[str, ModuleType]) -> None:
    assert f"{PACKAGE}.api.document.ingest_document_api_v1_document_ingest_document_post" in modules


def test_each_operation_takes_one_kind_of_body(document: dict[str, Any]) -> None:
    bodies = {
        f"{method} {path}": list(described["requestBody"]["content"])
        for path, methods in document["paths"].items()
        for method, described in methods.items()
        if "requestBody" in described
    }
    assert bodies
    assert {where: kinds for where, kinds in bodies.items() if len(kinds) > 1} == {}


def test_no_two_models_have_one_name(document: dict[str, Any]) -> None:
    # FastAPI tells models of one name apart by putting their modules before it.
    schemas = document["components"]["schemas"]
    assert [name for name in schemas if name.startswith("soliplex__")] == []
    titles = [schema.get("title", name).lower() for name, schema in schemas.items()]
    assert sorted(title for title in set(titles) if titles.count(title) > 1) == []


@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
def test_a_generated_client_and_a_server_understand_each_other(
    modules: dict[str, ModuleType], database_url: str, tmp_path: Path
) -> None:
    with (
        serving(tmp_path, "--no-worker", environment={"DOC_DB_URL": database_url}) as server,
        Api(modules, server.url) as api,
    ):
        batch_id = api("batch", "create_batch", 201, source="files", name="Q4").batch_id
        hashes = [_upload(api, batch_id, content) for content in CONTENTS]
        _asks_for_its_documents(api, hashes)
        _starts_workflows(api, batch_id)
        assert api("document", "roll_back", 201, uri="/a.txt", source="files", version=1).hash_ == hashes[0]
        _keeps_its_place(api)
        assert api("document", "delete_by_uri", uri="/a.txt", source="files").uri == "/a.txt"


def _upload(api: Api, batch_id: int, content: bytes) -> str:
    file = api.file(payload=BytesIO(content), file_name="a.txt", mime_type="text/plain")
    fields = {"source_uri": "/a.txt", "source": "files", "batch_id": batch_id, "file": file}
    return api("document", "ingest_document", 201, **fields).document_hash


def _asks_for_its_documents(api: Api, hashes: list[str]) -> None:
    sent = json.dumps({"/a.txt": hashes[1], "/b.txt": hashes[0]})
    status = api("source_status", "source_status", source="files", hashes=sent).to_dict()
    assert {uri: row["status"] for uri, row in status.items()} == {"/a.txt": "matched", "/b.txt": "new"}


def _starts_workflows(api: Api, batch_id: int) -> None:
    what = {"batch_id": batch_id, "workflow_definition_id": "test_wf", "param_id": "test_base"}
    started = api("batch", "start_workflows", 201, **what)
    assert started.workflows == 1
    assert api("batch", "batch_status", batch_id=batch_id).document_count == 1
    assert api("workflow", "retry", 201, run_group_id=started.run_group_id).reset_steps == 0


def _keeps_its_place(api: Api) -> None:
    assert api("sync_state", "put_sync_state", source_id="git:docs", commit_sha="abc").last_commit_sha == "abc"
    assert api("sync_state", "get_sync_state", source_id="git:docs").last_sync_date
