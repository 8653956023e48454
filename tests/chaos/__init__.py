"""Trouble on purpose: a whole installation of real processes, under load, while things go wrong at random.

    make chaos MINUTES=10 SEED=7 DATABASE=both        python -m tests.chaos --help

    installation    a folder, a disk of its own, a database, and `si-cli` processes that are started anew when they end
    clients         upload, change, delete, roll back, search, vacuum; and write down what was acknowledged
    monkey          kills, stops, restarts of the database, full disks: by dice with a seed
    outcome         what is true in the end: in the database, in LanceDB, in the blobs, and in the clients' books

The seed decides what is done; when it strikes depends on the machine. So the same seed is the same kind of run, and not
the same run.
"""
