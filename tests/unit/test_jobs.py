"""Segmentation jobs: what is asked of them, how far they are, and what their receivers are told. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from soliplex.ingester.lib.answers import DocumentStatus, JobSegment, JobStatus
from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.lib.enums import RunStatus, SegmentStatus
from soliplex.ingester.lib.webhooks import LARGEST_BODY, NewMessage
from soliplex.ingester.segmenter.jobs.callbacks import body_of, is_due, portions
from soliplex.ingester.segmenter.jobs.job_options import (
    BadFieldError,
    JobOptions,
    UnsupportedTypeError,
    check_options,
    checked_type,
    read_options,
)
from soliplex.ingester.segmenter.jobs.new_jobs import new_job_id, safe_filename
from soliplex.ingester.segmenter.jobs.standing import (
    STAGES,
    Standing,
    StepStanding,
    document_status,
    job_status,
    run_statuses,
    standing_of,
)
from soliplex.ingester.segmenter.jobs.workflow import segment_workflow

MOMENT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_every_status_of_a_run_is_one_of_a_job() -> None:
    told = {status: job_status(status, has_begun=True) for status in RunStatus}
    assert set(told.values()) == set(JobStatus) - {JobStatus.NEW}
    assert job_status(RunStatus.PENDING, has_begun=False) is JobStatus.NEW
    for status in JobStatus:
        assert any(
            job_status(RunStatus(each), has_begun=status is not JobStatus.NEW) is status
            for each in run_statuses(status)
        )


def test_only_the_document_of_a_completed_job_is_processed() -> None:
    assert {status: document_status(status) for status in JobStatus if status.is_final} == {
        JobStatus.COMPLETED: DocumentStatus.PROCESSED,
        JobStatus.FAILED: DocumentStatus.NEW,
        JobStatus.CANCELED: DocumentStatus.CANCELED,
    }


def test_every_step_of_a_job_has_a_stage_and_progress_only_grows() -> None:
    assert list(STAGES) == [step.key for step in segment_workflow().steps]
    seen = list[int]()
    for done in range(len(STAGES)):
        for fraction in (0.0, 0.4, 1.0):
            steps = [
                StepStanding(name, RunStatus.COMPLETED if number < done else RunStatus.PENDING)
                for number, name in enumerate(STAGES)
            ]
            steps[done] = StepStanding(steps[done].name, RunStatus.RUNNING, fraction)
            seen.append(standing_of(JobStatus.PROCESSING, steps).progress)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, 99)


def test_a_job_is_at_100_when_it_is_completed_and_stays_where_it_was_when_it_failed() -> None:
    steps = [StepStanding("validate", RunStatus.COMPLETED), StepStanding("parse", RunStatus.FAILED, 0.5)]
    assert standing_of(JobStatus.COMPLETED, steps) == Standing(100, None)
    assert standing_of(JobStatus.FAILED, steps) == Standing(27, "converting")
    assert standing_of(JobStatus.NEW, []) == Standing(0, None)


@pytest.mark.parametrize("total", [1, 3, 20, 500])
def test_a_receiver_is_told_of_progress_a_few_times_whatever_the_number_of_articles(total: int) -> None:
    assert sum(is_due(done, total) for done in range(1, total + 1)) <= min(total, 8)


def an_article(number: int = 0, body: str = "text") -> JobSegment:
    return JobSegment(
        id=7 + number,
        documentid=1,
        status=SegmentStatus.COMPLETED,
        body=body,
        pagenr=2,
        group="A > B",
        title="B",
        tags=["sea", "ship"],
        lang="en",
        created=MOMENT,
        updated=MOMENT,
        timeit=5,
        ordinal=number,
    )


def test_a_message_holds_what_the_interface_says() -> None:
    body = body_of(JobStatus.PROCESSING, 62, [an_article()])
    assert (body["status"], body["progress"]) == ("PROCESSING", 62)
    assert list(body["segments"][0]) == [
        *("id", "pagenr", "topic", "title", "body", "group", "tags", "lang", "ordinal", "created", "updated")
    ]
    assert body["segments"][0]["topic"] == "sea"


def test_articles_that_are_too_many_for_a_message_go_in_several_in_their_order() -> None:
    megabyte = "x" * (1 << 20)
    articles = [an_article(number, megabyte) for number in range(20)]
    found = portions(articles)
    assert [each for portion in found for each in portion] == articles
    assert [len(portion) for portion in found] == [7, 7, 6]
    assert portions([]) == []


def test_what_makes_a_message_large_is_all_of_its_json() -> None:
    tiny = [an_article(number, "x") for number in range(50_000)]
    assert len(portions(tiny)) > 1
    controls = an_article(0, "\x01" * (2 << 20))
    assert [len(each) for each in portions([controls, controls])] == [1, 1]


def test_an_article_that_no_message_can_hold_is_told_of_without_its_body() -> None:
    large, rest = an_article(0, "x" * LARGEST_BODY), an_article(1)
    assert portions([large, rest]) == [[large, rest]]
    body = body_of(JobStatus.COMPLETED, 100, [large, rest])
    assert [(told["id"], told["title"], told["body"]) for told in body["segments"]] == [
        (7, "B", None),
        (8, "B", "text"),
    ]
    NewMessage(stream="s", url="https://example.org", event_type="t", body=body)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\report.pdf", "report.pdf"),
        ("a\x1b[31m\u202e\n.txt", "a[31m.txt"),
        ("...", "document"),
        ("", "document"),
        (".bashrc", "bashrc"),
        ("Überblick 2030.docx", "Überblick 2030.docx"),
    ],
)
def test_a_file_name_is_safe(given: str, name: str) -> None:
    assert safe_filename(given) == name


def test_a_long_file_name_keeps_its_extension() -> None:
    assert safe_filename("x" * 500 + ".pdf").endswith("x.pdf")
    assert len(safe_filename("ü" * 5000 + ".pdf")) <= 200


def test_ids_of_later_jobs_sort_after_those_of_earlier_ones() -> None:
    earlier, later = new_job_id(), new_job_id()
    assert len(earlier) == len(later) == 32
    assert earlier[:10] <= later[:10]
    assert earlier != later


def test_what_changes_the_conversion_is_in_its_parameters_and_nothing_else_is() -> None:
    plain = JobOptions().parameters()
    assert plain.config == {"parse": {"format": "markdown", "ocr_enabled": False}}
    assert JobOptions(maxsize=7, usetags=("a",), maxtags=3).parameters().text == plain.text
    changing = [
        {"enable_ocr": True},
        {"pdf_parsing_backend": "pypdfium2"},
        {"enable_ocr": True, "force_full_page_ocr": True},
        {"enable_ocr": True, "ocr_backend": "rapidocr"},
        {"process_images": True},
    ]
    assert len({JobOptions.model_validate(each).parameters().text for each in changing} | {plain.text}) == 6


def test_what_the_parser_here_cannot_do_is_refused() -> None:
    settings = load_settings()
    for options, field in [
        (JobOptions(process_images=True), "process_images"),
        (JobOptions(pdf_parsing_backend="mupdf"), "pdf_parsing_backend"),
        (JobOptions(enable_ocr=True, ocr_backend="tesseract"), "ocr_backend"),
        (JobOptions(force_full_page_ocr=True), "force_full_page_ocr"),
        (JobOptions(ocr_backend="rapidocr"), "ocr_backend"),
    ]:
        with pytest.raises(BadFieldError) as caught:
            check_options(options, settings)
        assert caught.value.field == field
    check_options(JobOptions(process_images=True), load_settings(docling_server_url="http://docling:5001"))


def test_a_type_that_the_sender_names_must_be_that_of_the_bytes_unless_it_is_a_text() -> None:
    assert checked_type(JobOptions(doctype="md"), "text/plain") == "text/markdown"
    assert checked_type(JobOptions(), "application/pdf") == "application/pdf"
    with pytest.raises(BadFieldError, match="doctype"):
        checked_type(JobOptions(doctype="pdf"), "text/plain")
    with pytest.raises(UnsupportedTypeError):
        checked_type(JobOptions(), "application/zip")
    with pytest.raises(BadFieldError, match="enable_ocr"):
        checked_type(JobOptions(), "image/png")
    assert checked_type(JobOptions(enable_ocr=True), "image/png") == "image/png"
    assert checked_type(JobOptions(enable_ocr=True), "image/jpx") == "image/jpx"
    assert checked_type(JobOptions(), "text/x-org") == "text/x-org"
    assert checked_type(JobOptions(doctype="txt"), "text/x-typst") == "text/plain"


def test_options_that_come_as_texts_are_read_and_the_first_wrong_one_is_named() -> None:
    assert read_options({"usetags": '["a", "b"]', "maxsize": "9"}).usetags == ("a", "b")
    with pytest.raises(BadFieldError, match="maxsize"):
        read_options({"maxsize": "0"})
