"""Fit the weights of the cues that tell where a topic begins, and print them as `segmenter/cues.py` has them.

    python -m benchmarks.segmenter_weights --data FOLDER

They are fitted by logistic regression to every other page of `segmentation/mdn.jsonl`; `benchmarks.segmenter` reports
on the others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.segmentation.texts import PAGES, Page, fitted_to, pages, passages_of
from soliplex.ingester.segmenter.cues import WEIGHTS, cues_of
from soliplex.ingester.segmenter.markdown_blocks import BlockKind

_KEEPS_SMALL: Final = 3.0
"""Of weights on cues that are scaled to the same spread: against learning chance."""
_STEPS: Final = 30


def samples(texts: Sequence[Page]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """The cues of every gap, whether a section begins there, and whether it is between two plain paragraphs."""
    cues, begins, plain = list[NDArray[np.float64]](), list[bool](), list[bool]()
    for page in texts:
        passages, starts = passages_of(page), set(page.starts)
        cues.append(cues_of(passages)[1:])
        begins += [number in starts for number in range(1, len(passages))]
        are_plain = [passage.kind is BlockKind.PARAGRAPH for passage in passages]
        plain += [are_plain[number - 1] and are_plain[number] for number in range(1, len(passages))]
    return np.vstack(cues), np.array(begins, dtype=np.float64), np.array(plain)


def fit(cues: NDArray[np.float64], begins: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights, without the constant, by Newton's method."""
    spread = np.where(cues.std(axis=0) > 0, cues.std(axis=0), 1.0)
    inputs = np.hstack([np.ones((len(cues), 1)), cues / spread])
    penalty = np.diag([0.0, *([_KEEPS_SMALL] * cues.shape[1])])
    weights = np.zeros(inputs.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (chance - begins) + penalty @ weights
        curve = inputs.T @ (inputs * (chance * (1 - chance))[:, None]) + penalty
        weights -= np.linalg.solve(curve, slope)
    return weights[1:] / spread


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with segmentation/mdn.jsonl")
    cues, begins, plain = samples(fitted_to(pages(parser.parse_args().data.joinpath(*PAGES))))
    weights = fit(cues, begins)
    for name, weight in zip(WEIGHTS, weights, strict=True):
        print(f'    "{name}": {weight:.2f},')
    print(f"PLAIN: Final = {float((cues[plain] @ weights).mean()):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
