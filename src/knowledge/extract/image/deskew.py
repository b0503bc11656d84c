"""How a scanned page lies: lines of text make sharp bands when they are level, and blur when they are not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from PIL import Image, ImageOps

SIDE = 700
"""Pixels are enough to see bands, and few enough to turn the page many times."""
WIDEST = 15
PLAIN = 0.6
"""Degrees below which straightening costs more sharpness than it gives."""


def straighten(image: Image.Image) -> tuple[Image.Image, float]:
    """The page with its lines level or upright, and by how many degrees it was turned."""
    small = _thumbnail(image)
    if small is None:
        return image, 0.0
    sideways = small.rotate(90, expand=True)
    level, upright = _best(small), _best(sideways)
    angle = level[1] if level[0] >= upright[0] * 0.9 else upright[1]
    if abs(angle) < PLAIN:
        return image, 0.0
    return image.rotate(angle, resample=Image.Resampling.BICUBIC, expand=True, fillcolor=255), angle


def lies_sideways(image: Image.Image) -> bool:
    """Whether the lines of a straightened page run from bottom to top or from top to bottom."""
    small = _thumbnail(image)
    return small is not None and _bands(small.rotate(90, expand=True)) > 1.3 * _bands(small)


def _thumbnail(image: Image.Image) -> Image.Image | None:
    """Small, dark text on black: where nothing stands, turning the page brings nothing in."""
    if min(image.size) < 100:
        return None
    small = image.convert("L")
    small.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    return ImageOps.autocontrast(ImageOps.invert(small), cutoff=1).point(lambda value: value if value > 60 else 0)


def _best(small: Image.Image) -> tuple[float, float]:
    """The sharpest bands and the angle that gives them, first in whole degrees, then in quarters."""
    coarse = _sharpest(small, range(-WIDEST, WIDEST + 1))
    return _sharpest(small, (coarse[1] + step / 4 for step in range(-3, 4)))


def _sharpest(small: Image.Image, angles: Iterable[float]) -> tuple[float, float]:
    return max(((_bands(small.rotate(angle, expand=False)), angle) for angle in angles), key=lambda found: found[0])


def _bands(small: Image.Image) -> float:
    rows = list(small.resize((1, small.height), Image.Resampling.BOX).tobytes())
    return float(sum((above - below) ** 2 for above, below in pairwise(rows)))
