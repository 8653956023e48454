"""Random graphs of a thousand steps, whose workers are killed again and again."""

from __future__ import annotations

import random
import signal

import pytest

from soliplex.ingester import Database, Executor
from tests.support.engine import rows_of
from tests.support.faults import Fleet
from tests.support.random_flows import expected_outputs, random_flow

KILLS_AFTER = (150, 500, 800)
"""Steps that have completed."""
_WATCHED = {
    False: (
        "CREATE TABLE recorded (place integer PRIMARY KEY AUTOINCREMENT, step_id bigint, output text)",
        """CREATE TRIGGER note_recorded AFTER UPDATE OF status ON runstep WHEN NEW.status = 'COMPLETED'
           BEGIN INSERT INTO recorded (step_id, output) VALUES (NEW.id, NEW.output); END""",
    ),
    True: (
        "CREATE TABLE recorded (place bigserial PRIMARY KEY, step_id bigint, output text)",
        """CREATE FUNCTION note_recorded() RETURNS trigger LANGUAGE plpgsql AS $$
           BEGIN INSERT INTO recorded (step_id, output) VALUES (NEW.id, NEW.output); RETURN NULL; END $$""",
        """CREATE TRIGGER note_recorded AFTER UPDATE OF status ON runstep FOR EACH ROW
           WHEN (NEW.status = 'COMPLETED') EXECUTE FUNCTION note_recorded()""",
    ),
}


@pytest.fixture
async def watched(database: type[Database]) -> None:
    """The database itself notes each time that a step is recorded as completed."""
    async with database.engine().begin() as connection:
        for statement in _WATCHED[database.is_postgres()]:
            await connection.exec_driver_sql(statement)


async def test_each_step_comes_after_its_dependencies_and_is_recorded_once_whoever_is_killed(
    fleet: Fleet, watched: None
) -> None:
    flow = random_flow(random.getrandbits(32))
    run_id = await Executor.start_workflow(flow, {"seed": 1})
    for number, completed in enumerate(KILLS_AFTER):
        victim = await fleet.start(f"victim-{number}", consumers={"*": 2}, batch_size=8)

        async def has_come_so_far(completed: int = completed) -> bool:
            ((count,),) = await rows_of("SELECT count(*) FROM recorded")
            return count >= completed

        await fleet.eventually(has_come_so_far, f"{completed} steps of {flow.id} complete")
        victim.signal(signal.SIGKILL)
    async with fleet.helper():
        await fleet.everything_ends()

    run = await Executor.status(run_id)
    expected = expected_outputs(flow)
    assert run.status == "completed", flow.id
    assert {step.name: step.output for step in run.steps} == expected, flow.id
    assert run.output == {step.key: expected[step.key] for step in flow.leaf_steps}
    assert await rows_of("SELECT step_id FROM recorded GROUP BY step_id HAVING count(*) > 1") == []
    assert await rows_of("SELECT id FROM runstep WHERE id NOT IN (SELECT step_id FROM recorded)") == []
    assert await rows_of(_TOO_EARLY) == []


# By the order in which the database noted them: the time of a beginning is that of the look which claimed the step, and
# a look may have begun before the end of what it waited for. That the inputs were there, the outputs show.
_TOO_EARLY = """
SELECT a.step_id, b.step_id
  FROM runstepdependency e JOIN recorded a ON a.step_id = e.depends_on_id JOIN recorded b ON b.step_id = e.step_id
 WHERE b.place < a.place
"""
