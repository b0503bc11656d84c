"""The documents of the tests of the page."""

from __future__ import annotations

import httpx
from PIL import Image, ImageDraw, ImageFont

from tests.data.extract import documents
from tests.support.pdfs import place_lines, write_sentences
from tests.support.server_process import ServerProcess

OPERATOR_KEY = "operator-key-of-the-tests-0123456789"
HANDBOOK = "Lighthouse handbook.pdf"
LAMP_LINES = [
    "The lamp of the lighthouse is lit every evening at sunset.",
    "The keeper trims the wick before the lamp is lit, because a long",
    "wick blackens the glass of the lantern and dims the light.",
    "Whale oil was burned until the paraffin lamp replaced it.",
    "A spare mantle lies in the drawer below the clockwork.",
]
LENS_LINES = [
    "The Fresnel lens turns on a bath of mercury, so that one finger",
    "can move four tons of glass. Mercury fumes are poisonous, so the",
    "lantern room is aired every morning before the lens is cleaned.",
    "Spirit of wine and a linen cloth clean the prisms of the lens.",
]
FOG_LINES = [
    "In fog the horn sounds three times a minute until the mist lifts.",
    "The keeper writes the hours of fog into the log of the station.",
]
BREAD = """# Sourdough bread

Feed the starter the evening before. It is ready when it **doubles** in a warm kitchen.

## Dough

- 500 g flour
- 350 g water
- 10 g salt

| Hour | Step |
|------|------|
| 0 | mix flour and water |
| 1 | add salt and starter |

## Baking

Bake the loaf in a covered iron pot for forty minutes at 240 degrees.
"""
GARDEN = (
    "Tomatoes need warm nights. Plant the seedlings after the last frost and water them in the morning. "
    "Basil grows well beside tomatoes and keeps the whitefly away."
)
DIARY = """# Tomato diary

The tomatoes on the balcony were planted on the tenth of May, because the nights were warm early this year.

## Watering tomatoes

Tomato plants in pots need water every morning, and twice a day when it is hot.
"""
BALCONY = (
    "Tomatoes on a balcony need a large pot, a stick to climb and six hours of sun. "
    "Pinch out the side shoots of the tomatoes every week."
)
RULES = "Harbour rules.pdf"
RULES_LINES = [
    "Every ship longer than twenty metres takes a pilot on board before",
    "it passes the two breakwaters. The pilot boat waits beside the bell",
    "buoy from four in the morning until midnight, and a blue lantern on",
    "its mast shows that a pilot is free. Captains who come without a",
    "pilot pay twice the fee and answer for every broken mooring.",
]
"""A passage whose heading is on the page before its text."""
SCAN = "Scanned letter.png"
SCAN_LINES = (
    "The beekeeper moves the hives at night,",
    "because the bees return before dark.",
    "Heather honey is harvested in September",
    "and pressed from the comb with care.",
)


def make_handbook() -> bytes:
    """Return a PDF of three pages about a lighthouse."""
    pdf = documents.Pdf()
    for lines in (LAMP_LINES, LENS_LINES, FOG_LINES):
        pdf.text(*place_lines(60, 120, lines))
    return pdf.to_bytes()


def make_rules() -> bytes:
    """Return a PDF with a heading at the bottom of the first page and its text on the second."""
    pdf = documents.Pdf()
    pdf.text(*place_lines(60, 100, write_sentences(41, 20)), (60, 90, 22, "Pilots of the harbour"))
    pdf.text(*place_lines(60, 80, RULES_LINES))
    return pdf.to_bytes()


def make_scan() -> bytes:
    """Return a picture of four lines of text."""
    image = Image.new("L", (1654, 900), 255)
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(48)
    for row, line in enumerate(SCAN_LINES):
        pen.text((150, 150 + 90 * row), line, fill=0, font=font)
    return documents.encode_image(image, "PNG")


def add_library(server: ServerProcess) -> None:
    """Add the documents; two of those about tomatoes are in a collection and have tags."""
    made = server.http.post("/collections", json={"name": "balcony", "title": "Balcony"})
    assert made.status_code == httpx.codes.CREATED, made.text
    files = {
        HANDBOOK: make_handbook(), "Bread.md": BREAD.encode(), "Garden.txt": GARDEN.encode(), RULES: make_rules(),
        SCAN: make_scan(),
    }  # fmt: skip
    answers = [server.add_file(name, content) for name, content in files.items()]
    for name, text, tags in (("Diary.md", DIARY, ["tomato", "diary"]), ("Balcony.txt", BALCONY, ["tomato"])):
        about = {"collection": "balcony", "tags": tags}
        answers.append(server.http.post("/jobs", files={"file": (name, text.encode())}, data=about))
    for answer in answers:
        assert server.wait_for_outcome(answer)["status"] == "completed"
