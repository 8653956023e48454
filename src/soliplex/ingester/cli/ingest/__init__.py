"""`si-cli ingest`, the front door: from folders of files to finished workflows.

    command.py    arguments in, summary and exit code out     display.py    what is shown meanwhile
    files.py      which files there are, and their hashes     summary.py    what came of it, in words
    ingestion.py  the stages: look, compare, upload, process  reading.py    files in pieces
    target.py     where documents go, as a protocol           multipart.py  a form that is streamed
    local.py      into the database and storage of this installation
    remote.py     to a server, over HTTP

It can be stopped at any point and called again: what is uploaded is not uploaded twice, and workflows that were not
started, or not finished, are taken up where they were left.
"""
