"""KNOWLEDGE_ORIGINALS_URL, the settings that go with it, and what S3 answers for a wrong region."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from knowledge.blobs.s3.bucket import Bucket
from knowledge.blobs.s3.bucket_url import BucketUrl, parse_bucket_url
from knowledge.config import read_settings
from knowledge.errors import InvalidParameter, OriginalsRefused, OriginalsUnavailable

DATABASE = "postgresql+psycopg://knowledge@127.0.0.1/knowledge"


def test_the_url_names_bucket_prefix_endpoint_and_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    assert parse_bucket_url("s3://papers") == BucketUrl("papers", "")
    found = parse_bucket_url("s3://papers/a/b/?endpoint=http://127.0.0.1:8333/&region=eu-west-3")
    assert found == BucketUrl("papers", "a/b/", "http://127.0.0.1:8333", "eu-west-3")
    assert str(found) == "s3://papers/a/b/ at http://127.0.0.1:8333"
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert parse_bucket_url("s3://papers").region == "eu-central-1"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://papers", "does not begin with s3://"),
        ("s3://key:secret@papers", "contains credentials"),
        ("s3://", "no valid bucket name"),
        ("s3://Papers_1", "no valid bucket name"),
        ("s3://papers?endpoint=host", "no valid endpoint"),
        ("s3://papers?endpoint=http://host:99999999", "no valid endpoint"),
        ("s3://papers?endpont=http://host", "unknown part: 'endpont'"),
        ("s3://papers?endpoint", "is not a URL"),
    ],
)
def test_a_wrong_url_is_refused_without_a_secret(url: str, problem: str) -> None:
    with pytest.raises(InvalidParameter, match=problem) as caught:
        parse_bucket_url(url)
    assert "s3://BUCKET/PREFIX" in caught.value.hint and "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"originals_url": "s3://papers"}, "KNOWLEDGE_ORIGINALS_URL needs KNOWLEDGE_DATABASE_URL"),
        (
            {"originals_url": "s3://papers", "originals": Path("/mnt"), "database_url": DATABASE},
            "KNOWLEDGE_ORIGINALS and KNOWLEDGE_ORIGINALS_URL are both set",
        ),
        ({"originals_cache_mb": 50}, "KNOWLEDGE_ORIGINALS_CACHE_MB has no effect"),
        (
            {"originals_url": "s3://papers", "database_url": DATABASE, "rate_limit_storage": "memory"},
            "KNOWLEDGE_RATE_LIMIT_STORAGE=memory counts on one server alone",
        ),
        (
            {"originals_url": "s3://papers", "database_url": DATABASE, "rate_limit_storage": "file"},
            "KNOWLEDGE_RATE_LIMIT_STORAGE=file counts on one server alone",
        ),
    ],
)
def test_settings_without_effect_are_refused(given: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidParameter, match=problem):
        read_settings(**given)


@contextmanager
def answer_with(status: int, body: str, **headers: str) -> Iterator[str]:
    """Run an HTTP server that gives every request the same answer, as AWS would; yields its endpoint."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.mark.usefixtures("credentials")
def test_a_wrong_region_is_named_with_the_right_one() -> None:
    body = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>wrong</Message><Region>eu-west-3</Region></Error>"
    with (
        answer_with(400, body, x_amz_bucket_region="eu-west-3") as endpoint,
        pytest.raises(OriginalsRefused, match="is in the region eu-west-3, and not in us-east-1") as caught,
    ):
        list(Bucket(BucketUrl("papers", "", endpoint)).iterate(""))
    assert caught.value.hint == "Set AWS_REGION to eu-west-3."


@pytest.mark.usefixtures("credentials")
def test_a_server_that_asks_to_slow_down_is_unavailable_and_not_wrong() -> None:
    with (
        answer_with(503, "<Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>") as endpoint,
        pytest.raises(OriginalsUnavailable, match="ListObjectsV2 failed with 503 SlowDown") as caught,
    ):
        list(Bucket(BucketUrl("papers", "", endpoint)).iterate(""))
    assert not isinstance(caught.value, OriginalsRefused)


def test_credentials_that_are_missing_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(OriginalsRefused, match="No credentials") as caught:
        list(Bucket(BucketUrl("papers", "", "http://127.0.0.1:9")).iterate(""))
    assert "AWS_SECRET_ACCESS_KEY" in caught.value.hint


def test_nothing_of_s3_is_imported_without_a_bucket() -> None:
    script = "import sys; import knowledge.app, knowledge.surfaces.http.toolset_services; print('boto3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
