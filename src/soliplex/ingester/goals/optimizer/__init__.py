"""Learning from runs: what flows would do better with, tried as a new version, compared, and taken back if it is worse.

    measurements  what the tables tell of how a flow ran
    statistics    quantiles, shares with bounds, comparing samples
    tuning        timeouts, attempts, back-off of single steps
    concurrency   how many steps at once are worth it
    structure     which edges carry data, which are redundant, chains, the critical path
    simulation    how long a run takes, worked out from its steps
    findings      all that the measurements say of a flow
    flow_changes  changes of a definition, each of something that the engine honours
    chains        merged steps, and the handler that executes them
    comparing     runs before a change beside those after it
    store         optimizations and patterns in the database
    optimizer     `OrchestratorOptimizer`

All but `measurements`, `store` and `optimizer` are pure.
"""
