"""What a record of the log shows."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from io import BytesIO

import pytest
from docling.datamodel.base_models import DocumentStream, InputFormat
from docling.document_converter import DocumentConverter

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.lib.logs import configure_logging
from soliplex.ingester.lib.models import LifeCycleEvent, RunGroup
from soliplex.ingester.lib.printed import TELL_CONTENTS, log_in_process
from soliplex.ingester.lib.workflow import log_event


@pytest.fixture
def restored() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in TELL_CONTENTS}
    yield
    root.handlers[:], level = before
    root.setLevel(level)
    for name, each in levels.items():
        logging.getLogger(name).setLevel(each)


@pytest.mark.usefixtures("restored")
def test_what_documents_say_is_not_logged_even_at_debug(capfd: pytest.CaptureFixture[str]) -> None:
    def convert() -> None:
        source = DocumentStream(name="a.md", stream=BytesIO(b"# A secret\n"))
        DocumentConverter(allowed_formats=[InputFormat.MD]).convert(source)
        logging.getLogger("mine").debug("converted")

    configure_logging(load_settings(env_file=None, log_level="DEBUG"))
    convert()
    logging.getLogger().handlers.clear()
    log_in_process(logging.DEBUG)  # as in the processes that documents are read in
    convert()
    told = capfd.readouterr().err
    assert told.count("converted") == 2
    assert "secret" not in told


@pytest.mark.usefixtures("restored")
async def test_an_event_is_logged_with_the_message_of_its_workflow(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(load_settings(env_file=None, log_format="json", log_level="INFO"))
    group = RunGroup(id=7, workflow_definition_id="flow", param_definition_id="p")
    await log_event(LifeCycleEvent.GROUP_END, group, message="the shelf is read", attempt=1)
    told = json.loads(capsys.readouterr().err)
    assert told["event"] == "the shelf is read (group_end of run group 7)"
    assert (told["lifecycle_event"], told["run_group_id"], told["attempt"]) == ("group_end", 7, 1)


@pytest.mark.usefixtures("restored")
def test_no_extra_takes_the_place_of_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(load_settings(env_file=None, log_format="json", log_level="INFO"))
    logging.getLogger("any").info("what happened", extra={"event": "other", "level": "mine", "more": 1})
    told = json.loads(capsys.readouterr().err)
    assert (told["event"], told["level"], told["more"]) == ("what happened", "info", 1)
    assert (told["event_"], told["level_"]) == ("other", "mine")
