"""The library: settings, models, the workflow engine, and the documents that stand on it.

It knows neither the server nor the command line.
"""
