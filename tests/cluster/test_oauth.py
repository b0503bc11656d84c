"""OAuth with two server processes on one PostgreSQL: each step of the flow on the other server."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.cluster.server_pair import run_member
from tests.support.accounts import PASSWORD
from tests.support.oauth import OAuthTestClient, bearer, read_answer, read_field
from tests.support.postgres import PostgresServer

PUBLIC_URL = "http://127.0.0.1:18999"
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


async def test_registrations_logins_codes_and_tokens_hold_on_both_servers(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    given = {"KNOWLEDGE_OAUTH": "on", "KNOWLEDGE_PUBLIC_URL": PUBLIC_URL, "AUTH_RATE_LIMIT": "off"}
    with (
        postgres.database() as url,
        run_member(tmp_path, url, "a", **given) as first,
        run_member(tmp_path, url, "b", **given) as second,
    ):
        cookies = httpx.Cookies()
        async with (
            httpx.AsyncClient(base_url=first.url, cookies=cookies, timeout=60) as here,
            httpx.AsyncClient(base_url=second.url, cookies=cookies, timeout=60) as there,
        ):
            credentials = {"username": "ada", "password": PASSWORD}
            assert (await here.post("/api/v1/user/register", json=credentials)).status_code == 201
            client = OAuthTestClient(here, PUBLIC_URL)
            await client.register()
            client.http = there
            page = await client.log_in()
            here.cookies = there.cookies
            request, csrf = read_field(page, "request"), read_field(page, "csrf")
            client.http = here
            answered = await client.submit(action="allow", request=request, csrf=csrf, scope=["read"])
            code = read_answer(answered, client.redirect_uri)["code"]
            client.http = there
            tokens = (await client.exchange(code)).json()
            client.http = here
            assert (await here.post("/mcp", json=LIST_TOOLS, headers=bearer(tokens["access_token"]))).status_code == 200
            newer = (await client.refresh(tokens["refresh_token"])).json()
            client.http = there
            headers = bearer(newer["access_token"])
            assert (await there.post("/mcp", json=LIST_TOOLS, headers=headers)).status_code == 200
            assert (await client.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
            assert (await here.post("/mcp", json=LIST_TOOLS, headers=headers)).status_code == 401, (
                "reuse ends the family"
            )
