"""Thirty office documents with headings and tables, saved as PDF, with the Markdown that says what they are.

    sources.py   what the documents hold: chosen by a number, so that they are the same each time
    make.py      writes them as .docx and has LibreOffice export them, where it is installed
    NN-KIND.pdf  what LibreOffice exported, for machines that have none

The last ten are kept apart: nothing is tuned on them, and their scores are told beside those of the others.
"""
