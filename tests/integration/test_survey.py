"""A look into files before they are ingested."""

from __future__ import annotations

from pathlib import Path

from soliplex.ingester.installation.forecast import ForecastFile
from soliplex.ingester.installation.local_files import LocalFile
from soliplex.ingester.installation.survey import Survey
from tests.support.files import pdf


def local(path: Path, content: bytes) -> LocalFile:
    path.write_bytes(content)
    return LocalFile(path, len(content))


async def test_pages_of_a_pdf_are_counted_and_a_broken_one_harms_nobody(tmp_path: Path) -> None:
    whole = pdf("one", "two", "three")
    async with Survey() as survey:
        broken = await survey.look_into(local(tmp_path / "broken.pdf", whole[:200]))
        assert broken == ForecastFile("application/pdf", 200, None)
        # What a file is, its content says, and not its name.
        counted = await survey.look_into(local(tmp_path / "report.dat", whole))
        assert counted == ForecastFile("application/pdf", len(whole), 3)
        text = await survey.look_into(local(tmp_path / "a.md", b"# Text\n"))
        assert text == ForecastFile("text/markdown", 7, None)
