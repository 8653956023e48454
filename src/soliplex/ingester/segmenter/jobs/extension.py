"""What the engine is given for segmentation jobs. ENGINE_EXTENSIONS names this module."""

from __future__ import annotations

from soliplex.ingester.lib.wf.extensions import tidies
from soliplex.ingester.segmenter.jobs.changing import delete_documents_without_jobs

tidies(delete_documents_without_jobs)
