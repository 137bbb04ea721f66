"""ONNX: classifiers of rows, from bytes alone, of the standard's own operators.

The model takes a matrix of all features, or one column for each feature, by its name; one of its
outputs holds the probabilities.
"""

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workers.lake import limits
from workers.lake.formats.contract import (
    TENSORS,
    LoadedModel,
    ModelRefusedError,
    answering,
    frame_in,
    matrix_in,
    tried,
    two_columns,
)
from workers.lake.formats.onnx_session import check_graphs, graph_words, open_session

_TEXT = "tensor(string)"
_REAL = {"tensor(float)", "tensor(double)"}
_OF_LABELS = {"tensor(int64)", "tensor(int32)", _TEXT}
_ADD_UP = 1e-3
_ADDED = 1e-6
"""Distance below 0 that trees' shares of 32 bits add up to."""
_TRIAL = 128
"""Rows that are tried."""
_SAME = 1e-3
"""Largest difference of two answers about a row: libraries add in another order in a batch."""
_WORDS = ("", "a", "b", "unknown", "0", "1")


def describe(loaded: LoadedModel) -> dict[str, Any]:
    """Return what a model says of itself; see `answering`."""
    given = loaded.model.get_inputs()
    names = None if _is_matrix(given) else [each.name for each in given]
    width = given[0].shape[1] if names is None else len(names)
    try:
        found, seconds = _tried(loaded, given)
    except ModelRefusedError:
        raise
    except Exception:  # noqa: BLE001  # onnxruntime has a dozen of its own, and no class above them
        raise ModelRefusedError(
            f"fails as it scores trial rows, in {limits.MODEL_MEMORY_BYTES / 2**30:.3g} GiB of "
            "memory: see that onnxruntime scores rows of small numbers and unknown words with it"
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
        "categories": loaded.categories,
        "takes": [(each.name, each.type) for each in given],
        "row_seconds": seconds,
    }


def load(content: bytes) -> LoadedModel:
    """Return a session that takes any number of rows."""
    check_graphs(content)
    session = open_session(content)
    given = session.get_inputs()
    strange = [each.type for each in given if each.type not in {*TENSORS, _TEXT}]
    if strange:
        raise ModelRefusedError(f"takes {strange[0]}: export it for numbers and text")
    if any(each.shape and isinstance(each.shape[0], int) for each in given):
        raise ModelRefusedError(
            "takes a fixed number of rows: export it with a free first dimension"
        )
    known = graph_words(content) if any(each.type == _TEXT for each in given) else frozenset()
    words = tuple((word, 0) for word in sorted(known))
    return LoadedModel(
        session, categories=tuple(words if each.type == _TEXT else None for each in given)
    )


def predict(loaded: LoadedModel, given: mmap.mmap) -> NDArray[np.float64]:
    """Return probabilities, shape (records, classes)."""
    asked = loaded.model.get_inputs()
    if _is_matrix(asked):
        matrix = matrix_in(given, TENSORS[asked[0].type], asked[0].shape[1])
        return _asked(loaded, {asked[0].name: matrix})
    rows, frame = {}, frame_in(given)
    for each in asked:
        values = frame[each.name].to_numpy()
        values = values.astype(object) if each.type == _TEXT else values
        rows[each.name] = values.reshape(frame.height, *(1 for _ in each.shape[1:]))
    return _asked(loaded, rows)


def _asked(loaded: LoadedModel, rows: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return probabilities of what the session is fed, by name."""
    found = _answers(loaded, rows)
    if found.shape[1] == 1:
        chance = found[:, 0]
        over = (chance > 1.0) & (chance <= 1.0 + _ADDED)
        return _not_below(two_columns(np.where(over, 1.0, _not_below(chance))))
    found = _not_below(found)
    return np.asarray(found / found.sum(axis=1, keepdims=True)) if _adds_up(found) else found


def _tried(loaded: LoadedModel, given: list[Any]) -> tuple[NDArray[np.float64], float]:
    """Return the probabilities of a row of nothing, after scoring a trial row alone and in a batch.

    Beside it stands the processor time of a trial row.
    """
    rows = _trial_rows(given)
    found, seconds = tried(loaded, _answers, rows, _TRIAL)
    last = found[-1:]
    alone = _answers(loaded, {name: values[-1:] for name, values in rows.items()})
    if alone.shape != last.shape or not np.allclose(
        alone, last, rtol=0.0, atol=_SAME, equal_nan=True
    ):
        raise ModelRefusedError(
            "scores a row differently alone than in a batch, and an audit scores in batches: "
            "export a model that scores each row by itself"
        )
    return _asked(loaded, _empty_row(given)), seconds


def _answers(loaded: LoadedModel, inputs: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return what the model says of each row, shape (records, values)."""
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
            dtype=object if each.type == _TEXT else TENSORS[each.type],
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
            rows[each.name] = random.normal(size=shape).astype(TENSORS[each.type])
        else:
            rows[each.name] = random.integers(0, 2, shape).astype(TENSORS[each.type])
    return rows


answer = answering(load, describe, predict)
