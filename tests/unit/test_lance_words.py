"""What LanceDB says of trouble, and what people are told of it."""

from __future__ import annotations

import pytest

from soliplex.ingester.lib.rag.lance_words import RagTroubleError, lance_in_words

SOURCE = ", /build/rust/lance-table/src/io/commit.rs:1680:50"
FULL = f"LanceError(IO): Unable to copy data to file: No space left on device (os error 28){SOURCE}"
READ_ONLY = f"lance error: LanceError(IO): Unable to open file: Permission denied (os error 13){SOURCE}"
AWAY = f"lance error: LanceError(IO): Generic S3 error: error sending request{SOURCE}\nand more"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(FULL), "the disk that LANCEDB_DIR is on is full; make room on it, then try again"),
        (RuntimeError(READ_ONLY), "LANCEDB_DIR may not be written to; permit it, then try again"),
        (
            RuntimeError(AWAY),
            (
                "Generic S3 error: error sending request; "
                "see to it that LANCEDB_DIR can be reached and written to, then try again"
            ),
        ),
    ],
)
def test_trouble_is_told_with_what_to_do_and_without_the_source_of_a_library(error: Exception, told: str) -> None:
    with pytest.raises(RagTroubleError) as raised, lance_in_words("/data/lancedb/library"):
        raise error
    assert str(raised.value) == f"the RAG database library could not be read or written: {told}"


@pytest.mark.parametrize("error", [FileNotFoundError(2, "no such database"), ValueError("a mistake of ours")])
def test_what_lance_did_not_say_stays_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, lance_in_words("library"):
        raise error
    assert raised.value is error
