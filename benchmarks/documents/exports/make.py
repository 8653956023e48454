"""Write the office documents and export them: python -m benchmarks.documents.exports.make [NAME ...]

Each source is a flat OpenDocument file, so its text is all that stands between its tags. Needs LibreOffice (Writer,
Calc and Impress) and the fonts Noto and WenQuanYi for scripts other than Latin.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from html import unescape
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

FOLDER: Final = Path(__file__).parent
_NAMESPACES: Final = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in (
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("style", "style"),
        ("draw", "drawing"),
        ("presentation", "presentation"),
        ("number", "datastyle"),
    )
) + (
    ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'
    ' xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"'
)
_BODIES: Final = {"text": "fodt", "spreadsheet": "fods", "presentation": "fodp"}

TOPICS: Final = (
    "The harbour office counts every vessel that passes the outer lock between dawn and dusk",
    "Grain was weighed twice, once at the mill and once more when the carts reached the market square",
    "A committee of seven reads each complaint and answers it in writing within thirty days",
    "Repairs to the northern bridge are expected to last until the first frost of the year",
    "Visitors leave their umbrellas at the entrance and receive a numbered copper token",
    "The laboratory keeps samples at four degrees and discards them after eleven weeks",
    "Tenants may sublet a single room if the landlord has been told of it beforehand",
    "Old maps show a canal where the tramway runs today, and nobody remembers why it was filled in",
    "Each apprentice spends a season in the foundry, another in the pattern shop and a third in sales",
    "Rainfall in the valley exceeded the average of the last sixty years by nearly a fifth",
    "The orchestra rehearses on Tuesdays behind closed doors and on Fridays in front of schools",
    "Insurance covers fire, flood and theft, but neither war nor wear nor gradual deterioration",
)


def sentences(start: int, count: int) -> str:
    return " ".join(f"{TOPICS[(start + number) % len(TOPICS)]}." for number in range(count))


def p(text: str, style: str = "Standard") -> str:
    return f'<text:p text:style-name="{style}">{escape(text)}</text:p>'


def h(text: str, level: int = 1) -> str:
    return f'<text:h text:style-name="Heading{level}" text:outline-level="{level}">{escape(text)}</text:h>'


def table(rows: Sequence[Sequence[str]], *, border: bool = True, style: str = "Standard") -> str:
    cell_style = "Bordered" if border else "Plain"
    cells = (
        "<table:table-row>"
        + "".join(
            f'<table:table-cell table:style-name="{cell_style}" office:value-type="string">{p(cell, style)}'
            "</table:table-cell>"
            for cell in row
        )
        + "</table:table-row>"
        for row in rows
    )
    return f'<table:table><table:table-column table:number-columns-repeated="{len(rows[0])}"/>{"".join(cells)}</table:table>'


def bullets(items: Iterable[str]) -> str:
    return "<text:list>" + "".join(f"<text:list-item>{p(item)}</text:list-item>" for item in items) + "</text:list>"


def note(number: int, text: str) -> str:
    return (
        f'<text:note text:id="n{number}" text:note-class="footnote"><text:note-citation>{number}</text:note-citation>'
        f"<text:note-body>{p(text, 'Small')}</text:note-body></text:note>"
    )


def columns(content: str) -> str:
    return f'<text:section text:style-name="TwoColumns" text:name="columns">{content}</text:section>'


def frame(content: str, *, left: float, top: float, width: float, height: float, style: str = "Frame") -> str:
    """A box at a place on the page, in centimetres; in a slide, a place of its own."""
    return (
        f'<draw:frame draw:style-name="{style}" text:anchor-type="paragraph" svg:x="{left}cm" '
        f'svg:y="{top}cm" svg:width="{width}cm" svg:height="{height}cm"><draw:text-box>{content}</draw:text-box></draw:frame>'
    )


def shape(content: str, *, left: float, top: float, width: float, height: float, kind: str = "rect") -> str:
    return (
        f'<draw:{kind} draw:style-name="Box" text:anchor-type="paragraph" svg:x="{left}cm" '
        f'svg:y="{top}cm" svg:width="{width}cm" svg:height="{height}cm">{content}</draw:{kind}>'
    )


def turned(content: str, *, left: float, top: float) -> str:
    return (
        f'<draw:frame draw:style-name="Frame" text:anchor-type="paragraph" svg:width="9cm" '
        f'svg:height="1cm" draw:transform="rotate (1.5707963) translate ({left}cm {top}cm)">'
        f"<draw:text-box>{content}</draw:text-box></draw:frame>"
    )


def placed(*boxes: str) -> str:
    """Boxes on a page of text: there they need a paragraph that they belong to."""
    return f'<text:p text:style-name="Standard">{"".join(boxes)}</text:p>'


BREAK: Final = '<text:p text:style-name="NewPage"/>'


def page_number() -> str:
    return "<text:page-number>1</text:page-number>"


def letter(
    content: str,
    *,
    header: str = "",
    footer: str = "",
    font: str = "DejaVu Serif",
    right_to_left: bool = False,
    landscape: bool = False,
    hyphenate: bool = False,
    language: str = "en",
    size: str = "11pt",
) -> str:
    mode = ' style:writing-mode="rl-tb"' if right_to_left else ""
    align = ' fo:text-align="end"' if right_to_left else ""
    hyphens = f' fo:hyphenate="true" fo:language="{language}" fo:country="US"' if hyphenate else ""
    fonts = f'style:font-name="{font}" style:font-name-asian="{font}" style:font-name-complex="{font}"'
    sizes = f'fo:font-size="{size}" style:font-size-asian="{size}" style:font-size-complex="{size}"'
    paper = (
        'fo:page-width="29.7cm" fo:page-height="21cm" style:print-orientation="landscape"'
        if landscape
        else 'fo:page-width="21cm" fo:page-height="29.7cm"'
    )

    def style(name: str, paragraph: str, text: str) -> str:
        return (
            f'<style:style style:name="{name}" style:family="paragraph"><style:paragraph-properties '
            f'fo:margin-bottom="0.25cm"{mode}{align} {paragraph}/><style:text-properties {fonts} {text}{hyphens}/></style:style>'
        )

    styles = "".join(
        (
            style("Standard", "", sizes),
            style("Small", "", 'fo:font-size="8pt" style:font-size-asian="8pt" style:font-size-complex="8pt"'),
            style("Strong", "", f'{sizes} fo:font-weight="bold"'),
            style("Right", "" if right_to_left else 'fo:text-align="end"', sizes),
            style("NewPage", 'fo:break-before="page"', sizes),
            style("Heading1", "", 'fo:font-size="18pt" fo:font-weight="bold"'),
            style("Heading2", "", 'fo:font-size="14pt" fo:font-weight="bold"'),
        )
    )
    automatic = "".join(
        (
            '<style:style style:name="Bordered" style:family="table-cell">'
            '<style:table-cell-properties fo:border="0.5pt solid #000000" fo:padding="0.1cm"/></style:style>',
            '<style:style style:name="Plain" style:family="table-cell">'
            '<style:table-cell-properties fo:border="none"/></style:style>',
            '<style:style style:name="TwoColumns" style:family="section"><style:section-properties>'
            '<style:columns fo:column-count="2" fo:column-gap="0.8cm"/></style:section-properties></style:style>',
            '<style:style style:name="Frame" style:family="graphic"><style:graphic-properties draw:stroke="none" '
            'draw:fill="none" fo:border="none" style:wrap="run-through" style:horizontal-pos="from-left" '
            'style:vertical-pos="from-top" style:horizontal-rel="page" style:vertical-rel="page"/></style:style>',
            '<style:style style:name="Box" style:family="graphic"><style:graphic-properties svg:stroke-color="#204a87" '
            'draw:fill-color="#d0e0f0" style:wrap="run-through" style:horizontal-pos="from-left" '
            'style:vertical-pos="from-top" style:horizontal-rel="page" style:vertical-rel="page"/></style:style>',
        )
    )
    layout = (
        f'<style:page-layout style:name="Paper"><style:page-layout-properties {paper} fo:margin="2cm"{mode}/>'
        '<style:header-style><style:header-footer-properties fo:min-height="0.6cm"/></style:header-style>'
        '<style:footer-style><style:header-footer-properties fo:min-height="0.6cm"/></style:footer-style>'
        "</style:page-layout>"
    )
    top = f"<style:header>{header}</style:header>" if header else ""
    bottom = f"<style:footer>{footer}</style:footer>" if footer else ""
    return (
        f"<office:styles>{styles}</office:styles><office:automatic-styles>{automatic}{layout}</office:automatic-styles>"
        f'<office:master-styles><style:master-page style:name="Standard" style:page-layout-name="Paper">{top}{bottom}'
        f"</style:master-page></office:master-styles><office:body><office:text>{content}</office:text></office:body>"
    )


def sheet(name: str, rows: Sequence[Sequence[str]], *, wide: bool = False) -> str:
    """A sheet as Calc prints it: its name above, the page's number below."""
    column = '<style:style style:name="Wide" style:family="table-column"><style:table-column-properties style:column-width="4.5cm"/></style:style>'
    named = ' table:style-name="Wide"' if wide else ""
    cells = "".join(
        "<table:table-row>"
        + "".join(
            f'<table:table-cell office:value-type="string"><text:p>{escape(cell)}</text:p></table:table-cell>'
            for cell in row
        )
        + "</table:table-row>"
        for row in rows
    )
    return (
        f"<office:automatic-styles>{column}</office:automatic-styles><office:body><office:spreadsheet>"
        f'<table:table table:name="{escape(name)}"><table:table-column{named} table:number-columns-repeated="{len(rows[0])}"/>'
        f"{cells}</table:table></office:spreadsheet></office:body>"
    )


def slides(*pages: str, font: str = "DejaVu Sans") -> str:
    fonts = f'style:font-name="{font}" style:font-name-asian="{font}" style:font-name-complex="{font}"'
    styles = "".join(
        f'<style:style style:name="{name}" style:family="paragraph"><style:text-properties {fonts} fo:font-size="{size}pt" '
        f'style:font-size-asian="{size}pt" style:font-size-complex="{size}pt"{more}/></style:style>'
        for name, size, more in (
            ("Standard", 20, ""),
            ("Heading1", 36, ' fo:font-weight="bold"'),
            ("Heading2", 28, ""),
            ("Small", 12, ""),
        )
    )
    boxes = (
        '<style:style style:name="Frame" style:family="graphic"><style:graphic-properties draw:stroke="none" draw:fill="none"/></style:style>'
        '<style:style style:name="Box" style:family="graphic"><style:graphic-properties svg:stroke-color="#204a87" draw:fill-color="#d0e0f0"/></style:style>'
        '<style:style style:name="Bordered" style:family="table-cell"><style:table-cell-properties/></style:style>'
    )
    layout = (
        '<style:page-layout style:name="Screen"><style:page-layout-properties fo:page-width="28cm" fo:page-height="15.75cm" '
        'style:print-orientation="landscape" fo:margin="0cm"/></style:page-layout>'
    )
    shown = "".join(
        f'<draw:page draw:name="page{number}" draw:master-page-name="Default">{page}</draw:page>'
        for number, page in enumerate(pages, 1)
    )
    return (
        f"<office:styles>{styles}</office:styles><office:automatic-styles>{boxes}{layout}</office:automatic-styles>"
        '<office:master-styles><style:master-page style:name="Default" style:page-layout-name="Screen"/></office:master-styles>'
        f"<office:body><office:presentation>{shown}</office:presentation></office:body>"
    )


def _slide(title: str, *content: str) -> str:
    heading = frame(f'<text:p text:style-name="Heading1">{escape(title)}</text:p>', left=2, top=0.8, width=24, height=2)
    return heading + "".join(content)


def _points(items: Iterable[str], *, left: float = 2, width: float = 22) -> str:
    return frame("".join(p(item) for item in items), left=left, top=4, width=width, height=9)


def sources() -> dict[str, Callable[[], str]]:
    """Every document by its name."""
    return {
        "letter_with_header_and_footer": lambda: letter(
            p("Dr. Amalia Brandt, Kastanienweg 4, 12345 Musterstadt")
            + p("14 March 2024", "Right")
            + p("Dear Dr. Brandt,")
            + "".join(p(sentences(number, 3)) for number in range(3))
            + p("Yours sincerely, Tobias Lindqvist"),
            header=p("Lindqvist & Daughters · Chandlers since 1872 · Quay Street 9", "Small"),
            footer=p("Registered at the harbour court HRB 40417 · Account 88 1234 5678 90", "Small"),
        ),
        "one_lone_paragraph": lambda: letter(p(sentences(0, 2))),
        "one_short_line": lambda: letter(p("The meeting on Thursday is cancelled.")),
        "first_paragraph_then_chapter": lambda: letter(
            p(sentences(2, 1)) + BREAK + h("Chapter two") + p(sentences(3, 6)) + p(sentences(6, 5))
        ),
        "small_table_alone": lambda: letter(
            table(
                (("Fruit", "Spring", "Autumn"), ("Apples", "120", "80"), ("Pears", "45", "95"), ("Quinces", "7", "31"))
            )
        ),
        "small_table_in_text": lambda: letter(
            h("Deliveries")
            + p(sentences(1, 3))
            + table((("Port", "Tons"), ("Gdansk", "1204"), ("Rostock", "877"), ("Malmö", "415")))
            + p(sentences(5, 3))
        ),
        "table_without_rules": lambda: letter(
            h("Opening hours")
            + table(
                (
                    ("Monday", "closed", "closed"),
                    ("Tuesday", "09:00", "17:30"),
                    ("Wednesday", "09:00", "20:00"),
                    ("Thursday", "10:15", "17:30"),
                ),
                border=False,
            )
        ),
        "long_table": lambda: letter(
            h("Inventory")
            + table(
                [("Item", "Shelf", "Count", "Remark")]
                + [
                    (
                        f"Part {1000 + number}",
                        f"{chr(65 + number % 7)}{number % 13}",
                        str(number * 37 % 250),
                        TOPICS[number % 12].split()[3],
                    )
                    for number in range(60)
                ]
            )
        ),
        "invoice": lambda: letter(
            p("Invoice 2024-0117", "Strong")
            + p("Customer number 55120 · Delivery date 3 February 2024", "Small")
            + table(
                (
                    ("Position", "Description", "Quantity", "Price", "Total"),
                    ("1", "Hemp rope, 12 mm, by the metre", "140", "1.85", "259.00"),
                    ("2", "Brass cleats, polished", "12", "23.40", "280.80"),
                    ("3", "Freight and insurance", "1", "61.20", "61.20"),
                )
            )
            + p("Sum due within fourteen days: 601.00 EUR", "Right"),
            header=p("Lindqvist & Daughters · Quay Street 9 · VAT SE556677", "Small"),
            footer=p("IBAN SE45 5000 0000 0583 9825 7466 · Thank you for your order", "Small"),
        ),
        "two_columns": lambda: letter(
            h("The valley gazette") + columns("".join(p(sentences(number * 2, 4)) for number in range(5)))
        ),
        "two_columns_with_table": lambda: letter(
            h("Market report")
            + columns(
                p(sentences(0, 5))
                + table((("Corn", "212"), ("Rye", "178"), ("Oats", "131")))
                + p(sentences(4, 6))
                + p(sentences(7, 5))
            )
        ),
        "footnotes": lambda: letter(
            h("On sources")
            + f"<text:p>{escape(TOPICS[7])}{note(1, 'Compare the survey of 1841, sheet nineteen.')}. {escape(sentences(8, 2))}</text:p>"
            + f"<text:p>{escape(TOPICS[9])}{note(2, 'Measured at the weir by the wardens themselves.')}. {escape(sentences(10, 3))}</text:p>"
        ),
        "report_of_many_pages": lambda: letter(
            "".join(
                (BREAK if number else "")
                + h(f"Section {number + 1}")
                + p(sentences(number, 5))
                + p(sentences(number + 5, 4))
                for number in range(6)
            ),
            header=p("Annual report of the harbour office", "Small"),
            footer=f'<text:p text:style-name="Small">Page {page_number()}</text:p>',
        ),
        "headers_that_change": lambda: letter(
            "".join(
                (BREAK if number else "") + p(f"Docket {name}: hearing adjourned", "Small") + p(sentences(number, 7))
                for number, name in enumerate(("Ashcombe", "Birchall", "Cottrell", "Dunmore"))
            )
        ),
        "bullet_list": lambda: letter(
            h("Before you leave")
            + p("Please check the following points and sign the list at the gate.")
            + bullets(f"{topic.split(' and ')[0]}" for topic in TOPICS[:8])
        ),
        "headings_and_text": lambda: letter(
            "".join(
                h(title, level) + p(sentences(number, 3))
                for number, (title, level) in enumerate(
                    (("Statutes", 1), ("Membership", 2), ("Dues", 2), ("Assembly", 1), ("Votes", 2), ("Minutes", 2))
                )
            )
        ),
        "hyphenated": lambda: letter(columns("".join(p(_LONG_WORDS) for _ in range(3))), hyphenate=True),
        "ligatures_and_accents": lambda: letter(
            p("Efficient offices find the first flight difficult: affluent staff shuffle coffee and waffles.")
            + p("Crème brûlée, naïve façade, Ångström, œuvre, Łódź, Škoda, Dvořák, İstanbul, Đurđevac, ñandú.")
            + p("Prices: 5 € or £4.20 or ¥600; 20 °C; 3 × 4 = 12; x² + y³; ½ of ¾; § 12 ¶ 3.")
        ),
        "diagram_of_boxes": lambda: letter(
            p("How a complaint travels through the house:")
            + placed(
                shape(p("Counter"), left=3, top=6, width=4, height=1.5),
                shape(p("Registry"), left=9, top=6, width=4, height=1.5),
                shape(p("Committee"), left=15, top=6, width=4, height=1.5),
                shape(p("Archive vault"), left=9, top=9, width=4, height=1.5, kind="ellipse"),
            )
        ),
        "rotated_margin_note": lambda: letter(
            h("Plan of the yard")
            + p(sentences(3, 5))
            + p(sentences(6, 4))
            + placed(turned(p("Not to scale, copy seven", "Small"), left=19.3, top=20))
        ),
        "address_label": lambda: letter(
            placed(
                frame(
                    p("Fragile: glass inside", "Strong")
                    + p("Mme Odile Perrault")
                    + p("27 rue des Tanneurs")
                    + p("67000 Strasbourg"),
                    left=6,
                    top=12,
                    width=9,
                    height=4,
                )
            )
        ),
        "certificate": lambda: letter(
            f'<text:p text:style-name="Heading1">Certificate of apprenticeship</text:p>{p("awarded to")}'
            f'<text:p text:style-name="Heading2">Ingrid Solveig Haugen</text:p>{p("for three seasons in the pattern shop, with distinction.")}',
            landscape=True,
            footer=p("Guild of founders, seal 118, Bergen", "Small"),
        ),
        "small_print": lambda: letter("".join(p(sentences(number, 6), "Small") for number in range(5)), size="8pt"),
        "slides_with_points": lambda: slides(
            _slide(
                "Harbour tolls 2024",
                _points(("Tolls rise by three percent", "Night passage stays free", "Card payment at every lock")),
            ),
            _slide(
                "What comes next",
                _points(("Tender in April", "Works begin in June", "Opening on the first of October")),
            ),
        ),
        "slides_with_boxes": lambda: slides(
            _slide(
                "Who decides",
                shape(p("Harbour master"), left=3, top=5, width=7, height=2.5),
                shape(p("City council"), left=15, top=5, width=7, height=2.5),
                shape(p("Lock keepers"), left=9, top=10, width=7, height=2.5),
            ),
            _slide(
                "Two views",
                _points(("Merchants want depth", "and longer hours"), width=10),
                _points(("Fishers want quiet", "and lower fees"), left=15, width=10),
            ),
        ),
        "slides_little_text": lambda: slides(
            frame(
                p("Thank you", "Heading1") + p("questions@harbour.example", "Small"), left=8, top=6, width=12, height=3
            )
        ),
        "sheet_of_numbers": lambda: sheet(
            "Tides",
            [("Month", "High", "Low", "Mean")]
            + [
                (name, f"{number * 7 % 50 + 400}", f"{number * 3 % 40 + 100}", f"{number * 5 % 60 + 220}")
                for number, name in enumerate(("January", "February", "March", "April", "May", "June"), 1)
            ],
        ),
        "sheet_of_texts": lambda: sheet(
            "Contacts",
            [("Name", "Post", "Telephone")]
            + [
                ("Abelard Finch", "Pilot", "0451 22 10"),
                ("Beatrix Moore", "Registrar", "0451 22 11"),
                ("Cornelius Vane", "Diver", "0451 22 19"),
            ],
            wide=True,
        ),
        "greek_and_cyrillic": lambda: letter(
            p("Το λιμεναρχείο μετρά κάθε πλοίο που περνά την εξωτερική δεξαμενή από την αυγή ως το σούρουπο.")
            + p("Портовая служба считает каждое судно, которое проходит внешний шлюз от рассвета до заката.")
            + p("Пристанищната служба отговаря писмено в срок от тридесет дни."),
            header=p("Διεθνές μητρώο · Международный реестр", "Small"),
        ),
        "arabic": lambda: letter(
            p("يحصي مكتب الميناء كل سفينة تمر عبر الهويس الخارجي بين الفجر والغسق.")
            + p("تجيب اللجنة كتابة عن كل شكوى خلال ثلاثين يوما، ولا تقبل الطلبات الناقصة."),
            font="Noto Naskh Arabic",
            right_to_left=True,
        ),
        "hebrew": lambda: letter(
            p("משרד הנמל סופר כל כלי שיט העובר בשער החיצוני בין הזריחה לשקיעה.")
            + p("הוועדה משיבה בכתב על כל תלונה בתוך שלושים ימים."),
            font="Noto Sans Hebrew",
            right_to_left=True,
        ),
        "chinese": lambda: letter(
            p("港务局统计每天从黎明到黄昏通过外闸的每一艘船只。委员会在三十天之内以书面形式答复每一项投诉。")
            + p("北桥的修理工作预计将持续到今年第一次霜冻。保险包括火灾、水灾和盗窃。")
            + table((("品名", "数量"), ("苹果", "120"), ("梨", "95"))),
            font="WenQuanYi Zen Hei",
        ),
        "hindi": lambda: letter(
            p("बंदरगाह कार्यालय सुबह से शाम तक बाहरी द्वार से गुजरने वाले हर जहाज की गिनती करता है।")
            + p("समिति हर शिकायत का लिखित उत्तर तीस दिनों के भीतर देती है।"),
            font="Noto Sans Devanagari",
        ),
        "thai": lambda: letter(
            p("สำนักงานท่าเรือนับเรือทุกลำที่ผ่านประตูน้ำด้านนอกตั้งแต่รุ่งเช้าจนถึงพลบค่ำ")
            + p("คณะกรรมการตอบคำร้องเรียนเป็นลายลักษณ์อักษรภายในสามสิบวัน"),
            font="Noto Sans Thai",
        ),
    }


_LONG_WORDS: Final = (
    "Interdepartmental communication requires unconditional transparency, comprehensive documentation, "
    "straightforward responsibilities and internationally recognisable identification; misunderstandings about "
    "administrative jurisdiction notwithstanding, representatives acknowledged extraordinary improvements."
)


def text_of(xml: str) -> str:
    """What was typed: everything between the tags, a line for each paragraph."""
    body = re.sub(r"<office:styles>.*?</office:styles>", "", xml, flags=re.DOTALL)
    lines = re.sub(r"</text:(?:p|h)>", "\n", body)
    texts = (unescape(re.sub(r"<[^>]+>", "", line)).strip() for line in lines.split("\n"))
    return "".join(f"{text}\n" for text in texts if text)


def make(names: Sequence[str]) -> None:
    made = sources()
    with tempfile.TemporaryDirectory() as folder:
        for name in names or made:
            body = made[name]()
            kind = next(kind for kind in _BODIES if f"<office:{kind}>" in body)
            mime = f"application/vnd.oasis.opendocument.{kind}"
            xml = f'<?xml version="1.0" encoding="UTF-8"?><office:document {_NAMESPACES} office:version="1.3" office:mimetype="{mime}">{body}</office:document>'
            (Path(folder) / f"{name}.{_BODIES[kind]}").write_text(xml, "utf-8")
            (FOLDER / f"{name}.txt").write_text(text_of(body), "utf-8")
        files = [str(path) for path in sorted(Path(folder).iterdir())]
        command = ["soffice", "--headless", f"-env:UserInstallation=file://{folder}/profile"]
        subprocess.run([*command, "--convert-to", "pdf", "--outdir", str(FOLDER), *files], check=True, timeout=600)


if __name__ == "__main__":
    make(sys.argv[1:])
