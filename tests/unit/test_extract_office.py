"""Office, OpenDocument and RTF files give the text that their programs show."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from knowledge.extract.office.repairs.workbooks import format_time, is_time_format
from tests.data.extract import documents
from tests.data.extract.read_sample import join_text, read_pages

SAMPLES = Path(__file__).parents[1] / "data" / "extract"


def sample(name: str) -> bytes:
    return gzip.decompress((SAMPLES / f"{name}.gz").read_bytes())


def harbour(kind: str) -> bytes:
    return sample(f"harbour.{kind}")


@pytest.mark.parametrize("kind", ["doc", "xls", "ppt"])
def test_an_old_office_document_has_an_author_and_dates(tmp_path: Path, kind: str) -> None:
    facts, _ = read_pages(tmp_path, f"a.{kind}", harbour(kind))
    assert (facts.doc_type, facts.title, facts.author) == (kind, "Harbour handbook", "Ada Lovelace")
    assert (facts.metadata["created"], facts.metadata["modified"]) == ("2024-03-01T10:00:00", "2024-03-02T11:00:00")


def test_doc_keeps_its_structure(tmp_path: Path) -> None:
    text = join_text(read_pages(tmp_path, "a.doc", harbour("doc"))[1])
    for line in (
        "# Harbour rules",
        "## Prices",
        "| Coffee | 8 |",
        "- second thing",
        "Привет 日本",
        "Except in winter.",
    ):
        assert line in text.splitlines()
    assert "Größe zählt." in text


def test_doc_shows_no_deleted_or_hidden_text(tmp_path: Path) -> None:
    text = join_text(read_pages(tmp_path, "a.doc", sample("changed.doc"))[1])
    assert (text.count("nine"), text.count("unseen")) == (0, 0)
    assert text.split("\n\n")[4:6] == ["Ware 5 costs twelve crowns in Tōkyō.", "Ware 6 costs twelve crowns in all."]


def test_xls_shows_dates_percentages_and_sums(tmp_path: Path) -> None:
    facts, pages = read_pages(tmp_path, "a.xls", harbour("xls"))
    assert (facts.page_count, [page.number for page in pages]) == (2, [1, 2])
    assert pages[0].text.splitlines()[2:] == [
        "| Ware | Price | Share | Day |",
        "| --- | --- | --- | --- |",
        "| Tea | 12.5 | 25.6% | 2024-05-01 |",
        "| Coffee | 8 | 25.6% | 2024-05-01 |",
        "| Total | 20.5 |  |  |",
    ]


def test_ppt_has_pages_and_notes(tmp_path: Path) -> None:
    facts, pages = read_pages(tmp_path, "a.ppt", harbour("ppt"))
    assert facts.page_count == 2
    assert pages[1].text == "# The prices\n\nTea costs twelve\n\nNotes: Mention winter"


def test_a_table_in_ppt_has_rows(tmp_path: Path) -> None:
    _, [page] = read_pages(tmp_path, "a.ppt", sample("prices.ppt"))
    rows = ["| Ware | Year | Price |", "| --- | --- | --- |", "| Tea from Assam | 1899 | 12 |", "| Sum |  | 25 |"]
    assert page.text.splitlines() == ["# The prices", "", *rows, "", "In crowns"]


@pytest.mark.parametrize("kind", ["doc", "xls", "ppt"])
def test_an_old_office_document_with_the_suffix_of_another_program_is_read(tmp_path: Path, kind: str) -> None:
    assert read_pages(tmp_path, "a.docx", harbour(kind))[0].doc_type == kind


def test_times_of_day_in_xls_are_times(tmp_path: Path) -> None:
    rows = [[(0, 0.5), (1, 0.5), (2, 1.25)], [(1, 0.75), (0, 0.75), (0, 3)]]
    _, [page] = read_pages(tmp_path, "a.xls", documents.make_xls(["h:mm", "[h]:mm:ss"], rows))
    assert page.text.splitlines()[2:] == ["| 0.5 | 12:00 | 30:00:00 |", "| --- | --- | --- |", "| 18:00 | 0.75 | 3 |"]


# -- Word -----------------------------------------------------------------------------------------


def styled(style: str, words: str) -> str:
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{words}</w:t></w:r></w:p>'


def test_a_style_with_the_name_of_a_heading_makes_a_heading(tmp_path: Path) -> None:
    body = (
        styled("Titel", "Of tea &amp; ships")
        + styled("Text", "Words.")
        + styled("H2", "Rules")
        + styled("Text", "More.")
    )
    styles = {"Titel": "Title", "H2": "heading 2", "Text": "Normal"}
    _, pages = read_pages(tmp_path, "a.docx", documents.make_docx(body, styles))
    assert join_text(pages).strip().split("\n\n") == ["# Of tea & ships", "Words.", "## Rules", "More."]


def test_a_heading_style_without_an_outline_level_makes_a_heading(tmp_path: Path) -> None:
    document = documents.make_docx(styled("Heading1", "Rules") + styled("Text", "None."), {"Heading1": "heading 1"})
    assert join_text(read_pages(tmp_path, "a.docx", document)[1]).strip().split("\n\n") == ["# Rules", "None."]


def test_a_style_based_on_a_heading_makes_a_heading(tmp_path: Path) -> None:
    def made(style: str, base: str) -> str:
        return f'<w:style w:styleId="{style}"><w:name w:val="{style}"/><w:basedOn w:val="{base}"/></w:style>'

    chained = made("Chapter", "Heading1") + made("Firm", "H2") + made("Ring", "Round") + made("Round", "Ring")
    body = "".join(styled(style, f"Words in {style}") for style in ("Chapter", "Firm", "Ring"))
    document = documents.make_docx(body, {"Heading1": "heading 1", "H2": "heading 2"}, chained)
    lines = join_text(read_pages(tmp_path, "a.docx", document)[1]).strip().split("\n\n")
    assert lines == ["# Words in Chapter", "## Words in Firm", "Words in Ring"]


def test_words_between_brackets_are_no_link(tmp_path: Path) -> None:
    _, pages = read_pages(tmp_path, "a.docx", documents.make_docx(styled("Text", "as in [1](below) of it"), {}))
    assert join_text(pages).replace("\\", "").strip() == "as in [1](below) of it"


def test_a_table_within_a_cell_is_kept_in_its_row(tmp_path: Path) -> None:
    def table(*cells: str) -> str:
        return f"<w:tbl><w:tr>{''.join(f'<w:tc>{cell}<w:p/></w:tc>' for cell in cells)}</w:tr></w:tbl>"

    inner = table(styled("Text", "inner left"), styled("Text", "inner right"))
    _, pages = read_pages(tmp_path, "a.docx", documents.make_docx(table(styled("Text", "outer"), inner), {}))
    line = next(line for line in join_text(pages).splitlines() if "outer" in line)
    assert ("inner left" in line, "inner right" in line, "<br>" in line, "---" in line) == (True, True, False, False)


def old_box(inner: str) -> str:
    return (
        '<w:pict><v:textbox xmlns:v="urn:schemas-microsoft-com:vml">'
        f"<w:txbxContent>{inner}</w:txbxContent></v:textbox></w:pict>"
    )


def box(inner: str) -> str:
    """Return a text box as Word writes it: in DrawingML, and in VML as a fallback for Word 2007."""
    shape = "http://schemas.microsoft.com/office/word/2010/wordprocessingShape"
    new = (
        '<w:drawing><a:graphic xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
        f'<a:graphicData uri="{shape}"><wps:wsp xmlns:wps="{shape}"><wps:txbx><w:txbxContent>{inner}</w:txbxContent>'
        "</wps:txbx></wps:wsp></a:graphicData></a:graphic></w:drawing>"
    )
    return (
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f'<mc:Choice Requires="wps">{new}</mc:Choice><mc:Fallback>{old_box(inner)}</mc:Fallback></mc:AlternateContent>'
    )


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(f'<w:r>{run}</w:r>' for run in runs)}</w:p>"


def blocks(tmp_path: Path, body: str) -> list[str]:
    return join_text(read_pages(tmp_path, "a.docx", documents.make_docx(body, {}))[1]).strip().split("\n\n")


def test_a_text_box_follows_its_paragraph(tmp_path: Path) -> None:
    first, second = box(styled("Text", "In a box") + styled("Text", "more")), old_box(styled("Text", "An old one"))
    body = paragraph("<w:t>Before</w:t>", first, second, "<w:t> and after.</w:t>") + styled("Text", "Next")
    assert blocks(tmp_path, body) == ["Before and after.", "In a box", "more", "An old one", "Next"]


def test_a_text_box_within_a_text_box_is_read_once(tmp_path: Path) -> None:
    outer = paragraph("<w:t>Outer</w:t>", box(styled("Text", "inner"))) + styled("Text", "more of it")
    assert blocks(tmp_path, paragraph(box(outer))) == ["Outer", "inner", "more of it"]


def test_lines_that_repeat_at_a_page_break_are_kept(tmp_path: Path) -> None:
    page_break = paragraph('<w:br w:type="page"/>')
    body = styled("Text", "Handbook") + styled("Text", "Rules") + page_break + styled("Text", "Handbook")
    text = join_text(read_pages(tmp_path, "a.docx", documents.make_docx(body, {}))[1])
    assert text.split() == ["Handbook", "Rules", "---", "Handbook"]


def test_headers_and_footers_of_word_are_read_once(tmp_path: Path) -> None:
    section = (
        f'<w:sectPr xmlns:r="{documents.RELATION}"><w:headerReference w:type="default" r:id="h"/>'
        '<w:footerReference w:type="default" r:id="f"/></w:sectPr>'
    )
    body = styled("Text", "One") + f"<w:p><w:pPr>{section}</w:pPr></w:p>" + styled("Text", "Two") + section
    kinds = {"h": ("header", "hdr", "Gazette"), "f": ("footer", "ftr", "Page")}
    relations = "".join(
        f'<Relationship Id="{key}" Type="{documents.RELATION}/{kind}" Target="{kind}1.xml"/>'
        for key, (kind, *_) in kinds.items()
    )
    parts = {
        f"word/{kind}1.xml": f'<w:{tag} xmlns:w="{documents.WORDS}">{styled("Text", words)}</w:{tag}>'
        for kind, tag, words in kinds.values()
    }
    listed = f'<Relationships xmlns="{documents.PACKAGE}/relationships">{relations}</Relationships>'
    made = documents.add_members(documents.make_docx(body, {}), {**parts, "word/_rels/document.xml.rels": listed})
    text = join_text(read_pages(tmp_path, "a.docx", made)[1])
    assert text.split() == ["Gazette", "One", "Two", "Page"]


def test_cells_after_a_spanning_cell_keep_their_columns(tmp_path: Path) -> None:
    def row(*cells: str) -> str:
        return f"<w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in cells)}</w:tr>"

    tea, twelve = styled("Text", "Tea"), styled("Text", "12")
    wide = f'<w:tcPr><w:gridSpan w:val="2"/></w:tcPr><w:tbl>{row(tea)}</w:tbl><w:p/>'
    rows = row(tea, styled("Text", "Assam"), twelve) + row(wide, twelve)
    [table] = blocks(tmp_path, f"<w:tbl>{rows}</w:tbl>")
    assert table.splitlines()[2].split("|")[-3:] == ["  ", " 12 ", ""]


def test_ruby_base_text_is_read(tmp_path: Path) -> None:
    base = "<w:rubyBase><w:r><w:t>東京</w:t></w:r></w:rubyBase>"
    ruby = f"<w:ruby><w:rt><w:r><w:t>とうきょう</w:t></w:r></w:rt>{base}</w:ruby>"
    assert blocks(tmp_path, paragraph(ruby, "<w:t>へ</w:t>")) == ["東京へ"]


# -- Excel ----------------------------------------------------------------------------------------


def cell(place: str, words: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{words}</t></is></c>'


def test_times_of_day_are_times(tmp_path: Path) -> None:
    rows = f'<row r="1">{cell("A1", "Opens")}<c r="B1" s="1"><v>0.5729166666666666</v></c></row>'
    rows += f'<row r="2">{cell("A2", "Worked")}<c r="B2" s="2" t="n"><v>1.75</v></c></row>'
    _, pages = read_pages(tmp_path, "a.xlsx", documents.make_xlsx({"Hours": rows}, ["h:mm", "[h]:mm:ss"]))
    assert pages[0].text.splitlines()[2:] == ["| Opens | 13:45 |", "| --- | --- |", "| Worked | 42:00:00 |"]


def test_a_formula_without_a_cached_value_is_shown(tmp_path: Path) -> None:
    rows = (
        f'<row r="1">{cell("A1", "Total")}<c r="B1"><f>SUM(B2:B3)</f><v></v></c><c r="C1"><f>1+1</f><v>2</v></c></row>'
    )
    made = documents.make_xlsx({"Sums": rows}, [], '<calcPr fullCalcOnLoad="1"/>')
    assert "| Total | =SUM(B2:B3) | 2 |" in join_text(read_pages(tmp_path, "a.xlsx", made)[1])
    cells = ('table:formula="of:=SUM([.B2:.B3])"', 'office:value-type="float" office:value="2"')
    row = f"<table:table-row>{''.join(f'<table:table-cell {one}/>' for one in cells)}</table:table-row>"
    table = f'<table:table table:name="Sums">{row}</table:table>'
    sheet = documents.make_opendocument("spreadsheet", f"<office:spreadsheet>{table}</office:spreadsheet>")
    assert "| =SUM(B2:B3) | 2 |" in join_text(read_pages(tmp_path, "a.ods", sheet)[1])


def test_numbers_look_as_a_workbook_shows_them(tmp_path: Path) -> None:
    cells = (
        '<c r="B1" s="1"><v>1067</v></c><c r="C1"><v>1.7000000000000002</v></c><c r="D1"><v>299.99999999999994</v></c>'
    )
    made = documents.make_xlsx({"Towns": f'<row r="1">{cell("A1", "Dresden")}{cells}</row>'}, ["00000"])
    assert "| Dresden | 01067 | 1.7 | 300 |" in join_text(read_pages(tmp_path, "a.xlsx", made)[1])


@pytest.mark.parametrize(("code", "time"), [("h:mm", True), ("mm:ss.0", True), ("d.m.yy h:mm", False), ("0.0", False)])
def test_a_time_format_has_hours_or_seconds_and_no_days(code: str, time: bool) -> None:
    assert is_time_format(code) is time


def test_a_time_is_written_as_its_format_counts_it() -> None:
    assert [format_time(1.5, code) for code in ("hh:mm", "[h]:mm", "h:mm:ss", "mm:ss")] == [
        "12:00",
        "36:00",
        "12:00:00",
        "720:00",
    ]


def test_an_empty_sheet_counts_among_the_others(tmp_path: Path) -> None:
    sheets = {
        "One": f'<row r="1">{cell("A1", "first")}</row>',
        "Two": "",
        "Three": f'<row r="1">{cell("A1", "third")}</row>',
    }
    facts, pages = read_pages(tmp_path, "a.xlsx", documents.make_xlsx(sheets, []))
    assert facts.page_count == 3
    assert [(page.number, page.text.splitlines()[0]) for page in pages] == [(1, "## One"), (3, "## Three")]


def test_a_cell_far_to_the_right_does_not_widen_every_row(tmp_path: Path) -> None:
    rows = f'<row r="1">{cell("A1", "Name")}{cell("B1", "Price")}</row>'
    rows += f'<row r="2">{cell("A2", "Tea")}{cell("ZZ2", "far")}</row>'
    _, pages = read_pages(tmp_path, "a.xlsx", documents.make_xlsx({"One": rows}, []))
    assert pages[0].text.splitlines()[2:] == ["| Name | Price |  |", "| --- | --- | --- |", "| Tea |  | far |"]


# -- PowerPoint -----------------------------------------------------------------------------------


def test_the_body_of_a_slide_is_between_its_title_and_its_boxes(tmp_path: Path) -> None:
    title, body = (
        documents.make_shape("The prices", 'type="title"'),
        documents.make_shape("Tea costs twelve", 'idx="1"'),
    )
    boxes = documents.make_shape("Beside the title", "", 0.5) + documents.make_shape("Below", "", 5)
    _, [page] = read_pages(tmp_path, "a.pptx", documents.make_pptx(boxes + title + body))
    assert page.text.split("\n\n") == ["## The prices", "Beside the title", "Tea costs twelve", "Below"]


def test_the_footer_of_every_slide_is_read_once(tmp_path: Path) -> None:
    edge = documents.make_shape("Harbour Gazette", 'type="ftr" idx="11"') + documents.make_shape(
        "7", 'type="sldNum" idx="12"'
    )
    slides = (documents.make_shape(title, 'type="title"') + edge for title in ("One", "Two"))
    _, pages = read_pages(tmp_path, "a.pptx", documents.make_pptx(*slides))
    assert [page.text for page in pages] == ["## One\n\nHarbour Gazette", "## Two"]


def test_cells_beside_spanning_cells_of_a_slide_keep_their_columns(tmp_path: Path) -> None:
    def cell(words: str, span: str = "") -> str:
        return f"<a:tc {span}><a:txBody><a:bodyPr/><a:p><a:r><a:t>{words}</a:t></a:r></a:p></a:txBody></a:tc>"

    rows = (
        cell("Ware") + cell("Year") + cell("Price"),
        cell("Tea", 'rowSpan="2"') + cell("1899") + cell("12"),
        cell("", 'vMerge="1"') + cell("1900") + cell("13"),
        cell("Sum", 'gridSpan="2"') + cell("", 'hMerge="1"') + cell("25"),
    )
    table = f"<a:tbl><a:tblGrid/>{''.join(f'<a:tr>{row}</a:tr>' for row in rows)}</a:tbl>"
    kind = "http://schemas.openxmlformats.org/drawingml/2006/table"
    frame = (
        f'<p:graphicFrame><a:graphic><a:graphicData uri="{kind}">{table}</a:graphicData></a:graphic></p:graphicFrame>'
    )
    _, [page] = read_pages(tmp_path, "a.pptx", documents.make_pptx(frame))
    assert page.text.splitlines()[4:] == ["| Tea | 1899 | 12 |", "|  | 1900 | 13 |", "| Sum |  | 25 |"]


# -- OpenDocument and RTF -------------------------------------------------------------------------


def numbered(items: str, attributes: str = "") -> str:
    return f'<text:list text:style-name="L" {attributes}>{items}</text:list>'


def item(words: str, more: str = "") -> str:
    return f"<text:list-item><text:p>{words}</text:p>{more}</text:list-item>"


def test_an_opendocument_list_is_numbered_by_its_style(tmp_path: Path) -> None:
    inner = f"<text:list>{item('deep')}{item('deeper')}</text:list>"
    body = (
        numbered(item("one", inner) + item("two"))
        + "<text:p>between</text:p>"
        + numbered(item("three"), 'text:continue-numbering="true"')
        + f"<text:list>{item('dot')}</text:list>"
    )
    styles = (
        f'<office:document-styles {documents.SPACES}><text:list-style style:name="L">'
        '<text:list-level-style-number text:level="1" style:num-format="1"/>'
        '<text:list-level-style-bullet text:level="2"/></text:list-style></office:document-styles>'
    )
    content = documents.make_opendocument("text", f"<office:text>{body}</office:text>", styles=styles)
    assert join_text(read_pages(tmp_path, "a.odt", content)[1]).strip().split("\n\n") == [
        "1. one\n  - deep\n  - deeper\n2. two", "between", "3. three", "- dot",
    ]  # fmt: skip


def test_a_numbered_opendocument_chapter_is_a_heading(tmp_path: Path) -> None:
    body = numbered('<text:list-item><text:h text:outline-level="2">Rules</text:h></text:list-item>')
    content = documents.make_opendocument("text", f"<office:text>{body}<text:p>None.</text:p></office:text>")
    assert "## Rules" in join_text(read_pages(tmp_path, "a.odt", content)[1]).splitlines()


REMARK = (
    '<office:annotation><dc:creator xmlns:dc="http://purl.org/dc/elements/1.1/">Ada</dc:creator>'
    "<text:p>Is that so?</text:p></office:annotation>"
)


def test_comments_in_an_opendocument_follow_what_they_are_about(tmp_path: Path) -> None:
    text = f"<office:text><text:p>Tea is{REMARK} green.</text:p></office:text>"
    _, pages = read_pages(tmp_path, "a.odt", documents.make_opendocument("text", text))
    assert join_text(pages).strip() == "Tea is green.\n\n**Comment (Ada):** Is that so?"
    cell = f"<table:table-cell>{REMARK}<text:p>12</text:p></table:table-cell>"
    sheet = (
        f"<office:spreadsheet><table:table><table:table-row>{cell}</table:table-row></table:table></office:spreadsheet>"
    )
    _, pages = read_pages(tmp_path, "a.ods", documents.make_opendocument("spreadsheet", sheet))
    assert "| 12 **Comment (Ada):** Is that so? |" in join_text(pages)


def test_a_title_above_the_columns_of_an_opendocument_sheet_is_not_its_header(tmp_path: Path) -> None:
    def row(*words: str) -> str:
        cells = "".join(f"<table:table-cell><text:p>{word}</text:p></table:table-cell>" for word in words)
        return f"<table:table-row>{cells}</table:table-row>"

    rows = row("Prices of 1899") + row("Ware", "Origin", "Price") + row("Tea", "Assam", "12")
    sheet = f'<office:spreadsheet><table:table table:name="A">{rows}</table:table></office:spreadsheet>'
    _, [page] = read_pages(tmp_path, "a.ods", documents.make_opendocument("spreadsheet", sheet))
    assert page.text == (
        "## A\n\nPrices of 1899\n\n| Ware | Origin | Price |\n| --- | --- | --- |\n| Tea | Assam | 12 |"
    )


def test_an_opendocument_text_has_its_title_boxes_header_and_footer_once(tmp_path: Path) -> None:
    body = (
        '<office:automatic-styles><style:style style:name="P1" style:parent-style-name="Title"/><style:style '
        'style:name="T1"><style:text-properties text:display="none"/></style:style></office:automatic-styles>'
        '<office:text><text:p text:style-name="P1">Of ships</text:p><text:p>Seen<text:span text:style-name="T1">unseen'
        "</text:span> words<draw:custom-shape><text:p>In a box</text:p></draw:custom-shape></text:p></office:text>"
    )
    edges = (
        "<style:header><text:p>Harbour Gazette</text:p></style:header><style:footer><text:p>Ada</text:p></style:footer>"
    )
    styles = f"<office:styles {documents.SPACES}><style:master-page>{edges}</style:master-page></office:styles>"
    data = documents.make_opendocument("text", body, styles=styles)
    blocks = join_text(read_pages(tmp_path, "a.odt", data)[1]).strip().split("\n\n")
    assert blocks == ["Harbour Gazette", "# Of ships", "Seen words", "In a box", "Ada"]


def test_formulas_and_charts_in_an_opendocument_are_read(tmp_path: Path) -> None:
    def frame(name: str) -> str:
        return (
            f'<draw:frame><draw:object xlink:href="./{name}" xmlns:xlink="http://www.w3.org/1999/xlink"/></draw:frame>'
        )

    math = "<math><semantics><mi>E</mi><annotation>E = m c^2</annotation></semantics></math>"
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    rows = "".join(f"<table:table-row>{cell.format(a)}{cell.format(b)}</table:table-row>" for a, b in ("xy", "12"))
    chart = (
        f'<office:chart {documents.SPACES} xmlns:c="urn:oasis:names:tc:opendocument:xmlns:chart:1.0"><c:chart><c:title>'
        f"<text:p>Waves</text:p></c:title><table:table>{rows}</table:table></c:chart></office:chart>"
    )
    text = (
        f"<office:text><text:p>So {frame('Formula')} holds.</text:p><text:p>See{frame('Chart')}</text:p></office:text>"
    )
    objects = {"Formula/content.xml": math, "Chart/content.xml": chart}
    made = documents.add_members(documents.make_opendocument("text", text), objects)
    assert join_text(read_pages(tmp_path, "a.odt", made)[1]).strip().split("\n\n") == [
        "So E = m c^2 holds.", "See", "Waves", "| x | y |\n| --- | --- |\n| 1 | 2 |",
    ]  # fmt: skip


def test_a_table_within_a_table_is_read_once(tmp_path: Path) -> None:
    def table(*cells: str) -> str:
        inner = "".join(f"<table:table-cell>{one}</table:table-cell>" for one in cells)
        return f"<table:table><table:table-row>{inner}</table:table-row></table:table>"

    body = f"<office:text>{table('<text:p>outer</text:p>', table('<text:p>inner</text:p>'))}</office:text>"
    assert join_text(read_pages(tmp_path, "a.odt", documents.make_opendocument("text", body))[1]).count("inner") == 1


def test_rtf_has_a_creation_date_and_a_title(tmp_path: Path) -> None:
    rtf = (
        r"{\rtf1\ansi{\stylesheet{\s0 Normal;}{\s5 Title;}}{\info{\author Ada}{\creatim\yr2023\mo4\dy5\hr6\min7}}"
        r"\pard\s5 Of ships\par\pard\s0 Words.\par}"
    )
    facts, pages = read_pages(tmp_path, "a.rtf", rtf.encode())
    assert facts.metadata["created"] == "2023-04-05T06:07:00"
    assert join_text(pages).strip().split("\n\n") == ["# Of ships", "Words."]


def test_a_cell_of_an_rtf_table_may_hold_several_paragraphs(tmp_path: Path) -> None:
    first, second = r"{{\pard\intbl Tea\par}{\pard\intbl from Assam\par}\cell}", r"{{\pard\intbl 12\par}\cell}"
    row = rf"\trowd\cellx2160\cellx4320{first}{second}\row"
    text = join_text(read_pages(tmp_path, "a.rtf", (r"{\rtf1 " + row + row + r"\pard After\par}").encode())[1])
    assert text.strip().splitlines()[1:] == ["| --- | --- |", "| Tea from Assam | 12 |", "", "After"]


def test_rtf_has_headers_and_footers_once_and_comments(tmp_path: Path) -> None:
    rtf = (
        r"{\rtf1{\stylesheet{\s1 heading 1;}{\s7\sbasedon1 Firm;}{\s8\sbasedon0 Small;}}"
        r"{\header \pard Harbour {\b Gazette}\par}{\footerl page {\field{\*\fldinst PAGE}{\fldrslt 1}}\par}{\footer 2}"
        r"\pard\s7 Rules\par\pard\s8"
        r" Pay{\*\atnid A}\chatn{\*\annotation{\*\atndate 12}\pard Really?\par Yes.} first.\par"
        r"\sect{\header \pard Harbour Gazette\par}}"
    )
    assert join_text(read_pages(tmp_path, "a.rtf", rtf.encode())[1]).strip().split("\n\n") == [
        "Harbour Gazette", "# Rules", "Pay [Really? Yes.] first.", "page 1",
    ]  # fmt: skip
