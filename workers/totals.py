"""A sum stays where it was made, and is worked on there: who asked for it need not hold it."""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from workers.executors import Executor, InProcess, Item, OnRay, Report, Result, Shared

Added = TypeVar("Added")
Added_co = TypeVar("Added_co", covariant=True)


class Total(Protocol[Added_co]):
    """The sum of what was made of items. It stays where it was made, and is worked on there."""

    def get(self) -> Added_co:
        """Return it."""

    def map(
        self,
        function: Callable[[tuple[Shared, Added_co], Item], Result],
        shared: Shared,
        items: Iterable[Item],
    ) -> Iterator[Result]:
        """Yield `function((shared, sum), item)` for every item, in any order."""


@dataclass(frozen=True, slots=True)
class _Here(Generic[Added]):
    """A sum in this process."""

    value: Added

    def get(self) -> Added:
        return self.value

    def map(
        self,
        function: Callable[[tuple[Shared, Added], Item], Result],
        shared: Shared,
        items: Iterable[Item],
    ) -> Iterator[Result]:
        return InProcess().map(function, (shared, self.value), items)


@dataclass(frozen=True, slots=True)
class _There(Generic[Added]):
    """A sum in Ray's object store."""

    executor: OnRay
    reference: Any

    def get(self) -> Added:
        return self.executor.value(self.reference)  # type: ignore[no-any-return]

    def map(
        self,
        function: Callable[[tuple[Shared, Added], Item], Result],
        shared: Shared,
        items: Iterable[Item],
    ) -> Iterator[Result]:
        references = (self.executor.put(shared), self.reference)
        return self.executor.map_references(_paired(function), references, items)


def _paired(
    function: Callable[[tuple[Shared, Added], Item], Result],
) -> Callable[[Shared, Added, Item], Result]:
    def call(shared: Shared, value: Added, item: Item) -> Result:
        return function((shared, value), item)

    # No wraps: Ray would take the signature of what is wrapped, which has an argument less.
    call.__name__, call.__qualname__ = function.__name__, function.__qualname__
    return call


def total(
    executor: Executor,
    function: Callable[[Shared, Item], tuple[Report, Result]],
    shared: Shared,
    items: Iterable[Item],
    *,
    nothing: Result,
    on_done: Callable[[Report], None],
    deadline: dt.datetime | None = None,
) -> Total[Result]:
    """Return the sum of all results without bringing it here; `nothing` without items.

    Ray's sums stay in its object store, and tasks on them run there. Any other executor adds in
    this process, or brings its sum here.
    """
    if isinstance(executor, OnRay):
        kept = executor.fold_there(function, shared, items, on_done=on_done, deadline=deadline)
        return _Here(nothing) if kept is None else _There(executor, kept)
    found = executor.fold(function, shared, items, on_done=on_done, deadline=deadline)
    return _Here(nothing if found is None else found)
