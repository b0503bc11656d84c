"""Runs the commands of docs/how-to/share-a-server.md."""

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
CODE_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVE_COMMAND = re.compile(r"^knowledge serve .*$", re.MULTILINE)
ENVIRONMENT = {"KB_API_KEY": "change-me", "ADMIN_USERS": "root", **WITHOUT_MODEL}


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="the page is written for bash and curl")
def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    before, after = SERVE_COMMAND.split("".join(CODE_BLOCK.findall(PAGE.read_text("utf-8"))))
    (tmp_path / "before.sh").write_text(before + "declare -p root > root.sh\n")
    run_bash("source before.sh", tmp_path)
    with run_server("serve", "--host", "0.0.0.0", "--data", str(tmp_path / "shared-data"), **ENVIRONMENT) as server:
        script = after.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{server.port}")
        # The server may still be starting.
        script = script.replace("curl -fsS http", "curl --retry 30 --retry-delay 1 -fsS http")
        (tmp_path / "after.sh").write_text(script)
        output = run_bash("source root.sh; source after.sh", tmp_path)
    assert '"is_approved":true' in output
    assert "ada is enabled." in output
    assert "Deleted the account with 0 documents" in output


def run_bash(script: str, folder: Path) -> str:
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, **ENVIRONMENT, "PATH": search}, timeout=2 * WAIT_SECONDS,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
