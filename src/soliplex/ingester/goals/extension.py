"""What the engine is given for goals. ENGINE_EXTENSIONS names this module."""

from __future__ import annotations

from soliplex.ingester.goals.optimizer.optimizer import settle_all
from soliplex.ingester.lib.wf.extensions import tidies

tidies(settle_all)
