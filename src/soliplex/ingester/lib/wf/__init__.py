"""The durable workflow engine: definitions, runs, claims, workers, events.

Owns the life of runs and steps. Knows no documents, no HTTP and no command line: those stand above it.
"""
