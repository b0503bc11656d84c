"""The permission table of engine verbs; a verb that is not listed is refused to every caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from knowledge.engine.proxy import REINDEX_WITH_MODEL
from knowledge.errors import AdminRequired, Forbidden, InsufficientScope
from knowledge.model import Caller, CallerKind, Finding
from knowledge.model.oauth import OAuthScope

EVERYBODY = frozenset({
    "search", "suggest", "add", "update_note",
    "job", "jobs", "wait", "cancel", "retry", "retry_all", "watch", "crawl_pages", "crawl", "crawl_report", "crawls",
    "document", "documents", "chunks", "original", "edit", "remove", "clear",
    "pages.sizes", "pages.image", "pages.thumbnail", "pages.words", "pages.places", "pages.outline", "maps.read",
    "library.edit_many", "library.remove_many", "library.similar", "collections", "collection", "create_collection",
    "edit_collection", "remove_collection", "status", "check_ready",
    "accounts.is_registration_open", "accounts.register", "accounts.login", "accounts.find_by_key", "accounts.me",
    "accounts.list_keys", "accounts.create_key", "accounts.rotate_key", "accounts.revoke_key", "accounts.usage",
    "accounts.change_password", "accounts.delete_me",
    "corpora.list_page", "corpora.get", "corpora.create", "corpora.edit", "corpora.remove",
    "corpora.list_grants", "corpora.grant", "corpora.revoke_grant",
    "sessions.list_own", "sessions.revoke", "sessions.revoke_all",
    "agents.list_seen", "agents.list_refused", "agents.record",
    "insight.queries", "insight.forget_queries", "insight.rate", "insight.ratings", "insight.history",
    "oauth.list_own", "oauth.revoke", "oauth.revoke_all",
})  # fmt: skip
"""For all callers, restricted to the caller's scope."""
ADMINS = frozenset({
    "verify", "reindex", "reread", "accounts.list_all", "accounts.add", "accounts.disable", "accounts.remove",
    "corpora.list_pending", "corpora.approve", "corpora.decline", "corpora.revoke_approval",
    "corpora.review", "corpora.review_chunks", "maintenance.verify", "maintenance.reindex",
    "sessions.list_of", "sessions.revoke_of", "sessions.revoke_all_of",
    "oauth.list_of", "oauth.revoke_of", "oauth.revoke_all_of",
    "insight.count_queries", "insight.server_history",
})  # fmt: skip
"""For the operator and for accounts in ADMIN_USERS."""
# Not for admins: these verbs give access to the documents of other accounts, or are internal to the surfaces.
OPERATOR = frozenset({
    "backup", "maintenance.backup", "maintenance.archive", "accounts.issue_key", REINDEX_WITH_MODEL,
    "agents.record_refusals", "mcp_sessions.issue", "mcp_sessions.find_version", "mcp_sessions.end",
    "sessions.open_by_password", "sessions.open_by_key", "sessions.open_for_operator", "sessions.find", "sessions.end",
    "oauth.register_client", "oauth.find_client", "oauth.log_in", "oauth.log_in_by_key", "oauth.find_login",
    "oauth.approve", "oauth.exchange_code", "oauth.refresh", "oauth.revoke_token", "oauth.find_token",
    "oauth.admit_subject", "oauth.link_subject",
})  # fmt: skip

READ_VERBS = frozenset({
    "search", "suggest", "job", "jobs", "wait", "watch", "crawl_pages", "crawl_report", "crawls",
    "document", "documents", "chunks", "original", "library.similar",
    "pages.sizes", "pages.image", "pages.thumbnail", "pages.words", "pages.places", "pages.outline",
    "collections", "collection", "status", "check_ready", "maps.read",
    "agents.list_seen", "agents.list_refused", "agents.record", "insight.queries", "insight.ratings", "insight.history",
    "accounts.is_registration_open", "accounts.me", "corpora.list_page", "corpora.get", "corpora.list_grants",
})  # fmt: skip
"""Verbs that an access token of OAuth with the scope `read` may use."""
WRITE_VERBS = frozenset({
    "add", "update_note", "cancel", "retry", "retry_all", "crawl", "edit", "remove", "clear",
    "library.edit_many", "library.remove_many",
    "create_collection", "edit_collection", "remove_collection",
    "corpora.create", "corpora.edit", "corpora.remove", "corpora.grant", "corpora.revoke_grant",
    "insight.forget_queries", "insight.rate",
})  # fmt: skip
"""Verbs that need the scope `write`. All others, such as creating API keys, need `admin`."""


def is_operator(caller: Caller) -> bool:
    """Return whether the caller is the local owner or has the operator's key."""
    return caller.kind is not CallerKind.ACCOUNT


def check_verb(caller: Caller, verb: str) -> None:
    """Raise AdminRequired, InsufficientScope or Forbidden if the caller may not use the verb."""
    if caller.scopes is not None and (needed := find_needed_scope(verb)) not in caller.scopes:
        raise insufficient_scope_error(needed)
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


def find_needed_scope(verb: str) -> OAuthScope:
    """Return the scope that an access token needs for a verb."""
    if verb in READ_VERBS:
        return OAuthScope.READ
    return OAuthScope.WRITE if verb in WRITE_VERBS else OAuthScope.ADMIN


def insufficient_scope_error(needed: OAuthScope) -> InsufficientScope:
    return InsufficientScope(f"This needs an access token with the scope '{needed}'", scope=str(needed))


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
