"""Documents that only LibreOffice reads: Word, Excel and PowerPoint of before 2007, and RTF.

It saves them in the format of today, which docling reads. docling could call it itself, but starts it in a session of
its own, where it outlives the process that the worker ends because of a document that stalls it. Started here, it ends
with that process.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.parsing.errors import UnsupportedFormatError, unreadable
from soliplex.ingester.lib.parsing.formats import LEGACY, STRUCTURED

_COMMANDS: Final = ("soffice", "libreoffice")
_OF_TODAY: Final = {".doc": ".docx", ".rtf": ".docx", ".xls": ".xlsx", ".ppt": ".pptx"}
_FLAGS: Final = ("--headless", "--norestore", "--nologo", "--nolockcheck", "--nodefault")
_SCRIPTING: Final = "/org.openoffice.Office.Common/Security/Scripting"
_PROFILE: Final = (
    '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry">'
    + "".join(
        f'<item oor:path="{path}"><prop oor:name="{name}" oor:op="fuse"><value>{value}</value></prop></item>'
        for path, name, value in (
            (_SCRIPTING, "MacroSecurityLevel", "3"),
            (_SCRIPTING, "DisableMacrosExecution", "true"),
            ("/org.openoffice.Office.Writer/Content/Update", "Link", "0"),
            ("/org.openoffice.Office.Calc/Content/Update", "Link", "0"),
        )
    )
    + "</oor:items>"
)
"""No macro of a document runs, and no link in it is followed."""


@contextmanager
def in_format_of_today(path: Path, kind: str) -> Generator[tuple[Path, str]]:
    """The document as LibreOffice saves it, and of which kind it is then."""
    command = command_for(kind)
    extension = LEGACY[kind]
    with tempfile.TemporaryDirectory(prefix="office-") as name:
        folder = Path(name)
        source, target = folder / f"document{extension}", _OF_TODAY[extension]
        source.symlink_to(path.resolve())
        saved = _saved(command, folder, source, target)
        renamed = saved.rename(folder / f"{path.stem}{target}")
        yield renamed, next(kind for kind, known in STRUCTURED.items() if known == target)


def command_for(kind: str) -> str:
    """LibreOffice, by which the kind is read; UnsupportedFormatError where it is not installed."""
    for name in _COMMANDS:
        if found := shutil.which(name):
            return found
    raise UnsupportedFormatError(
        "local", kind, "install LibreOffice, so that `soffice` is found, or save the document in a format of today"
    )


def _saved(command: str, folder: Path, source: Path, target: str) -> Path:
    # A profile of its own: LibreOffice locks it, and two at the same time would be one too many.
    profile = folder / "profile"
    (profile / "user").mkdir(parents=True)
    (profile / "user" / "registrymodifications.xcu").write_text(_PROFILE)
    into = folder / "saved"
    arguments = [f"-env:UserInstallation={profile.as_uri()}", *_FLAGS, "--convert-to", target[1:], "--outdir", into]
    # In the process group of this process, and without a limit of its own: who ends this process ends both.
    done = subprocess.run(  # noqa: S603  the names are ours; what is in the file is LibreOffice's to fear
        [command, *arguments, source], check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    saved = into / f"{source.stem}{target}"
    if done.returncode or not saved.is_file():
        raise unreadable(source.suffix, reader="LibreOffice", detail=_last_line(done.stderr))
    return saved


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it gave no reason"
