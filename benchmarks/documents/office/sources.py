"""What thirty office documents hold: headings of several levels, text, lists, and tables of three looks."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.documents.exports.make import TOPICS

COUNT: Final = 30
HELD: Final = 10
"""How many of the last ones nothing is tuned on."""
RULED, HORIZONTAL, UNRULED = "ruled", "horizontal", "unruled"
LOOKS: Final = (RULED, HORIZONTAL, UNRULED)
FONTS: Final = ("Carlito", "Liberation Serif", "Liberation Sans", "Caladea", "DejaVu Sans")
SUBJECTS: Final = (
    "Scope",
    "Purpose of this document",
    "Roles and responsibilities",
    "Delivery of goods",
    "Prices and payment",
    "Warranty",
    "Data protection",
    "Background",
    "Findings of the survey",
    "Method",
    "Results by region",
    "Costs of operation",
    "Next steps",
    "Risks and how they are met",
    "Opening hours",
    "Complaints",
    "Maintenance schedule",
    "Equipment",
    "Emergency procedures",
    "Glossary",
    "Staffing plan",
    "Budget",
    "Travel",
    "Approval",
)
NAMES: Final = (
    "Bolts",
    "Hemp rope",
    "Copper pipe",
    "Paint, white",
    "Lamp oil",
    "Sailcloth",
    "Tar",
    "Oak planks",
    "Chain",
)
PLACES: Final = ("Bergen", "Gdansk", "Rostock", "Malmö", "Turku", "Riga", "Kiel", "Visby", "Stralsund")
PEOPLE: Final = ("A. Finch", "B. Moore", "C. Vane", "D. Haugen", "E. Perrault", "F. Lindqvist", "G. Solberg")
STATES: Final = ("open", "done", "in review", "late", "not begun")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading, with its number where headings have some."""

    text: str
    level: int


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `is_strong` if its first words are set in bold type, which makes no heading of it."""

    text: str
    is_strong: bool = False


@dataclass(frozen=True, slots=True)
class Points:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table, its look, and how wide its columns are in centimetres."""

    rows: Sequence[Sequence[str]]
    look: str
    widths: Sequence[float]


type Block = Heading | Text | Points | Grid


@dataclass(frozen=True, slots=True)
class Source:
    """A document to be."""

    number: int
    look: str
    """Of its tables."""
    font: str
    is_black: bool
    """Headings in black, as in a house style, instead of Word's blue."""
    size: int
    blocks: Sequence[Block]

    @property
    def name(self) -> str:
        return f"{self.number:02}-{self.look}"

    @property
    def is_held(self) -> bool:
        return self.number > COUNT - HELD

    @property
    def markdown(self) -> str:
        return "\n\n".join(map(_markdown, self.blocks)) + "\n"


def sources() -> list[Source]:
    return [_source(number) for number in range(1, COUNT + 1)]


def _source(number: int) -> Source:
    chance = random.Random(number)
    look = (RULED, UNRULED, HORIZONTAL, RULED, UNRULED)[number % 5]
    return Source(
        number=number,
        look=look,
        font=FONTS[number % len(FONTS)] if number % 3 else chance.choice(FONTS),
        is_black=chance.random() < 0.5,
        size=chance.choice((10, 11, 12)),
        blocks=list(_blocks(chance, look)),
    )


def _blocks(chance: random.Random, look: str) -> Iterator[Block]:
    style = chance.choice(("none", "1", "1.", "none"))
    subjects = chance.sample(SUBJECTS, len(SUBJECTS))
    for chapter in range(1, chance.randint(3, 5)):
        yield Heading(_numbered((chapter,), subjects.pop(), style), 1)
        yield from _texts(chance)
        for section in range(1, chance.randint(1, 4)):
            yield Heading(_numbered((chapter, section), subjects.pop(), style), 2)
            yield from _texts(chance)
            if chance.random() < 0.3 and len(subjects) > 4:
                yield Heading(_numbered((chapter, section, 1), subjects.pop(), style), 3)
                yield from _texts(chance)
            if chance.random() < 0.6:
                yield _grid(chance, look)
                yield from _texts(chance)
        if chapter == 1:
            yield _grid(chance, look)
            yield from _texts(chance)


def _numbered(numbers: Sequence[int], text: str, style: str) -> str:
    if style == "none":
        return text
    number = ".".join(map(str, numbers))
    return f"{number}. {text}" if style == "1." and len(numbers) == 1 else f"{number} {text}"


def _texts(chance: random.Random) -> Iterator[Block]:
    for _ in range(chance.randint(1, 2)):
        text = " ".join(f"{topic}." for topic in chance.sample(TOPICS, chance.randint(1, 4)))
        yield Text(text, is_strong=chance.random() < 0.15)
    if chance.random() < 0.2:
        yield Points([topic.split(" and ")[0] for topic in chance.sample(TOPICS, chance.randint(2, 5))])


def _grid(chance: random.Random, look: str) -> Grid:
    make = chance.choice((_goods, _tasks, _terms, _figures, _contacts, _periods))
    rows, widths = make(chance)
    return Grid(rows, look, widths)


type _Made = tuple[list[tuple[str, ...]], tuple[float, ...]]


def _goods(chance: random.Random) -> _Made:
    rows = [("Item", "Quantity", "Price", "Total")]
    for name in chance.sample(NAMES, chance.randint(2, 7)):
        count, price = chance.randint(1, 90), chance.randint(100, 9000) / 100
        rows.append((name, str(count), f"{price:.2f}", f"{count * price:,.2f}"))
    return rows, (5, 3, 3, 3)


def _tasks(chance: random.Random) -> _Made:
    """Cells of several lines."""
    rows = [("No.", "Task", "Who", "State")]
    for number, topic in enumerate(chance.sample(TOPICS, chance.randint(2, 5)), 1):
        rows.append((str(number), topic, chance.choice(PEOPLE), chance.choice(STATES)))
    return rows, (1.2, 7, 3, 2.6)


def _terms(chance: random.Random) -> _Made:
    """Two columns, both of several lines."""
    rows = [("Term", "Meaning in this document")]
    names = chance.sample(SUBJECTS, chance.randint(2, 4))
    rows += [(name, " ".join(f"{topic}." for topic in chance.sample(TOPICS, 2))) for name in names]
    return rows, (3.2, 10.5)


def _figures(chance: random.Random) -> _Made:
    years = [str(2019 + number) for number in range(chance.randint(2, 5))]
    rows = [("Port", *years)]
    places = chance.sample(PLACES, chance.randint(3, 9))
    rows += [(place, *(f"{chance.randint(100, 99999):,}" for _ in years)) for place in places]
    return rows, (3.4, *(2.1 for _ in years))


def _contacts(chance: random.Random) -> _Made:
    """With empty cells, and a head of several lines."""
    rows = [("Name", "Place", "Telephone (office hours only)", "Remarks of the registry")]
    for person in chance.sample(PEOPLE, chance.randint(3, 6)):
        phone = f"0{chance.randint(300, 999)} {chance.randint(10, 99)} {chance.randint(10, 99)}"
        remark = chance.choice(("", "", "on leave until the first week of March", "deputy"))
        rows.append((person, chance.choice(PLACES), phone if chance.random() < 0.8 else "", remark))
    return rows, (3, 2.5, 3.4, 4.2)


def _periods(chance: random.Random) -> _Made:
    """Without a head, as small ones are."""
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    rows = [(day, f"{chance.randint(7, 10)}:00", f"{chance.randint(15, 20)}:30") for day in days]
    return rows[: chance.randint(3, 5)], (3.5, 2.5, 2.5)


def _markdown(block: Block) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {block.text}"
        case Text():
            return block.text
        case Points():
            return "\n".join(f"- {item}" for item in block.items)
        case Grid():
            head, *rows = (f"| {' | '.join(row)} |" for row in block.rows)
            return "\n".join((head, f"|{'---|' * len(block.rows[0])}", *rows))
