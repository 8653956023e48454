"""What is inside the frames: arguments, results and exceptions, pickled.

Exceptions need care. Pickle makes them anew from their `args`, which fails or garbles the text of every class that
builds its own message; those are put together from their parts instead. One that cannot travel at all goes as text.
"""

from __future__ import annotations

import io
import pickle
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final, NamedTuple, override

from soliplex.ingester.lib.log_facts import Facts
from soliplex.ingester.lib.wf.errors import HandlerError, PermanentError

loads = pickle.loads


class Carried(NamedTuple):
    """What goes along with a call: what is worked on, for the log, and what is traced."""

    facts: Facts
    span: str | None


NOTHING: Final = Carried({}, None)


def dumps(value: object) -> memoryview:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getbuffer()


def dump_call(method: str, arguments: Mapping[str, object], carried: Carried = NOTHING) -> memoryview:
    """Pickle a call; an argument that does not let itself be pickled is named."""
    try:
        return dumps((method, dict(arguments), carried))
    except MemoryError:
        raise
    except Exception as exc:
        raise PermanentError(f"{_culprit(arguments)} of handler {method!r} cannot be pickled: {exc}") from exc


def load_call(body: memoryview | bytes) -> tuple[str, dict[str, Any], Carried]:
    with _permanent("the arguments cannot be unpickled in the handler's process"):
        return loads(body)


def dump_result(method: str, result: object) -> memoryview:
    with _permanent(f"handler {method!r}: its result, a {type(result).__qualname__}, cannot be pickled"):
        return dumps(result)


def load_result(body: memoryview | bytes) -> object:
    with _permanent("the handler's result cannot be unpickled in the worker"):
        return loads(body)


class HandlerTraceback(Exception):  # noqa: N818  the text of a traceback, shown as the cause of the exception it belongs to
    """Where in the handler's process an exception was raised."""

    @override
    def __str__(self) -> str:
        return f"in the handler's process\n{self.args[0]}"


@dataclass(frozen=True, slots=True)
class _Failure:
    pickled: bytes | None
    type_name: str
    message: str
    traceback: str
    is_permanent: bool


def dump_failure(exc: BaseException) -> memoryview:
    """Pickle what a handler raised, together with the text that stands in for it if need be."""
    # A BaseException such as CancelledError, raised in the worker, would mean something about the worker.
    pickled = _faithful_pickle(exc) if isinstance(exc, Exception) else None
    text = "".join(traceback.format_exception(exc))
    return dumps(_Failure(pickled, type(exc).__qualname__, _text(exc), text, isinstance(exc, PermanentError)))


def load_failure(body: memoryview | bytes) -> Exception:
    """Give the exception that a handler raised, its traceback as its cause."""
    failure: _Failure = loads(body)
    exc = _unpickled(failure.pickled) or _stand_in(failure)
    exc.__cause__ = HandlerTraceback(failure.traceback)
    return exc


def _unpickled(pickled: bytes | None) -> Exception | None:
    try:
        return None if pickled is None else loads(pickled)
    except Exception:  # noqa: BLE001  its class cannot be found in the worker; the text can
        return None


def _stand_in(failure: _Failure) -> Exception:
    if failure.is_permanent:
        return PermanentError(f"{failure.type_name}: {failure.message}")
    return HandlerError(failure.type_name, failure.message, failure.traceback)


def _faithful_pickle(exc: Exception) -> bytes | None:
    try:
        pickled = bytes(dumps(exc))
        twin = loads(pickled)
        is_faithful = type(twin) is type(exc) and str(twin) == str(exc)
    except Exception:  # noqa: BLE001  pickling runs code of the exception's class, which may raise anything
        return None
    return pickled if is_faithful else None


def _text(exc: BaseException) -> str:
    try:
        return str(exc)
    except Exception:  # noqa: BLE001  a class whose text cannot be made must not hide that it was raised
        return "(its text cannot be made)"


@contextmanager
def _permanent(problem: str) -> Generator[None]:
    """Turn errors of the block into permanent ones: another attempt would meet them again.

    A lack of memory may pass.
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as exc:
        raise PermanentError(f"{problem}: {exc}") from exc


def _culprit(arguments: Mapping[str, object]) -> str:
    names = [name for name, value in arguments.items() if not _is_picklable(value)]
    return f"argument {names[0]!r}" if names else "an argument"


def _is_picklable(value: object) -> bool:
    try:
        dumps(value)
    except Exception:  # noqa: BLE001  as in _faithful_pickle
        return False
    return True


class _Pickler(pickle.Pickler):
    @override
    def reducer_override(self, obj: Any, /) -> Any:
        if isinstance(obj, BaseException) and _has_own_init(type(obj)):
            return _exception_from_parts, (type(obj), obj.args), obj.__dict__ or None
        return NotImplemented


def _has_own_init(cls: type[BaseException]) -> bool:
    """Whether its `args` may not be what its `__init__` wants. A class that says how to pickle it is believed."""
    return isinstance(cls.__init__, FunctionType) and cls.__reduce__ is BaseException.__reduce__


def _exception_from_parts(cls: type[BaseException], args: tuple[object, ...]) -> BaseException:
    exc = cls.__new__(cls, *args)
    exc.args = args
    return exc
