"""The filter of RAG documents: what it says in SQL, and what it refuses to say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.rag.filters import FIELDS, OPERATORS, as_sql


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("uri = '/a.pdf'", "uri = '/a.pdf'"),
        ("  URI='x'  ", "uri = 'x'"),
        ("title like '%it''s%'", "title LIKE '%it''s%'"),
        ("uri != 'a' AND title >= 'b' and id<'c'", "uri != 'a' AND title >= 'b' AND id < 'c'"),
        ("created_at >= '2026-01-01'", "CAST(created_at AS STRING) >= '2026-01-01'"),
        ("uri = ' AND 1=1 --'", "uri = ' AND 1=1 --'"),
    ],
)
def test_a_filter_becomes_sql(text: str, sql: str) -> None:
    assert as_sql(text) == sql


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1=1",
        "uri = 'a' OR 1=1",
        "uri = 'a'; DROP TABLE documents",
        "uri = 'a' --",
        "password = 'x'",
        "uri = x",
        "uri = 'a",
        "uri = 'a' AND",
        "(uri = 'a')",
        "uri IN ('a')",
        "uri = 'a' ANDtitle = 'b'",
        "uri = 'a\x00'",
        "uri = '" + "x" * 1000 + "'",
        " AND ".join(["uri = 'a'"] * 21),
        "docling_document = 'x'",
    ],
)
def test_what_is_no_filter_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"filter: .*write it as"):
        as_sql(text)


@given(field=st.sampled_from(FIELDS), operator=st.sampled_from(OPERATORS), text=st.text(max_size=50))
def test_whatever_a_text_holds_it_stays_one_text(field: str, operator: str, text: str) -> None:
    try:
        sql = as_sql(f"{field} {operator} '" + text.replace("'", "''") + "'")
    except InvalidInputError:
        assert "\x00" in text
        return
    quoted = sql[sql.index("'") :]
    assert quoted == "'" + text.replace("'", "''") + "'"
