"""How documents are cut into chunks: the parameters of the chunk step."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from soliplex.ingester.lib.step_options import StepOptions

SMALLEST_SIZE: Final = 16


class ChunkerType(StrEnum):
    """How blocks become chunks."""

    HYBRID = "hybrid"
    """Neighbouring blocks below the same headings are put together as long as they fit."""
    HIERARCHICAL = "hierarchical"
    """Each paragraph, list and table is a chunk of its own."""


class ChunkOptions(StepOptions):
    """Sizes are tokens of all-MiniLM-L6-v2; the headings that are embedded with a chunk count."""

    step: ClassVar[str] = "chunk"

    chunk_size: int = Field(default=256, ge=SMALLEST_SIZE, le=8192)
    chunk_overlap: int = Field(default=0, ge=0)
    """What a piece repeats of the one before it, where a paragraph had to be cut in its middle."""
    separator: str = Field(default="\n\n", min_length=1)
    """A text at which plain Markdown is cut, too, beside the places where its own structure cuts it."""
    chunker: Literal["docling-local", "docling-serve"] = "docling-local"
    chunker_type: ChunkerType = ChunkerType.HYBRID
    text_context_radius: int = Field(default=0, ge=0)
    """Neighbours to show with a chunk that is found. It is the search's affair; no chunk depends on it."""

    @model_validator(mode="after")
    def _overlap_leaves_room(self) -> Self:
        if self.chunk_overlap * 2 > self.chunk_size:
            raise ValueError(
                f"chunk_overlap of {self.chunk_overlap} is more than half of chunk_size; give at most "
                f"{self.chunk_size // 2}"
            )
        return self
