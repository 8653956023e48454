"""Every command and every snippet of the documentation is executed, or says why it is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.snippets import PAGES, ROOT, PageFolder, snippets_of

README = ROOT / "README.md"
KINDS = {"bash", "console", "python", "env", "yaml", "json", "text"}
A_COMMAND = re.compile(r"^\s*(?:\$ |si-cli |si-diag |curl |make |\.venv/bin/|pip |python )", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    """An indented block, a block of no kind, and a command that passes for text would be executed by nobody."""
    content = page.read_text("utf-8")
    outside = re.sub(r"^( *)```.*?^\1```$", "", content, flags=re.DOTALL | re.MULTILINE)
    assert not re.findall(r"\n\n {4}[^\s*-].*", outside)
    for snippet in snippets_of(page):
        assert snippet.language in KINDS, f"{snippet} is of no kind that is known"
        assert snippet.language != "text" or not A_COMMAND.search(snippet.text), f"{snippet} hides a command"
        assert snippet.not_run is None or len(snippet.not_run.split()) > 2, f"{snippet} needs a reason"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(it.language != "text" for it in snippets_of(page))], ids=name_of
)
def test_the_snippets_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    with PageFolder(tmp_path, afresh=page == README) as folder:
        for snippet in snippets_of(page):
            if snippet.language != "text" and snippet.not_run is None:
                folder.execute(snippet)
