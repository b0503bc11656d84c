"""Adds to 401 and 403 responses where the metadata of the resource is, so that clients can start the authorization."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.surfaces.http.auth import key_of
from knowledge.surfaces.oauth.resources import ProtectedResources


class BearerChallenge:
    def __init__(self, app: ASGIApp, resources: ProtectedResources) -> None:
        self._app, self._resources = app, resources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_challenge(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in (401, 403):
                headers = MutableHeaders(raw=message["headers"])
                if headers.get("www-authenticate", "").startswith("Bearer"):
                    headers["www-authenticate"] = self._complete(headers["www-authenticate"], scope)
                    message = {**message, "headers": headers.raw}
            await send(message)

        await self._app(scope, receive, send_challenge)

    def _complete(self, challenge: str, scope: Scope) -> str:
        path = self._resources.find_path(scope["path"])
        given = challenge.removeprefix("Bearer").strip()
        parts = [given] if given else []
        if not given and key_of(Headers(scope=scope)) is not None:
            parts.append('error="invalid_token"')
        parts.append(f'resource_metadata="{self._resources.metadata_url(path)}"')
        if "scope=" not in given:
            parts.append(f'scope="{" ".join(self._resources.list_scopes(path))}"')
        return "Bearer " + ", ".join(parts)
