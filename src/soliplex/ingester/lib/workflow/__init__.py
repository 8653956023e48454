"""The handlers that workflow files name. They are thin: the work is done by the modules they call.

    arguments           what they may ask for: the document, where it lives, the steps before
    step_artifacts      reading what earlier steps made, and not making again what is there
    arrays              artifacts that are long lists, read and written in pieces
    document_processes  reading documents in processes that a document may crash, stall or fill
    weighing            how large a step's document is, so that a giant shares no call with others
    executing           which step is being executed, for handlers that store something of their own
    skipping            which steps have nothing to do, since an earlier one sent the document elsewhere
    ingesting           · validating · parsing · chunking · embedding · storing · enriching · routing  one  step each
    events              handlers of lifecycle events
    extension           what the engine is given of all this: arguments, pools, the keeper of batches

A step whose artifact exists for the same document and the same cumulative configuration does nothing, and says so.
"""

from __future__ import annotations

from soliplex.ingester.lib.workflow import arguments
from soliplex.ingester.lib.workflow.chunking import chunk_document
from soliplex.ingester.lib.workflow.embedding import embed_document
from soliplex.ingester.lib.workflow.enriching import enrich_document
from soliplex.ingester.lib.workflow.events import log_event, notify_webhook
from soliplex.ingester.lib.workflow.ingesting import ingest_document
from soliplex.ingester.lib.workflow.parsing import parse_document, split_parse_document
from soliplex.ingester.lib.workflow.routing import route_document
from soliplex.ingester.lib.workflow.step_artifacts import store_artifact
from soliplex.ingester.lib.workflow.storing import save_to_rag
from soliplex.ingester.lib.workflow.validating import validate_document

__all__ = [
    "arguments",
    "chunk_document",
    "embed_document",
    "enrich_document",
    "ingest_document",
    "log_event",
    "notify_webhook",
    "parse_document",
    "route_document",
    "save_to_rag",
    "split_parse_document",
    "store_artifact",
    "validate_document",
]
