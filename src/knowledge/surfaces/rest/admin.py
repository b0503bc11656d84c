"""Routes for the local owner and admins: approval of corpora, and accounts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path, Query

from knowledge.model import Account, RemovalResult, ResultPage
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import CorpusId, Id, ResponseModel, errors
from knowledge.wire import (
    AccountsShape,
    ChunkRange,
    CorpusesShape,
    CorpusShape,
    DocumentsShape,
    DocumentWithChunksShape,
    IssuedKeyShape,
    Listing,
)
from knowledge.wire.accounts import AccountEditBody, NewAccountBody, NewKeyBody
from knowledge.wire.collections import DeclineBody
from knowledge.wire.mcp_sessions import (
    EndedMcpSession,
    IssuedMcpSession,
    McpSessionBody,
    McpSessionVersion,
    NewMcpSessionBody,
)

router = APIRouter(tags=["admin"], prefix="/admin")

Username = Annotated[str, Path(description="Username of the account; case-insensitive.")]


@router.get("/corpuses/pending")
async def pending(engine: CallerEngine) -> ResponseModel[CorpusesShape]:
    """List public corpora that wait for approval."""
    found = await engine.corpora.list_pending()
    return CorpusesShape.from_page(ResultPage(tuple(found), len(found), 1, max(1, len(found))))


@router.post("/corpuses/{id}/approve", responses=errors(404))
async def approve(id: CorpusId, engine: CallerEngine) -> ResponseModel[CorpusShape]:
    """Approve a public corpus, so that every account can read it."""
    return CorpusShape.from_collection(await engine.corpora.approve(id))


@router.post("/corpuses/{id}/decline", responses=errors(404, 415))
async def decline(
    id: CorpusId, engine: CallerEngine, body: Annotated[DeclineBody, Body(default_factory=DeclineBody)]
) -> ResponseModel[CorpusShape]:
    """Decline a corpus that waits for approval: it is private again, and its owner sees the reason."""
    return CorpusShape.from_collection(await engine.corpora.decline(id, body.reason))


@router.get("/corpuses/{id}/documents", responses=errors(404))
async def review(
    id: CorpusId, engine: CallerEngine, wanted: Annotated[Listing, Query()]
) -> ResponseModel[DocumentsShape]:
    """List the documents of a corpus that its owner has made public, to decide whether to approve it.

    A corpus that is not public looks as if it did not exist.
    """
    return DocumentsShape.from_page(await engine.corpora.review(id, wanted.page, wanted.per_page))


@router.get("/corpuses/{id}/documents/{document}", responses=errors(404))
async def review_document(
    id: CorpusId, document: Id, engine: CallerEngine, part: Annotated[ChunkRange, Query()]
) -> ResponseModel[DocumentWithChunksShape]:
    """Get a document of a corpus that its owner has made public, with its passages."""
    found = await engine.corpora.review_chunks(id, document, part.chunk_offset, part.chunk_limit)
    return DocumentWithChunksShape.from_chunks(found.document, [*found.chunks])


@router.post("/corpuses/{id}/revoke", responses=errors(404))
async def revoke(id: CorpusId, engine: CallerEngine) -> ResponseModel[CorpusShape]:
    """Revoke the approval of a corpus; takes effect at once."""
    return CorpusShape.from_collection(await engine.corpora.revoke_approval(id))


@router.get("/users")
async def accounts(engine: CallerEngine) -> ResponseModel[AccountsShape]:
    """List the accounts."""
    return AccountsShape(tuple(await engine.accounts.list_all()))


@router.post("/users", status_code=201, responses=errors(409, 415))
async def add(body: NewAccountBody, engine: CallerEngine) -> ResponseModel[Account]:
    """Create an account, also if registration is off; only the operator can create one with an admin's name."""
    return await engine.accounts.add(body.username, body.password)


@router.patch("/users/{username}", responses=errors(404, 415))
async def disable(username: Username, body: AccountEditBody, engine: CallerEngine) -> ResponseModel[Account]:
    """Disable or enable an account; its documents are kept."""
    return await engine.accounts.disable(username, body.is_disabled)


@router.delete("/users/{username}", responses=errors(404))
async def remove(username: Username, engine: CallerEngine) -> ResponseModel[RemovalResult]:
    """Delete an account with its documents, collections and keys."""
    return await engine.accounts.remove(username)


@router.post("/users/{username}/api-keys", status_code=201, responses=errors(404, 415))
async def issue_key(
    username: Username, engine: CallerEngine, body: Annotated[NewKeyBody, Body(default_factory=NewKeyBody)]
) -> ResponseModel[IssuedKeyShape]:
    """Create an API key for an account; the key is shown only once. Operator only."""
    return IssuedKeyShape.from_issued(await engine.accounts.issue_key(username, body.name, body.parse_expiry()))


@router.post("/mcp-sessions", status_code=201, responses=errors(415))
async def issue_mcp_session(body: NewMcpSessionBody, engine: CallerEngine) -> ResponseModel[IssuedMcpSession]:
    """Issue an id for an MCP session. For the operator alone: a process that serves MCP for this engine calls it."""
    return IssuedMcpSession(await engine.mcp_sessions.issue(body.owner, body.protocol_version))


@router.post("/mcp-sessions/check", responses=errors(415))
async def check_mcp_session(body: McpSessionBody, engine: CallerEngine) -> ResponseModel[McpSessionVersion]:
    """Return the protocol version of an MCP session id that was issued to a caller. For the operator alone."""
    return McpSessionVersion(await engine.mcp_sessions.find_version(body.session_id, body.owner))


@router.post("/mcp-sessions/end", responses=errors(415))
async def end_mcp_session(body: McpSessionBody, engine: CallerEngine) -> ResponseModel[EndedMcpSession]:
    """Refuse an MCP session id from now on. For the operator alone."""
    await engine.mcp_sessions.end(body.session_id, body.owner)
    return EndedMcpSession()
