"""The permission table of engine verbs; a verb that is not listed is refused to every caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from knowledge.engine.proxy import REINDEX_WITH_MODEL
from knowledge.errors import AdminRequired, Forbidden
from knowledge.model import Caller, CallerKind, Finding

EVERYBODY = frozenset({
    "search", "suggest", "add", "update_note",
    "job", "jobs", "wait", "cancel", "retry", "retry_all", "watch", "crawl_pages", "crawl", "crawl_report", "crawls",
    "document", "documents", "chunks", "original", "edit", "remove", "clear",
    "pages.sizes", "pages.image", "pages.thumbnail", "pages.words", "pages.places", "pages.outline", "maps.read",
    "collections", "collection", "create_collection", "edit_collection", "remove_collection", "status", "check_ready",
    "accounts.is_registration_open", "accounts.register", "accounts.login", "accounts.find_by_key", "accounts.me",
    "accounts.list_keys", "accounts.create_key", "accounts.revoke_key", "accounts.change_password",
    "accounts.delete_me",
    "corpora.list_page", "corpora.get", "corpora.create", "corpora.edit", "corpora.remove",
    "corpora.list_grants", "corpora.grant", "corpora.revoke_grant",
    "sessions.list_own", "sessions.revoke", "sessions.revoke_all",
    "agents.list_seen", "agents.list_refused", "agents.record",
    "insight.queries", "insight.forget_queries", "insight.rate", "insight.ratings", "insight.history",
})  # fmt: skip
"""For all callers, restricted to the caller's scope."""
ADMINS = frozenset({
    "verify", "reindex", "reread", "accounts.list_all", "accounts.add", "accounts.disable", "accounts.remove",
    "corpora.list_pending", "corpora.approve", "corpora.revoke_approval",
    "sessions.list_of", "sessions.revoke_of", "sessions.revoke_all_of",
    "insight.count_queries", "insight.server_history",
})  # fmt: skip
"""For the operator and for accounts in ADMIN_USERS."""
# Not for admins: these verbs give access to the documents of other accounts, or are internal to the surfaces.
OPERATOR = frozenset({
    "backup", "accounts.issue_key", REINDEX_WITH_MODEL,
    "agents.record_refusals", "mcp_sessions.issue", "mcp_sessions.find_version", "mcp_sessions.end",
    "sessions.open_by_password", "sessions.open_by_key", "sessions.open_for_operator", "sessions.find", "sessions.end",
})  # fmt: skip


def is_operator(caller: Caller) -> bool:
    """Return whether the caller is the local owner or has the operator's key."""
    return caller.kind is not CallerKind.ACCOUNT


def check_verb(caller: Caller, verb: str) -> None:
    """Raise AdminRequired or Forbidden if the caller may not use the verb."""
    if verb in EVERYBODY:
        return
    if verb in ADMINS:
        if not caller.may_administer:
            raise AdminRequired("Only admins of this server may do this")
    elif verb in OPERATOR:
        if not is_operator(caller):
            raise operator_required()
    else:
        raise Forbidden(f"The verb '{verb}' is missing in the permission table")


def operator_required() -> AdminRequired:
    return AdminRequired(
        "Only the operator of this server may do this",
        hint="Use the command line on the server's own machine, or send KB_API_KEY.",
    )


def summarize_findings(found: Sequence[Finding]) -> list[Finding]:
    """Return the number of findings per part, for admins, who must not see titles of other accounts' documents."""
    return [Finding(part, _summarize(count)) for part, count in Counter(each.part for each in found).items()]


def _summarize(count: int) -> str:
    findings = "1 finding" if count == 1 else f"{count} findings"
    return f"There {'is' if count == 1 else 'are'} {findings}; the operator sees which with 'knowledge verify'"
