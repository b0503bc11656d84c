"""Finds the browser of the tests and collects what a page reports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from playwright.async_api import ConsoleMessage, Error, Page

NO_BROWSER = "NO BROWSER: the tests of the web page were skipped; install Chromium or set KNOWLEDGE_TEST_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def find_browser() -> str | None:
    named = os.environ.get("KNOWLEDGE_TEST_BROWSER")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def require_browser() -> str:
    """Return the path of the browser; without one, skip the test, or fail it if KNOWLEDGE_REQUIRE_BROWSER is set."""
    path = find_browser()
    if path is None and os.environ.get("KNOWLEDGE_REQUIRE_BROWSER"):
        pytest.fail(NO_BROWSER, pytrace=False)
    if path is None:
        pytest.skip(NO_BROWSER)
    return path


def list_flags() -> list[str]:
    """Return the flags of the browser; its own sandbox does not run as root."""
    return [*FLAGS, "--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else FLAGS


@dataclass
class PageReports:
    """Errors on the console, violations of the policy, exceptions, and requests to other servers."""

    origin: str
    errors: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Parts of messages that a test provokes, such as the 429 of a rate limit."""
    requests: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", self._note_message)
        page.on("pageerror", self._note_error)
        page.on("request", lambda request: self.requests.append(request.url))

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _note_error(self, error: Error) -> None:
        self.errors.append(str(error))

    @contextmanager
    def expect(self, *parts: str) -> Iterator[None]:
        """Allow errors that contain one of these texts for the rest of the test."""
        self.expected += parts
        yield

    def list_unexpected(self) -> list[str]:
        errors = [error for error in self.errors if not any(part in error for part in self.expected)]
        foreign = [url for url in self.requests if not url.startswith((self.origin, "data:", "blob:", "about:"))]
        return [*errors, *(f"request to {url}" for url in foreign)]
