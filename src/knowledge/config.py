"""Every setting, read once from the environment, with the sentence that explains it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import platformdirs
from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from knowledge.errors import InvalidParameter


def default_data_folder() -> Path:
    return Path(platformdirs.user_data_dir("knowledge-server", appauthor=False))


def kb_aliases(name: str) -> AliasChoices:
    """A setting of contract 004 that answers to our own prefix too."""
    return AliasChoices(f"KNOWLEDGE_{name}", f"KB_{name}")


def unprefixed_aliases(name: str) -> AliasChoices:
    """A setting of contract 001, which names it without a prefix; it answers to ours too."""
    return AliasChoices(name, f"KNOWLEDGE_{name}")


RATE_LIMIT_PATTERN = re.compile(
    r"\s*+[1-9]\d*+\s*+(/|per\s)\s*+([1-9]\d*+\s*+)?(second|minute|hour|day|month|year)s?\s*+", re.IGNORECASE
)
"""So many in so much time."""


EMBEDDING_DESCRIPTION = (
    "The model of a new data folder: default, none, dir:PATH, hf:NAME or openai:URL#MODEL. "
    "'knowledge reindex --model SPEC' changes that of one in use."
)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="KNOWLEDGE_", frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    data: Path = Field(default_factory=default_data_folder, description="The folder that holds everything.")
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="The port to listen on; 0 takes any free one.")
    toolsets: str = Field("", description="Which contracts are served, by comma; empty serves all five.")

    engine_url: str | None = Field(
        None,
        description="Use the engine at this address instead of one in this process.",
        validation_alias=kb_aliases("ENGINE_URL"),
    )
    api_key: SecretStr | None = Field(
        None, description="The key that the engine's REST API asks for.", validation_alias=kb_aliases("API_KEY")
    )
    mcp_api_key: SecretStr | None = Field(
        None, description="The key that the MCP endpoints ask for.", validation_alias=kb_aliases("MCP_API_KEY")
    )
    mcp_allowed_hosts: str = Field(
        "",
        description="Host names, by comma, that MCP and the web page also answer to.",
        validation_alias=kb_aliases("MCP_ALLOWED_HOSTS"),
    )
    upload_ttl_s: float = Field(
        600.0,
        gt=0,
        description="Seconds after its last part that an unfinished upload is kept.",
        validation_alias=kb_aliases("UPLOAD_TTL_S"),
    )
    upload_total_mb: int = Field(
        1000,
        ge=1,
        description="How much all unfinished uploads may take together, in MB; one caller has a quarter, or two files.",
        validation_alias=kb_aliases("UPLOAD_TOTAL_MB"),
    )
    registration: bool = Field(True, description="Whether anybody may make an account; the shell always can.")
    admin_users: str = Field(
        "",
        description="Usernames, by comma, of those who may approve corpora and look after the other accounts; "
        "such an account is made with 'knowledge user add' only.",
        validation_alias=AliasChoices("KNOWLEDGE_ADMIN_USERS", "ADMIN_USERS"),
    )
    login_key_days: int = Field(
        90,
        ge=1,
        le=36_500,
        description="How many days the key of a login is valid; keys made by hand say so themselves.",
    )
    manager_api_key: SecretStr | None = Field(
        None, description="The key of the account that a stdio server acts for; without it, the local owner."
    )
    account_max_documents: int = Field(0, ge=0, description="How many documents one account may keep; 0 is no limit.")
    account_max_mb: int = Field(0, ge=0, description="How much one account may keep, in MB; 0 is no limit.")
    trusted_proxies: str = Field(
        "",
        description="Proxies, by comma, whose forwarded headers are believed; with any, everybody needs a key.",
    )
    allow_open: bool = Field(False, description="Take everybody without a key for the owner, also on a public address.")
    cors_origins: str = Field(
        "", description="Origins, by comma, whose pages may call from a browser, besides our own."
    )

    max_connections: int = Field(
        0, ge=0, description="How many connections are open at once; 0 derives it from the limit on open files."
    )
    max_connections_per_address: int = Field(
        0,
        ge=0,
        description="How many of them one address may have, unless it is a trusted proxy; 0 means half of all.",
    )
    header_timeout_s: float = Field(
        20.0, gt=0, description="Seconds after which a connection that has not sent a whole request head is closed."
    )
    body_timeout_s: float = Field(
        60.0, gt=0, description="Seconds without progress after which an unfinished request body is answered 408."
    )
    keep_alive_s: int = Field(5, ge=1, description="Seconds that a connection stays open between two requests.")
    write_timeout_s: float = Field(
        300.0, gt=0, description="Seconds after which a client that does not read its answer is disconnected."
    )
    max_sessions_per_caller: int = Field(
        1000,
        ge=1,
        description="How many MCP sessions one account or address may have; beyond it the oldest idle one ends.",
    )
    query_rate_limit: str = Field(
        "60/minute",
        description="How many searches, and how many listings, an account may ask for.",
        validation_alias=unprefixed_aliases("QUERY_RATE_LIMIT"),
    )
    mcp_query_rate_limit: str | None = Field(
        None,
        description="The limit for searches over MCP; unless set, QUERY_RATE_LIMIT.",
        validation_alias=unprefixed_aliases("MCP_QUERY_RATE_LIMIT"),
    )
    mcp_list_rate_limit: str | None = Field(
        None,
        description="The limit for listings over MCP; unless set, QUERY_RATE_LIMIT.",
        validation_alias=unprefixed_aliases("MCP_LIST_RATE_LIMIT"),
    )
    mcp_resource_rate_limit: str | None = Field(
        None,
        description="The limit for reading resources over MCP; unless set, QUERY_RATE_LIMIT.",
        validation_alias=unprefixed_aliases("MCP_RESOURCE_RATE_LIMIT"),
    )
    upload_rate_limit: str = Field(
        "10/minute",
        description="How many documents an account may add.",
        validation_alias=unprefixed_aliases("UPLOAD_RATE_LIMIT"),
    )
    management_rate_limit: str = Field(
        "30/minute",
        description="How many changes an account may make.",
        validation_alias=unprefixed_aliases("MANAGEMENT_RATE_LIMIT"),
    )
    auth_rate_limit: str = Field(
        "10/minute",
        description="How often one address or name may register, log in or show a wrong key.",
        validation_alias=unprefixed_aliases("AUTH_RATE_LIMIT"),
    )
    rate_limit_storage: str = Field(
        "memory",
        description="Where allowances are counted: memory, file (outlives a restart) or a URI such as redis://HOST:PORT.",
    )
    embedding: str = Field("default", description=EMBEDDING_DESCRIPTION)
    embedding_key: SecretStr | None = Field(None, description="The key for an openai: model.")
    embedding_dimension: int | None = Field(None, ge=1, description="The length of an openai: model's vectors.")
    int8: str = Field("auto", pattern="^(auto|on|off)$", description="Eight-bit arithmetic: auto, on or off.")

    files: str = Field("", description="Folders, separated as in PATH, below which tools may open files by path.")
    max_file_mb: int = Field(100, ge=1, description="The largest file that is accepted, in MB.")
    wait_s: float = Field(50.0, gt=0, description="How long a call waits for its job before it answers without.")
    workers: int = Field(0, ge=0, description="How many jobs run side by side; 0 means one for each processor core.")
    parse_seconds: float = Field(
        120.0, gt=0, description="How long reading one document may take; each page and each MB adds to it."
    )
    parse_memory_mb: int = Field(1500, ge=200, description="The most memory that reading one document may take.")
    sandbox: str = Field(
        "auto",
        pattern="^(auto|require|off)$",
        description="Containment of the processes that read documents: auto takes what the kernel has, require "
        "refuses to read where Landlock or seccomp is missing, off takes nothing.",
    )
    ocr_languages: str = Field("eng", description="Languages for text recognition, such as eng+deu.")

    crawl_delay: float = Field(
        1.0, ge=0, le=60, description="Seconds between two requests of a crawl to one host, at least."
    )
    crawl_allow: str = Field(
        "", description="Hosts and networks, by comma, that crawls may reach although they are not public."
    )
    crawl_browser: str = Field(
        "", description="A Chromium that renders pages written by scripts: its path, auto to find one, or empty."
    )
    crawl_max_page_mb: int = Field(20, ge=1, description="The largest page or file that a crawl takes in, in MB.")
    crawl_max_mb: int = Field(500, ge=1, description="How much one crawl takes in at most, in MB.")
    rerank_ms: int = Field(300, ge=1, description="The milliseconds that reranking may take, unless a call says so.")
    reranker: str = Field("default", description="What reranks: default, none, or dir:PATH of an ONNX cross-encoder.")

    log_level: str = Field(
        "info", pattern="(?i)^(debug|info|warning|error)$", description="debug, info, warning or error."
    )
    log_json: bool = Field(False, description="Write each log line as JSON.")

    database_url: str | None = Field(None, description="A PostgreSQL database instead of the data folder's own.")
    index_url: str | None = Field(None, description="A Qdrant cluster instead of the data folder's own index.")
    files_url: str | None = Field(None, description="A bucket for originals instead of the data folder.")

    @field_validator(
        "query_rate_limit", "mcp_query_rate_limit", "mcp_list_rate_limit", "mcp_resource_rate_limit",
        "upload_rate_limit", "management_rate_limit", "auth_rate_limit",
    )  # fmt: skip
    @classmethod
    def _check_rate_limit(cls, value: str | None) -> str | None:
        if value is not None and value != "off" and RATE_LIMIT_PATTERN.fullmatch(value) is None:
            raise ValueError(f"'{value[:40]}' is no limit; write one like 60/minute, 5/second or 1000/day, or off")
        return value

    @property
    def max_file_bytes(self) -> int:
        return self.max_file_mb << 20

    @property
    def worker_count(self) -> int:
        return self.workers or os.cpu_count() or 1


def read_settings(**given: object) -> Settings:
    """The settings, with what was given here before what the environment says."""
    try:
        return Settings.model_validate(Settings(**given))  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "setting"
        variable = name if name.isupper() else f"KNOWLEDGE_{name.upper()}"
        raise InvalidParameter(
            f"The setting {variable} is wrong: {first['msg']}",
            hint=f"Correct or unset {variable}.",
            parameter=name,
        ) from error
