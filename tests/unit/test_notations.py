"""Texts in notations of their own, as Markdown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from soliplex.ingester.lib.mime import detect_mime_type
from soliplex.ingester.lib.parsing.notations import NOTATIONS, NotationError

NOTEBOOK = {
    "metadata": {"kernelspec": {"language": "python"}},
    "cells": [
        {"cell_type": "markdown", "source": ["# Rainfall\n", "\n", "By month."]},
        {
            "cell_type": "code",
            "source": "print('```')\ntotal()",
            "outputs": [
                {"output_type": "stream", "text": ["seventeen\n", "drops\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "42 mm", "image/png": "aGlkZGVu"}},
                {"output_type": "error", "ename": "KeyError", "evalue": "'May'", "traceback": ["\x1b[31mlong"]},
            ],
        },
    ],
}
RST = """\
.. _top:

=======
Cooking
=======

Bread
-----

See :ref:`the oven <oven>` and `flour <https://example.org/flour>`_, with ``heat_up()``::

    heat_up(220)

.. note:: Wait for an hour.

   Then look.

.. code-block:: python
   :linenos:

   bake()

.. this is a comment
   of two lines

Crust
~~~~~

+---+---+
| a | b |
+---+---+

Cheese
------
Text below.
"""
ORG = """\
#+TITLE: Cooking
#+AUTHOR: nobody
* Bread :food:
:PROPERTIES:
:ID: 17
:END:
See [[https://example.org][the site]] and =heat_up()=.
** TODO Crust
#+BEGIN_SRC python
bake()
#+END_SRC
| a | b |
|---+---|
| 1 | 2 |
"""
TYPST = """\
#set page(
  paper: "a4",
)
#let price(x) = { x * 2 }
= Bread <bread>
// a comment
A *hot* oven, see #link("https://example.org")[the site].
== Crust
+ first
```py
= 1 // kept
```
"""
OPML = """\
<opml version="2.0"><head><title>Kitchen</title></head><body>
<outline text="Bread"><outline text="Flour &lt;b&gt;" _note="of rye"/>
<outline text="Crust"><outline text="Salt"/></outline></outline>
</body></opml>
"""
DOCBOOK = """\
<article xmlns="http://docbook.org/ns/docbook"><info><title>Kitchen</title></info>
<para>All about <emphasis>bread</emphasis>.</para>
<section><title>Oven</title><programlisting language="sh">heat --up</programlisting>
<itemizedlist><listitem><para>rye</para></listitem></itemizedlist>
<informaltable><tgroup cols="2"><tbody><row><entry>a</entry><entry>b</entry></row></tbody></tgroup></informaltable>
</section></article>
"""


def lines(kind: str, text: str) -> list[str]:
    return [line for line in NOTATIONS[kind](text).split("\n") if line.strip()]


def test_a_notebook_is_its_cells_with_what_they_printed() -> None:
    assert lines("application/x-ipynb+json", json.dumps(NOTEBOOK)) == [
        *("# Rainfall", "By month."),
        *("````python", "print('```')", "total()", "````"),
        *("```", "seventeen", "drops", "```", "```", "42 mm", "```", "```", "KeyError: 'May'", "```"),
    ]
    old = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "Old"}]}]}
    assert lines("application/x-ipynb+json", json.dumps(old)) == ["## Old"]


def test_restructured_text_has_titles_by_the_order_of_their_marks() -> None:
    assert lines("text/x-rst", RST) == [
        *("# Cooking", "## Bread", "See the oven and [flour](https://example.org/flour), with `heat_up()`:"),
        *("```", "heat_up(220)", "```", "Wait for an hour.", "Then look.", "```python", "bake()", "```"),
        *("### Crust", "```", "+---+---+", "| a | b |", "+---+---+", "```", "## Cheese", "Text below."),
    ]


def test_org_has_headings_below_its_title_and_no_drawers() -> None:
    assert lines("text/x-org", ORG) == [
        *("# Cooking", "## Bread", "See [the site](https://example.org) and `heat_up()`.", "### TODO Crust"),
        *("```python", "bake()", "```", "| a | b |", "|---|---|", "| 1 | 2 |"),
    ]


def test_typst_has_headings_and_nothing_of_what_sets_the_page() -> None:
    assert lines("text/x-typst", TYPST) == [
        *("# Bread", "A **hot** oven, see [the site](https://example.org).", "## Crust", "1. first"),
        *("```py", "= 1 // kept", "```"),
    ]


def test_what_has_outlines_below_it_is_a_heading() -> None:
    found = lines("text/x-opml", OPML)
    assert found == ["# Kitchen", "## Bread", "- Flour &lt;b>", "of rye", "### Crust", "- Salt"]


def test_docbook_has_titles_listings_lists_and_tables() -> None:
    assert lines("text/x-docbook", DOCBOOK) == [
        *(
            "# Kitchen",
            "All about bread.",
            "## Oven",
            "```sh",
            "heat --up",
            "```",
            "- rye",
            "| a | b |",
            "| --- | --- |",
        ),
    ]


@pytest.mark.parametrize("kind", ["application/x-ipynb+json", "text/x-opml", "text/x-docbook"])
@pytest.mark.parametrize("text", ["", "{}", "[1, 2]", "<a", "<a/>", '{"cells": 7}', "[" * 100_000])
def test_what_is_in_no_such_notation_is_refused(kind: str, text: str) -> None:
    with pytest.raises(NotationError):
        NOTATIONS[kind](text)


@pytest.mark.parametrize("kind", ["text/x-org", "text/x-rst", "text/x-typst"])
@pytest.mark.parametrize("text", ["", "====", "#set page(", "#+begin_src\nx", ".. code::", "```", "a::", "*\n" * 5_000])
def test_notations_without_a_grammar_take_any_text(kind: str, text: str) -> None:
    assert NOTATIONS[kind](text).endswith("\n")


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.docbook", DOCBOOK, "text/x-docbook"),
        ("a.xml", DOCBOOK, "text/x-docbook"),
        ("a.xml", "<book><title>One</title><chapter><para>Text.</para></chapter></book>", "text/x-docbook"),
        ("a.xml", "<book><title>One</title><price>5</price></book>", "application/xml"),
        ("a.xml", "<root/>", "application/xml"),
        ("a.opml", OPML, "text/x-opml"),
        ("a.txt", f'<?xml version="1.0"?>\n{OPML}', "text/x-opml"),
        ("a.org", ORG, "text/x-org"),
        ("a.typ", TYPST, "text/x-typst"),
    ],
)
def test_notations_are_known_by_name_and_content(tmp_path: Path, name: str, content: str, kind: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    assert detect_mime_type(path, name) == kind
