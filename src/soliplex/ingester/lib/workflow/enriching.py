"""The enrich step: metadata by rules, which the store step hands to the RAG database, where searches can ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from soliplex.ingester.lib.enrichment import EnrichOptions, facts_of
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import ArtifactType, Document, DocumentURI, WorkflowStepType
from soliplex.ingester.lib.operations.document_metadata import add_metadata
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.errors import PermanentError, StepTimeout
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.workflow.arguments import Earlier
from soliplex.ingester.lib.workflow.step_artifacts import required, the_step

_APPLY: Final = "soliplex.ingester.lib.enrichment.apply_rules"
LONGEST: Final = 60.0
"""Seconds that all rules together may take: a pattern that takes longer on one document will not end at all."""


async def enrich_document(
    doc: Document | None,
    doc_hash: str,
    places: Sequence[DocumentURI],
    earlier: Mapping[str, Earlier],
    step_params: Mapping[str, Any],
    processes: ProcessPool,
) -> dict[str, Any]:
    """Add what the rules of the parameter set find to the document's metadata."""
    options, document = EnrichOptions.read(step_params), required(doc, doc_hash)
    uri, source = (places[0].uri, places[0].source) if places else (doc_hash, None)
    if not (options.rules or options.language):  # no rule looks at the document
        await add_metadata(doc_hash, options.constants, keep_existing=options.keep_existing)
        return {"found": options.constants}
    arguments = {
        "options": options,
        "facts": facts_of(uri, source, document.mime_type, document.doc_meta),
        "text": await _text(doc_hash, earlier) if options.reads_text else None,
    }
    try:
        found = cast("dict[str, Any]", await processes.run(_APPLY, arguments, timeout=LONGEST))
        await add_metadata(doc_hash, found, keep_existing=options.keep_existing)
    except StepTimeout as exc:
        problem = f"the patterns took longer than {LONGEST:g} s on this document; make them simpler"
        raise PermanentError(f"enrich.rules: {problem}, or lower text_limit") from exc
    except InvalidInputError as exc:
        raise PermanentError(f"enrich: what the rules found cannot be stored: {exc}") from exc
    return {"found": found}


async def _text(doc_hash: str, earlier: Mapping[str, Earlier]) -> str:
    parsed = the_step(earlier, WorkflowStepType.PARSE)
    return (await get_artifacts().read(doc_hash, ArtifactType.PARSED_MD, parsed.config_id)).decode("utf-8", "replace")
