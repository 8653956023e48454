"""The pipeline: how many documents a second, how much of them is done again, how well they are read and found.

    python -m benchmarks.pipeline --data FOLDER [--json] [--quick] [--peers] [--only MEASURE ...]

A worker of default settings runs in a process of its own, one for all measures that need the parser; from here,
documents are uploaded and their end is waited for. The folder of data is described in docs/howto/benchmarks.md; a
measure that lacks its documents says so.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import yaml

from benchmarks import processes
from benchmarks.databases import Server, open_fresh, real_disk
from benchmarks.documents import covering, embedding, excerpts, haiku, languages, readers, retrieval, searching
from benchmarks.documents.data import Data
from benchmarks.documents.office.make import exported
from benchmarks.documents.processing import (
    File,
    Ingester,
    Processed,
    SharedIngester,
    StepRecord,
    count_cached,
    ingester,
)
from benchmarks.measuring import Measure, run_benchmark
from benchmarks.peers import Entry
from benchmarks.report import Line, Options, Result, Target, parse_options, show
from benchmarks.rows import fill_documents
from soliplex.ingester.lib.models import RunStatus

LINES: Final = (
    Line("documents/s, small Markdown files, vectors that cost nothing", "documents_per_second.instant"),
    Line("… processor time, ms a document", "processor_ms_per_document.instant"),
    Line("… times haiku-ingester's", "documents_ratio.instant", Target(20)),
    Line("documents/s, small Markdown files, all-MiniLM-L6-v2", "documents_per_second.local"),
    Line("… processor time, ms a document", "processor_ms_per_document.local"),
    Line("… times haiku-ingester's", "documents_ratio.local", Target(5)),
    *(
        Line(f"… {stage}, documents/s while it is at work", f"stage_documents_per_second.{stage}")
        for stage in ("validate", "parse", "chunk", "embed", "store")
    ),
    Line("chunks embedded again after {edits} real edits, share", "reembedded_share", Target(0.13, at_most=True)),
    Line("… of unchanged files", "reembedded_share_unchanged", Target(0, at_most=True)),
    Line("chunks of 180 words embedded a second", "embed_chunks_per_second"),
    Line("… processor time, ms a chunk", "embed_processor_ms"),
    Line("… ours / sentence-transformers, in turns", "embed_ratio", Target(2.5)),
    Line("… the same by processor time", "embed_processor_ratio"),
    Line("… cosine to its vectors", "embed_cosine", Target(0.99)),
    *(Line(f"nDCG@10 on SciFact, {kind}", f"ndcg10.{kind}") for kind in ("vector", "text")),
    Line("nDCG@10 on SciFact, hybrid", "ndcg10.hybrid", Target(0.70)),
    Line("… hybrid less the better of the two", "ndcg10_gain", Target(0)),
    *excerpts.LINES,
    *(
        Line(
            f"an answer from {{searched_chunks:,}} chunks, {kind}, p50, ms",
            f"search_ms.{kind}.p50",
            Target(100, at_most=True),
        )
        for kind in ("vector", "text", "hybrid", searching.WITHIN)
    ),
    Line("… hybrid, p95, ms", "search_ms.hybrid.p95"),
    Line("pages of PDFs a second, with structure, in one process", "pages_per_second"),
    Line("… processor time, ms a page", "processor_ms_per_page"),
    Line("headings F1 on PDFs", "headings_f1", Target(0.75)),
    Line("words F1 on PDFs", "words_f1", Target(0.97)),
    Line("cells F1 of tables, office exports", "cells_f1.all", Target(0.5)),
    Line("… of tables with ruling lines", "cells_f1.ruled", Target(0.75)),
    Line("… of exports that nothing is tuned on", "cells_f1.held", Target(0.5)),
    Line("… on PDFs with reviewed Markdown", "cells_f1.pdf_truth"),
    Line("headings F1 on office exports", "export_headings_f1.all", Target(0.9)),
    Line("… that nothing is tuned on", "export_headings_f1.held", Target(0.9)),
    Line("words of PDFs that reach Markdown and chunks, share", "coverage.words", Target(0.99)),
    Line("… files with less than 97 % of theirs", "coverage.files_below_97", Target(0, at_most=True)),
    Line("titles of a documentation site's pages that are right, share", "titles", Target(0.98)),
    *languages.LINES,
    Line("hostile files", "hostile.files"),
    Line("… that were read", "hostile.completed"),
    Line("… that failed with a reason", "hostile.failed_cleanly"),
    Line("… that crashed the worker, or failed without a reason", "hostile.crashed", Target(0, at_most=True)),
    Line("… that did not end", "hostile.hung", Target(0, at_most=True)),
    Line("memory of a worker on {large_batch:,} documents / on 1,000", "rss_ratio_100k", Target(1.2, at_most=True)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything."""

    samples: int = 3
    documents: int = 200
    """In a sample."""
    edits: int = 240
    passages: int = 128
    scifact_documents: int | None = None
    scifact_questions: int | None = None
    excerpt_abstracts: int = 500
    searched_chunks: int = 100_000
    searches: int = 50
    pdfs: int | None = None
    pages: int = 150
    hostile: int | None = None
    hostile_seconds: float = 540.0
    small_batch: int = 1_000
    large_batch: int = 100_000


FULL: Final = Sizes()
QUICK: Final = Sizes(
    samples=1,
    documents=24,
    edits=8,
    passages=16,
    scifact_documents=40,
    scifact_questions=15,
    excerpt_abstracts=40,
    searched_chunks=5_000,
    searches=5,
    pdfs=1,
    pages=8,
    hostile=5,
    hostile_seconds=60.0,
    large_batch=20_000,
)
_TITLE: Final = re.compile(r"\A---\n(?:.*\n)*?title: (.+)\n")
INSTANT: Final = "instant"
"""The parameters whose vectors cost nothing, and the database that they store into."""
WARM: Final = 8
"""Documents that go first: what is loaded at first use is no part of a rate."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What measures work with."""

    data: Data
    server: Server
    sizes: Sizes
    shared: SharedIngester

    async def ingester(self) -> Ingester:
        """A worker that has its models and parsers loaded."""
        return await self.shared.get(self.server)


async def documents_per_second(bench: Bench) -> Result:
    """Small Markdown files from the first upload until the last can be found, with each of two embedders."""
    sizes, running = bench.sizes, await bench.ingester()
    files = iter([File(f"/{each.id}.md", each.markdown.encode()) for each in bench.data.abstracts()])
    found: dict[str, list[Processed]] = {}
    for params in ("instant", "local"):
        await _process(running, _take(files, WARM), params)
        found[params] = [await _process(running, _take(files, sizes.documents), params) for _ in range(sizes.samples)]
    stages = [sample.stage_rates() for sample in found["local"]]
    return {
        "documents_per_second": {params: median(each.rate for each in got) for params, got in found.items()},
        "documents_per_second_samples": {params: [each.rate for each in got] for params, got in found.items()},
        "processor_ms_per_document": {
            params: median(each.processor_seconds / each.documents * 1000 for each in got)
            for params, got in found.items()
        },
        "stage_documents_per_second": {name: median(each[name] for each in stages) for name in stages[0]},
    }


def _take(files: Iterator[File], count: int) -> list[File]:
    """The next files, none of which was taken before: what is known of them already would not be done again."""
    return [file for file, _ in zip(files, range(count), strict=False)]


async def _process(running: Ingester, files: Sequence[File], params: str) -> Processed:
    """A rate counts only if the work was done."""
    done = await running.process(files, params)
    unfinished = [step for step in done.steps if step.status is not RunStatus.COMPLETED]
    if unfinished:
        raise RuntimeError(f"{len(unfinished)} steps did not complete, the first: {unfinished[0]}")
    return done


async def reembedded_share(bench: Bench) -> Result:
    """Pages as they were, then as they are after real edits, then once more: how many texts had to be embedded."""
    edits = bench.data.edits()[: bench.sizes.edits]
    before = [File(edit.path, edit.before.encode()) for edit in edits]
    after = [File(edit.path, edit.after.encode()) for edit in edits]
    running = await bench.ingester()
    await _process(running, before, "instant")
    known = await count_cached()
    changed = await _process(running, after, "instant")
    embedded = await count_cached() - known
    await _process(running, after, "instant")
    again = await count_cached() - known - embedded
    chunks = sum(step.output.get("embeddings", 0) for step in changed.of("embed"))
    return {
        "reembedded_share": embedded / chunks,
        "reembedded_share_unchanged": again / chunks,
        "reembedded_chunks": {"embedded": embedded, "all": chunks},
    }


async def embed_chunks_per_second(bench: Bench) -> Result:
    """Passages of 180 words, by the model that runs in this process."""
    return await embedding.measure(embedding.passages(bench.data, bench.sizes.passages), bench.sizes.samples)


async def words_and_headings_f1(bench: Bench) -> Result:
    """PDFs by the parser that runs in the worker's processes, against reviewed Markdown."""
    with _pdfs(bench.data, bench.sizes, exports=False) as pdfs:
        return readers.words_and_headings(pdfs, await _read_by_worker(bench, pdfs))


async def pages_per_second(bench: Bench) -> Result:
    """The same PDFs and office exports, one after the other, by the parser alone."""
    with _pdfs(bench.data, bench.sizes) as pdfs:
        return await readers.measure(pdfs)


@contextmanager
def _pdfs(data: Data, sizes: Sizes, *, exports: bool = True) -> Generator[readers.Pdfs]:
    """Those with reviewed Markdown; and office exports, which may be made for this."""
    reviewed = [path for path in data.files("pdf_truth") if path.suffix == ".pdf"][: sizes.pdfs]
    with tempfile.TemporaryDirectory(prefix="benchmark-office-") as folder:
        made = exported(Path(folder)) if exports else {}
        some = made if sizes.pdfs is None else dict(list(made.items())[:: max(1, len(made) // (sizes.pdfs + 1))])
        yield readers.Pdfs(reviewed, some)


async def _read_by_worker(bench: Bench, pdfs: readers.Pdfs) -> dict[Path, str]:
    files = {path: File(f"/{path.parent.name}/{path.name}", path.read_bytes()) for path in pdfs.paths}
    read = await (await bench.ingester()).markdown_of(list(files.values()), INSTANT)
    return {path: read.get(file.uri, "") for path, file in files.items()}


async def coverage(bench: Bench) -> Result:
    """PDFs of the folder and office exports: how many of their words can be found."""
    folders = [bench.data.files(name) for name in ("documents", "pdf_truth")]
    named = [path for folder in (*folders, sorted(covering.EXPORTS.iterdir())) for path in folder]
    # Some are in both folders. Of a quick run, as many of the first as of the last.
    pdfs = list({path.read_bytes(): path for path in named if path.suffix == ".pdf"}.values())
    chosen = pdfs if bench.sizes.pdfs is None else pdfs[:: len(pdfs) // (bench.sizes.pdfs + 1)]
    files = {path: File(f"/{path.parent.name}/{path.name}", path.read_bytes()) for path in chosen}
    read = await (await bench.ingester()).read_of(list(files.values()), "instant")
    return covering.scores({file.uri: covering.words_in(path) for path, file in files.items()}, read)


async def cells_f1(bench: Bench) -> Result:
    """Office exports with known source, and the PDFs with reviewed Markdown: cells of tables, and headings."""
    with _pdfs(bench.data, bench.sizes) as pdfs:
        return readers.structure(pdfs, await _read_by_worker(bench, pdfs))


async def titles(bench: Bench) -> Result:
    """Pages of a documentation site: how many searches name by the title that their front matter gives them."""
    pages = {edit.path: edit.after for edit in bench.data.edits() if _TITLE.search(edit.after)}
    some = dict(list(pages.items())[: bench.sizes.pages])
    files = {path: File(f"/titles/{path}", text.encode()) for path, text in some.items()}
    named = await (await bench.ingester()).titles_of(list(files.values()), INSTANT, INSTANT)
    given = {path: yaml.safe_load(f"title: {found[1]}")["title"] for path, found in _titles_in(some).items()}
    right = [named.get(files[path].uri) == str(title) for path, title in given.items()]
    return {"titles": sum(right) / len(right), "titled_pages": len(right)}


def _titles_in(pages: Mapping[str, str]) -> dict[str, re.Match[str]]:
    """The titles, by another reader of front matter than ours."""
    return {path: found for path, text in pages.items() if (found := _TITLE.search(text))}


async def language_accuracy(bench: Bench) -> Result:
    """The same as the measure of that name in `benchmarks.segmenter`."""
    return languages.measure(bench.data)


async def ndcg10(bench: Bench) -> Result:
    """SciFact by each kind of search, with what the shipped parameters choose."""
    await bench.shared.close()
    sizes = bench.sizes
    with tempfile.TemporaryDirectory(
        prefix="benchmark-scifact-", dir=real_disk(), ignore_cleanup_errors=True
    ) as folder:
        async with open_fresh(bench.server):
            found = await retrieval.measure(
                bench.data, Path(folder), documents=sizes.scifact_documents, questions=sizes.scifact_questions
            )
    scores = found["ndcg10"]
    return found | {"ndcg10_gain": scores["hybrid"] - max(scores["vector"], scores["text"])}


async def chunks(bench: Bench) -> Result:
    """How much of known excerpts is in the passages that questions find, beside two published ways to cut."""
    return await excerpts.measure(bench.data, bench.sizes.excerpt_abstracts)


async def search_ms(bench: Bench) -> Result:
    """Questions to a large database, by each kind of search, and with a filter."""
    await bench.shared.close()
    sizes = bench.sizes
    with tempfile.TemporaryDirectory(prefix="benchmark-large-", dir=real_disk(), ignore_cleanup_errors=True) as folder:
        async with open_fresh(bench.server):
            return await searching.measure(
                bench.data, Path(folder), chunks=sizes.searched_chunks, questions=sizes.searches
            )


async def hostile(bench: Bench) -> Result:
    """Broken and fuzzed files: each must end, with a reason where it failed, and leave the worker alive."""
    paths = bench.data.files("hostile")
    # As many of the first as of the last: they are named after where they come from.
    chosen = paths if bench.sizes.hostile is None else paths[:: len(paths) // bench.sizes.hostile + 1]
    files = [File(f"/{path.name}", path.read_bytes()) for path in chosen]
    running = await bench.ingester()
    steps = await running.process_within(files, "instant", bench.sizes.hostile_seconds)
    ends = Counter(_end(own) for own in _by_document(steps).values())
    crashed = ends["crashed"] + (not running.is_alive)
    counts = {"completed": ends["completed"], "failed_cleanly": ends["failed_cleanly"], "crashed": crashed}
    return {"hostile": {"files": len(files), **counts, "hung": len(files) - sum(counts.values())}}


def _by_document(steps: Sequence[StepRecord]) -> dict[str, list[StepRecord]]:
    found: dict[str, list[StepRecord]] = {}
    for step in steps:
        found.setdefault(step.uri, []).append(step)
    return found


def _end(steps: Sequence[StepRecord]) -> str:
    """How a document ended. Of those that fail, one fails in words, or else by the name of an error."""
    if all(step.status is RunStatus.COMPLETED for step in steps):
        return "completed"
    failed = [step for step in steps if step.status is RunStatus.FAILED]
    if not failed:
        return "hung"
    return "failed_cleanly" if all(step.has_clear_reason for step in failed) else "crashed"


async def rss_ratio_100k(bench: Bench) -> Result:
    """The most memory that a worker takes for a large batch, divided by that for a small one."""
    await bench.shared.close()
    small = await _most_memory(bench.server, bench.sizes.small_batch)
    large = await _most_memory(bench.server, bench.sizes.large_batch)
    return {"rss_ratio_100k": large / small, "rss_mib": {"small": small, "large": large}}


async def _most_memory(server: Server, documents: int) -> float:
    async with ingester(server) as running:
        batch_id = await running.new_batch("nothing")
        await fill_documents(batch_id, documents)
        await running.run(batch_id, "nothing", workflow="test_wf", within=540.0)
        return processes.memory_mib(running.pid, "VmHWM")


# Those that share a worker come first.
MEASURES: Final[dict[str, Callable[[Bench], Awaitable[Result]]]] = {
    "documents_per_second": documents_per_second,
    "reembedded_share": reembedded_share,
    "words_and_headings_f1": words_and_headings_f1,
    "pages_per_second": pages_per_second,
    "coverage": coverage,
    "cells_f1": cells_f1,
    "titles": titles,
    "language_accuracy": language_accuracy,
    "hostile": hostile,
    "embed_chunks_per_second": embed_chunks_per_second,
    "chunks": chunks,
    "ndcg10": ndcg10,
    "search_ms": search_ms,
    "rss_ratio_100k": rss_ratio_100k,
}


def measure(options: Options) -> Result:
    """All that is asked for, as one JSON object."""
    data, sizes, shared = Data(options.data), QUICK if options.quick else FULL, SharedIngester()

    def prepared(take: Callable[[Bench], Awaitable[Result]]) -> Measure[Sizes]:
        return lambda server, sizes: take(Bench(data, server, sizes, shared))

    def measure_peers(_server: Server) -> Result:
        return asyncio.run(_peers(data, sizes, options.only or tuple(MEASURES)))

    measures = {name: prepared(take) for name, take in MEASURES.items()}
    peers = measure_peers if options.peers else None
    result = run_benchmark("pipeline", options, sizes, measures, peers=peers, close=shared.close)
    return result | _ratios(result)


def _ratios(result: Result) -> Result:
    """Ours by theirs, of peers that were measured in the same run."""
    peers = result.get("peers", {})
    beside, theirs = peers.get(embedding.PEER, {}), peers.get(haiku.PEER, {}).get("documents_per_second", {})
    shown = {"embed_ratio": "ratio", "embed_processor_ratio": "processor_ratio", "embed_cosine": "cosine"}
    ours = result.get("documents_per_second") or {}
    return {name: beside[value] for name, value in shown.items() if value in beside} | {
        "documents_ratio": {name: ours[name] / theirs[name] for name in theirs if name in ours}
    }


async def _peers(data: Data, sizes: Sizes, asked: Sequence[str]) -> Result:
    """Each peer of a measure that was asked for, in turn. One that fails says why."""
    results: Result = {}
    for name, (measure, entry, compare) in _comparisons(data, sizes).items():
        if measure not in asked:
            continue
        print(f"peer {name}", file=sys.stderr)
        results[name] = {"label": entry.label, "version": entry.version, "failed": {}}
        try:
            results[name] |= await compare()
        except Exception as exc:  # noqa: BLE001  whatever went wrong, the other peers are still worth having
            results[name]["failed"] = {"everything": f"{type(exc).__name__}: {exc}"}
    return results


type _Comparison = tuple[str, Entry, Callable[[], Awaitable[Result]]]
"""The measure that a peer stands beside, the peer, and how it is measured."""


def _comparisons(data: Data, sizes: Sizes) -> dict[str, _Comparison]:
    async def reader(name: str) -> Result:
        with _pdfs(data, sizes) as pdfs:
            return await readers.compare(name, pdfs)

    async def embedder() -> Result:
        return await embedding.compare(embedding.passages(data, sizes.passages), 3)

    async def haiku_ingester() -> Result:
        return await haiku.measure(data.abstracts()[: sizes.documents])

    return {
        embedding.PEER: ("embed_chunks_per_second", embedding.ENTRY, embedder),
        haiku.PEER: ("documents_per_second", haiku.ENTRY, haiku_ingester),
        **{name: ("pages_per_second", entry, partial(reader, name)) for name, entry in readers.PEERS.items()},
    }


def main() -> int:
    options = parse_options(__doc__ or "", MEASURES)
    result = measure(options)
    show(result, LINES, as_json=options.as_json)
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
