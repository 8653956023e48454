"""An installation as its users meet it, in this process or behind a server: one protocol, and what is done over it.

    ingester.py  `Ingester`: all of it, for programs

    protocol.py             what can be asked of an installation
    values.py               what is asked and answered
    local_installation.py   the one of the settings, in this process
    remote_installation.py  one behind a server, over HTTP
    which_installation.py   which of the two is meant
    known_uris.py           from the name of a document to its URI

    order.py          what is to be ingested, and how
    ingestion.py      its stages: look, compare, upload, process
    local_files.py    which files there are, and their hashes
    sidecars.py       metadata beside them
    missing.py        known files that are gone
    following.py      runs, until they have ended
    summary.py        what came of it
    stages.py         how it goes, for who watches
    survey.py         a look into files before they are taken
    forecast.py       what they would come to
    file_pieces.py    files in pieces
    multipart.py      a form that is streamed
    unpacking.py      archives as folders of documents
    interruptible.py  work that can be told to stop

    overview.py  what goes on, for `si-cli top`  overview_by_routes.py  the same, from a server's routes

An ingestion can be stopped at any point and begun again: what is uploaded is not uploaded twice, and workflows that
were not started, or not finished, are taken up where they were left.

Knows no terminal, no options and no exit codes: those are the command line's. Whoever asks a server imports no
database, parser or model: `local_installation.py` alone does, and only `which_installation.py` imports it.
"""
