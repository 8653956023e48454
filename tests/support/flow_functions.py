"""Flows and workflows that any process can import."""

from __future__ import annotations

from typing import Any

from soliplex.ingester import Again, Flow, Subflow, Wait, Workflow

lengths = Flow("lengths", max_attempts=2, timeout=30)


@lengths.step
async def words(text: str) -> list[str]:
    return text.split()


@lengths.map_step(over="words")
async def length(item: str) -> int:
    return len(item)


@lengths.step(depends_on=["words"], when="size(words) > 0")
def total(length: list[int]) -> int:
    return sum(length)


told: list[tuple[Any, ...]] = []
"""What workflows were told at the end of their runs."""


class Greeting(Workflow):
    """Greets, and fails for nobody's name."""

    def definition(self) -> dict[str, Any]:
        return {
            "version": "1.0",
            "title": "Greeting",
            "steps": [
                {"name": "greet", "type": "task", "command": "hello", "max_attempts": 1},
                {"name": "shout", "type": "task", "command": "upper", "dependencies": ["greet"]},
            ],
        }

    async def execute_command(self, run_id: int, command: str, input: dict[str, Any], context: dict[str, Any]) -> Any:  # noqa: A002
        if command == "upper":
            return input["greet"].upper()
        if not input["name"]:
            raise ValueError("nobody to greet")
        return f"{context['attempt']}: hello {input['name']}"

    def on_complete(self, run_id: int, output: dict[str, Any], context: dict[str, Any]) -> None:
        told.append(("completed", run_id, output, context["event_id"]))

    async def on_failure(self, run_id: int, error: dict[str, Any], context: dict[str, Any]) -> None:
        told.append(("failed", run_id, error["message"], context["event_id"]))


waiting = Flow("waiting")


@waiting.step
async def pages(state: int | None) -> Again | int:
    page = (state or 0) + 1
    return Again(page) if page < 3 else page


@waiting.step
async def approved(pages: int, state: str | None, answer: Any) -> Wait | dict[str, Any]:
    if state is None:
        return Wait("approve", state="asked")
    return {"pages": pages, "by": answer}


outer = Flow("outer")


@outer.step
async def inner(text: str, answer: Any) -> Subflow | int:
    return Subflow("lengths", {"text": text}) if answer is None else answer["total"]


def doubled(number: int) -> int:
    return 2 * number


def halved(item: int) -> float:
    return item / 2


def last_of(shout: list[str]) -> str:
    return shout[-1]


PRIME = 1_000_003


def mixed(number: int, given: Any) -> int:
    """A number that says which numbers it was made of, and where."""
    return (31 * sum(flat(given)) + number) % PRIME


def flat(given: Any) -> list[int]:
    return [each for inner in given for each in flat(inner)] if isinstance(given, list) else [given]


async def mix(input: dict[str, Any], step_context: dict[str, Any]) -> int:  # noqa: A002  what handlers ask for
    return mixed(_number(step_context), [value for name, value in input.items() if name != "seed"])


async def spread(input: dict[str, Any], step_context: dict[str, Any]) -> list[int]:  # noqa: A002
    first = await mix(input, step_context)
    return [first, first + 1, first + 2]


async def mix_item(item: int, step_context: dict[str, Any]) -> int:
    return mixed(_number(step_context), item)


def _number(step_context: dict[str, Any]) -> int:
    return int(step_context["step_name"].removeprefix("s"))


async def summed(half: list[int], words: list[str]) -> dict[str, int]:
    return {"letters": sum(half), "words": len(words)}


failures: list[Exception] = []
"""What `shaky` is still to fail with."""


async def shaky() -> str:
    if failures:
        raise failures.pop()
    return "at last"
