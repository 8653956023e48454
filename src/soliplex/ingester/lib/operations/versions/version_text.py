"""The text that was read from a version of a document."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.operations.errors import NotParsedError, VersionGoneError
from soliplex.ingester.lib.operations.made import Made, stored_artifacts
from soliplex.ingester.lib.operations.versions.finding import Place, Version, find_place, find_version
from soliplex.ingester.lib.storage import get_artifacts


async def version_text(uri: str, source: str, version: int | None = None) -> AsyncGenerator[bytes]:
    """The Markdown of a version, in blocks: as the newest run that parsed it has read it. Default: the current one."""
    place = await find_place(uri, source)
    found = await find_version(place, place.version if version is None else version)
    made = (await stored_artifacts([found.hash]))[found.hash]
    see_that_it_is_parsed(place, found, made)
    newest = next(each for each in made if each.artifact_type is ArtifactType.PARSED_MD)
    return get_artifacts().read_blocks(found.hash, ArtifactType.PARSED_MD, newest.step_config_id)


def see_that_it_is_parsed(place: Place, version: Version, made: Sequence[Made]) -> None:
    """Raise what keeps anybody from reading the text of a version of which this is stored."""
    if any(each.artifact_type is ArtifactType.PARSED_MD for each in made):
        return
    if not version.is_known:
        raise VersionGoneError(place.uri, version.version, "the document was deleted since")
    raise NotParsedError(place.uri, version.version, "it was never parsed, or what was parsed of it has been deleted")
