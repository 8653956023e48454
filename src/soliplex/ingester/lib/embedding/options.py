"""Who embeds, with which model: the parameters of the embed step."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from soliplex.ingester.lib.embedding.precision import Precision
from soliplex.ingester.lib.step_options import StepOptions


class EmbedOptions(StepOptions):
    """What a parameter set says about embedding. What it leaves out is chosen by `registry.choose`."""

    step: ClassVar[str] = "embed"

    provider: str | None = Field(default=None, min_length=1)
    model: str | None = Field(default=None, min_length=1)
    vector_dim: int | None = Field(default=None, ge=1)
    """How long the vectors must be; a model that can shorten its vectors is asked to."""
    batch_size: int | None = Field(default=None, ge=1)
    """Most texts in one call; EMBED_BATCH_SIZE where it is not given."""
    precision: Precision = Precision.INT8
    """How exactly the local model computes."""
