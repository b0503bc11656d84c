"""Without a browser the tests of the page are skipped with a reason, or fail where a browser is required."""

from __future__ import annotations

import pytest

from tests.support import browser


def test_tests_of_the_page_are_skipped_without_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KNOWLEDGE_REQUIRE_BROWSER", raising=False)
    monkeypatch.delenv("KNOWLEDGE_TEST_BROWSER", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(pytest.skip.Exception, match="NO BROWSER"):
        browser.require_browser()


def test_tests_of_the_page_fail_without_a_browser_where_one_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KNOWLEDGE_TEST_BROWSER", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("KNOWLEDGE_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="NO BROWSER"):
        browser.require_browser()
