"""How large pages are drawn, and where long ones are cut."""

from __future__ import annotations

import itertools

import pytest
from PIL import Image, ImageDraw

from soliplex.ingester.lib.parsing.local.tiles import MOST_PIXELS, bounded_scale, looking_slices, reading_tiles


def striped(width: int, height: int, step: int = 100) -> Image.Image:
    """Lines of 60 pixels, made of letters, with 40 empty ones between them."""
    image = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(image)
    for top in range(20, height, step):
        for left in range(0, width, 40):
            draw.rectangle((left, top, left + 19, top + 59), fill=0)
    return image


@pytest.mark.parametrize("sides", [(595, 842), (4967, 3508), (14_400, 14_400), (0, 10)])
def test_no_page_is_drawn_with_more_pixels_than_can_be_held(sides: tuple[float, float]) -> None:
    scale = bounded_scale(*sides, 3.0)
    assert 0 < scale <= 3.0
    assert sides[0] * sides[1] * scale**2 <= MOST_PIXELS * 1.001


def test_a_usual_page_is_read_whole() -> None:
    assert reading_tiles(striped(1785, 2526)) == [(0, 0, 1785, 2526)]
    assert looking_slices(striped(800, 1200)) == [(0, 1200)]


def test_a_long_page_is_cut_between_its_lines_and_nothing_is_lost() -> None:
    image = striped(700, 9_000)
    tiles = reading_tiles(image)
    assert [(left, right) for left, _, right, _ in tiles] == [(0, 700)] * len(tiles)
    for cuts in ([(top, bottom) for _, top, _, bottom in tiles], looking_slices(image)):
        assert len(cuts) > 3
        assert (cuts[0][0], cuts[-1][1]) == (0, 9_000)
        assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(cuts))
        assert all(set(image.crop((0, cut - 1, 700, cut + 1)).tobytes()) == {255} for cut, _ in cuts[1:])


def test_a_large_page_is_cut_both_ways() -> None:
    image = Image.new("L", (5_000, 3_500), 255)
    draw = ImageDraw.Draw(image)
    for left in range(100, 5_000, 1_000):
        draw.rectangle((left, 100, left + 799, 3_400), fill=0)
    tiles = reading_tiles(image)
    assert max(right - left for left, _, right, _ in tiles) <= 2_000
    assert max(bottom - top for _, top, _, bottom in tiles) <= 2_000
    assert sum((right - left) * (bottom - top) for left, top, right, bottom in tiles) == 5_000 * 3_500
    assert all(left % 1_000 not in range(100, 900) for left, *_ in tiles)
