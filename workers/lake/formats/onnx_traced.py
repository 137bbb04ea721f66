"""What is known of a tensor of an ONNX graph while its rows are followed, and what a rule is given.

Shapes are as in the standard, with `RowCount` in the place of the number of rows. A width that is
not known is None, and the same in any batch.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

FEW_ENTRIES = 64


@dataclass(frozen=True, slots=True)
class RowCount:
    """A size: that of a batch, times `each`; places of one row lie side by side."""

    each: int = 1


ROWS = RowCount()
Size = int | None | RowCount
Shape = tuple[Size, ...]


class NotShownError(Exception):
    """Rows cannot be shown to be kept apart."""


@dataclass(frozen=True, slots=True)
class Traced:
    """What is known of a tensor.

    Attributes:
        shape: None of a constant of which nothing is known.
        entries: of a scalar or vector of few whole numbers; `ROWS` is the number of rows, and None
            one that is the same in any batch.
    """

    shape: Shape | None
    entries: Shape | None = None

    @property
    def axis(self) -> int | None:
        """Axis on which rows lie; None of a constant."""
        places = [at for at, each in enumerate(self.shape or ()) if isinstance(each, RowCount)]
        return places[0] if places else None

    @property
    def of_rows(self) -> bool:
        """Whether it depends on rows, or on how many there are."""
        return self.axis is not None or has_rows(self.entries or ())


@dataclass(frozen=True, slots=True)
class TracedNode:
    """One node: its operator, inputs (None where one is left out), and attributes."""

    operator: str
    inputs: Sequence[Traced | None]
    attributes: dict[str, Any]

    def shape(self, place: int) -> Shape:
        """Return the shape of an input that is no number of rows."""
        given = self.inputs[place]
        if given is None or given.shape is None or has_rows(given.entries or ()):
            raise NotShownError
        return given.shape

    def shapes(self) -> list[Shape]:
        """Return the shapes of all inputs that are given."""
        return [self.shape(place) for place, each in enumerate(self.inputs) if each is not None]

    def entries(self, place: int) -> Shape:
        """Return what numbers an input holds."""
        given = self.inputs[place]
        if given is None or given.entries is None:
            raise NotShownError
        return given.entries

    def has(self, place: int) -> bool:
        """Return whether an input is given."""
        return place < len(self.inputs) and self.inputs[place] is not None

    def numbers(self, name: str, place: int) -> tuple[int, ...] | None:
        """Return constant numbers, of an attribute or of an input; None where there are none."""
        if name in self.attributes and self.has(place):
            raise NotShownError
        if name in self.attributes:
            return tuple(self.attributes[name])
        found = self.entries(place) if self.has(place) else None
        if found is not None and not all(isinstance(each, int) for each in found):
            raise NotShownError
        return None if found is None else tuple(each for each in found if isinstance(each, int))

    def axis(self, default: int, rank: int) -> int:
        """Return the attribute `axis`, counted from the first."""
        return from_first(self.attributes.get("axis", default), rank)

    def constant(self, *places: int) -> None:
        """Raise unless inputs, where they are given, are the same for all rows."""
        for place in places:
            given = self.inputs[place] if self.has(place) else None
            if given is not None and given.of_rows:
                raise NotShownError


Rule = Callable[[TracedNode], list[Traced]]
"""Returns what a node's first outputs are, or raises `NotShownError` where rows meet."""


def from_first(axis: int, rank: int) -> int:
    """Return an axis counted from the first one."""
    if not -rank <= axis < rank:
        raise NotShownError
    return axis % rank


def axis_of(shape: Shape) -> int:
    """Return the axis of the rows, or -1 of a constant."""
    found = Traced(shape).axis
    return -1 if found is None else found


def has_rows(sizes: Sequence[Size]) -> bool:
    """Return whether one of some sizes is of the rows."""
    return any(isinstance(each, RowCount) for each in sizes)


def together(*shapes: Shape) -> Shape:
    """Return the shape that shapes are broadcast to; rows have to lie on one axis."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(each)) + each for each in shapes]
    return tuple(_one_size(sizes) for sizes in zip(*padded, strict=True))


def _one_size(sizes: tuple[Size, ...]) -> Size:
    wide = {each for each in sizes if each != 1}
    if has_rows(tuple(wide)) and len(wide) > 1:
        raise NotShownError  # a batch of one row is as wide as the other, and others are not
    known = wide - {None}
    return known.pop() if known else None if wide else 1


def product_of(sizes: Shape) -> int | None:
    """Return the product of known sizes; None where one is not known, or of the rows."""
    known = [each for each in sizes if isinstance(each, int)]
    return math.prod(known) if len(known) == len(sizes) else None


def without(shape: Shape, axes: Sequence[int], *, kept: int) -> Shape:
    """Return a shape without axes, or with 1 in their place; rows may not lie there."""
    gone = {from_first(each, len(shape)) for each in axes}
    if axis_of(shape) in gone:
        raise NotShownError
    places = enumerate(shape)
    return tuple(1 if at in gone else size for at, size in places if kept or at not in gone)
