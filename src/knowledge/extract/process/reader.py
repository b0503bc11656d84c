"""One document on its way through a child: first its facts, then its pages, at the reader's own pace."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.extract.base import Facts, PageText
from knowledge.extract.process import frames
from knowledge.extract.process.exchange import Exchange
from knowledge.extract.process.frames import Mark


class Parsing(Exchange):
    """A context manager: inside it `facts` is known, and iterating yields the pages as the child sends them."""

    _facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        if self._facts is None:
            raise RuntimeError("The facts are known inside the with block")
        return self._facts

    def begin(self) -> None:
        mark, payload = self.next()
        try:
            if mark is not Mark.FACTS:
                raise frames.BrokenFrame("pages came before facts")
            self._facts = frames.load_facts(payload)
        except frames.BrokenFrame as error:
            raise self.broken(error) from error

    def __iter__(self) -> Iterator[PageText]:
        for mark, payload in self.receive():
            try:
                if mark is not Mark.PAGE:
                    raise frames.BrokenFrame(f"{mark.name} where a page was due")
                page = frames.load_page(payload)
            except frames.BrokenFrame as error:
                raise self.broken(error) from error
            yield page
