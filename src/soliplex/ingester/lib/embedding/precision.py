"""How exactly a model that runs in this process computes."""

from __future__ import annotations

from enum import StrEnum


class Precision(StrEnum):
    """Numbers the layers compute with. int8 is faster, and its vectors are close to those of fp32.

    The weights are the same for both, rounded to eight bits: vectors of fp32 are all but equal to those of the model as
    it was published.
    """

    FP32 = "fp32"
    INT8 = "int8"
