"""Which callers may use which verb of the engine. A verb that is listed nowhere here is refused to everybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from knowledge.engine.proxy import REINDEX_WITH_MODEL
from knowledge.errors import AdminRequired, Forbidden
from knowledge.model import Caller, CallerKind, Finding

EVERYBODY = frozenset({
    "search", "add", "update_note",
    "job", "jobs", "wait", "cancel", "retry", "crawl", "crawl_report", "crawls",
    "document", "documents", "chunks", "original", "edit", "remove", "clear",
    "collections", "collection", "create_collection", "edit_collection", "remove_collection", "status",
    "accounts.register", "accounts.login", "accounts.find_by_key", "accounts.me", "accounts.list_keys",
    "accounts.create_key", "accounts.revoke_key", "accounts.change_password", "accounts.delete_me",
    "corpora.list_page", "corpora.get", "corpora.create", "corpora.edit", "corpora.remove",
    "corpora.list_grants", "corpora.grant", "corpora.revoke_grant",
})  # fmt: skip
"""Each of these shows and changes only what the scope of its caller allows."""
ADMINS = frozenset({
    "verify", "reindex", "accounts.list_all", "accounts.add", "accounts.disable", "accounts.remove",
    "corpora.list_pending", "corpora.approve", "corpora.revoke_approval",
})  # fmt: skip
"""For the operator and for accounts in ADMIN_USERS."""
OPERATOR = frozenset({
    "backup", "accounts.issue_key", REINDEX_WITH_MODEL,
    "mcp_sessions.issue", "mcp_sessions.find_version", "mcp_sessions.end",
})  # fmt: skip
"""Not for admins either: these would show them what others own."""


def is_operator(caller: Caller) -> bool:
    """Whether the caller is the local owner or bears the operator's key."""
    return caller.kind is not CallerKind.ACCOUNT


def check_verb(caller: Caller, verb: str) -> None:
    """Refuse a verb that the caller may not use."""
    if verb in EVERYBODY:
        return
    if verb in ADMINS:
        if not caller.may_administer:
            raise AdminRequired("This is for the admins of this server")
    elif verb in OPERATOR:
        if not is_operator(caller):
            raise operator_required()
    else:
        raise Forbidden(f"Nobody may use '{verb}': it is missing in the table of permissions")


def operator_required() -> AdminRequired:
    return AdminRequired(
        "This is for the operator of this server alone",
        hint="Use the command line on the server's own machine, or send KB_API_KEY.",
    )


def summarize_findings(found: Sequence[Finding]) -> list[Finding]:
    """What an admin sees of them: how many there are in each part, without the names of others' documents."""
    return [Finding(part, _summarize(count)) for part, count in Counter(each.part for each in found).items()]


def _summarize(count: int) -> str:
    findings = "1 finding" if count == 1 else f"{count} findings"
    return f"There {'is' if count == 1 else 'are'} {findings}; the operator sees which with 'knowledge verify'"
