"""Office documents saved as PDF, with the text they were written with.

    NAME.pdf     what LibreOffice exported
    NAME.txt     the text that was typed, one paragraph a line; a header stands there once
    make.py      writes the sources and exports them anew, where LibreOffice is installed

The PDFs are kept, so that neither the benchmark nor the tests need LibreOffice.
"""
