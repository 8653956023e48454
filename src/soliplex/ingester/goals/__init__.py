"""Goals: sentences that become graphs of tasks, which the engine runs.

    notifications    being told of decompositions, executions and tasks as they begin and end

Stands on flows (`lib/wf/flows`); knows no HTTP and no command line.
"""
