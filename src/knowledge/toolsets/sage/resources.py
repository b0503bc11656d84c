"""`knowledge://layer/topic`: the layers and their pages as resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote, unquote

from knowledge.errors import NotFound
from knowledge.model import JsonValue
from knowledge.toolsets.base import Call, Resource, ResourceTemplate, ResourceText
from knowledge.toolsets.sage.deadline import gather
from knowledge.toolsets.sage.library import ALL, LAYERS
from knowledge.toolsets.sage.service import Sage
from knowledge.toolsets.sage.timeouts import TOPIC
from knowledge.toolsets.sage.topic_names import topic_of

SCHEME = "knowledge://"
ABOUT = {
    "core": ("topic", "Core principles and philosophy"),
    "guidelines": ("category", "Coding and collaboration guidelines"),
    "frameworks": ("framework", "Conceptual frameworks and patterns"),
    "practices": ("category", "Best practices and engineering patterns"),
}


class LayerResources:
    templates: Sequence[ResourceTemplate] = tuple(
        ResourceTemplate(f"{SCHEME}{layer}/{{{variable}}}", f"{layer} by {variable}", description)
        for layer, (variable, description) in ABOUT.items()
    )

    async def list(self, call: Call) -> list[Resource]:
        """The four layers, and every page of theirs."""
        sage = call.service(Sage)
        found = await gather(_paths(sage), sage.deadline(TOPIC).left())
        layers = [Resource(f"{SCHEME}{layer}", layer, description) for layer, (_, description) in ABOUT.items()]
        return layers + [_resource(sage, path) for path in (found.items or (sage.library.known() or (),))[0]]

    async def read(self, call: Call, uri: str) -> ResourceText | None:
        if not uri.lower().startswith(SCHEME):
            return None
        layer, _, topic = unquote(uri[len(SCHEME) :]).partition("/")
        layer = layer.strip().lower()
        if layer not in (*LAYERS, ALL):
            known: list[JsonValue] = [*LAYERS]
            raise NotFound(
                f"There is no layer '{layer[:50]}'; there are {', '.join(LAYERS)}", layer=layer[:50], layers=known
            )
        answer = await call.service(Sage).knowledge(layer, topic.strip("/ ") or None)
        return ResourceText(uri, str(answer["content"]))


def _paths(sage: Sage) -> Iterator[tuple[str, ...]]:
    yield sage.library.paths()


def _resource(sage: Sage, path: str) -> Resource:
    name = topic_of(path)
    page = sage.library.cached(path)
    about = (page.summary or page.title) if page is not None else name
    return Resource(SCHEME + quote(name), name, about)
