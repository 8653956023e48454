"""The structure of a DoclingDocument decides about chunks, and each tells which items and pages it comes from."""

from __future__ import annotations

from typing import Any

from soliplex.ingester.lib.chunking import Chunk, ChunkOptions, chunk, embedding_text

type Json = dict[str, Any]


class Paper:
    """Builds the JSON of a DoclingDocument, item by item."""

    def __init__(self) -> None:
        self.body: Json = {"self_ref": "#/body", "children": []}
        self.json: Json = {"body": self.body, "texts": [], "groups": [], "tables": [], "pictures": [], "form_items": []}

    def add(self, kind: str, label: str, parent: Json | None = None, *, page: int | None = None, **facts: Any) -> Json:
        item: Json = {"self_ref": f"#/{kind}/{len(self.json[kind])}", "children": [], "content_layer": "body"}
        item |= {"label": label, "prov": [{"page_no": page}] if page else [], **facts}
        self.json[kind].append(item)
        (self.body if parent is None else parent)["children"].append({"$ref": item["self_ref"]})
        return item

    def text(self, text: str, label: str = "text", parent: Json | None = None, **facts: Any) -> Json:
        return self.add("texts", label, parent, text=text, orig=text, **facts)

    def table(self, rows: list[list[str]], *, header: bool = True, **facts: Any) -> Json:
        cells = [cell(text, row, column, header=header and row == 0) for row, texts in enumerate(rows)
                 for column, text in enumerate(texts)]  # fmt: skip
        return self.add("tables", "table", data={"table_cells": cells}, **facts)

    def chunks(self, **options: Any) -> list[Chunk]:
        return chunk(self.json, "not used", ChunkOptions.read(options))


def cell(text: str, row: int, column: int, *, header: bool = False, width: int = 1, **facts: Any) -> Json:
    place = {"start_row_offset_idx": row, "end_row_offset_idx": row + 1, "start_col_offset_idx": column}
    return {**place, "end_col_offset_idx": column + width, "text": text, "column_header": header, **facts}


def ref(item: Json) -> Json:
    return {"$ref": item["self_ref"]}


def test_chunks_know_headings_items_labels_and_pages() -> None:
    paper = Paper()
    paper.text("Report", "title", page=1)
    paper.text("Results", "section_header", level=1, page=1)
    paper.text("It works.", page=1)
    paper.text("It is fast.", page=2)
    (only,) = paper.chunks()
    assert embedding_text(only) == "Report\nResults\nIt works.\n\nIt is fast."
    assert only.metadata.doc_item_refs == ["#/texts/2", "#/texts/3"]
    assert only.metadata.labels == ["text", "text"]
    assert only.metadata.page_numbers == [1, 2]


def test_children_of_a_heading_stand_below_it() -> None:
    paper = Paper()
    heading = paper.text("Results", "section_header", level=1)
    group = paper.add("groups", "inline", heading)
    paper.text("See", parent=group)
    paper.text("the manual", parent=group, hyperlink="https://example.org/m")
    paper.text(", page", parent=group)
    paper.text("f(x)", "code", parent=group)
    paper.text(".", parent=group)
    (only,) = paper.chunks()
    assert embedding_text(only) == "Results\nSee [the manual](https://example.org/m), page `f(x)`."
    assert only.metadata.doc_item_refs == [f"#/texts/{number}" for number in range(1, 6)]


def test_a_heading_set_in_several_fonts_is_one_heading() -> None:
    paper = Paper()
    heading = paper.text("", "section_header", level=1)
    group = paper.add("groups", "inline", heading)
    paper.text("The", parent=group)
    paper.text("map", "code", parent=group)
    paper.text("Text.", parent=heading)
    assert [embedding_text(it) for it in paper.chunks()] == ["The `map`\nText."]


def test_lists_keep_their_markers_and_nesting() -> None:
    paper = Paper()
    outer = paper.add("groups", "list")
    first = paper.text("one", "list_item", outer, marker="-")
    inner = paper.add("groups", "list", first)
    paper.text("below", "list_item", inner, enumerated=True, marker="")
    paper.text("two", "list_item", outer, marker="\u2022")
    paper.text("done", "checkbox_selected")
    assert [it.content for it in paper.chunks()] == ["- one\n    1. below\n- two\n\n[x] done"]


def test_page_headers_are_left_out() -> None:
    paper = Paper()
    paper.text("Page 7", "page_header", content_layer="furniture")
    paper.text("Text.")
    assert [it.content for it in paper.chunks()] == ["Text."]


def test_a_table_has_one_header_line_and_its_caption_once() -> None:
    paper = Paper()
    caption = paper.text("Prices", "caption")
    cells = [
        cell("Thing", 0, 0, header=True),
        cell("Price", 0, 1, header=True, width=2),
        cell("", 1, 0, header=True),
        cell("net", 1, 1, header=True),
        cell("gross", 1, 2, header=True),
        cell("Tea | Co", 2, 0),
        cell("1", 2, 1),
        cell("2", 2, 2),
    ]
    paper.add("tables", "table", data={"table_cells": cells}, captions=[ref(caption)], page=3)
    paper.body["children"].reverse()
    (only,) = paper.chunks()
    table = "| Thing | Price net | Price gross |\n| - | - | - |\n| Tea \\| Co | 1 | 2 |"
    assert only.content == f"Prices\n\n{table}"
    assert only.metadata.doc_item_refs == ["#/tables/0", "#/texts/0"]
    assert only.metadata.page_numbers == [3]


def test_a_long_table_is_cut_between_rows() -> None:
    paper = Paper()
    paper.table([["name", "value"], *([f"row {number}", str(number)] for number in range(100))])
    chunks = paper.chunks(chunk_size=64)
    assert len(chunks) > 5
    assert all(it.content.startswith("| name | value |\n| - | - |\n| row") for it in chunks)
    assert {tuple(it.metadata.doc_item_refs) for it in chunks} == {("#/tables/0",)}


def test_a_cell_may_hold_items() -> None:
    paper = Paper()
    table = paper.table([["speed", ""]], header=False)
    inside = paper.add("groups", "inline", table)
    paper.text("10^2", "formula", inside)
    table["data"]["table_cells"][1]["ref"] = ref(inside)
    assert "| speed | $10^2$ |" in paper.chunks()[0].content


def test_pictures_give_caption_and_description_but_not_the_text_in_them() -> None:
    paper = Paper()
    caption = paper.text("Figure 1", "caption")
    picture = paper.add("pictures", "picture", captions=[ref(caption)], meta={"description": {"text": "A cat."}})
    paper.text("axis label", parent=picture)
    paper.body["children"].reverse()
    assert [it.content for it in paper.chunks()] == ["Figure 1\n\nA cat."]


def test_forms_give_keys_with_their_values() -> None:
    paper = Paper()
    cells = [{"cell_id": 1, "text": "Name"}, {"cell_id": 2, "text": "Ada"}, {"cell_id": 3, "text": "loose"}]
    links = [{"label": "to_value", "source_cell_id": 1, "target_cell_id": 2}]
    paper.add("form_items", "form", graph={"cells": cells, "links": links})
    assert [it.content for it in paper.chunks()] == ["Name: Ada\nloose"]


def test_a_sheet_of_a_workbook_is_a_section() -> None:
    paper = Paper()
    for name in ("Costs", "Sales"):
        sheet = paper.add("groups", "sheet", name=f"sheet: {name}")
        paper.text(f"{name} text", parent=sheet)
    assert [it.metadata.headings for it in paper.chunks()] == [["Costs"], ["Sales"]]


def test_code_and_formulas_are_marked() -> None:
    paper = Paper()
    paper.text("x = 1", "code", code_language="Python")
    paper.text("", "formula")
    paper.json["texts"][-1]["orig"] = "a^2"
    assert [it.content for it in paper.chunks()] == ["```Python\nx = 1\n```\n\n$$a^2$$"]


def test_references_in_a_circle_or_to_nothing_end() -> None:
    paper = Paper()
    group = paper.add("groups", "unspecified")
    group["children"] += [ref(group), {"$ref": "#/texts/99"}, {"$ref": "nonsense"}, {}]
    paper.text("Text.", parent=group)
    assert [it.content for it in paper.chunks()] == ["Text."]


def test_a_document_without_a_body_is_read_from_its_markdown() -> None:
    assert [it.content for it in chunk({"body": {"children": []}}, "Text.")] == ["Text."]
    assert [it.content for it in chunk({}, "Text.")] == ["Text."]
