"""The checker of the built documentation finds links, pictures and anchors that do not exist."""

from __future__ import annotations

from pathlib import Path

from scripts.check_site import find_broken_links


def test_broken_links_pictures_and_anchors_of_a_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<h1 id="start">Start</h1><a href="#start"></a><a href="page.html#here"></a><a href="https://example.org/x"></a>'
        '<a href="page.html#gone"></a><a href="missing.html"></a><img src="missing.png">'
    )
    (tmp_path / "page.html").write_text('<h2 id="here">Here</h2><a href="index.html"></a>')
    expected = ["index.html: page.html#gone", "index.html: missing.html", "index.html: missing.png"]
    assert find_broken_links(tmp_path) == expected
