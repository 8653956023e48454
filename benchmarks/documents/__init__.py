"""What the benchmark of the pipeline stands on.

data         the folder of data: which documents it holds, and what is known of them
processing   documents on their way through the shipped workflow, by a worker in a process of its own
worker       that process
params/      its parameter sets
"""
