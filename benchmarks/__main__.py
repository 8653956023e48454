"""Run every benchmark on every database it is meant for, and write benchmarks/RESULTS.md.

python -m benchmarks [--quick] [--peers] [--postgres-url URL] [--data FOLDER] [--output FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.report import DATABASES, DatabaseKind, Line, Result, add_shared_arguments, as_markdown, heading

ROOT: Final = Path(__file__).parent.parent

# One line each: the module measures on these databases, prints one JSON object with --json, and shows its LINES.
BENCHMARKS: Final[dict[str, tuple[DatabaseKind, ...]]] = {
    "engine": DATABASES,
    "api": DATABASES,
    "webhooks": DATABASES,
    "flows": DATABASES,
    "ui": DATABASES,
    "pipeline": ("sqlite",),  # what takes its time there is not the database
    "segmenter": ("sqlite",),  # as the pipeline
}


def run(name: str, database: str, arguments: Sequence[str]) -> Result | None:
    """Run one benchmark in a process of its own. None: it ended without a result."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--database", database, "--json", *arguments]
    print(" ".join(command[1:]), file=sys.stderr)
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return None


def section(name: str, database: str, result: Result | None) -> str:
    if result is None:
        return f"## {name} on {database}\n\nIt ended without a result."
    lines: Sequence[Line] = importlib.import_module(f"benchmarks.{name}").LINES
    return f"## {heading(result)}\n\n{as_markdown(result, lines)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "RESULTS.md")
    add_shared_arguments(parser)
    asked = parser.parse_args()
    results = {
        (name, database): run(name, database, passed_on(asked))
        for name, databases in BENCHMARKS.items()
        for database in databases
    }
    sections = [section(name, database, result) for (name, database), result in results.items()]
    command = " ".join(["python -m benchmarks", *(name for name in ("--quick", "--peers") if name in passed_on(asked))])
    asked.output.write_text("\n\n".join([f"# Results\n\nWritten by `{command}`.", *sections]) + "\n")
    return 0 if all(result is not None and not result["failed"] for result in results.values()) else 1


def passed_on(asked: Any) -> list[str]:
    """The arguments each benchmark gets."""
    flags = [f"--{name}" for name in ("quick", "peers") if getattr(asked, name)]
    given = {"--postgres-url": asked.postgres_url, "--data": asked.data}
    return flags + [text for name, value in given.items() if value for text in (name, str(value))]


if __name__ == "__main__":
    sys.exit(main())
