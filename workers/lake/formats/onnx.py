"""ONNX: classifiers of rows, from bytes alone, of the standard's own operators.

The model takes a matrix of all features, or one column for each feature, by its name; one of its
outputs holds the probabilities.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.lake.formats.contract import (
    MISSING_WORDS,
    Category,
    InputsRefusedError,
    LoadedModel,
    ModelRefusedError,
    answering,
    timed,
    two_columns,
    written_otherwise,
)
from workers.lake.formats.matrix import as_matrix
from workers.lake.formats.onnx_session import check_graphs, graph_words, most_memory, open_session
from workers.lake.manifest import Manifest
from workers.memory import at_most_more

NUMBERS = pl.Float64
ERRORS = (Exception,)  # onnxruntime has a dozen of its own, and no class above them

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}
_TEXT = "tensor(string)"
_REAL, _WHOLE = {"tensor(float)", "tensor(double)"}, {"tensor(int64)", "tensor(int32)"}
_EXACT = 2.0**53
"""The largest number up to which doubles are all whole numbers."""
_OF_LABELS = {"tensor(int64)", "tensor(int32)", _TEXT}
_ADD_UP = 1e-3
_ADDED = 1e-6
"""Distance below 0 that trees' shares of 32 bits add up to."""
_TRIAL = 128
"""Rows that are tried."""
_SAME = 1e-3
"""Largest difference of two answers about a row: libraries add in another order in a batch."""
_WORDS = ("", "a", "b", "unknown", "0", "1")


@answering
def describe(content: bytes) -> dict[str, Any]:
    """Return what a file says of itself; see `ModelFormat`."""
    check_graphs(content)
    loaded = load(content)
    given = loaded.model.get_inputs()
    names = None if _is_matrix(given) else [each.name for each in given]
    width = given[0].shape[1] if names is None else len(names)
    try:
        found = _tried(loaded, given)
    except ModelRefusedError:
        raise
    except ERRORS:
        raise ModelRefusedError(
            f"fails as it scores trial rows, in {most_memory() / 2**30:.3g} GiB of memory: see "
            "that onnxruntime scores rows of small numbers and unknown words with it"
        ) from None
    if not np.isfinite(found).all() or found.min() < 0.0 or abs(found.sum() - 1.0) > _ADD_UP:
        raise ModelRefusedError(
            "gives no probabilities of classes: export the model with its softmax or sigmoid"
        )
    text = [each.type == _TEXT for each in given]
    return {
        "kinds": [None] * width
        if names is None
        else ["categorical" if each else None for each in text],
        "names": names,
        "classes": None,
        "class_count": found.shape[1],
    }


def load(content: bytes) -> LoadedModel:
    """Return a session that takes any number of rows."""
    session = open_session(content)
    given = session.get_inputs()
    strange = [each.type for each in given if each.type not in {*_TYPES, _TEXT}]
    if strange:
        raise ModelRefusedError(f"takes {strange[0]}: export it for numbers and text")
    if any(each.shape and isinstance(each.shape[0], int) for each in given):
        raise ModelRefusedError(
            "takes a fixed number of rows: export it with a free first dimension"
        )
    known = graph_words(content) if any(each.type == _TEXT for each in given) else frozenset()
    words = tuple((word, 0) for word in sorted(known))
    return LoadedModel(
        session,
        categories=tuple(words if each.type == _TEXT else None for each in given),
        takes=tuple((each.name, each.type) for each in given),
    )


def inputs(loaded: LoadedModel, manifest: Manifest, frame: pl.DataFrame) -> dict[str, NDArray[Any]]:
    """Return what the session is fed, by name."""
    given = loaded.model.get_inputs()
    if _is_matrix(given):
        nothing = (None,) * len(manifest.features)
        matrix = as_matrix(manifest, frame, nothing, np.float64)
        return {given[0].name: _cast(matrix, given[0])}
    return {
        each.name: _column(frame[each.name], each)
        if known is None
        else _text(frame[each.name], each, known)
        for each, known in zip(given, loaded.categories, strict=True)
    }


def predict(
    loaded: LoadedModel,
    inputs: dict[str, NDArray[Any]],
    *,
    threads: int,  # noqa: ARG001  # a session has one
) -> NDArray[np.float64]:
    """Return probabilities, shape (records, classes)."""
    found = _answers(loaded, inputs)
    if found.shape[1] == 1:
        chance = found[:, 0]
        over = (chance > 1.0) & (chance <= 1.0 + _ADDED)
        return _not_below(two_columns(np.where(over, 1.0, _not_below(chance))))
    found = _not_below(found)
    return np.asarray(found / found.sum(axis=1, keepdims=True)) if _adds_up(found) else found


def _tried(loaded: LoadedModel, given: list[Any]) -> NDArray[np.float64]:
    """Return the probabilities of a row of nothing, after scoring trial rows in two orders."""
    rows = _trial_rows(given)
    with timed(_TRIAL):
        found = _answers(loaded, rows)
    order = np.random.default_rng(1).permutation(_TRIAL)
    for some, how in ((order, "in another order"), (order[:1], "alone")):
        again = _answers(loaded, {name: values[some] for name, values in rows.items()})
        if again.shape != found[some].shape or not np.allclose(
            again, found[some], rtol=0.0, atol=_SAME, equal_nan=True
        ):
            raise ModelRefusedError(
                f"scores a row differently {how} than in a batch, and an audit scores in batches: "
                "export a model that scores each row by itself"
            )
    return predict(loaded, _empty_row(given), threads=1)


def _answers(loaded: LoadedModel, inputs: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return what the model says of each row, shape (records, values)."""
    with at_most_more(most_memory()):  # of text, onnxruntime's own bound counts no letters
        (found,) = loaded.model.run([_probabilities(loaded.model)], inputs)
    rows = len(next(iter(inputs.values())))
    if len(found) != rows:
        raise ModelRefusedError(f"gives {len(found)} answers for {rows} rows: export it per row")
    return np.asarray(found, dtype=np.float64).reshape(rows, -1)


def _not_below(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities with 0 in place of what sums of 32 bits lie below it.

    A forest gives one class what is left of the others, whose trees' shares add to a little more
    than one.
    """
    return np.where((found < 0.0) & (found >= -_ADDED), 0.0, found)


def _adds_up(found: NDArray[np.float64]) -> bool:
    """Return whether each row adds up to one but for rounding to 32 bits, which is taken out."""
    return bool((np.abs(found.sum(axis=1) - 1.0) <= _ADD_UP).all())


def _probabilities(session: Any) -> str:
    """Return the name of the output of probabilities; beside it, there may be the label's."""
    outputs = session.get_outputs()
    named = [each.name for each in outputs if each.type in _REAL]
    if any(each.type.startswith("seq") for each in outputs):
        raise ModelRefusedError(
            "gives its probabilities as a list of maps: convert it with the option zipmap=False"
        )
    if len(named) != 1:
        raise ModelRefusedError(
            f"has {len(named)} outputs of real numbers: keep the probabilities alone"
        )
    others = [each for each in outputs if each.name != named[0]]
    if len(others) > 1 or any(each.type not in _OF_LABELS for each in others):
        raise ModelRefusedError(
            f"has {len(others)} outputs beside its probabilities, of {others[0].type}, which are "
            "not audited: keep the probabilities and the label alone"
        )
    return str(named[0])


def _is_matrix(given: list[Any]) -> bool:
    """Return whether the model takes all features as one input."""
    shape = given[0].shape
    return (
        len(given) == 1
        and given[0].type != _TEXT
        and len(shape) == 2
        and isinstance(shape[1], int)
        and shape[1] > 1
    )


def _empty_row(given: list[Any]) -> dict[str, NDArray[Any]]:
    return {
        each.name: np.full(
            [1, *each.shape[1:]], "" if each.type == _TEXT else 0,
            dtype=object if each.type == _TEXT else _TYPES[each.type],
        )
        for each in given
    }  # fmt: skip


def _trial_rows(given: list[Any]) -> dict[str, NDArray[Any]]:
    """Return rows of small numbers and some words, the same in every process."""
    random = np.random.default_rng(0)
    rows: dict[str, NDArray[Any]] = {}
    for each in given:
        shape = [_TRIAL, *each.shape[1:]]
        if each.type == _TEXT:
            rows[each.name] = random.choice(np.array(_WORDS, dtype=object), shape)
        elif each.type in _REAL:
            rows[each.name] = random.normal(size=shape).astype(_TYPES[each.type])
        else:
            rows[each.name] = random.integers(0, 2, shape).astype(_TYPES[each.type])
    return rows


def _text(column: pl.Series, given: Any, known: Iterable[tuple[Category, int]]) -> NDArray[Any]:
    """Return a column as the words that the graph knows, "" for a missing value.

    ONNX has no missing text, and the graph says how training wrote what is stored as no text.
    """
    words = {word for word, _ in known}
    values = column.unique().drop_nulls().to_list()
    ways = [values] if column.dtype == pl.String else _written(values, column)
    if len(ways) > 1:
        ways = [way for way in ways if not words.isdisjoint(way)]
    if len(ways) != 1:
        raise InputsRefusedError(written_otherwise(column, "text"))
    others = [word for word in MISSING_WORDS if word in words]
    if column.null_count() and others and "" not in words:
        raise InputsRefusedError(
            f"{column.name!r} has missing values, which training may have written as "
            f"{others[0]!r}: write in their place what training had"
        )
    text = column.replace_strict(values, ways[0], default=None, return_dtype=pl.String)
    return (
        text.fill_null("")
        .to_numpy()
        .astype(object)
        .reshape(len(column), *(1 for _ in given.shape[1:]))
    )


def _written(values: list[Any], column: pl.Series) -> list[list[str]]:
    """Return the ways in which pandas or Spark may have written booleans or numbers as text."""
    if column.dtype == pl.Boolean:
        return [[str(v) for v in values], [str(v).lower() for v in values],
                [str(int(v)) for v in values]]  # fmt: skip
    if column.dtype.is_integer() or (column.dtype.is_float() and all(v == v // 1 for v in values)):
        return [[str(int(v)) for v in values], [f"{int(v)}.0" for v in values]]
    return []


def _column(column: pl.Series, given: Any) -> NDArray[Any]:
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise InputsRefusedError(written_otherwise(column, "numbers"))
    if given.type in _WHOLE and column.dtype.is_integer() and not column.null_count():
        values: NDArray[Any] = column.to_numpy().astype(_TYPES[given.type])
    else:
        values = _cast(column.cast(pl.Float64).fill_null(float("nan")).to_numpy(), given)
    return values.reshape(len(values), *(1 for _ in given.shape[1:]))


def _cast(values: NDArray[np.float64], given: Any) -> NDArray[Any]:
    if given.type not in _REAL and np.isnan(values).any():
        raise InputsRefusedError(
            f"{given.name!r} holds missing values, which the model's {given.type} cannot: export "
            "it for floats"
        )
    if given.type in _WHOLE and values.size and np.abs(values).max() > _EXACT:
        raise InputsRefusedError(
            f"{given.name!r} holds whole numbers above 2^53, whose last digits a matrix of all "
            "features does not keep: export the model with an input for each feature"
        )
    taken: NDArray[Any] = values.astype(_TYPES[given.type])
    if given.type not in _REAL and (taken != values).any():
        raise InputsRefusedError(
            f"{given.name!r} holds numbers that the model's {given.type} cuts off, and another "
            "model would be audited than the one that training made: export it for floats"
        )
    return taken
