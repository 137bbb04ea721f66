"""For each ONNX operator that moves numbers: on which axis its answer has the rows, and when."""

from workers.lake.formats.onnx_traced import (
    FEW_ENTRIES,
    ROWS,
    NotShownError,
    RowCount,
    Rule,
    Shape,
    Traced,
    TracedNode,
    axis_of,
    from_first,
    has_rows,
    product_of,
    together,
    without,
)


def _transposed(step: TracedNode) -> list[Traced]:
    shape = step.shape(0)
    order = step.attributes.get("perm", range(len(shape))[::-1])
    return [Traced(tuple(shape[each] for each in order))]


def _reshaped(step: TracedNode) -> list[Traced]:
    """Rows stay side by side where all that lies before them is of size 1, before and after."""
    shape, wanted = step.shape(0), list(step.entries(1))
    if step.attributes.get("allowzero"):
        raise NotShownError
    wanted = [shape[at] if each == 0 else each for at, each in enumerate(wanted)]
    if not has_rows(shape):
        if has_rows(wanted):
            raise NotShownError
        return [Traced(tuple(None if each == -1 else each for each in wanted))]
    place = next(at for at, each in enumerate([*wanted, ROWS]) if each != 1)
    rest = wanted[place + 1 :]
    if place == len(wanted) or has_rows(rest):
        raise NotShownError
    if wanted[place] == -1:
        wanted[place] = _flat(shape, beside=product_of(tuple(rest)))
    elif not isinstance(wanted[place], RowCount) or any(each != 1 for each in _before(shape)):
        raise NotShownError
    return [Traced(tuple(None if each == -1 else each for each in wanted))]


def _before(shape: Shape) -> Shape:
    return shape[: axis_of(shape)]


def _flat(shape: Shape, *, beside: int | None = 1) -> RowCount:
    """Return the size of the rows where the others are `beside`, all of a row side by side."""
    rows, within = shape[axis_of(shape)], product_of(shape[axis_of(shape) + 1 :])
    if any(each != 1 for each in _before(shape)) or not isinstance(rows, RowCount):
        raise NotShownError
    if not within or not beside or beside < 0 or rows.each * within % beside:
        raise NotShownError
    return RowCount(rows.each * within // beside)


def _flattened(step: TracedNode) -> list[Traced]:
    shape = step.shape(0)
    axis = step.attributes.get("axis", 1)
    axis += len(shape) if axis < 0 else 0
    if axis <= axis_of(shape):
        return [Traced((product_of(shape[:axis]), _flat(shape)))]
    beside = product_of(shape[axis:])
    return [Traced((_flat(shape, beside=beside), beside))]


def _unsqueezed(step: TracedNode) -> list[Traced]:
    given, axes = step.inputs[0], step.numbers("axes", 1)
    if given is None or given.shape is None or axes is None:
        raise NotShownError
    rank = len(given.shape) + len(axes)
    new, old = {from_first(each, rank) for each in axes}, iter(given.shape)
    shape = tuple(1 if at in new else next(old) for at in range(rank))
    return [Traced(shape, given.entries if rank <= 1 else None)]


def _squeezed(step: TracedNode) -> list[Traced]:
    given, axes = step.inputs[0], step.numbers("axes", 1)
    if given is None or given.shape is None or axes is None:  # without axes: also a single row's
        raise NotShownError
    return [Traced(without(given.shape, axes, kept=0), given.entries)]


def _concatenated(step: TracedNode) -> list[Traced]:
    known = [None if each is None else each.entries for each in step.inputs]
    if all(each is not None for each in known) and len(sum(filter(None, known), ())) <= FEW_ENTRIES:
        entries = tuple(size for each in known for size in each or ())
        return [Traced((len(entries),), entries)]
    shapes = step.shapes()
    axis = step.axis(1, len(shapes[0]))
    if len({len(each) for each in shapes}) != 1 or any(axis_of(each) == axis for each in shapes):
        raise NotShownError
    if len({(axis_of(each), each[axis_of(each)]) for each in shapes if has_rows(shapes[0])}) > 1:
        raise NotShownError
    widths = [each[axis] for each in shapes]
    total = sum(each for each in widths if isinstance(each, int)) if None not in widths else None
    return [Traced((*shapes[0][:axis], total, *shapes[0][axis + 1 :]))]


def _gathered(step: TracedNode) -> list[Traced]:
    data, places = step.inputs[0], step.inputs[1]
    if data is None or places is None or data.shape is None or places.shape is None:
        raise NotShownError
    if data.entries is not None and places.entries is not None and len(data.shape) == 1:
        picked = tuple(data.entries[each] for each in places.entries if isinstance(each, int))
        if len(picked) != len(places.entries):
            raise NotShownError
        return [Traced(places.shape, picked)]
    shape, others = step.shape(0), step.shape(1)
    axis = step.axis(0, len(shape))
    if isinstance(shape[axis], RowCount):
        raise NotShownError
    return [Traced((*shape[:axis], *others, *shape[axis + 1 :]))]


def _gathered_elements(step: TracedNode) -> list[Traced]:
    shape, places = step.shape(0), step.shape(1)
    axis = step.axis(0, len(shape))
    if not has_rows(shape) or axis_of(places) != axis_of(shape):
        raise NotShownError
    if axis == axis_of(shape) or shape[axis_of(shape)] != places[axis_of(places)]:
        raise NotShownError
    return [Traced(places)]


def _picked(step: TracedNode) -> list[Traced]:
    """Return columns, or for each row a constant's number at its place."""
    shape, places = step.shape(0), step.shape(1)
    if isinstance(shape[-1], RowCount):
        raise NotShownError
    count = _flat(places) if has_rows(places) else product_of(places)
    return [Traced((*(shape[:-1] if len(shape) > 1 else (1,)), count))]


def _sliced(step: TracedNode) -> list[Traced]:
    given = step.inputs[0]
    starts, ends = step.numbers("starts", 1), step.numbers("ends", 2)
    axes, steps = step.numbers("axes", 3), step.numbers("steps", 4)
    if given is None or given.shape is None or starts is None or ends is None:
        raise NotShownError
    if given.entries is not None and len(given.shape) == 1 and len(starts) == 1:
        kept = given.entries[slice(starts[0], ends[0], steps[0] if steps else None)]
        return [Traced((len(kept),), kept)]
    shape = step.shape(0)
    cut = {from_first(each, len(shape)) for each in (axes or range(len(starts)))}
    if axis_of(shape) in cut:
        raise NotShownError
    return [Traced(tuple(None if at in cut else size for at, size in enumerate(shape)))]


def _split(step: TracedNode) -> list[Traced]:
    shape = step.shape(0)
    step.constant(1)
    axis = step.axis(0, len(shape))
    if axis_of(shape) == axis:
        raise NotShownError
    return [Traced((*shape[:axis], None, *shape[axis + 1 :]))] * FEW_ENTRIES


def _shape(step: TracedNode) -> list[Traced]:
    shape = step.shape(0)
    kept = shape[slice(step.attributes.get("start", 0), step.attributes.get("end"))]
    return [Traced((len(kept),), kept)]


def _filled(step: TracedNode) -> list[Traced]:
    return [Traced(step.entries(0))]


def _expanded(step: TracedNode) -> list[Traced]:
    return [Traced(together(step.shape(0), step.entries(1)))]


def _tiled(step: TracedNode) -> list[Traced]:
    shape, times = step.shape(0), step.entries(1)
    both = list(zip(shape, times, strict=True))
    if has_rows(times) or any(isinstance(size, RowCount) and many != 1 for size, many in both):
        raise NotShownError
    return [Traced(tuple(size if isinstance(size, RowCount) else None for size in shape))]


MOVING: dict[str, Rule] = {
    "Concat": _concatenated,
    "ConstantOfShape": _filled,
    "Expand": _expanded,
    "Flatten": _flattened,
    "Gather": _gathered,
    "GatherElements": _gathered_elements,
    "Reshape": _reshaped,
    "Shape": _shape,
    "Slice": _sliced,
    "Split": _split,
    "Squeeze": _squeezed,
    "Tile": _tiled,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
}
PICKING: Rule = _picked
"""That of `ArrayFeatureExtractor`, of another set of operators."""
