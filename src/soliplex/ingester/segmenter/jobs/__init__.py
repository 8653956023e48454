"""Segmentation jobs: a job is a run of the workflow `segment`, its document a URI, its articles rows.

    job_options    what clients may ask for, checked before anything is stored
    workflow       the steps of a job, and the handlers of its begin and end
    new_jobs       from an upload to a run, in one transaction
    handlers       what the steps do
    cutting        a parsed document into articles, in another process
    describing     the tags and the language of an article
    local_vectors  the local model, for code that waits in a thread
    callbacks      what a job's receiver is told, in the transaction that makes the progress
    standing       status, progress and stage, from the run and its steps
    job_rows       rows of jobs and articles, as values
    views          jobs, documents and articles, as clients see them
    changing       cancelling, retrying, deleting
    extension      has the engine delete the documents of jobs whose runs were pruned

There is no table of jobs: whatever the engine promises of runs holds for them. Knows no HTTP.
"""
