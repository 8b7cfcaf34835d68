"""Telling recorders when this application computes."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

from . import _livebag

T = TypeVar("T")


class Cycle:
    """This application's place on the cycle board.

    A recorder with ``schedule="cycle-aware"`` writes while the applications on the board rest. The
    word costs three stores to shared memory, no system call. The place is given back by
    :meth:`close`, and when the process ends.

    Used as a context manager or as a decorator, each run is one computation:

    >>> planning = cycle("planner", board="doctest")
    >>> with planning:
    ...     pass  # plan here
    >>> @planning
    ... def plan():
    ...     return "a way"
    >>> plan()
    'a way'
    >>> planning.close()
    """

    def __init__(self, name: str, *, weight: int = 1, board: str | None = None) -> None:
        """Joins under a name that people will read.

        ``weight`` is the computation's importance, compared with others; 0 means that it may be disturbed. ``board``:
        the name of a separate board, for tests.
        """
        self.name = name
        self.weight = weight
        self._core = _livebag.Cycle(name, board)

    def begin(self) -> None:
        """A computation begins: from here on recorders hold back."""
        self._core.begin(self.weight)

    def end(self) -> None:
        """It has ended; nothing happens if none had begun."""
        self._core.end()

    def close(self) -> None:
        """Gives the place back."""
        self._core.close()

    def __enter__(self) -> Cycle:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def __call__(self, function: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(function)
        def computing(*arguments: Any, **named: Any) -> T:
            with self:
                return function(*arguments, **named)

        return computing

    def __repr__(self) -> str:
        return f"<livebag.Cycle {self.name!r}, weight {self.weight}>"


def cycle(name: str, *, weight: int = 1, board: str | None = None) -> Cycle:
    """Joins the user's cycle board; see :class:`Cycle`."""
    return Cycle(name, weight=weight, board=board)
