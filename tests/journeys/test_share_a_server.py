"""`docs/how-to/share-a-server.md`, followed line by line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts.kb.processes import WAIT_SECONDS, WITHOUT_MODEL, run_server

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "share-a-server.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVE = re.compile(r"^knowledge serve .*$", re.MULTILINE)
PROPERTIES = {"KB_API_KEY": "change-me", "ADMIN_USERS": "root", **WITHOUT_MODEL}


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="the page is written for bash and curl")
def test_the_page_can_be_followed_line_by_line(tmp_path: Path) -> None:
    before, after = SERVE.split("".join(BLOCK.findall(PAGE.read_text("utf-8"))))
    (tmp_path / "before.sh").write_text(before + "declare -p root > root.sh\n")
    run("source before.sh", tmp_path)
    with run_server("serve", "--host", "0.0.0.0", "--data", str(tmp_path / "shared-data"), **PROPERTIES) as server:
        typed = after.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{server.port}")
        typed = typed.replace("curl -fsS http", "curl --retry 30 --retry-delay 1 -fsS http")  # while it starts
        (tmp_path / "after.sh").write_text(typed)
        seen = run("source root.sh; source after.sh", tmp_path)
    assert '"is_approved":true' in seen
    assert "ada is enabled." in seen
    assert "Deleted the account with 0 documents" in seen


def run(text: str, folder: Path) -> str:
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, **PROPERTIES, "PATH": search}, timeout=2 * WAIT_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
