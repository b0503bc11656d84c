"""An archive on its way through a child: its members one after the other, each with its bytes."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge import errors
from knowledge.extract.process import frames
from knowledge.extract.process.exchange import Exchange
from knowledge.extract.process.frames import Mark, Payload
from knowledge.extract.zip_bundle import LONGEST_NAME


class Unpacking(Exchange):
    """A context manager: inside it, iterating yields each member's name and its bytes, to be read before the next."""

    def __iter__(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        mark, payload = self.next()
        while mark is not Mark.END:
            if mark is not Mark.MEMBER:
                raise self.broken(frames.BrokenFrame(f"{mark.name} where a member was due"))
            member = _Member(self, self._name(payload))
            yield member.name, member.pieces()
            mark, payload = member.skip_to_end()

    def _name(self, payload: Payload) -> str:
        try:
            name = frames.text_of(payload.head, "name", LONGEST_NAME)
            if not name:
                raise frames.BrokenFrame("a member has no name")
        except frames.BrokenFrame as error:
            raise self.broken(error) from error
        return name


class _Member:
    """The bytes of one member, up to the frame that is no longer part of it."""

    def __init__(self, exchange: Exchange, name: str) -> None:
        self.name = name
        self._exchange = exchange
        self._after: tuple[Mark, Payload] | None = None

    def pieces(self) -> Iterator[bytes]:
        while self._after is None:
            mark, payload = self._exchange.next()
            if mark is Mark.DATA:
                yield payload.data
            elif mark is Mark.DAMAGED:
                raise errors.Damaged(str(payload.head.get("message"))[:2000], filename=self.name)
            else:
                self._after = mark, payload

    def skip_to_end(self) -> tuple[Mark, Payload]:
        """Whatever the caller did not read; answers the frame that follows."""
        while self._after is None:
            mark, payload = self._exchange.next()
            if mark not in (Mark.DATA, Mark.DAMAGED):
                self._after = mark, payload
        return self._after
