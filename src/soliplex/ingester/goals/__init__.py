"""Goals: a sentence, taken apart into tasks, becomes a flow and is executed by the one engine.

    errors         what can be wrong with a goal
    task_graph     tasks and what waits for what, checked, nested ones laid flat
    rules          RuleDecomposer: sentences that are understood without a language model
    decomposers    LlmDecomposer, HybridDecomposer, and how any function is called as a decomposer
    tasks          how a task becomes a step, and the handler that executes it
    shipped        steps that need no code of users: ingest, parse, segment, search, webhook, http, shell
    orchestrator   Orchestrator: decompose, make a flow, execute; a goal is itself a run
    notifications  being told of decompositions, executions and tasks as they begin and end
    composer       WorkflowComposer: all of it in one call, for one goal or several
    optimizer/     what flows would do better with, learned from their runs
    goal_list      goals, the newest first
    extension      what the engine is given for goals

Stands on flows and on the installation, whose questions its steps ask. Knows no HTTP server and no command line.
"""
