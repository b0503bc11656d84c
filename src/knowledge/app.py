"""Builds the engine and its parts from the settings."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Literal, cast

from knowledge.blobs.s3.bucket_url import parse_bucket_url
from knowledge.config import Settings
from knowledge.embed.loading import ModelChoice, ModelLoader
from knowledge.engine.cluster.member import ServerRole
from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.fetch.ssrf import AllowedHosts
from knowledge.engine.local import LocalEngine
from knowledge.engine.maintenance.schedule import BackupPlan
from knowledge.engine.runtime import EngineOptions, Runtime
from knowledge.extract.process.child import ParserLimits
from knowledge.extract.process.parsers import Parsers
from knowledge.extract.sandbox.confine import SandboxMode
from knowledge.index.api import Index
from knowledge.store.accounts.quotas import Quota
from knowledge.store.models import StoredModel


def open_engine(settings: Settings) -> LocalEngine:
    """Build the local engine for the data folder, without starting it."""

    def open_model(spec: str) -> ModelLoader:
        return ModelLoader(build_model_choice(settings, spec))

    return LocalEngine(Runtime(build_options(settings), build_parsers(settings), open_model, open_index))


def build_options(settings: Settings) -> EngineOptions:
    return EngineOptions(
        data=settings.data,
        database_url=settings.database_url.get_secret_value() if settings.database_url else None,
        originals=settings.originals,
        bucket=parse_bucket_url(settings.originals_url) if settings.originals_url else None,
        originals_cache_bytes=settings.originals_cache_mb << 20,
        role=ServerRole(settings.server_role),
        address=settings.server_address or (find_own_address(settings) if settings.database_url else ""),
        lease_seconds=settings.lease_s,
        workers=settings.worker_count,
        max_file_bytes=settings.max_file_bytes,
        wait_seconds=settings.wait_s,
        ocr_languages=settings.ocr_languages,
        embedding=settings.embedding if "embedding" in settings.model_fields_set else None,
        crawl=build_crawl_options(settings),
        reranker=settings.reranker,
        rerank_ms=settings.rerank_ms,
        admins=tuple(name.strip() for name in settings.admin_users.split(",") if name.strip()),
        registration=settings.registration,
        login_key_days=settings.login_key_days,
        page_cache_bytes=settings.page_cache_mb << 20,
        query_log=settings.query_log,
        query_log_days=settings.query_log_days,
        backup=build_backup_plan(settings),
        quota=Quota(settings.account_max_documents, settings.account_max_mb << 20),
    )


def find_own_address(settings: Settings) -> str:
    return f"{socket.gethostname()}:{settings.port}"


def build_backup_plan(settings: Settings) -> BackupPlan | None:
    if settings.backup_every is None or settings.backup_dir is None:
        return None
    passphrase = settings.read_backup_passphrase()
    return BackupPlan(settings.backup_every_seconds, settings.backup_dir, settings.backup_keep, passphrase)


def build_crawl_options(settings: Settings) -> CrawlOptions:
    return CrawlOptions(
        delay=settings.crawl_delay,
        allowed=AllowedHosts.parse(settings.crawl_allow),
        max_page_bytes=settings.crawl_max_page_mb << 20,
        max_bytes=settings.crawl_max_mb << 20,
        browser=settings.crawl_browser,
    )


def build_parsers(settings: Settings) -> Parsers:
    limits = ParserLimits(seconds=settings.parse_seconds, memory_bytes=settings.parse_memory_mb << 20)
    return Parsers(limits, sandbox=SandboxMode(settings.sandbox))


def build_model_choice(settings: Settings, spec: str) -> ModelChoice:
    return ModelChoice(
        spec=spec,
        key=settings.embedding_key.get_secret_value() if settings.embedding_key else None,
        dimension=settings.embedding_dimension,
        int8=cast(Literal["auto", "on", "off"], settings.int8),
        cache_folder=settings.data / "models",
    )


def open_index(folder: Path, model: StoredModel | None) -> Index:
    from knowledge.index.embedded import EmbeddedIndex

    return EmbeddedIndex.open(folder, model.dimension if model else 0, model.fingerprint if model else "")
