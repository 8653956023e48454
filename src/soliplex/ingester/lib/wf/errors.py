"""What can go wrong in the engine; the whole tree stands in `soliplex.ingester.lib.errors`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from signal import Signals

from soliplex.ingester.lib.errors import EngineError, InvalidInputError, LockedError, NotFoundError

# Names listed in an error: a longer list does not help somebody who mistyped a name.
_NAMES_LISTED = 8


def nearest_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Give the known names that look like `name`, the likeliest first; upper and lower case are alike."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    return tuple(by_folded[folded] for folded in get_close_matches(name.casefold(), by_folded, n=3))


def suggestion(name: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant, or else which names there are."""
    names = tuple(known)
    if near := nearest_names(name, names):
        return f"did you mean {near[0]!r}?"
    listed = ", ".join(names[:_NAMES_LISTED]) + (", ..." if len(names) > _NAMES_LISTED else "")
    return f"known are: {listed}" if names else "none is known"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a definition, and where it stands."""

    text: str
    path: Path | None = None
    line: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line) if part is not None)
        return ": ".join(part for part in (place, self.key, self.text) if part)


class DefinitionError(EngineError):
    """A workflow or parameter definition is wrong; each line of the message names file, line, key and fix."""

    def __init__(
        self,
        problem: str,
        *,
        path: Path | None = None,
        line: int | None = None,
        key: str | None = None,
        more: tuple[Problem, ...] = (),
    ) -> None:
        self.problems = (Problem(problem, path, line, key), *more)
        super().__init__("\n".join(map(str, self.problems)))
        self.problem = problem
        self.path = path
        self.line = line
        self.key = key


class CycleError(DefinitionError):
    """The steps depend on one another in a circle."""

    def __init__(self, cycle: tuple[str, ...], *, path: Path | None = None, line: int | None = None) -> None:
        super().__init__(f"steps depend on one another in a circle: {' -> '.join(cycle)}", path=path, line=line)
        self.cycle = cycle


class UnknownDefinitionError(NotFoundError):
    """No workflow, parameter set or step has this name; tells which was probably meant, or else which are known."""

    def __init__(self, kind: str, name: str, known: Iterable[str] = ()) -> None:
        super().__init__(kind, name)
        names = tuple(known)
        self.nearest = nearest_names(name, names)
        if names:
            self.args = (f"{self}; {suggestion(name, names)}",)


class LeaseLost(EngineError):  # noqa: N818  a fact about the lease, named as the glossary names it
    """Another worker owns this step now; what was computed must be dropped."""

    def __init__(self, step_id: int) -> None:
        super().__init__(f"the lease on step {step_id} was lost")
        self.step_id = step_id


class LockLostError(LockedError):
    """The lock of a resource has gone to another; what is written under it now must not be committed."""

    def __init__(self, resource_key: str) -> None:
        super().__init__(f"the lock of {resource_key} has gone to another writer: nothing more is written")
        self.resource_key = resource_key


class WorkerLost(EngineError):  # noqa: N818  what happened to the worker, not a kind of error
    """A loop of a worker has ended though nobody told it to: the worker must not go on."""

    def __init__(self, worker_id: str, duties: Mapping[str, str]) -> None:
        ended = ", ".join(f"{name} ({cause})" for name, cause in duties.items())
        super().__init__(f"worker {worker_id} stops: a loop of it has ended: {ended}; see the log, and start it again")
        self.worker_id = worker_id


class PermanentError(EngineError):
    """Raised by a handler when trying again cannot help: the step fails at once."""


class CannotExecute(EngineError):  # noqa: N818  a fact about the worker, not about the step
    """This worker lacks what a step needs: its workflow, the step in it, or its handler. Another worker may have it."""


class FailedOutside(EngineError):  # noqa: N818  what happened, as with HandlerCrashed
    """A worker of a queue says that the step has failed, or none has finished it."""

    def __init__(self, reason: str, *, attempts: int) -> None:
        super().__init__(reason)
        self.attempts = attempts
        """How often workers took it, the last time among them."""


class StepTimeout(EngineError):  # noqa: N818  named as the glossary names it
    """An attempt took longer than the step allows."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the step did not finish within {seconds:g} seconds")
        self.seconds = seconds


class StepCancelled(EngineError):  # noqa: N818  named as the glossary names it
    """The run was cancelled while the attempt was under way."""


class HandlerError(EngineError):
    """A handler in a process of its own raised what cannot be pickled; this stands in for it."""

    def __init__(self, type_name: str, message: str, traceback: str) -> None:
        super().__init__(f"{type_name}: {message}" if message else type_name)
        self.type_name = type_name
        self.message = message
        self.traceback = traceback


class HandlerCrashed(EngineError):  # noqa: N818  what happened to the process, not a kind of error
    """The process of a handler died during the call, and with it this attempt."""

    def __init__(self, returncode: int) -> None:
        super().__init__(f"the handler's process died: {_cause_of_death(returncode)}")
        self.returncode = returncode


class MemoryLimitExceeded(EngineError):  # noqa: N818  what happened, as with HandlerCrashed
    """A handler in a process of its own wanted more memory than it may use."""

    def __init__(self, limit_mib: int) -> None:
        super().__init__(
            f"the handler used more memory than the limit of {limit_mib} MiB; "
            "raise STEP_MEMORY_LIMIT_MIB, or give the step less to do at once"
        )
        self.limit_mib = limit_mib


class PoolStopped(EngineError):  # noqa: N818  what happened, as with HandlerCrashed
    """The worker stops: the process of the handler was ended, or not started any more."""

    def __init__(self) -> None:
        super().__init__("the pool of processes was stopped before the handler had finished")


def _cause_of_death(returncode: int) -> str:
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        name = Signals(-returncode).name
    except ValueError:  # a real-time signal has no name
        return f"signal {-returncode}"
    hint = "; perhaps the system ran out of memory" if name == "SIGKILL" else ""
    return f"signal {name} ({-returncode}){hint}"


class PayloadTooLargeError(InvalidInputError):
    """The payload of a signal is larger than a signal may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            "payload", f"is larger than {limit} bytes of JSON, the limit; send the address of what is larger"
        )
        self.limit = limit
