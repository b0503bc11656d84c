"""The settings, read once from environment variables."""

from __future__ import annotations

import os
import re
from pathlib import Path

import platformdirs
from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from knowledge.errors import InvalidParameter


def default_data_folder() -> Path:
    return Path(platformdirs.user_data_dir("knowledge-server", appauthor=False))


def kb_aliases(name: str) -> AliasChoices:
    """Names of a setting of contract 004, which uses the prefix KB_."""
    return AliasChoices(f"KNOWLEDGE_{name}", f"KB_{name}")


def unprefixed_aliases(name: str) -> AliasChoices:
    """Names of a setting of contract 001, which uses no prefix."""
    return AliasChoices(name, f"KNOWLEDGE_{name}")


RATE_LIMIT_PATTERN = re.compile(
    r"\s*+[1-9]\d*+\s*+(/|per\s)\s*+([1-9]\d*+\s*+)?(second|minute|hour|day|month|year)s?\s*+", re.IGNORECASE
)
"""For example 60/minute, 5 per second or 100/2 hours; possessive quantifiers prevent catastrophic backtracking."""


SECURE_URL_PATTERN = re.compile(
    r"https://[a-z0-9\[][^\s/?#@\\]*+(/[^\s?#\\]*+)?|http://(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?(/[^\s?#\\]*+)?",
    re.IGNORECASE,
)
ORIGIN_PATTERN = re.compile(r"https?://[^/]++/?", re.IGNORECASE)
EMBEDDING_DESCRIPTION = (
    "Embedding model of a new data folder: default, none, dir:PATH, hf:NAME or openai:URL#MODEL; "
    "'knowledge reindex --model SPEC' changes the model of an existing one."
)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="KNOWLEDGE_", frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    data: Path = Field(
        default_factory=default_data_folder,
        description="Data folder: database, index, originals, models and uploads.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="PostgreSQL database that several servers share, as postgresql+psycopg://USER:PASSWORD@HOST/NAME; "
        "empty uses SQLite in the data folder.",
    )
    originals: Path | None = Field(
        None,
        description="Folder of the originals, which all servers of a database must share; empty is the folder 'files' "
        "of the data folder.",
    )
    originals_url: str | None = Field(
        None,
        description="Bucket of the originals instead of a shared folder, as s3://BUCKET/PREFIX, with ?endpoint=URL for "
        "a server other than AWS. Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role of "
        "the machine, and the region from AWS_REGION. Needs KNOWLEDGE_DATABASE_URL.",
    )
    originals_cache_mb: int = Field(
        1000,
        ge=10,
        description="Space for local copies of originals from the bucket, in MB; the least recently used are deleted.",
    )
    server_role: str = Field(
        "all",
        pattern="^(all|no-workers|workers-only)$",
        description="What this server does: all, no-workers (other servers run the jobs) or workers-only (no index and "
        "no API); the last two need KNOWLEDGE_DATABASE_URL.",
    )
    server_address: str = Field(
        "", description="Address of this server in 'knowledge status'; empty is the host name and the port."
    )
    lease_s: float = Field(
        60.0,
        ge=3,
        le=3600,
        description="Seconds after which the jobs of a server that does not renew its leases run on another one.",
    )
    host: str = Field("127.0.0.1", description="Address to listen on; 127.0.0.1 accepts only local connections.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    public_url: str = Field(
        "",
        pattern=r"^(https?://[^\s?#]+)?$",
        description="The address under which clients reach this server, such as https://kb.example.org",
    )
    page: bool = Field(True, description="Whether to serve the web page: on or off.")
    toolsets: str = Field("", description="Comma-separated toolsets to serve over MCP; empty serves all.")

    engine_url: str | None = Field(
        None,
        description="URL of a remote engine; empty opens the data folder in this process.",
        validation_alias=kb_aliases("ENGINE_URL"),
    )
    api_key: SecretStr | None = Field(
        None,
        description="Operator's API key for REST; empty accepts direct local connections without a key.",
        validation_alias=kb_aliases("API_KEY"),
    )
    mcp_api_key: SecretStr | None = Field(
        None,
        description="Operator's API key for MCP; empty accepts direct local connections without a key.",
        validation_alias=kb_aliases("MCP_API_KEY"),
    )
    mcp_allowed_hosts: str = Field(
        "",
        description="Comma-separated host names that MCP and the web page accept besides the server's own address "
        "(DNS rebinding protection); * accepts all.",
        validation_alias=kb_aliases("MCP_ALLOWED_HOSTS"),
    )
    upload_ttl_s: float = Field(
        600.0,
        gt=0,
        description="Seconds that an unfinished upload is kept after its last part.",
        validation_alias=kb_aliases("UPLOAD_TTL_S"),
    )
    upload_total_mb: int = Field(
        1000,
        ge=1,
        description="Total size of all unfinished uploads, in MB; one caller may use a quarter of it, or the size of "
        "two files if that is more.",
        validation_alias=kb_aliases("UPLOAD_TOTAL_MB"),
    )
    registration: bool = Field(
        True,
        description="Whether anyone who reaches the server may register an account; 'knowledge user add' always works.",
    )
    admin_users: str = Field(
        "",
        description="Comma-separated usernames of admins, who approve corpora and manage accounts; "
        "only 'knowledge user add' creates them.",
        validation_alias=AliasChoices("KNOWLEDGE_ADMIN_USERS", "ADMIN_USERS"),
    )
    login_key_days: int = Field(
        90,
        ge=1,
        le=36_500,
        description="Days until a key issued by a login expires; keys created by hand have their own expiry.",
    )
    manager_api_key: SecretStr | None = Field(
        None, description="API key of the account that a stdio server acts for; empty acts for the local owner."
    )
    account_max_documents: int = Field(0, ge=0, description="Maximum number of documents per account; 0 is no limit.")
    account_max_mb: int = Field(0, ge=0, description="Maximum size of all documents per account, in MB; 0 is no limit.")
    trusted_proxies: str = Field(
        "",
        description="Comma-separated addresses or networks of reverse proxies whose X-Forwarded headers are trusted; "
        "if set, every caller needs a key.",
    )
    oauth: bool = Field(
        False,
        description="Whether remote agents can log in with OAuth 2.1: on or off; needs KNOWLEDGE_PUBLIC_URL, and every "
        "caller needs a key, a session or a token then.",
    )
    oauth_issuer: str = Field(
        "",
        description="Authorization server elsewhere whose tokens (JWT) are accepted instead of our own; its URL is the "
        "issuer. Needs KNOWLEDGE_OAUTH.",
    )
    oauth_audience: str = Field(
        "",
        description="Audience that tokens of KNOWLEDGE_OAUTH_ISSUER may have besides the addresses of this server; "
        "such a token holds for all of them.",
    )
    oauth_create_accounts: bool = Field(
        False,
        description="Whether a user of KNOWLEDGE_OAUTH_ISSUER without an account gets a new one; otherwise the "
        "operator links it with 'knowledge user link'.",
    )
    allow_open: bool = Field(
        False, description="Accept callers without a key as the owner, also on a public address (insecure)."
    )
    cors_origins: str = Field(
        "",
        description="Comma-separated web origins whose pages may call the server from a browser (CORS); "
        "empty allows only the server's own pages.",
    )

    max_connections: int = Field(
        0, ge=0, description="Maximum number of open connections; 0 derives it from the limit on open files."
    )
    max_connections_per_address: int = Field(
        0,
        ge=0,
        description="Maximum number of open connections per client address, trusted proxies excepted; "
        "0 is half of all connections.",
    )
    header_timeout_s: float = Field(
        20.0, gt=0, description="Seconds after which a connection without a complete request head is closed."
    )
    body_timeout_s: float = Field(
        60.0, gt=0, description="Seconds without progress after which an incomplete request body is answered with 408."
    )
    keep_alive_s: int = Field(5, ge=1, description="Seconds that an idle connection is kept open between two requests.")
    write_timeout_s: float = Field(
        300.0, gt=0, description="Seconds after which a client that does not read its response is disconnected."
    )
    max_sessions_per_caller: int = Field(
        1000,
        ge=1,
        description="Maximum number of MCP sessions per account or address; beyond it the oldest idle one is closed.",
    )
    query_rate_limit: str = Field(
        "60/minute",
        description="Rate limit of searches, and separately of listings, per account; off is no limit.",
        validation_alias=unprefixed_aliases("QUERY_RATE_LIMIT"),
    )
    typing_rate_limit: str = Field(
        "600/minute",
        description="Rate limit of searches while typing, and separately of listings and of files, per account in "
        "browser sessions; off is no limit.",
        validation_alias=unprefixed_aliases("TYPING_RATE_LIMIT"),
    )
    mcp_query_rate_limit: str | None = Field(
        None,
        description="Rate limit of searches over MCP per account; empty uses QUERY_RATE_LIMIT.",
        validation_alias=unprefixed_aliases("MCP_QUERY_RATE_LIMIT"),
    )
    mcp_list_rate_limit: str | None = Field(
        None,
        description="Rate limit of listings over MCP per account; empty uses QUERY_RATE_LIMIT.",
        validation_alias=unprefixed_aliases("MCP_LIST_RATE_LIMIT"),
    )
    mcp_resource_rate_limit: str | None = Field(
        None,
        description="Rate limit of resource reads over MCP per account; empty uses QUERY_RATE_LIMIT.",
        validation_alias=unprefixed_aliases("MCP_RESOURCE_RATE_LIMIT"),
    )
    upload_rate_limit: str = Field(
        "10/minute",
        description="Rate limit of added documents per account; off is no limit.",
        validation_alias=unprefixed_aliases("UPLOAD_RATE_LIMIT"),
    )
    session_upload_rate_limit: str = Field(
        "120/minute",
        description="Rate limit of added documents per account in browser sessions; off is no limit.",
        validation_alias=unprefixed_aliases("SESSION_UPLOAD_RATE_LIMIT"),
    )
    management_rate_limit: str = Field(
        "30/minute",
        description="Rate limit of changes per account; off is no limit.",
        validation_alias=unprefixed_aliases("MANAGEMENT_RATE_LIMIT"),
    )
    page_rate_limit: str = Field(
        "600/minute",
        description="Rate limit of drawn pages, their words and places per account; off is no limit.",
        validation_alias=unprefixed_aliases("PAGE_RATE_LIMIT"),
    )
    auth_rate_limit: str = Field(
        "10/minute",
        description="Rate limit of registrations, logins and wrong keys per address or username; off is no limit.",
        validation_alias=unprefixed_aliases("AUTH_RATE_LIMIT"),
    )
    rate_limit_storage: str = Field(
        "memory",
        description="Storage of the rate limit counters: memory, file (survives a restart), database (shared by all "
        "servers; the default with KNOWLEDGE_DATABASE_URL) or a URI such as redis://HOST:PORT.",
    )
    embedding: str = Field("default", description=EMBEDDING_DESCRIPTION)
    embedding_key: SecretStr | None = Field(None, description="API key of the embedding service of an openai: model.")
    embedding_dimension: int | None = Field(
        None, ge=1, description="Vector dimension requested from an openai: model; empty uses the model's own."
    )
    int8: str = Field(
        "auto",
        pattern="^(auto|on|off)$",
        description="8-bit integer arithmetic of the default model: on, off, or auto if the processor is fast at it.",
    )

    files: str = Field(
        "",
        description="Folders, separated as in PATH, below which tools may open files by path; empty allows the working "
        "folder and the data folder, and none for accounts.",
    )
    max_file_mb: int = Field(100, ge=1, description="Maximum size of one file, in MB.")
    wait_s: float = Field(
        50.0, gt=0, description="Seconds that a call waits for its job before it answers with the unfinished job."
    )
    answer_chars: int = Field(
        48_000, ge=4000, description="Characters of one answer over MCP; longer texts are cut, with a link to read on."
    )
    min_relevance: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Relevance below which query_knowledge and query_corpus leave out a passage; the best one of each "
        "collection is always shown.",
    )
    trusted_only: bool = Field(
        False, description="Whether searches over MCP find documents of trusted collections only, whatever a call says."
    )
    page_cache_mb: int = Field(
        200, ge=0, description="Maximum size of the drawn pages that are kept in the data folder, in MB; 0 keeps none."
    )
    query_log: bool = Field(
        False,
        description="Whether to log the questions of each caller, which they see on the page Insight: on or off.",
    )
    query_log_days: int = Field(
        30, ge=1, le=3650, description="Days after which a question that is not asked again is deleted from the log."
    )
    workers: int = Field(0, ge=0, description="Number of jobs that run in parallel; 0 is one per processor core.")
    parse_seconds: float = Field(
        120.0,
        gt=0,
        description="Seconds that reading one document may take; every page and every MB adds to it.",
    )
    parse_memory_mb: int = Field(1500, ge=200, description="Maximum memory for reading one document, in MB.")
    sandbox: str = Field(
        "auto",
        pattern="^(auto|require|off)$",
        description="Sandbox of the processes that read documents: auto uses what the kernel offers, require "
        "refuses to read without Landlock and seccomp, off uses none.",
    )
    ocr_languages: str = Field("eng", description="Tesseract language codes for OCR, joined by +, such as eng+deu.")

    crawl_delay: float = Field(
        1.0, ge=0, le=60, description="Minimum number of seconds between two requests of a crawl to the same host."
    )
    crawl_allow: str = Field(
        "",
        description="Comma-separated hosts and networks that crawls may reach although they are not public "
        "(exceptions from the SSRF protection); empty allows none.",
    )
    crawl_browser: str = Field(
        "",
        description="Chromium that renders pages built by JavaScript: its path, or auto to search for one; "
        "empty renders none.",
    )
    crawl_max_page_mb: int = Field(20, ge=1, description="Maximum size of one crawled page or file, in MB.")
    crawl_max_mb: int = Field(500, ge=1, description="Maximum size of everything that one crawl adds, in MB.")
    rerank_ms: int = Field(
        300, ge=1, description="Milliseconds that reranking may take if the call does not set its own budget."
    )
    reranker: str = Field("default", description="Reranker: default, none, or dir:PATH of an ONNX cross-encoder.")

    backup_every: str | None = Field(
        None,
        pattern="^[1-9][0-9]{0,5}[mhd]$",
        description="Interval of backups by schedule, such as 30m, 24h or 7d; empty makes none. Needs "
        "KNOWLEDGE_BACKUP_DIR.",
    )
    backup_dir: Path | None = Field(
        None,
        description="Folder for the backups by schedule, best on another disk; all servers of a database share it.",
    )
    backup_keep: int = Field(7, ge=1, le=10_000, description="Number of backups by schedule that are kept.")
    backup_passphrase: SecretStr | None = Field(
        None, description="Passphrase that encrypts backups by schedule, and that 'backup --encrypt' and 'restore' use."
    )
    backup_passphrase_file: Path | None = Field(
        None, description="File whose first line is the passphrase, instead of KNOWLEDGE_BACKUP_PASSPHRASE."
    )

    log_level: str = Field(
        "info",
        pattern="(?i)^(debug|info|warning|error)$",
        description="Lowest level that is logged: debug, info, warning or error.",
    )
    log_json: bool = Field(False, description="Whether to write each log line as JSON.")

    @field_validator(
        "query_rate_limit", "mcp_query_rate_limit", "mcp_list_rate_limit", "mcp_resource_rate_limit",
        "upload_rate_limit", "management_rate_limit", "auth_rate_limit", "typing_rate_limit",
        "session_upload_rate_limit", "page_rate_limit",
    )  # fmt: skip
    @classmethod
    def _check_rate_limit(cls, value: str | None) -> str | None:
        if value is not None and value != "off" and RATE_LIMIT_PATTERN.fullmatch(value) is None:
            raise ValueError(
                f"'{value[:40]}' is not a rate limit; use for example 60/minute, 5/second or 1000/day, or off"
            )
        return value

    @model_validator(mode="after")
    def _check_database(self) -> Settings:
        shared = self.database_url is not None
        if not shared and self.server_role != "all":
            raise ValueError(f"the role {self.server_role} needs KNOWLEDGE_DATABASE_URL, because SQLite has one server")
        if not shared and self.originals_url is not None:
            raise ValueError(
                "KNOWLEDGE_ORIGINALS_URL needs KNOWLEDGE_DATABASE_URL: a bucket is for several servers, and with "
                "SQLite there is one, which keeps originals in its data folder"
            )
        if self.originals_url is not None and self.originals is not None:
            raise ValueError("KNOWLEDGE_ORIGINALS and KNOWLEDGE_ORIGINALS_URL are both set; originals are in one place")
        if self.originals_url is None and "originals_cache_mb" in self.model_fields_set:
            raise ValueError("KNOWLEDGE_ORIGINALS_CACHE_MB has no effect without KNOWLEDGE_ORIGINALS_URL")
        given = self.rate_limit_storage if "rate_limit_storage" in self.model_fields_set else None
        if shared and given in ("memory", "file"):
            raise ValueError(
                f"KNOWLEDGE_RATE_LIMIT_STORAGE={given} counts on one server alone; with KNOWLEDGE_DATABASE_URL use "
                "database or a URI such as redis://HOST:PORT"
            )
        if not shared and given == "database":
            raise ValueError(
                "KNOWLEDGE_RATE_LIMIT_STORAGE=database needs KNOWLEDGE_DATABASE_URL; use memory or file without it"
            )
        return self

    @model_validator(mode="after")
    def _check_backups(self) -> Settings:
        if (self.backup_every is None) != (self.backup_dir is None):
            raise ValueError("KNOWLEDGE_BACKUP_EVERY and KNOWLEDGE_BACKUP_DIR need each other: backups by schedule")
        if self.backup_passphrase is not None and self.backup_passphrase_file is not None:
            raise ValueError("KNOWLEDGE_BACKUP_PASSPHRASE and KNOWLEDGE_BACKUP_PASSPHRASE_FILE are both set")
        return self

    @model_validator(mode="after")
    def _check_oauth(self) -> Settings:
        if self.oauth_issuer and not self.oauth:
            raise ValueError("KNOWLEDGE_OAUTH_ISSUER needs KNOWLEDGE_OAUTH=on")
        if not self.oauth:
            return self
        if not self.public_url:
            raise ValueError(
                "KNOWLEDGE_OAUTH needs KNOWLEDGE_PUBLIC_URL, the address at which clients reach the server"
            )
        for name, url in (("KNOWLEDGE_PUBLIC_URL", self.public_url), ("KNOWLEDGE_OAUTH_ISSUER", self.oauth_issuer)):
            if url and SECURE_URL_PATTERN.fullmatch(url) is None:
                raise ValueError(f"With KNOWLEDGE_OAUTH {name} must be https; http is for 127.0.0.1 and localhost only")
        if ORIGIN_PATTERN.fullmatch(self.public_url) is None:
            raise ValueError("With KNOWLEDGE_OAUTH KNOWLEDGE_PUBLIC_URL must have no path: https://kb.example.com")
        if self.allow_open:
            raise ValueError("KNOWLEDGE_OAUTH and KNOWLEDGE_ALLOW_OPEN exclude each other: an open server has no login")
        return self

    @property
    def public_origin(self) -> str:
        """KNOWLEDGE_PUBLIC_URL in lower case and without a slash at its end."""
        return self.public_url.rstrip("/").lower()

    @property
    def counter_storage(self) -> str:
        """Where rate limits are counted: by default in memory, or in a database that several servers share."""
        chosen = "rate_limit_storage" in self.model_fields_set
        return "database" if self.database_url is not None and not chosen else self.rate_limit_storage

    @property
    def backup_every_seconds(self) -> float:
        given = self.backup_every or "0m"
        return float(given[:-1]) * {"m": 60, "h": 3600, "d": 86400}[given[-1]]

    def read_backup_passphrase(self) -> str | None:
        """Return the passphrase of backups, also from its file; None if there is none."""
        if self.backup_passphrase_file is None:
            return self.backup_passphrase.get_secret_value() if self.backup_passphrase else None
        try:
            first, *_ = self.backup_passphrase_file.read_text("utf-8").splitlines() or [""]
        except (OSError, UnicodeDecodeError) as error:
            first, why = "", str(error)
        else:
            why = "its first line is empty"
        if not first:
            raise InvalidParameter(
                f"The file of KNOWLEDGE_BACKUP_PASSPHRASE_FILE has no passphrase: {why}",
                hint="Write the passphrase into its first line.",
                parameter="backup_passphrase_file",
            )
        return first

    @property
    def max_file_bytes(self) -> int:
        return self.max_file_mb << 20

    @property
    def worker_count(self) -> int:
        return self.workers or os.cpu_count() or 1


def read_settings(**given: object) -> Settings:
    """Read the settings from the environment; `given` overrides it."""
    try:
        return Settings.model_validate(Settings(**given))  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:  # two settings that do not fit together
            message = first["msg"].removeprefix("Value error, ")
            raise InvalidParameter(
                message[0].upper() + message[1:], hint="Change or unset one of these settings.", parameter="settings"
            ) from error
        name = str(first["loc"][0])
        variable = name if name.isupper() else f"KNOWLEDGE_{name.upper()}"
        raise InvalidParameter(
            f"The setting {variable} is invalid: {first['msg']}",
            hint=f"Correct or unset {variable}.",
            parameter=name,
        ) from error
