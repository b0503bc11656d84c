"""Text boxes of a Word document stand behind the paragraph that holds them, once; office-oxide runs them into it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

BOX, BOX_ENDS, PARAGRAPH_ENDS = b"<w:txbxContent>", b"</w:txbxContent>", b"</w:p>"
OLD, OLD_ENDS = b"<mc:Fallback>", b"</mc:Fallback>"
"""The same once more, for programs that do not know the newer kind of box."""
BORDER = re.compile(b"(" + b"|".join((BOX, BOX_ENDS, PARAGRAPH_ENDS, OLD, OLD_ENDS)) + b")")


@dataclass(slots=True)
class Layer:
    """What has been written so far, of the page or of one box, and the boxes that wait for its paragraph to end."""

    written: list[bytes] = field(default_factory=list)
    waiting: list[bytes] = field(default_factory=list)


def unfolded(part: bytes) -> bytes:
    """One part of a document, with nothing left out but what stands there twice."""
    layers = [Layer()]
    for piece in _once(BORDER.split(part)):
        if piece == BOX:
            layers.append(Layer())
        elif piece == BOX_ENDS and len(layers) > 1:
            inner = layers.pop()
            layers[-1].waiting += inner.written + inner.waiting
        elif piece == PARAGRAPH_ENDS:
            layers[-1].written += [piece, *layers[-1].waiting]
            layers[-1].waiting = []
        else:
            layers[-1].written.append(piece)
    return b"".join(piece for layer in layers for piece in (*layer.written, *layer.waiting))


def _once(pieces: Iterable[bytes]) -> Iterator[bytes]:
    depth = 0
    for piece in pieces:
        depth += piece == OLD
        if not depth:
            yield piece
        depth -= piece == OLD_ENDS and depth > 0
