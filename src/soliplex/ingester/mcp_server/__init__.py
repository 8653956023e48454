"""A knowledge base for assistants, by the Model Context Protocol: over standard input and output, or over HTTP.

    tools.py       what an assistant may ask: search, read_document, list_sources, and ingest where that is allowed
    folders.py     the folders that it may ingest from
    over_stdio.py  for a client that starts this process   over_http.py   for clients that have the key

Stands on `Ingester`, and over HTTP on the checks that the HTTP server has for keys and for pages of other sites. Needs
the package `mcp`, which the extra `mcp` brings.
"""
