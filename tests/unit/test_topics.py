"""Where the topic changes is told from the text alone, however many topics there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from soliplex.ingester.segmenter.cues import Passage
from soliplex.ingester.segmenter.markdown_blocks import BlockKind
from soliplex.ingester.segmenter.topics import cheapest_cuts, topic_cuts

TEXT, LIST = BlockKind.PARAGRAPH, BlockKind.LIST_ITEM


def about(topics: Sequence[int]) -> NDArray[np.float32]:
    """Vectors of passages about numbered topics, with some noise."""
    noise = np.random.default_rng(5).normal(scale=0.08, size=(len(topics), 64))
    return (np.eye(64)[list(topics)] + noise).astype(np.float32)


@pytest.mark.parametrize("lengths", [[6, 5], [4, 7, 3, 9], [3] * 10, [30, 25]])
def test_sentences_are_cut_where_their_topic_changes(lengths: list[int]) -> None:
    topics = [topic for topic, length in enumerate(lengths) for _ in range(length)]
    passages = [Passage(f"Words {number}.", TEXT, goes_on_inside=number > 0) for number in range(len(topics))]

    cuts = topic_cuts(passages, lambda _: about(topics))

    assert cuts == np.cumsum(lengths)[:-1].tolist()


def test_a_text_about_one_thing_is_not_cut() -> None:
    passages = [Passage(f"A sentence about number {number}.", TEXT, goes_on_inside=number > 0) for number in range(12)]
    assert topic_cuts(passages, lambda _: about([3] * 12)) == []
    assert topic_cuts(passages[:1]) == []
    assert topic_cuts([]) == []


def test_a_list_that_was_announced_stays_with_its_announcement() -> None:
    passages = [
        Passage("Bees fly far.", TEXT),
        Passage("They gather these things:", TEXT),
        Passage("- pollen\n- nectar\n- water", LIST),
        Passage("Trains run on rails.", TEXT),
        Passage("Their wheels are of steel.", TEXT),
    ]
    assert 2 not in topic_cuts(passages, lambda _: about([0, 0, 1, 2, 2]))


def test_without_an_embedder_words_tell() -> None:
    bees = ["honey", "bees", "nectar", "pollen", "hive", "queen", "drones", "workers"]
    trains = ["railway", "engine", "wagon", "signal", "station", "platform", "ticket", "steam"]
    rng = np.random.default_rng(3)
    words = [" ".join(rng.choice(topic, 6, replace=False)) for topic in (bees, trains) for _ in range(8)]
    passages = [Passage(text, TEXT, goes_on_inside=number > 0) for number, text in enumerate(words)]

    assert topic_cuts(passages) == [8]


def test_the_cheapest_of_all_ways_to_cut_is_found() -> None:
    vectors = np.random.default_rng(1).normal(size=(9, 3))
    prices = np.random.default_rng(2).uniform(0.2, 2.0, size=(9, 1))
    unit = float(((vectors[1:] - vectors[:-1]) ** 2).sum(axis=1).mean() / 2)

    def cost(cuts: Sequence[int]) -> float:
        parts = [vectors[first:last] for first, last in pairwise([0, *cuts, 9])]
        return sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts) / unit + sum(
            prices[cut, 0] for cut in cuts
        )

    ways = [[gap + 1 for gap in range(8) if number >> gap & 1] for number in range(2**8)]
    assert cheapest_cuts(vectors, prices)[0] == min(ways, key=cost)
