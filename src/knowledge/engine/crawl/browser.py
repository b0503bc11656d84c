"""Pages that are written by scripts, rendered by a local Chromium that sees the web through our own eyes only."""

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
    "--proxy-bypass-list=<-loopback>",  # loopback too goes through the proxy, which knows what is allowed
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # the browser itself looks up no name at all
)


def find_browser(setting: str) -> str | None:
    """The program that a setting names: a path, or `auto` for the first one found; None when there is none."""
    if not setting:
        return None
    if setting != "auto":
        if not Path(setting).is_file():
            raise InvalidParameter(
                f"KNOWLEDGE_CRAWL_BROWSER: there is no program at {setting}",
                hint="Name a Chromium by its path, or write auto.",
                parameter="crawl_browser",
            )
        return setting
    found = (shutil.which(name) for name in BROWSER_NAMES)
    return next((path for path in found if path), None) or next(
        (path for path in BROWSER_PATHS if Path(path).is_file()), None
    )


class HeadlessBrowser:
    """One process a page: it starts with nothing, keeps nothing, and is killed with all its children."""

    def __init__(self, program: str, allowed: AllowedHosts, seconds: float) -> None:
        self._program, self._allowed, self._seconds = program, allowed, seconds

    async def render(self, url: str, most: int) -> str:
        """The page's HTML after its scripts have run."""
        check_url(url)
        with tempfile.TemporaryDirectory(prefix="knowledge-browser-", ignore_cleanup_errors=True) as profile:
            async with BrowserProxy(self._allowed, most) as proxy:
                process = await self._start_process(url, profile, proxy.port)
                try:
                    async with asyncio.timeout(self._seconds):
                        data = await _read_output(process, most, url)
                except TimeoutError as error:
                    raise DeadlineExceeded(f"Rendering took longer than {self._seconds:g} seconds", url=url) from error
                finally:
                    await _kill_process_group(process)
        if not data.strip():
            raise FetchFailed("The browser brought nothing back", url=url)
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
            flags.append("--no-sandbox")  # Chromium does not start as root otherwise
            log.warning("Rendering as root, so without Chromium's sandbox; run the server as another user")
        try:
            return await asyncio.create_subprocess_exec(
                self._program, *flags, url,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True, env=_child_environment(profile),
            )  # fmt: skip
        except OSError as error:
            raise FetchFailed(f"The browser could not be started: {error}", url=url) from error


def _child_environment(profile: str) -> dict[str, str]:
    """None of our keys, and a home that is thrown away."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT", "TEMP", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": profile, "XDG_CONFIG_HOME": profile, "XDG_CACHE_HOME": profile}


async def _read_output(process: asyncio.subprocess.Process, max_bytes: int, url: str) -> bytes:
    assert process.stdout is not None
    data = bytearray()
    while piece := await process.stdout.read(1 << 16):
        data += piece
        if len(data) > max_bytes:
            raise TooLarge("The rendered page is too large", hint="", url=url)
    return bytes(data)


async def _kill_process_group(process: asyncio.subprocess.Process) -> None:
    """The browser and every process it has started."""
    try:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    await process.wait()
