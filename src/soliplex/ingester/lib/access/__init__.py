"""Who may do what: named keys with scopes, sessions of browsers, and the log of what cannot be undone.

Owns the tables of keys, sessions and audit entries. Knows no HTTP, no documents and no workflows: the server asks whose
key a request bears, and whoever deletes or stops something says so here.
"""

from __future__ import annotations

from soliplex.ingester.lib.access.audit import Act, audited, list_audit
from soliplex.ingester.lib.access.keys import Bearer, bearer_of, create_key, list_keys, revoke_key
from soliplex.ingester.lib.access.sessions import bearer_of_session, begin_session, end_session

__all__ = [
    "Act",
    "Bearer",
    "audited",
    "bearer_of",
    "bearer_of_session",
    "begin_session",
    "create_key",
    "end_session",
    "list_audit",
    "list_keys",
    "revoke_key",
]
