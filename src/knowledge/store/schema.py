"""The database tables (SQLAlchemy Core).

A document references its current content, and chunks belong to a content. A document of any size is therefore
published or replaced by one small update, and staged chunks are invisible until then. Tables with
`sqlite_autoincrement` never reuse an id.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
    Uuid,
    false,
    text,
)

from knowledge.store.column_types import String, Text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

BigId = BigInteger().with_variant(Integer, "sqlite")
"""SQLite assigns ids only to columns of type INTEGER."""

settings = Table(
    "settings",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

schema_compatibility = Table(
    "schema_compatibility",
    metadata,
    Column("version", String(32), primary_key=True),
    Column("compatible_from", String(32), nullable=False),
)
"""One row beside `alembic_version`: programs of schema `compatible_from` and later can work with schema `version`."""

models = Table(
    "models",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("fingerprint", String(200), nullable=False, unique=True),
    Column("name", String(200), nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("active", Boolean, nullable=False, server_default=false()),
)

collections = Table(
    "collections",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("uid", Uuid, nullable=False, unique=True),
    Column("owner_id", BigInteger, nullable=False),
    Column("name", String(200), nullable=False),
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("source_type", String(20), nullable=False),
    Column("url", Text),
    Column("metadata", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("trusted", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("owner_id", "name"),
    sqlite_autoincrement=True,
)

curations = Table(
    "curations",
    metadata,
    Column("collection_id", BigInteger, primary_key=True, autoincrement=False),
    Column("category", String(20), nullable=False),
    Column("version", Text, nullable=False),
    Column("is_public", Boolean, nullable=False),
    Column("is_approved", Boolean, nullable=False),
    Column("declined", Text),
    Index("ix_curations_is_public", "is_public", "is_approved"),
)
"""Curated collections (corpora); `declined` is the reason of an admin, which may be empty, until it is public again."""

accounts = Table(
    "accounts",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("uid", Uuid, nullable=False, unique=True),
    Column("username", String(64), nullable=False),
    Column("folded", String(64), nullable=False, unique=True),
    Column("password", Text),
    Column("is_disabled", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
"""`folded` is the case-insensitive username; `password` is a hash, or NULL for sign-in with API keys only."""

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("account_id", BigInteger, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("prefix", String(32), nullable=False, unique=True),
    Column("digest", LargeBinary(32), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("last_used_at", BigInteger),
    Column("is_login", Boolean, nullable=False, server_default=false()),
    sqlite_autoincrement=True,
)
"""`digest` is the SHA-256 of the key, which is not stored; `is_login` marks keys created by a login."""

browser_sessions = Table(
    "browser_sessions",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("account_id", BigInteger, ForeignKey("accounts.id"), index=True),
    Column("api_key_id", BigInteger),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("operator_proof", LargeBinary(32)),
    Column("stay", Boolean, nullable=False),
    Column("user_agent", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("last_used_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    sqlite_autoincrement=True,
)
"""`digest` is the SHA-256 of the token; sessions without an account are the operator's, `api_key_id` ends them too."""

oauth_clients = Table(
    "oauth_clients", metadata,
    Column("client_id", Text, primary_key=True), Column("name", Text, nullable=False),
    Column("redirect_uris", JSON, nullable=False), Column("is_document", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False), Column("expires_at", BigInteger, nullable=False, index=True),
)  # fmt: skip
"""Clients of OAuth that registered themselves, and cached client ID metadata documents, whose id is their URL."""

oauth_grants = Table(
    "oauth_grants", metadata,
    Column("id", BigId, primary_key=True),
    Column("account_id", BigInteger, ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("client_id", Text, nullable=False, index=True), Column("client_name", Text, nullable=False),
    Column("resource", Text, nullable=False), Column("scopes", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False), Column("last_used_at", BigInteger),
    Column("expires_at", BigInteger, nullable=False, index=True), sqlite_autoincrement=True,
)  # fmt: skip
"""What an account has allowed a client of OAuth: one row for all tokens of the family."""

oauth_tokens = Table(
    "oauth_tokens", metadata,
    Column("digest", LargeBinary(32), primary_key=True), Column("kind", String(10), nullable=False),
    Column("account_id", BigInteger, ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("grant_id", BigInteger, ForeignKey("oauth_grants.id", ondelete="CASCADE"), index=True),
    Column("scopes", Text, nullable=False), Column("details", JSON, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True), Column("used_at", BigInteger),
)  # fmt: skip
"""Logins of the consent page, codes, access and refresh tokens; `digest` is the SHA-256 of the secret."""

oauth_subjects = Table(
    "oauth_subjects", metadata,
    Column("issuer", Text, primary_key=True), Column("subject", Text, primary_key=True),
    Column("account_id", BigInteger, ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False, index=True),
)  # fmt: skip
"""The account of a user of another authorization server."""

grants = Table(
    "grants",
    metadata,
    Column("collection_id", BigInteger, primary_key=True, autoincrement=False),
    Column("account_id", BigInteger, primary_key=True, autoincrement=False),
    Column("permission", String(10), nullable=False),
    Index("ix_grants_account_id", "account_id"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("uid", Uuid, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("owner_id", BigInteger, nullable=False),
    Column("collection_id", BigInteger),
    Column("filename", Text, nullable=False),
    Column("payload", JSON, nullable=False),
    Column("sha256", String(64)),
    Column("priority", Integer, nullable=False),
    Column("status", String(12), nullable=False),
    Column("outcome", String(12)),
    Column("change_seq", BigInteger),
    Column("step", Text, nullable=False),
    Column("deaths", Integer, nullable=False),
    Column("token", String(32)),
    Column("lease_until", BigInteger),
    Column("error", JSON),
    Column("warnings", JSON, nullable=False),
    Column("document_id", BigInteger),
    Column("document_uid", Uuid),
    Column("chunk_count", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("unclean_starts", Integer, nullable=False, server_default=text("0")),
    Column("server_id", String(32)),
    Column("done", Integer, nullable=False, server_default=text("0")),
    Column("total", Integer, nullable=False, server_default=text("0")),
    Column("unit", String(20)),
    Column("progress", Float, nullable=False, server_default=text("0")),
    Column("cancel_requested", Boolean, nullable=False, server_default=false()),
    Index("ix_jobs_queue", "status", "priority", "id"),
    Index("ix_jobs_owner_id", "owner_id", "id"),
    Index("ix_jobs_completed_at", "owner_id", "completed_at"),
    Index("ix_jobs_sha256", "sha256"),
    Index("ix_jobs_document_id", "document_id"),
    UniqueConstraint("owner_id", "uid"),
    sqlite_autoincrement=True,
)
"""`uid` is chosen by the caller and unique per owner, so that it reveals nothing about jobs of others. `server_id` is
the server that claimed the job; `done` to `progress` are written once a second if other servers use the database."""

contents = Table(
    "contents",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("job_id", BigInteger, nullable=False, index=True),
    Column("document_id", BigInteger, index=True),
    Column("retired_seq", BigInteger, index=True),
    sqlite_autoincrement=True,
)
"""One version of a document's chunks: staged (no document), published, then retired by the change that replaced it.
Retired contents stay until the index has applied that change, so that a search finds either the old or new chunks."""

documents = Table(
    "documents",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("uid", Uuid, nullable=False, unique=True),
    Column("collection_id", BigInteger, ForeignKey("collections.id"), nullable=False),
    Column("owner_id", BigInteger, nullable=False),
    Column("content_id", BigInteger, ForeignKey("contents.id"), nullable=False, unique=True),
    Column("title", Text, nullable=False),
    Column("kind", String(10), nullable=False),
    Column("doc_type", String(40), nullable=False),
    Column("filename", Text),
    Column("source_path", Text),
    Column("url", Text),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("status", String(12), nullable=False),
    Column("method", String(20), nullable=False),
    Column("warnings", JSON, nullable=False),
    Column("tags", JSON, nullable=False),
    Column("metadata", JSON, nullable=False),
    Column("language", String(12)),
    Column("page_count", Integer),
    Column("chunk_count", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("added_by", BigInteger),
    Column("vector_count", Integer, nullable=False, server_default=text("0")),
    Index("ix_documents_collection_id_sha256", "collection_id", "sha256"),
    Index("ix_documents_collection_id_source_path", "collection_id", "source_path").ddl_if(dialect="sqlite"),
    # A B-tree of PostgreSQL refuses values of more than 2700 bytes.
    Index("ix_documents_source_path", "source_path", postgresql_using="hash").ddl_if(dialect="postgresql"),
    Index("ix_documents_owner_id", "owner_id", "created_at", "id"),
    Index("ix_documents_sha256", "sha256"),
    sqlite_autoincrement=True,
)
"""`added_by` is the account whose job published the content; it may write to a collection of `owner_id`."""

document_tags = Table(
    "document_tags",
    metadata,
    Column("document_id", BigInteger, ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("tag", String(200), primary_key=True),
    Index("ix_document_tags_tag", "tag", "document_id"),
)
"""Tags for lookup; `documents.tags` keeps their order."""

chunks = Table(
    "chunks",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("uid", Uuid, nullable=False, unique=True),
    Column("content_id", BigInteger, ForeignKey("contents.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("page", Integer),
    Column("section", JSON, nullable=False),
    Column("digest", LargeBinary(16), nullable=False),
    Column("checksum", LargeBinary(16)),
    Column("first_line", Integer),
    Column("last_line", Integer),
    UniqueConstraint("content_id", "position"),
    Index("ix_chunks_digest", "digest"),
    sqlite_autoincrement=True,
)
"""`digest` is of the embedded text including the title, so that equal chunks share a vector; `checksum` is of section
and text of this row, for `verify`. Chunks of source code have lines, others and those of older versions have none."""

vectors = Table(
    "vectors",
    metadata,
    Column("chunk_id", BigInteger, ForeignKey("chunks.id", ondelete="CASCADE"), primary_key=True),
    Column("model_id", Integer, ForeignKey("models.id"), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

page_words = Table(
    "page_words",
    metadata,
    Column("content_id", BigInteger, ForeignKey("contents.id"), primary_key=True, autoincrement=False),
    Column("page", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)
"""Packed words with boxes of pages that OCR has read (`extract/pages/packed_words.py`)."""

maps = Table(
    "maps",
    metadata,
    Column("owner_id", BigInteger, primary_key=True, autoincrement=False),
    Column("collection_id", BigInteger, primary_key=True, autoincrement=False),
    Column("model_id", Integer, nullable=False),
    Column("newest_content", BigInteger, nullable=False),
    Column("passages", BigInteger, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""Maps of what an account may read, or of one collection of it (0 is all). `newest_content` and `passages` say what the
map was made from; `data` has ids and places, and no words (`store/maps/passage_maps.py`)."""

changes = Table(
    "changes",
    metadata,
    Column("seq", BigId, primary_key=True),
    Column("document_id", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("vectors_only", Boolean, nullable=False, server_default=false()),
    sqlite_autoincrement=True,
)
"""The change log that the index follows; `vectors_only` marks changes of vectors, while the rest is the same."""

SortKey = String(80).with_variant(String(80, collation="C"), "postgresql")
"""Compared byte by byte, so that an index answers a prefix."""

suggestions = Table(
    "suggestions",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("document_id", BigInteger, nullable=False, index=True),
    Column("owner_id", BigInteger, nullable=False),
    Column("collection_id", BigInteger, nullable=False),
    Column("kind", String(12), nullable=False),
    Column("sort_key", SortKey, nullable=False),
    Column("text", Text, nullable=False),
    Column("position", Integer),
    Index("ix_suggestions_owner_id", "owner_id", "kind", "sort_key"),
    Index("ix_suggestions_collection_id", "collection_id", "kind", "sort_key"),
)
"""Titles and headings of documents by their beginning, and a row with the names of each document."""

events = Table(
    "events",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("subject", String(12), nullable=False),
    Column("change", String(10), nullable=False),
    Column("subject_id", BigInteger, nullable=False),
    Column("subject_uid", Uuid, nullable=False),
    Column("owner_id", BigInteger, nullable=False),
    Column("collection_id", BigInteger, nullable=False),
    Column("change_seq", BigInteger),
    Column("at", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
"""Changes of documents and collections for `watch`, with what decides who may see them."""

crawls = Table(
    "crawls",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("collection_id", BigInteger, nullable=False),
    Column("collection_uid", Uuid, nullable=False),
    Column("url", Text, nullable=False),
    Column("recursive", Boolean, nullable=False),
    Column("max_pages", Integer, nullable=False),
    Column("exclude", JSON, nullable=False),
    Column("site", Text),
    Column("seeded", Boolean, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)

crawl_pages = Table(
    "crawl_pages",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("job_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("state", String(10), nullable=False),
    Column("known_as", Text),
    Column("page_job_uid", Uuid),
    Column("outcome", String(12)),
    Column("reason", String(40)),
    Column("detail", Text, nullable=False),
    Column("http_status", Integer),
    Column("document_id", BigInteger),
    Column("document_uid", Uuid),
    Column("chunk_count", Integer, nullable=False),
    UniqueConstraint("job_id", "name"),
    Index("ix_crawl_pages_frontier", "job_id", "state", "depth", "id"),
    Index("ix_crawl_pages_document_id", "document_id"),
)
"""Frontier and outcomes of a crawl, from which it resumes after a crash."""

ended_mcp_sessions = Table(
    "ended_mcp_sessions",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("ended_at", BigInteger, nullable=False, index=True),
)
"""SHA-256 of the MCP session ids that their clients ended."""

site_pages = Table(
    "site_pages",
    metadata,
    Column("collection_id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("url", Text, nullable=False),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("links", JSON, nullable=False),
    Column("gone", Integer, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
)
"""State of a page between crawls into the same collection."""

servers = Table(
    "servers",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("address", Text, nullable=False),
    Column("version", String(40), nullable=False),
    Column("role", String(12), nullable=False),
    Column("has_index", Boolean, nullable=False),
    Column("is_ready", Boolean, nullable=False),
    Column("applied_seq", BigInteger, nullable=False),
    Column("checkpoint_seq", BigInteger, nullable=False),
    Column("model_id", Integer),
    Column("built_model_id", Integer),
    Column("started_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
)
"""Heartbeats of the servers that use this database. `applied_seq` is what an index has applied of the change log,
`checkpoint_seq` what is durable, `built_model_id` the model of an index that is built and not yet in use."""

leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(32), nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)
"""Leases of work that one server does for all; `token` is the fencing token, which grows with every acquisition."""

unreferenced_originals = Table(
    "unreferenced_originals",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("since", BigInteger, nullable=False, index=True),
)
"""Originals in a bucket that nothing needs, and since when; a sweep deletes them a day later."""

rate_limit_entries = Table(
    "rate_limit_entries",
    metadata,
    Column("key", LargeBinary(16), primary_key=True),
    Column("slice", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("ends", BigInteger, nullable=False, index=True),
)
"""Calls that count against a rate limit, by the digest of the limit's key; several calls of a slice share a row."""
