"""Guesses at what a table of scores, or of labelled rows, means; each guess gives its reason.

Nothing is written, and no training is guessed: a column says which rows were held out, or
the user has to. A manifest is proposed from what a model file and the day's labels say of
themselves.
"""

import contextlib
import datetime as dt
import hashlib
import json
import pathlib
import re
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from privcore.exceptions import TerminalError
from workers.labels.columns import HELD_OUT, TRAINED
from workers.labels.parquet import Footer, read_footer, read_row_group
from workers.lake import limits
from workers.lake.formats import ENDINGS
from workers.lake.formats.contract import ModelRefusedError
from workers.lake.layout import Lake, read_named
from workers.lake.manifest import SCHEMA_VERSION, Manifest, class_word, looked_up
from workers.lake.model_sandbox import describe_model
from workers.sources.checkpoints.in_place import stored_kind
from workers.sources.tables.table_days import as_day
from workers.sources.tables.table_files import TableLook

_CLASSES = 20
_CONTEXT = (
    "keep those that the model was trained on and that were known before the label: the audit "
    "then usually proves more"
)
_SCALES = {"probability": ("probability", "probabilities"), "log_odds": ("log-odds", "log-odds")}
_TRAIN_FLAG = r"((is|in)_)?train(ing|ed)?"
_HELD_FLAG = r"((is|in)_)?(test|validation)(_?set)?"
_HINTS = {
    "day": r"day|ds|dt|date|event_date",
    "label": r"label|y|click(ed)?|target_label|outcome|converted|churn(ed)?|is_.*|late",
    "target": r".*(today|target|new|current|retrained).*",
    "proxy": r".*(yesterday|served|serving|logged|previous|prior|old|proxy).*",
    "unit": r".*(user|customer|person|member|account|patient).*",
    "record": r"(.*_)?(id|uuid|key|record|event|impression|request|session)",
}


@dataclass(slots=True)
class Proposal:
    """Proposed settings of `[models.scores]`; or of `[models.labels]`, where models are scored.

    Attributes:
        seen: what was seen of the table.
        settings: keys and values that could be inferred.
        why: for each of them, a sentence.
        missing: for each key that the user has to give, a sentence with what could be it.
        newest: the newest day of the table.
        offered: keys that the user may set as well; `why` says when.
        unused: of columns that are nothing of it, in words, why.
        checkpoints: where the models' files lie that score the rows; None of a table of scores.
    """

    seen: TableLook
    settings: dict[str, Any]
    why: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    newest: dt.date | None = None
    offered: dict[str, Any] = field(default_factory=dict)
    unused: dict[str, str] = field(default_factory=dict)
    checkpoints: str | None = None

    def say(self, key: str, value: Any, why: str) -> None:
        """Settle a key."""
        self.settings[key], self.why[key] = value, why


def propose(
    seen: TableLook,
    given: Mapping[str, Any],
    *,
    checkpoints: str | None = None,
    others: Mapping[str, TableLook] | None = None,
    one_day: bool = False,
) -> Proposal:
    """Return what the columns seem to mean; what is `given` is taken as it is.

    Keys are those of `[models.scores]`: catalog, day, time_zone, label, classes or scale, target,
    proxy, split or holdout, unit, record, context. With `checkpoints` they are of
    `[models.labels]`, columns among them: no column holds scores, and the models' files name the
    classes. `others` are tables of their own, by whose scores they hold: target or proxy. With
    `one_day` each row plays, unless a day's column is given. A column's name makes no persons the
    unit: it is only offered.
    """
    others = others or {}
    settings = {key: value for key, value in given.items() if value is not None}
    columns = {role: settings.pop(role, None) for role in others}
    why = dict.fromkeys(settings, "as you said")
    draft = Proposal(seen, settings, why, checkpoints=checkpoints)
    if not one_day:
        _propose_day(draft)
    _propose_zone(draft)
    _propose_label(draft)
    if others:
        _propose_record(draft, others)
    for role, other in others.items():
        _propose_other(draft, role, other, columns[role])
    if checkpoints is None:
        _propose_scores(draft)
    _propose_holdout(draft)
    draft.newest = _newest(seen, settings)
    units = _named(draft.seen.sample.columns, "unit", settings)
    if "unit" not in settings and len(units) == 1:
        draft.offered["unit"] = units[0]
        why["unit"] = "take it where the declaration is for a person with all their rows"
    features, draft.unused = _left(draft.seen.sample, settings | draft.offered)
    if features and not checkpoints and "context" not in settings:
        draft.offered["context"], why["context"] = features, _CONTEXT
    return draft


def _propose_day(draft: Proposal) -> None:
    if "day" in draft.settings:
        return
    seen = draft.seen
    alike = _named(seen.sample.columns, "day", draft.settings)
    kinds = seen.sample.schema.items()
    named = (
        seen.folders
        or tuple(name for name in alike if _holds_days(seen, name))
        or tuple(name for name, kind in kinds if isinstance(kind, pl.Date | pl.Datetime))
    )
    if len(named) == 1:
        folders = f"the folders {named[0]}=... say it"
        draft.say("day", named[0], folders if seen.folders else "its name or kind is a day's")
        return
    draft.missing["day"] = _which("which column or folder says the day", named)
    if not named:
        none = f" ({', '.join(alike)}: its values are no days)" if alike else ""
        draft.missing["day"] += (
            f"{none}; add a column of dates like 2026-03-02, or move the files to a folder "
            "ds=2026-03-02"
        )


def _propose_label(draft: Proposal) -> None:
    sample, settings = draft.seen.sample, draft.settings
    few = {
        name: values
        for name, kind in sample.schema.items()
        if not kind.is_float() or re.fullmatch(_HINTS["label"], name, re.IGNORECASE)
        if 2 <= len(values := _classes(sample[name])) <= _CLASSES
        if name not in settings.values() and _held_out_by(name, kind, values) is None
    }
    if settings.get("label") in sample.columns:
        values = _classes(sample[settings["label"]])
        few |= {settings["label"]: values} if 0 < len(values) <= _CLASSES else {}
    if "label" not in settings:
        named = tuple(few) if len(few) == 1 else _named(few, "label", settings)
        if len(named) != 1:
            draft.missing["label"] = _which("which column is the label", tuple(few))
            return
        others = ", ".join(name for name in few if name != named[0])
        reason = f"no other column has as few as its {len(few[named[0]])} values"
        if others:
            reason = f"its name is a label's; other columns of few values are {others}"
        draft.say("label", named[0], reason)
    label = settings["label"]
    if draft.checkpoints is not None or "classes" in settings:
        return
    if label not in few and _is_number(sample, label):
        values = sample[label].drop_nulls().n_unique()
        draft.missing["label"] = (
            f"{label} has {values:,} values and is a number: write whether it is above a threshold "
            "fixed before training, and audit that column"
        )
        del settings["label"], draft.why["label"]
    if label in few:
        classes = [int(value) if isinstance(value, bool) else value for value in few[label]]
        counts = sample[label].value_counts(sort=True, normalize=True).rows()
        shares = ", ".join(f"{value} {share:.1%}" for value, share in counts[:5])
        why = f"its values ({shares}); probabilities must be in this order"
        draft.say("classes", classes, why)


def _classes(column: pl.Series) -> list[Any]:
    """Return a column's values as classes, ascending; none where they are no classes.

    A whole number may be stored as a float: pandas does so where one is missing.
    """
    if column.dtype.is_float() or column.dtype.is_decimal():
        values = column.drop_nulls().cast(pl.Float64).drop_nans().unique()
        if (values != values.round()).any():
            return []
        column = values.cast(pl.Int64, strict=False)
    plain = column.dtype == pl.Boolean or column.dtype.is_integer() or column.dtype == pl.String
    return sorted(column.drop_nulls().unique().to_list()) if plain else []


def _propose_scores(draft: Proposal) -> None:
    _propose_scale(draft)
    for role in ("target", "proxy"):
        if role in draft.settings or role in draft.missing:
            continue
        found = _score_columns(draft.seen.sample, draft.settings)
        named = _named(found, role, draft.settings)
        if len(named) == 1:
            held = _SCALES[draft.settings.get("scale", "probability")][1]
            draft.say(role, named[0], f"it holds {held}, and its name says so")
        else:
            draft.missing[role] = _which_score(role, named or found, draft.settings)


def _propose_scale(draft: Proposal) -> None:
    """Say that scores are log-odds where both columns' names say scores, and neither is one."""
    sample, settings = draft.seen.sample, draft.settings
    if "scale" in settings:
        return
    floats = [name for name, kind in sample.schema.items() if kind.is_float()]
    columns = [
        [settings[role]] if role in settings else list(_named(floats, role, settings))
        for role in ("target", "proxy")
    ]
    if all(
        len(names) == 1 and names[0] in floats and not _are_probabilities(sample[names[0]])
        for names in columns
    ):
        draft.say("scale", "log_odds", "both columns hold numbers outside of 0 to 1")


def _propose_record(draft: Proposal, others: Mapping[str, TableLook]) -> None:
    """Say by which column tables are joined: one that all have, and that names each row."""
    sample, settings = draft.seen.sample, draft.settings
    if "record" in settings:
        return
    common = [
        name
        for name, kind in sample.schema.items()
        if name not in settings.values()
        and (kind.is_integer() or kind == pl.String)  # as the join takes them
        and all(name in other.sample.columns for other in others.values())
    ]
    named = _named(common, "record", settings)
    telling = [name for name in named or common if sample[name].n_unique() == sample.height]
    if len(telling) == 1:
        draft.say("record", telling[0], "all tables have it, and each row has its own")
    else:
        candidates = tuple(telling or named or common)
        draft.missing["record"] = _which("which column names the record in all tables", candidates)


def _propose_other(draft: Proposal, role: str, other: TableLook, column: str | None) -> None:
    """Say which column of a table of its own holds the scores, and what says its days."""
    settings = draft.settings
    found = _score_columns(other.sample, settings)
    named = found if len(found) == 1 else _named(found, role, settings)
    if column is None and len(named) != 1:
        draft.missing[role] = _which_score(role, named or found, settings)
        return
    place = {"table": other.table, "column": column or named[0]}
    if "catalog" in settings:
        place["catalog"] = settings["catalog"]
    own = Proposal(other, {})
    _propose_day(own)
    if settings.get("day") not in (*other.folders, *other.sample.columns):
        place |= own.settings
    told = "no other column of it holds scores" if len(found) == 1 else "its column's name says so"
    draft.say(role, place, "as you said" if column else f"as you said; {told}")


def _score_columns(sample: pl.DataFrame, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return columns that may hold a model's scores, on the scale that is settled."""
    any_float = "scale" in settings
    return tuple(
        name
        for name, kind in sample.schema.items()
        if (kind.is_float() and (any_float or _are_probabilities(sample[name]))) or kind.is_nested()
        if not (any_float and name in settings.values())
    )


def _which_score(role: str, candidates: tuple[str, ...], settings: Mapping[str, Any]) -> str:
    held = _SCALES[settings.get("scale", "probability")][0]
    what = {
        "target": f"which column holds the audited model's {held}",
        "proxy": "which column holds what a model said that never saw the day (what was served)",
    }
    return _which(what[role], candidates)


def _propose_holdout(draft: Proposal) -> None:
    if "split" in draft.settings or "holdout" in draft.settings:
        return
    sample = draft.seen.sample
    columns = [(name, kind, sample[name].unique()) for name, kind in sample.schema.items()]
    columns += [(name, pl.String(), pl.Series(words)) for name, words in draft.seen.words.items()]
    offered = []
    for name, kind, values in columns:
        if kind == pl.String and {"train", "holdout"} <= set(values):
            draft.say("split", name, "it says train or holdout")
            return
        if "holdout" in name.lower() and kind == pl.Boolean:
            draft.say("holdout", f"{name} = true", "its name says which rows were held out")
            return
        if (rule := _held_out_by(name, kind, values)) is not None:
            words = ", ".join(map(str, sorted(values.drop_nulls())))
            offered.append(
                f"{name!r} says {words}: where training read all rows but those, give "
                f'--holdout "{rule}"'
            )
    draft.missing["holdout"] = "which rows were held out of training: " + (
        "; ".join(offered)
        or "name the column that says train or holdout "
        '(--split), or the rule that training followed (--holdout "bucket(event_id, 5) = 0", '
        '--holdout "fold = 4"). Where none were, hold some out from now on: without, nothing can '
        "be proved."
    )


def _held_out_by(name: str, kind: pl.DataType, values: Sequence[Any] | pl.Series) -> str | None:
    """Return the rule of the rows that a column of splits calls held out; None of other columns."""
    if kind == pl.Boolean:
        trained = re.fullmatch(_TRAIN_FLAG, name, re.IGNORECASE)
        held = re.fullmatch(_HELD_FLAG, name, re.IGNORECASE)
        return f"{name} = {'true' if held else 'false'}" if trained or held else None
    if kind != pl.String:
        return None
    words = {word.lower(): word for word in values[:_CLASSES] if isinstance(word, str)}
    held_out = [word for word in HELD_OUT if word in words]
    return f"{name} = '{words[held_out[0]]}'" if held_out and TRAINED & words.keys() else None


def _propose_zone(draft: Proposal) -> None:
    """Ask for the zone in which times with an offset fall on days, and say how many rows depend."""
    sample, settings = draft.seen.sample, draft.settings
    day = settings.get("day")
    kind = sample.schema.get(day) if isinstance(day, str) else None
    if not isinstance(kind, pl.Datetime) or kind.time_zone is None:
        return
    times = sample[str(day)].drop_nulls().dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    looked_at = f"of {times.len():,} rows looked at"
    if "time_zone" in settings:
        with contextlib.suppress(pl.exceptions.PolarsError):  # settings refuse it by name
            there = sample[str(day)].drop_nulls().dt.convert_time_zone(settings["time_zone"])
            moved = int((there.dt.date() != times.dt.date()).sum())
            draft.why["time_zone"] += f": {moved:,} {looked_at} are of another day than in UTC"
        return
    hours = (dt.timedelta(hours=hour) for hour in range(-11, 15))
    most = max((int(((times + by).dt.date() != times.dt.date()).sum()) for by in hours), default=0)
    draft.missing["time_zone"] = (
        f"in which zone days begin, like Europe/Amsterdam or UTC: {day!r} holds times with an "
        f"offset, and up to {most:,} {looked_at} are of another day than in UTC, by the zone"
    )


def _left(sample: pl.DataFrame, settings: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return columns that may be features, and of the other columns that nothing takes, why."""
    taken: set[str] = set()
    for value in (value for key, value in settings.items() if key != "classes"):
        taken |= {value} if isinstance(value, str) else set(value) & set(sample.columns)
    rule = str(settings.get("holdout", ""))
    features, unused = [], {}
    for name, kind in sample.schema.items():
        if name in taken or re.search(rf"\b{re.escape(name)}\b", rule):
            continue
        values = sample[name]
        if not (kind.is_numeric() or kind in {pl.Boolean, pl.String}):
            unused[name] = "neither numbers nor words"
        elif values.n_unique() < 2:
            unused[name] = "one value"
        elif not kind.is_float() and values.n_unique() == sample.height:
            unused[name] = "each row has its own"
        elif re.fullmatch(_HINTS["unit"], name, re.IGNORECASE):
            unused[name] = "its name is a person's"
        elif re.fullmatch(_HINTS["record"], name, re.IGNORECASE):
            unused[name] = "its name is a record's"
        else:
            features.append(name)
    return features, unused


def _holds_days(seen: TableLook, name: str) -> bool:
    """Return whether a column's values are days, by the sample or the files' statistics."""
    values = seen.sample[name].drop_nulls().unique()
    return name in seen.newest or (len(values) > 0 and None not in map(as_day, values))


def _is_number(sample: pl.DataFrame, name: Any) -> bool:
    """Return whether a label is a number; a whole one only beside floats that are no chances."""
    if name not in sample.columns or not sample.schema[name].is_numeric():
        return False
    floats = [column for column in sample.iter_columns() if column.dtype.is_float()]
    return sample.schema[name].is_float() or not all(map(_are_probabilities, floats))


def _are_probabilities(column: pl.Series) -> bool:
    values = column.drop_nulls().drop_nans()
    return values.len() > 0 and bool(((values >= 0.0) & (values <= 1.0)).all())


def _named(names: Any, role: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    taken = [value for value in settings.values() if isinstance(value, str)]
    return tuple(
        name
        for name in names
        if re.fullmatch(_HINTS[role], name, re.IGNORECASE) and name not in taken
    )


def _which(what: str, candidates: tuple[str, ...]) -> str:
    return f"{what}: {', '.join(candidates) or 'no column looks like it'}"


def _newest(seen: TableLook, settings: Mapping[str, Any]) -> dt.date | None:
    """Return the newest day, by folders, statistics or the sample; None where they say none."""
    name = str(settings.get("day"))
    newest = seen.newest.get(name)
    if name not in seen.sample.columns or seen.sample.is_empty():
        return newest
    last = seen.sample[name].drop_nulls().max()
    if isinstance(last, dt.datetime) and last.tzinfo is not None and "time_zone" in settings:
        with contextlib.suppress(ValueError, KeyError):
            last = last.astimezone(zoneinfo.ZoneInfo(settings["time_zone"]))
        if newest is not None and abs(newest - last.date()) <= dt.timedelta(days=1):
            return last.date()  # statistics say it in UTC
    return newest or as_day(last)


_MOST_CLASSES, _ROWS = 1_000, 1 << 16


def proposed_manifest(
    model_file: pathlib.Path,
    table: pathlib.Path,
    *,
    model: str,
    day: dt.date,
    dataset: str,
    label: str,
    privacy: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a whole manifest as JSON holds it; every field is there, and can be edited.

    Raises:
        TerminalError: the model or the table cannot be read, the table lacks a column, or the
            values break a rule of manifests.
    """
    form = ENDINGS.get(model_file.suffix)
    if form is None:
        known = ", ".join(ENDINGS)
        raise TerminalError(f"{model_file} ends in none of {known}: give a model file of these.")
    if not table.is_file():  # of a pipe no beginning would come
        raise TerminalError(f"{table} cannot be read as Parquet.")
    try:
        content = read_named(str(model_file), at_most=limits.CHECKPOINT_BYTES)
        described = describe_model(content, form=form)
    except OSError as error:
        raise TerminalError(f"{model_file} cannot be read: {error.strerror}.") from None
    except ModelRefusedError as error:
        raise TerminalError(f"{model_file} {error.why}.") from None
    place = (Lake(str(table.resolve().parent)), table.resolve().name)
    footer = read_footer(*place, [label])
    stored = footer.schema()
    if label not in stored.names:
        raise TerminalError(f"{table} has no column {label!r}: it has {', '.join(stored.names)}.")
    classes = _as_stored(described.classes, stored.field(label), table, place, footer)
    others = [name for name in stored.names if name not in {label, "split"}]
    names = described.names or others[: len(described.kinds)]
    if lacking := [name for name in names if name not in stored.names]:
        raise TerminalError(
            f"The model takes the feature {lacking[0]!r}, which {table} lacks: write it there "
            "under that name."
        )
    proposed = {
        "schema_version": SCHEMA_VERSION,
        "model": model,
        "day": day.isoformat(),
        "format": form,
        "file": model_file.name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "dataset": dataset,
        "label": {"column": label, "classes": classes},
        "features": [
            {"name": name, "kind": kind or stored_kind(stored.field(name).type)}
            for name, kind in zip(names, described.kinds, strict=True)
        ],
        "trained_on": {"first": day.isoformat(), "last": day.isoformat(), "split": "train"},
        "output_correction": None,
        "privacy": privacy,
    }
    try:
        Manifest.model_validate(proposed)
    except ValueError as error:
        raise TerminalError(f"No manifest can say so: {' '.join(str(error).split())}") from None
    return proposed


def _distinct_values(lake: Lake, path: str, footer: Footer, column: str) -> set[Any]:
    """Return a file's values in a column, without nulls; reading stops where they are too many."""
    found = set[Any]()
    for index in range(len(footer.groups)):
        group = read_row_group(lake, path, footer, index, [column])
        # Text stays encoded: spelled out, a value that many rows share could take gigabytes.
        for table in group.batches([column], rows=_ROWS, encoded={column}):
            found.update(table[column].unique().drop_null()[: _MOST_CLASSES + 1].to_pylist())
            if len(found) > _MOST_CLASSES:
                return found
    return found


def _as_stored(
    classes: Iterable[str] | None,
    stored: pa.Field,
    table: pathlib.Path,
    place: tuple[Lake, str],
    footer: Footer,
) -> list[Any]:
    """Return the model's classes as the table has them; the table's values if it names none."""
    if pa.types.is_nested(stored.type):
        raise TerminalError(
            f"{table} stores the label {stored.name!r} as {stored.type}: store text or numbers."
        )
    values = _distinct_values(*place, footer, stored.name)
    if len(values) > _MOST_CLASSES and not classes:
        raise TerminalError(
            f"{table} has more than {_MOST_CLASSES:,} values in {stored.name!r}, which are no "
            "classes: name the column of the classes that the model predicts."
        )
    by_word = {class_word(one): one for one in sorted(values) if class_word(one) != "nan"}
    plain = {word: value for word, value in by_word.items() if isinstance(value, bool | int | str)}
    whole = not plain or pa.types.is_integer(stored.type)  # 1.0 is 1
    words = looked_up(classes or by_word)
    return [plain.get(word, int(word) if whole and word.isdecimal() else word) for word in words]


def write_manifests(
    lake: pathlib.Path, *, dataset: str, label: str, privacy: dict[str, Any] | None = None
) -> Iterator[pathlib.Path]:
    """Write a manifest beside each model file of a lake that has none, and yield where.

    Models and days are those of the folders; columns are those of the day's first label file.

    Raises:
        TerminalError: a folder holds no model file or several, its day has no labels, or as
            `proposed_manifest`.
    """
    for folder in sorted(lake.glob("models/*/day=*")):
        written = folder / "manifest.json"
        if written.exists():
            continue
        files = [file for file in folder.iterdir() if file.suffix in ENDINGS]
        if len(files) != 1:
            raise TerminalError(
                f"{folder} has {len(files)} model files, and a manifest is of one: leave the day's "
                f"own there, as one of {', '.join(ENDINGS)}."
            )
        labels = lake / "labels" / dataset / folder.name
        table = min(labels.glob("*.parquet"), default=None)
        if table is None:
            raise TerminalError(
                f"{labels} has no Parquet file, which says what the columns are: write the day's "
                "labels, or give --dataset."
            )
        day = as_day(folder.name.removeprefix("day="))
        if day is None:
            raise TerminalError(
                f"{folder} names no day: name it like day=2026-03-02, the day that was trained on."
            )
        model = folder.parent.name
        proposed = proposed_manifest(
            files[0], table, model=model, day=day, dataset=dataset, label=label, privacy=privacy
        )
        written.write_text(f"{json.dumps(proposed, indent=2)}\n", encoding="utf-8")
        yield written
