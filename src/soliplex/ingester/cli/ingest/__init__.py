"""`si-cli ingest`, the front door: from folders of files to finished workflows.

    ingest_command.py  arguments in, summary and exit code out
    choice.py          this installation, or with --server another
    display.py         what is shown meanwhile
    time_left.py       how much longer it takes
    summary_words.py   what came of it, in words and as JSON
    forecast_words.py  what it would come to, in words

What is done lies in `soliplex.ingester.installation`; this parses options and shows how it goes.
"""
