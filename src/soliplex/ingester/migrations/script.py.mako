"""${message}

Revision ${up_revision}, after ${down_revision or "nothing"}.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import JSON, UtcDateTime
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
