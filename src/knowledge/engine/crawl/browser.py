"""Renders JavaScript pages with a local headless Chromium whose only network access is `BrowserProxy`."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from knowledge.engine.crawl.browser_proxy import BrowserProxy
from knowledge.engine.fetch.client import USER_AGENT, check_url
from knowledge.engine.fetch.ssrf import AllowedHosts
from knowledge.errors import DeadlineExceeded, FetchFailed, InvalidParameter, TooLarge

log = logging.getLogger(__name__)

BROWSER_NAMES = (
    "chromium",
    "chromium-browser",
    "chromium-headless-shell",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
BROWSER_PATHS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
BROWSER_FLAGS = (
    "--headless",
    "--dump-dom",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-quic",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--hide-scrollbars",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
    "--password-store=basic",
    "--use-mock-keychain",
    "--blink-settings=imagesEnabled=false",
    "--proxy-bypass-list=<-loopback>",  # without this Chromium reaches loopback past the proxy and its SSRF check
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # no DNS lookups by the browser itself
)


def find_browser(setting: str) -> str | None:
    """Return the path of the browser for a setting: a path, or `auto` for the first one installed."""
    if not setting:
        return None
    if setting != "auto":
        if not Path(setting).is_file():
            raise InvalidParameter(
                f"KNOWLEDGE_CRAWL_BROWSER: {setting} does not exist",
                hint="Set it to the path of a Chromium or Chrome executable, or to auto.",
                parameter="crawl_browser",
            )
        return setting
    found = (shutil.which(name) for name in BROWSER_NAMES)
    return next((path for path in found if path), None) or next(
        (path for path in BROWSER_PATHS if Path(path).is_file()), None
    )


class HeadlessBrowser:
    """Renders each page in a new Chromium process with a temporary profile and kills its process group."""

    def __init__(self, program: str, allowed: AllowedHosts, seconds: float) -> None:
        self._program, self._allowed, self._seconds = program, allowed, seconds

    async def render(self, url: str, max_bytes: int) -> str:
        """Return the HTML of the page after its scripts have run."""
        check_url(url)
        with tempfile.TemporaryDirectory(prefix="knowledge-browser-", ignore_cleanup_errors=True) as profile:
            async with BrowserProxy(self._allowed, max_bytes) as proxy:
                process = await self._start_process(url, profile, proxy.port)
                try:
                    async with asyncio.timeout(self._seconds):
                        data = await _read_output(process, max_bytes, url)
                except TimeoutError as error:
                    raise DeadlineExceeded(f"Rendering took longer than {self._seconds:g} seconds", url=url) from error
                finally:
                    await _kill_process_group(process)
        if not data.strip():
            raise FetchFailed("The browser returned an empty page", url=url)
        return data.decode("utf-8", "replace")

    async def _start_process(self, url: str, profile: str, port: int) -> asyncio.subprocess.Process:
        milliseconds = int(self._seconds * 1000 / 2)
        flags = [
            *BROWSER_FLAGS,
            f"--user-data-dir={profile}",
            f"--proxy-server=http://127.0.0.1:{port}",
            f"--virtual-time-budget={min(milliseconds, 10_000)}",
            f"--timeout={milliseconds}",
            f"--user-agent={USER_AGENT}",
        ]
        if sys.platform == "linux" and os.geteuid() == 0:
            flags.append("--no-sandbox")  # Chromium refuses to start as root with its sandbox
            log.warning("Rendering without the Chromium sandbox because the server runs as root; use another user")
        try:
            return await asyncio.create_subprocess_exec(
                self._program, *flags, url,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True, env=_child_environment(profile),
            )  # fmt: skip
        except OSError as error:
            raise FetchFailed(f"The browser could not be started: {error}", url=url) from error


def _child_environment(profile: str) -> dict[str, str]:
    """Return an environment without API keys, with the temporary profile as home folder."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT", "TEMP", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": profile, "XDG_CONFIG_HOME": profile, "XDG_CACHE_HOME": profile}


async def _read_output(process: asyncio.subprocess.Process, max_bytes: int, url: str) -> bytes:
    assert process.stdout is not None
    data = bytearray()
    while piece := await process.stdout.read(1 << 16):
        data += piece
        if len(data) > max_bytes:
            raise TooLarge(f"The rendered page is larger than {max_bytes} bytes", hint="", url=url)
    return bytes(data)


async def _kill_process_group(process: asyncio.subprocess.Process) -> None:
    try:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    await process.wait()
