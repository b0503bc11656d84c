"""Events as server-sent events (text/event-stream)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from knowledge.model import Job
from knowledge.model.agents import Agent, RefusedAttempt
from knowledge.model.events import (
    ApprovalChange,
    CollectionChange,
    CrawlProgress,
    DocumentChange,
    Event,
    EventData,
    EventKind,
    Hello,
)
from knowledge.wire.adapters import dump, load_json

KINDS_BY_NAME = {kind.value: kind for kind in EventKind}
SHAPES: dict[EventKind, type[EventData]] = {
    EventKind.HELLO: Hello,
    EventKind.JOB: Job,
    EventKind.CRAWL: CrawlProgress,
    EventKind.DOCUMENT: DocumentChange,
    EventKind.COLLECTION: CollectionChange,
    EventKind.APPROVAL: ApprovalChange,
    EventKind.AGENT: Agent,
    EventKind.REFUSAL: RefusedAttempt,
}


def dump_event(event: Event) -> bytes:
    """Return an event as a block of lines; a heartbeat is a comment, and an id that the client sends back."""
    lines = [] if event.seq is None else [f"id: {event.seq}"]
    if event.kind is EventKind.HEARTBEAT:
        return "\n".join([": heartbeat", *lines, "", ""]).encode()
    # ASCII-escaped, because names may contain lone surrogates or Unicode line separators.
    data = json.dumps({} if event.data is None else dump(event.data), separators=(",", ":"))
    return "\n".join([f"event: {event.kind}", *lines, f"data: {data}", "", ""]).encode()


@dataclass(slots=True)
class EventParser:
    """Parses the lines of an event stream."""

    _kind: str = ""
    _seq: int | None = None
    _data: list[str] = field(default_factory=list)

    def parse_line(self, line: str) -> Event | None:
        """Return the event that a line ends; a kind that this version does not know is left out."""
        if line:
            name, _, value = line.partition(":")
            self._add_field(name, value.removeprefix(" "))
            return None
        name, seq, data = self._kind, self._seq, self._data
        self._kind, self._seq, self._data = "", None, []
        if not name:
            return None if seq is None else Event(EventKind.HEARTBEAT, seq=seq)
        kind = KINDS_BY_NAME.get(name)
        if kind is None:
            return None
        shape = SHAPES.get(kind)
        return Event(kind, None if shape is None else load_json(shape, "\n".join(data).encode()), seq)

    def _add_field(self, name: str, value: str) -> None:
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and value.isdecimal():
            self._seq = int(value)
