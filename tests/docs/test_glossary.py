"""The glossary: each word once, and every table and column that it names is there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.models import metadata

GLOSSARY: Final = (Path(__file__).parents[2] / "docs" / "reference" / "glossary.md").read_text()
WORDS: Final = re.split(r"^### ", GLOSSARY.partition("## Status")[0], flags=re.MULTILINE)[1:]
LIVES: Final = re.compile(r"`([a-z_]+(?:\.[a-z_]+)?)`")


def test_no_word_is_explained_twice() -> None:
    headings = Counter(word.partition("\n")[0].casefold() for word in WORDS)
    assert [heading for heading, times in headings.items() if times > 1] == []


def test_tables_and_columns_that_are_named_exist() -> None:
    columns = {f"{table.name}.{column.name}" for table in metadata.tables.values() for column in table.columns}
    named = {name for word in WORDS for name in LIVES.findall(word)}
    unknown = {name for name in named if name not in columns | metadata.tables.keys()}
    assert unknown == {"parse", "embed", "retries"}, "the types of steps and the key of a workflow file are no tables"
