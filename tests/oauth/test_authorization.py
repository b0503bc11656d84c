"""The authorization server: metadata, registration, consent, codes, tokens, and the attacks on them."""

from __future__ import annotations

import httpx
import pytest

from knowledge.config import Settings, read_settings
from knowledge.engine.local import LocalEngine
from knowledge.engine.permissions import EVERYBODY, READ_VERBS, WRITE_VERBS
from knowledge.engine.remote.engine import RemoteEngine
from knowledge.errors import InvalidParameter
from knowledge.model import Caller, CallerKind
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.http.open_engine import make_shared_app
from tests.oauth.conftest import ORIGIN
from tests.support.oauth import OAuthTestClient, bearer, call_body, read_answer, read_field

LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


# -- only if it is on ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp", "/authorize"]
)
async def test_without_the_setting_nothing_is_advertised(local: LocalEngine, settings: Settings, path: str) -> None:
    transport = httpx.ASGITransport(app=make_http_app(local, settings.model_copy(update={"mcp_api_key": None})))
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as http:
        assert (await http.get(path)).status_code == 404
        assert (await http.post("/token", data={"grant_type": "authorization_code"})).status_code in (404, 405)
        refused = await http.post("/api/v1/mcp", json=LIST_TOOLS)
        assert refused.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"oauth": True}, "needs KNOWLEDGE_PUBLIC_URL"),
        ({"oauth": True, "public_url": "http://kb.example.com"}, "must be https"),
        ({"oauth": True, "public_url": "https://kb.example.com/kb"}, "must have no path"),
        ({"oauth": True, "public_url": "https://kb.example.com", "allow_open": True}, "exclude each other"),
        ({"oauth_issuer": "https://id.example.com"}, "needs KNOWLEDGE_OAUTH"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(given: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidParameter, match=problem):
        read_settings(**given)


async def test_with_oauth_a_direct_connection_is_not_the_owner(local: LocalEngine, guarded: Settings) -> None:
    keyless = guarded.model_copy(update={"api_key": None, "mcp_api_key": None})
    transport = httpx.ASGITransport(app=make_http_app(local, keyless), client=("127.0.0.1", 5000))
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as http:
        assert (await http.get("/api/v1/documents")).status_code == 401
        assert (await http.post("/mcp", json=LIST_TOOLS)).status_code == 401


# -- discovery -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/mcp", "/mcp/rag", "/rag/mcp", "/mcp/readonly", "/api/v1/mcp"])
async def test_each_endpoint_has_metadata_at_its_own_path(http: httpx.AsyncClient, path: str) -> None:
    found = (await http.get(f"/.well-known/oauth-protected-resource{path}")).json()
    assert (found["resource"], found["authorization_servers"]) == (ORIGIN + path, [ORIGIN])
    assert found["scopes_supported"] == (["read"] if path.endswith("readonly") else ["read", "write"])
    refused = await http.post(path or "/api/v1/search", json=LIST_TOOLS)
    assert refused.status_code == 401
    expected = f'resource_metadata="{ORIGIN}/.well-known/oauth-protected-resource{path}"'
    assert expected in refused.headers["www-authenticate"]
    assert "error=" not in refused.headers["www-authenticate"], "nothing was sent that could be wrong"


async def test_the_server_says_what_it_supports(http: httpx.AsyncClient) -> None:
    answer = await http.get("/.well-known/oauth-authorization-server", headers={"origin": "https://inspector.example"})
    found = answer.json()
    assert answer.headers["access-control-allow-origin"] == "*", "clients in browsers read it too"
    assert found["issuer"] == ORIGIN
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["client_id_metadata_document_supported"] is True
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["scopes_supported"] == ["read", "write", "admin"]
    assert (await http.get("/.well-known/oauth-protected-resource/nowhere")).status_code == 404


# -- the flow ------------------------------------------------------------------------------------


async def test_a_client_that_the_user_allows_acts_as_the_account(
    client: OAuthTestClient, http: httpx.AsyncClient
) -> None:
    await client.register()
    assert "Log in" in (await client.open()).text
    page = await client.log_in()
    for shown in (
        "Test Agent",
        "127.0.0.1:7777",
        "<strong>ada</strong>",
        f"{ORIGIN}/mcp",
        "just started",
        "nobody has",
    ):
        assert shown in page.text
    answer = await client.allow(page)
    assert (answer["state"], answer["iss"]) == ("s-1", ORIGIN)
    issued = await client.exchange(answer["code"])
    tokens = issued.json()
    assert issued.headers["cache-control"] == "no-store"
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 3600, "read write")
    listed = await http.post("/mcp", json=LIST_TOOLS, headers=bearer(tokens["access_token"]))
    assert listed.status_code == 200 and listed.json()["result"]["tools"]


async def test_the_user_decides_what_the_client_may_do(client: OAuthTestClient) -> None:
    await client.register()
    page = await client.log_in(scope="read write admin openid")
    assert 'value="admin">' in page.text, "not allowed unless the user says so"
    answer = await client.allow(page, "read")
    assert (await client.exchange(answer["code"])).json()["scope"] == "read"


async def test_a_refused_request_tells_the_client(client: OAuthTestClient) -> None:
    await client.register()
    page = await client.log_in()
    denied = await client.submit(action="deny", request=read_field(page, "request"))
    assert read_answer(denied, client.redirect_uri) == {"error": "access_denied", "iss": ORIGIN, "state": "s-1"}


async def test_a_login_with_a_wrong_password_shows_the_form_again(client: OAuthTestClient) -> None:
    await client.register()
    answer = await client.submit(action="login", request=client.query(), username="ada", password="wrong password")
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert "is wrong" in answer.text and 'name="password"' in answer.text


async def test_an_account_without_a_password_logs_in_with_its_key(client: OAuthTestClient, local: LocalEngine) -> None:
    await local.accounts.add("grace")
    key = (await local.accounts.issue_key("grace", "laptop")).secret
    await client.register()
    assert "<strong>grace</strong>" in (await client.log_in("grace", key)).text


# -- attacks on the request ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"code_challenge": None},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
        {"code_challenge": "short"},
        {"response_type": "token"},
        {"resource": "https://other.example/mcp"},
        {"resource": f"{ORIGIN}/mcp#part"},
        {"resource": f"{ORIGIN}/nowhere"},
    ],
)
async def test_a_request_that_is_not_safe_shows_an_error_and_redirects_nobody(
    client: OAuthTestClient, changed: dict[str, str | None]
) -> None:
    await client.register()
    answer = await client.open(**changed)
    assert answer.status_code == 400
    assert "location" not in answer.headers and 'http-equiv="refresh"' not in answer.text, "no open redirect"
    assert "error=" in answer.text, "a link with which the user can tell the client"


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:7777/callback/..",
        "http://127.0.0.1:7777/callback?next=evil",
        "http://127.0.0.1.evil.example:7777/callback",
        "http://127.0.0.1:7777@evil.example/callback",
        "http://localhost:7777/callback",
        "https://127.0.0.1:7777/callback",
        "https://evil.example/callback",
        "javascript:alert(1)",
        "",
    ],
)
async def test_a_redirect_uri_of_somebody_else_is_never_linked(client: OAuthTestClient, uri: str) -> None:
    await client.register(client.redirect_uri, "https://app.example/done")
    answer = await client.open(redirect_uri=uri or None)
    assert answer.status_code == 400
    assert "href=" not in answer.text.replace("/authorize/style.css", "").replace('<link rel="stylesheet" href="">', "")


async def test_a_loopback_redirect_may_have_another_port(client: OAuthTestClient) -> None:
    await client.register("http://127.0.0.1/callback", "http://localhost:1/callback")
    assert (await client.open(redirect_uri="http://127.0.0.1:40001/callback")).status_code == 200
    assert (await client.open(redirect_uri="http://localhost:40001/callback")).status_code == 200


@pytest.mark.parametrize(
    "uri",
    [
        "http://app.example/callback", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "cursor:",
        "https://app.example/#part", "https://user@app.example/", "https://app.example/\"><script>", "//evil.example",
        "/callback",
    ],
)  # fmt: skip
async def test_a_client_cannot_register_a_dangerous_redirect(http: httpx.AsyncClient, uri: str) -> None:
    answer = await http.post("/register", json={"client_name": "x", "redirect_uris": [uri]})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_redirect_uri")


@pytest.mark.parametrize("uri", ["https://claude.ai/api/mcp/auth_callback", "cursor://anysphere.cursor-mcp/oauth/cb"])
async def test_clients_of_the_web_and_of_desktops_can_register(http: httpx.AsyncClient, uri: str) -> None:
    body = {"client_name": "x", "redirect_uris": [uri], "token_endpoint_auth_method": "client_secret_post"}
    answer = await http.post("/register", json=body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["token_endpoint_auth_method"] == "none" and "client_secret" not in answer.json()


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"redirect_uris": []}', b'{"redirect_uris": "x"}'])
async def test_a_broken_registration_is_explained(http: httpx.AsyncClient, body: bytes) -> None:
    answer = await http.post("/register", content=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata")


async def test_hostile_names_are_shown_as_text(client: OAuthTestClient) -> None:
    await client.register(name="<script>alert(1)</script>\u202e")
    page = await client.open(state='"><img src=x>')
    assert "<script>" not in page.text and "<img" not in page.text and "&lt;script&gt;" in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["x-frame-options"] == "DENY"


async def test_a_repeated_parameter_is_refused(client: OAuthTestClient, http: httpx.AsyncClient) -> None:
    await client.register()
    answer = await http.get(f"/authorize?{client.query()}&redirect_uri=https%3A%2F%2Fevil.example")
    assert answer.status_code == 422 and "repeated" in answer.text


async def test_documents_are_not_fetched_for_everybody_all_the_time(local: LocalEngine, guarded: Settings) -> None:
    limited = guarded.model_copy(update={"query_rate_limit": "2/hour"})
    transport = httpx.ASGITransport(app=make_http_app(local, limited), client=("127.0.0.1", 5000))
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as http:
        client = OAuthTestClient(http, ORIGIN, client_id="https://127.0.0.1/client.json")
        answers = [(await client.open()).status_code for _ in range(3)]
    assert answers == [400, 400, 429], "a private address, which is never fetched"


# -- attacks on the forms ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
        {"x": "1"},
    ],
)
async def test_a_form_of_another_site_is_refused(client: OAuthTestClient, headers: dict[str, str]) -> None:
    await client.register()
    page = await client.log_in()
    form = {"action": "allow", "request": read_field(page, "request"), "csrf": read_field(page, "csrf")}
    answer = await client.submit(headers, **form)
    assert answer.status_code == 403 and "code=" not in answer.text


async def test_the_consent_of_one_request_does_not_serve_another(
    client: OAuthTestClient, http: httpx.AsyncClient
) -> None:
    await client.register()
    page = await client.log_in()
    other = OAuthTestClient(http, ORIGIN, "https://evil.example/cb")
    await other.register()
    forged = await client.submit(action="allow", request=other.query(), csrf=read_field(page, "csrf"), scope=["read"])
    assert forged.status_code == 403
    without = await client.submit(action="allow", request=client.query(), scope=["read"])
    assert without.status_code == 403


async def test_the_login_of_the_consent_page_is_short_and_of_its_own(
    client: OAuthTestClient, http: httpx.AsyncClient
) -> None:
    await client.register()
    query = client.query()
    answer = await client.submit(action="login", request=query, username="ada", password="correct horse")
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert attributes == {"httponly", "max-age=600", "path=/authorize", "samesite=lax"}
    assert (await http.get("/api/v1/documents")).status_code == 401, "it is no session of the page"
    left = await client.submit(action="logout", request=query)
    assert left.status_code == 303 and "Log in" in (await http.get(left.headers["location"])).text


async def test_a_new_password_ends_logins_and_tokens(
    client: OAuthTestClient, http: httpx.AsyncClient, local: LocalEngine
) -> None:
    tokens = await client.get_tokens()
    key = await local.accounts.login("ada", "correct horse")
    caller = await local.accounts.find_by_key(key.secret)
    assert caller is not None
    await local.as_caller(caller).accounts.change_password("correct horse", "battery staple")
    assert "Log in" in (await client.open()).text
    assert (await http.post("/mcp", json=LIST_TOOLS, headers=bearer(tokens["access_token"]))).status_code == 401
    assert (await client.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"


# -- codes and tokens ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"code_verifier": "x" * 43}, "invalid_grant"),
        ({"code_verifier": None}, "invalid_request"),
        ({"redirect_uri": "http://127.0.0.1:7778/callback"}, "invalid_grant"),
        ({"redirect_uri": None}, "invalid_request"),
        ({"client_id": "another"}, "invalid_client"),
        ({"client_id": None}, "invalid_client"),
        ({"resource": f"{ORIGIN}/mcp/rag"}, "invalid_grant"),
        ({"resource": "https://other.example"}, "invalid_target"),
        ({"code": "knc_unknown"}, "invalid_grant"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": None}, "invalid_request"),
    ],
)
async def test_a_stolen_code_is_worth_nothing(
    client: OAuthTestClient, changed: dict[str, str | None], error: str
) -> None:
    await client.register()
    code = (await client.allow(await client.log_in()))["code"]
    refused = await client.exchange(**{"code": code, **changed})  # type: ignore[arg-type]
    assert (refused.status_code, refused.json()["error"]) == (401 if error == "invalid_client" else 400, error)
    assert (await client.exchange(code)).status_code == 200, "the client itself can still use it"


async def test_a_code_that_is_used_twice_ends_what_was_issued_for_it(
    client: OAuthTestClient, http: httpx.AsyncClient
) -> None:
    await client.register()
    code = (await client.allow(await client.log_in()))["code"]
    tokens = (await client.exchange(code)).json()
    assert (await client.exchange(code)).json()["error"] == "invalid_grant"
    assert (await http.post("/mcp", json=LIST_TOOLS, headers=bearer(tokens["access_token"]))).status_code == 401
    assert (await client.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"


async def test_a_refresh_token_is_used_once_and_a_copy_ends_the_family(
    client: OAuthTestClient, http: httpx.AsyncClient
) -> None:
    first = await client.get_tokens()
    second = (await client.refresh(first["refresh_token"])).json()
    assert second["scope"] == "read write" and second["refresh_token"] != first["refresh_token"]
    narrow = (await client.refresh(second["refresh_token"], scope="read")).json()
    assert narrow["scope"] == "read"
    wider = (await client.refresh(narrow["refresh_token"], scope="admin")).json()
    assert wider["error"] == "invalid_grant", "more than the user has allowed"
    wide = (await client.refresh(narrow["refresh_token"])).json()
    assert wide["scope"] == "read write", "what the user has allowed"
    assert (await client.refresh(first["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await client.refresh(wide["refresh_token"])).json()["error"] == "invalid_grant"
    for tokens in (first, second, narrow, wide):
        assert (await http.post("/mcp", json=LIST_TOOLS, headers=bearer(tokens["access_token"]))).status_code == 401


async def test_a_client_revokes_its_own_tokens_only(client: OAuthTestClient, http: httpx.AsyncClient) -> None:
    tokens = await client.get_tokens()
    headers = bearer(tokens["access_token"])
    foreign = await http.post("/revoke", data={"token": tokens["refresh_token"], "client_id": "another"})
    assert foreign.status_code == 200 and (await http.post("/mcp", json=LIST_TOOLS, headers=headers)).status_code == 200
    own = await http.post("/revoke", data={"token": tokens["access_token"], "client_id": client.client_id})
    assert own.status_code == 200
    refused = await http.post("/mcp", json=LIST_TOOLS, headers=headers)
    assert refused.status_code == 401 and 'error="invalid_token"' in refused.headers["www-authenticate"]
    assert (await http.post("/revoke", data={"token": "unknown", "client_id": "x"})).status_code == 200


async def test_a_token_holds_for_its_resource_and_the_paths_below_it(
    client: OAuthTestClient, http: httpx.AsyncClient
) -> None:
    narrow, wide = (
        OAuthTestClient(http, ORIGIN, resource_path="/mcp/rag"),
        OAuthTestClient(http, ORIGIN, resource_path=""),
    )
    tokens = [(await each.get_tokens())["access_token"] for each in (narrow, client, wide)]
    reached = {
        path: [(await http.post(path, json=LIST_TOOLS, headers=bearer(token))).status_code for token in tokens]
        for path in ("/mcp/rag", "/mcp/rag/readonly", "/mcp", "/mcp/kb", "/kb/mcp", "/api/v1/mcp")
    }
    assert reached == {
        "/mcp/rag": [200, 200, 200],
        "/mcp/rag/readonly": [200, 200, 200],
        "/mcp": [401, 200, 200],
        "/mcp/kb": [401, 200, 200],
        "/kb/mcp": [401, 401, 200],
        "/api/v1/mcp": [401, 401, 200],
    }
    rest = [(await http.get("/api/v1/documents", headers=bearer(token))).status_code for token in tokens]
    assert rest == [401, 401, 200], "REST takes tokens issued for the origin"


async def test_other_tokens_are_no_access_tokens(client: OAuthTestClient, http: httpx.AsyncClient) -> None:
    tokens = await client.get_tokens()
    for wrong in (tokens["refresh_token"], "kna_" + "x" * 43, "kna_", "knl_x", "knc_x"):
        assert (await http.post("/mcp", json=LIST_TOOLS, headers=bearer(wrong))).status_code == 401


# -- scopes --------------------------------------------------------------------------------------


async def test_a_tool_that_changes_data_needs_the_scope_write(client: OAuthTestClient, http: httpx.AsyncClient) -> None:
    headers = bearer((await client.get_tokens(scopes="read"))["access_token"])
    listed = (await http.post("/mcp", json=LIST_TOOLS, headers=headers)).json()["result"]["tools"]
    writing = [tool["name"] for tool in listed if not tool["annotations"]["readOnlyHint"]]
    assert writing
    body = call_body(writing[0])
    refused = await http.post("/mcp", json=body, headers=headers)
    challenge = refused.headers["www-authenticate"]
    assert refused.status_code == 403, refused.text
    assert 'error="insufficient_scope"' in challenge and 'scope="write"' in challenge
    assert f'resource_metadata="{ORIGIN}/.well-known/oauth-protected-resource/mcp"' in challenge


async def test_rest_needs_the_scope_of_each_call(http: httpx.AsyncClient, client: OAuthTestClient) -> None:
    client.resource_path = ""
    scoped = {
        name: bearer((await client.get_tokens(scopes=name))["access_token"]) for name in ("read", "write", "admin")
    }
    note, key = {"note": "The kettle whistles.", "title": "Tea"}, {"name": "laptop"}
    sent = {"search": ("/search", {"query": "tea"}), "add": ("/jobs", note), "key": ("/user/api-keys", key)}
    answers = {
        name: [(await http.post(f"/api/v1{path}", json=body, headers=scoped[each])).status_code for each in scoped]
        for name, (path, body) in sent.items()
    }
    assert answers["search"] == [200, 200, 200]
    assert answers["add"][0] == 403 and 403 not in answers["add"][1:]
    assert answers["key"] == [403, 403, 201], "a token cannot make itself a key"


def test_every_verb_about_documents_has_a_scope() -> None:
    """A new verb needs `admin` until it is listed; only verbs about accounts are meant to."""
    assert READ_VERBS | WRITE_VERBS <= EVERYBODY and not READ_VERBS & WRITE_VERBS
    rest = EVERYBODY - READ_VERBS - WRITE_VERBS
    assert {verb for verb in rest if not verb.startswith(("accounts.", "sessions.", "oauth."))} == set()


async def test_an_admin_administers_only_with_the_scope_admin(
    local: LocalEngine, client: OAuthTestClient, http: httpx.AsyncClient
) -> None:
    await local.accounts.add("root", "correct horse")
    client.resource_path = ""
    plain = bearer((await client.get_tokens("root", "read write"))["access_token"])
    await client.submit(action="logout", request=client.query())
    full = bearer((await client.get_tokens("root", "admin"))["access_token"])
    assert (await http.get("/api/v1/admin/users", headers=plain)).status_code == 403
    assert (await http.get("/api/v1/admin/users", headers=full)).status_code == 200


# -- lists and other processes -------------------------------------------------------------------


async def test_tokens_are_listed_and_revoked_beside_keys(
    client: OAuthTestClient, http: httpx.AsyncClient, local: LocalEngine
) -> None:
    tokens = await client.get_tokens()
    headers = bearer((await local.accounts.login("ada", "correct horse")).secret)
    [listed] = (await http.get("/api/v1/user/tokens", headers=headers)).json()["tokens"]
    assert (listed["client_name"], listed["resource"], listed["scopes"]) == (
        "Test Agent",
        f"{ORIGIN}/mcp",
        ["read", "write"],
    )
    assert not [value for value in listed.values() if isinstance(value, str) and value.startswith("kn")], "no secrets"
    assert (await http.delete(f"/api/v1/user/tokens/{listed['id'] + 1}", headers=headers)).status_code == 404
    assert (await http.delete(f"/api/v1/user/tokens/{listed['id']}", headers=headers)).status_code == 204
    assert (await http.post("/mcp", json=LIST_TOOLS, headers=bearer(tokens["access_token"]))).status_code == 401


async def test_a_process_before_the_engine_forwards_the_token(local: LocalEngine, guarded: Settings) -> None:
    """An HTTP server over a remote engine issues tokens and calls with them; the engine judges the scopes."""
    await local.accounts.register("ada", "correct horse")
    behind = httpx.ASGITransport(app=make_shared_app(local, guarded, "shared-token"), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=behind, base_url=ORIGIN, headers=bearer("shared-token")) as inner:
        app = make_http_app(RemoteEngine(inner), guarded)
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 5000))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as http:
            client = OAuthTestClient(http, ORIGIN, resource_path="")
            headers = bearer((await client.get_tokens(scopes="read"))["access_token"])
            assert (await http.get("/api/v1/user", headers=headers)).json()["username"] == "ada"
            refused = await http.post("/api/v1/jobs", json={"note": "x", "title": "x"}, headers=headers)
            assert refused.status_code == 403
            assert (await http.post("/mcp", json=LIST_TOOLS, headers=headers)).status_code == 200


async def test_a_caller_with_a_revoked_token_is_refused_at_once(client: OAuthTestClient, local: LocalEngine) -> None:
    token = (await client.get_tokens())["access_token"]
    found = await local.oauth.find_token(token)
    assert found is not None and found.caller.kind is CallerKind.ACCOUNT
    engine = local.as_caller(found.caller)
    assert (await engine.accounts.me()).username == "ada"
    await local.as_caller(Caller()).oauth.revoke_all_of("ada")
    with pytest.raises(Exception, match="access token is not valid"):
        await engine.accounts.me()
