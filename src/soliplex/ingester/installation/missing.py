"""Known files that are gone: found by looking, and deleted only where it is sure that they were looked for.

A folder that is not mounted looks like one whose files were all deleted. So what is known of a folder is not deleted
where no file was found in it, where something could not be read, or where more than half of it would go: then the user
has to insist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from soliplex.ingester.installation.local_files import LocalFile, Rules, Unreadable, folders_of, gone_files, printable
from soliplex.ingester.installation.protocol import Target

FEW: Final = 10
"""Files that may go without a question, whatever the share of them."""


@dataclass(slots=True)
class Missing:
    """Known files that are gone, and what speaks against deleting them."""

    uris: list[str] = field(default_factory=list[str])
    known: int = 0
    """Files that are known of the folders, those that are there among them."""
    obstacles: list[str] = field(default_factory=list[str])
    """Why it is not certain that the files are gone."""

    @property
    def is_most(self) -> bool:
        """Whether so much would go that a person should be asked."""
        return len(self.uris) > FEW and 2 * len(self.uris) > self.known

    @property
    def share(self) -> str:
        """How many of the known files are gone, in words."""
        return f"{len(self.uris):,} of {self.known:,} known files are gone"

    @property
    def doubt(self) -> str | None:
        """What speaks against deleting the files unless somebody insists; None if nothing does."""
        if self.obstacles:
            more = f", and {len(self.obstacles) - 1:,} more" if len(self.obstacles) > 1 else ""
            return f"{self.obstacles[0]}{more}"
        return f"{self.share}, more than half" if self.is_most else None


async def find_missing(
    target: Target, source: str, paths: Sequence[Path], rules: Rules, files: Iterable[LocalFile]
) -> Missing:
    """What the source knows below the folders among the paths, and is not there any more."""
    found = {file.uri for file in files}
    missing = Missing()
    for folder in folders_of(paths):
        beginning = f"{folder.as_posix().rstrip('/')}/"
        known = await target.uris_below(source, beginning)
        missing.known += len(known)
        not_found = [uri for uri in known if uri not in found]
        gone = await asyncio.to_thread(lambda some=not_found, root=folder: list(gone_files(root, rules, some)))
        uris = [each for each in gone if isinstance(each, str)]
        missing.uris += uris
        missing.obstacles += [f"{printable(each.path)}: {each.reason}" for each in gone if isinstance(each, Unreadable)]
        if uris and not any(uri.startswith(beginning) for uri in found):
            missing.obstacles.append(f"no file was found in {printable(folder)}: is it mounted?")
    return missing


async def delete_missing(target: Target, source: str, uris: Sequence[str], paths: Sequence[Path], rules: Rules) -> int:
    """Delete the documents of files that are still gone; gives how many."""
    still_gone: list[str] = []
    for folder in folders_of(paths):
        beginning = f"{folder.as_posix().rstrip('/')}/"
        below = [uri for uri in uris if uri.startswith(beginning)]
        found = await asyncio.to_thread(lambda some=below, root=folder: list(gone_files(root, rules, some)))
        still_gone += [each for each in found if isinstance(each, str)]
    return await target.delete(source, still_gone)
