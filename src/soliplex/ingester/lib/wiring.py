"""The wiring of one installation in this process: its settings, and the one of each thing that is made from them.

    a process starts ──▶ Wiring ──▶ settings, database, registry, stores, parsers, caches: one of each
                            │ bound()
                            ▼
    requests of an app, tasks of a worker, their threads ──▶ get_settings(), get_registry(), Database.session(), …

What has a constructor is given what it needs. What strangers call by its name, such as a handler or
`Database.session`, finds the wiring that is bound to the context it runs in: an app binds its own to every request, a
worker to its tasks. Where nothing is bound, it is the wiring of the process, whose settings are the environment's. So
two apps with two settings live in one process and share nothing but code.

Imports nothing, so that a handler's process has its settings at hand and still starts at once.
"""

from __future__ import annotations

import pickle
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from soliplex.ingester.lib.config import Settings


class Wiring:
    """The settings of an installation, and what is made from them.

    Settings that are not given are those of the environment, read when they are needed.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._read: Callable[[], Settings] = _from_environment
        self._made: dict[Callable[[Settings], Any], Any] = {}
        self._kept: dict[Callable[[], Any], Any] = {}

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = self._read()
        return self._settings

    def is_of(self, settings: Settings) -> bool:
        """Whether these very settings are in use here."""
        return settings is self._settings

    def use(self, settings: Settings | None) -> None:
        """Put other settings in place, and let go of what was made of the old; None has them read anew."""
        self._settings = settings
        self._made.clear()

    def read_by(self, read: Callable[[], Settings]) -> None:
        """Take settings that are not given from this function, and not from the environment."""
        self._read = read
        self.use(None)

    def made[T](self, make: Callable[[Settings], T]) -> T:
        """What the function makes of the settings: made once, when it is first asked for."""
        try:
            return self._made[make]
        except KeyError:
            return self._made.setdefault(make, make(self.settings))

    def forget(self, make: Callable[[Settings], Any]) -> None:
        """Have what the function makes made anew when it is next asked for."""
        self._made.pop(make, None)

    def kept[T](self, make: Callable[[], T]) -> T:
        """The one of its kind in this wiring, whatever the settings: an open database, those who wait for work."""
        try:
            return self._kept[make]
        except KeyError:
            return self._kept.setdefault(make, make())

    def bound(self) -> _Binding:
        """For the time of the block, this is the current wiring, also of tasks and threads that begin in it."""
        return _Binding(self)

    @asynccontextmanager
    async def around[T](self, manager: AbstractAsyncContextManager[T]) -> AsyncGenerator[T]:
        """The manager, entered and left with this wiring bound. The block keeps the wiring of its surroundings."""
        before = _current.get()
        with self.bound():
            async with manager as value:
                with before.bound():
                    yield value


class _Binding:
    """A wiring that is about to be bound. Not a generator, since every request is in such a block."""

    __slots__ = ("_before", "_wiring")

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._before = wiring

    def __enter__(self) -> None:
        self._before = _current.get()
        _current.set(self._wiring)

    def __exit__(self, *_error: object) -> None:
        # Not by a token: a fixture or a framework may leave the block in a context other than the one it entered.
        _current.set(self._before)


def in_its_wiring[C: type](cls: C) -> C:
    """A class whose async methods run with the wiring bound that the object has as `wiring`, whoever calls them."""
    for name, method in list(vars(cls).items()):
        if iscoroutinefunction(method):
            setattr(cls, name, _bound(method))
    return cls


def _bound[**P, R](method: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    @wraps(method)
    async def call(*args: P.args, **options: P.kwargs) -> R:
        owner: Any = args[0]
        with owner.wiring.bound():
            return await method(*args, **options)

    return call


def _from_environment() -> Settings:
    from soliplex.ingester.lib.config import load_settings  # noqa: PLC0415  see the module's last sentence

    return load_settings()


_PROCESS: Final = Wiring()
_current: Final[ContextVar[Wiring]] = ContextVar("the wiring in use", default=_PROCESS)


def current_wiring() -> Wiring:
    """The wiring that is bound here, or else that of the process."""
    return _current.get()


def wiring_for(settings: Settings | None) -> Wiring:
    """A wiring of its own for these settings; the current one, where none are given or they are its own."""
    current = _current.get()
    return current if settings is None or current.is_of(settings) else Wiring(settings)


class _GetSettings:
    """`get_settings()`, with the `cache_clear()` that it has had from the beginning."""

    def __call__(self) -> Settings:
        """The settings of the current wiring."""
        return _current.get().settings

    def cache_clear(self) -> None:
        """Have the settings of the process read anew."""
        _PROCESS.use(None)


get_settings: Final = _GetSettings()


def packed_settings() -> bytes:
    """The current settings, for a process that is about to start."""
    return pickle.dumps(_current.get().settings)


def unpack_settings(packed: bytes) -> None:
    """In such a process: use the settings it was given, and read none of its own."""
    _PROCESS.read_by(partial(pickle.loads, packed))
