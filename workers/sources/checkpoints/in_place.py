"""Labels, and maybe checkpoints, that are audited where they already lie, and not in the lake.

The settings and a model's own file say together what a manifest says in the lake.
"""

import dataclasses
import datetime as dt
import functools
import hashlib
import json
import zoneinfo
from dataclasses import dataclass

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from privcore.exceptions import TerminalError
from privcore.lower_bounds.verdicts import Trust
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.parquet import read_footer
from workers.lake import limits
from workers.lake.checkpoints import (
    Checkpoint,
    DeclaredManifest,
    check_described,
    describe_checkpoint,
)
from workers.lake.formats import ENDINGS, FILES, check_installed
from workers.lake.layout import LabelFile, Lake, check_name
from workers.lake.manifest import SCHEMA_VERSION, Manifest, Privacy
from workers.lake.mlflow_registry import RegisteredFile, find_registered, read_artifact
from workers.lake.places import check_uri, day_path, local_path, split_day_path
from workers.plan import Plan
from workers.sources.checkpoints.checkpoint_source import (
    CheckpointSource,
    fitting,
    lake_checkpoints,
    no_proxy,
)
from workers.sources.checkpoints.in_place_settings import CheckpointPaths, LabelTable
from workers.sources.checkpoints.label_places import TableLabels
from workers.sources.tables.table_files import CSV, TableDay, find_day, parent_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedModel(RegisteredFile):
    """A day's model file that was found."""

    day: dt.date


@dataclass(frozen=True, slots=True)
class InPlace:
    """Settings of a model whose labels, and perhaps checkpoints, lie outside of the lake.

    Attributes:
        labels: the table of labelled rows.
        checkpoints: where model files lie; None where checkpoints and manifests are in the lake.
        privacy: what the settings declare in a manifest's stead; None where nothing is declared.
        target: the day's model file, once it was found: then no other is looked for.
        proxy: the earlier one, likewise.
        trust: who supplied the evidence, as the settings say.
    """

    labels: LabelTable
    checkpoints: CheckpointPaths | None = None
    privacy: Privacy | None = None
    target: PlacedModel | None = None
    proxy: PlacedModel | None = None
    trust: Trust = Trust.SELF

    def to_json(self) -> str:
        """Return it as the record keeps it."""
        return TypeAdapter(InPlace).dump_json(self).decode()


def find_ready(given: InPlace, model: str, day: dt.date) -> tuple[InPlace, TableDay]:
    """Return what is there of a day, pinned to what was found: its model file, and its rows.

    Raises:
        NotEvaluableError: the day's model or its rows are not there, or not complete.
    """
    target = given.target
    if target is None and given.checkpoints is not None:
        target = find_model_file(given.checkpoints, model, day)
    found = find_rows(given.labels, model, day)
    labels = given.labels.model_copy(update={"version": found.version})
    return dataclasses.replace(given, labels=labels, target=target), found


def find_rows(labels: LabelTable, model: str, day: dt.date) -> TableDay:
    """Return the files of a table that hold a day, once it is complete.

    Raises:
        NotEvaluableError: there is no such table or day, or no mark that it is complete; or no
            setting says the kinds of features, for models to score them.
    """
    if labels.ready is not None:
        lacking = f"The labels of {model} for {day} are not complete"
        _file_at(labels.ready, model, day, Reason.MISSING_LABELS, lacking)
    found = find_day(labels, day)
    if found.kind == CSV:
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"{found.name} is CSV, in which features have no types, and models are to score its "
            'rows: write it as Parquet, as by python -c "import polars; polars.read_csv('
            "'rows.csv', try_parse_dates=True).write_parquet('rows.parquet')\".",
        )
    return found


def find_in_place(
    lake: Lake,
    given: InPlace,
    model: str,
    day: dt.date,
    *,
    plan: Plan,
    declared: DeclaredManifest | None = None,
) -> CheckpointSource:
    """Return a model's checkpoint of the day with its proxy, and the rows that both score.

    `declared` is the manifest of a checkpoint in the lake, where that was read before.

    Raises:
        NotEvaluableError: something is missing or not what is said of it, or target and proxy do
            not fit each other or the day.
        TransientError: storage kept failing.
    """
    given, found = find_ready(given, model, day)
    key = given.labels.holdout_key()
    place = TableLabels(given.labels, day, found.day_in_files, key, found=found)
    if given.checkpoints is None:
        target, proxy = lake_checkpoints(lake, model, day, plan=plan, declared=declared)
        _check_manifest_alone(given, model, day)
        return fitting(CheckpointSource(place, target, proxy, given.to_json()), plan)
    begins = _check_registered(given, model, day) if given.trust is Trust.INDEPENDENT else None
    earlier = given.proxy or find_earlier(
        given.checkpoints, model, day, within_days=plan.proxy_within_days, registered_before=begins
    )
    if earlier is None:
        raise no_proxy(model, day, plan, registered_before=begins)
    given = dataclasses.replace(given, proxy=earlier)
    assert given.target is not None  # noqa: S101  # as find_ready returns it
    target, proxy = (_read_model(given, file, model, found) for file in (given.target, earlier))
    source = CheckpointSource(
        place, target, proxy, given.to_json(), declared=True, trust=given.trust
    )
    return fitting(source, plan)


def _check_registered(given: InPlace, model: str, day: dt.date) -> dt.datetime:
    """Return when the day began, after which its labels are: no earlier model may be from then.

    What a registry says of times, an owner who may only register cannot change: a model that was
    registered before the day began saw none of its labels, and one that was registered since may.

    Raises:
        NotEvaluableError: the target was registered before its day ended, or nothing says when.
    """
    target, zone = given.target, zoneinfo.ZoneInfo(given.labels.time_zone)
    begins = dt.datetime.combine(day, dt.time(), tzinfo=zone)
    ends = dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), tzinfo=zone)
    at = None if target is None else target.registered_at
    if at is None or at < ends:
        when = "at a time that the registry does not tell" if at is None else f"at {at:%F %T} UTC"
        raise NotEvaluableError(
            Reason.TARGET_MISSED_THE_DAY,
            f"The checkpoint of {model} for {day} was registered {when}, and has to be registered "
            f"after {day} ended, since it cannot have seen all its labels before: let the day's "
            "alias name the model that was trained on them.",
        )
    return begins


def _check_manifest_alone(given: InPlace, model: str, day: dt.date) -> None:
    """Refuse what a manifest says of its labels and an owner's table cannot keep."""
    for key in ("classes", "label_state"):
        if getattr(given.labels, key) is not None:
            raise NotEvaluableError(
                Reason.MANIFEST_INVALID,
                f"The manifest of {model} for {day} has what labels.{key} of its settings says: "
                f"take labels.{key} out of the settings.",
            )


def _kind_of_column(found: TableDay, labels: LabelTable, feature: str) -> str:
    """Return the kind of a feature by how its column is stored, in the first file that says it."""
    column = labels.columns.get(feature, feature)
    for file in found.files:
        schema = _schema(found.root, file)
        kind = schema.field(column).type if schema.names.count(column) == 1 else pa.null()
        if not pa.types.is_null(kind):
            return stored_kind(kind)
    return "numeric"  # without the column, the reader of the rows says so


@functools.lru_cache(maxsize=8)
def _schema(root: Lake, file: LabelFile) -> pa.Schema:
    return read_footer(root, file.name, listed=file).schema()


def find_model_file(paths: CheckpointPaths, model: str, day: dt.date) -> PlacedModel:
    """Return a day's model file, once it is complete.

    Raises:
        NotEvaluableError: there is none, or no mark that it is complete.
    """
    check_name("model", model)
    lacking = f"There is no complete checkpoint of {model} for {day}"
    if paths.registered:
        address = day_path(paths.path, model, day)
        found = find_registered(address, paths.artifacts or ())
        if found is None:
            raise NotEvaluableError(
                Reason.MISSING_TARGET,
                f"{lacking}: the MLflow registry has no {address} that is ready; set the alias "
                "when the day's model is registered.",
            )
        return PlacedModel(**dataclasses.asdict(found), day=day)
    place = _file_at(paths.path, model, day, Reason.MISSING_TARGET, lacking)
    if paths.ready is not None:
        _file_at(paths.ready, model, day, Reason.MISSING_TARGET, lacking)
    return PlacedModel(*place, day=day)


def _file_at(
    template: str, model: str, day: dt.date, reason: Reason, lacking: str
) -> tuple[str, str]:
    """Return the folder and the name of a day's file; `lacking` begins the sentence of none."""
    folder, name = split_day_path(template, model, day)
    if not Lake(folder).has(name):
        raise NotEvaluableError(reason, f"{lacking}: {folder}/{name} is missing.")
    return folder, name


def find_earlier(
    paths: CheckpointPaths,
    model: str,
    day: dt.date,
    *,
    within_days: int,
    registered_before: dt.datetime | None = None,
) -> PlacedModel | None:
    """Return the model file of the latest day before `day`; None where no day so near has one.

    One that was not registered before `registered_before`, where that is given, is passed over.
    """
    for back in range(1, within_days + 1):
        try:
            found = find_model_file(paths, model, day - dt.timedelta(days=back))
        except NotEvaluableError as error:
            if error.reason is not Reason.MISSING_TARGET:
                raise
            continue
        at = found.registered_at
        if registered_before is None or (at is not None and at < registered_before):
            return found
    return None


_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)


def stored_kind(kind: pa.DataType) -> str:
    """Return the kind of a feature by how its column is stored."""
    return "numeric" if any(is_one(kind) for is_one in _NUMBERS) else "categorical"


def _read_model(given: InPlace, file: PlacedModel, model: str, found: TableDay) -> Checkpoint:
    """Return a model file as a checkpoint, with the manifest that settings and file come to.

    It is taken to have been trained on its day. Where the file does not say what kind a feature is
    of, its column does.

    Raises:
        NotEvaluableError: it is no model of the format, or none to score with, or is not what the
            settings say.
    """
    paths, labels = given.checkpoints, given.labels
    assert paths is not None  # noqa: S101  # they named the file
    try:
        content = read_artifact(file.folder, file.name, at_most=limits.CHECKPOINT_BYTES)
    except FileNotFoundError:
        raise NotEvaluableError(
            Reason.MISSING_TARGET,
            f"The checkpoint of {model} for {file.day}, {file.folder}/{file.name}, is gone: keep "
            "model files for as long as they are audited.",
        ) from None
    form = file.format or paths.known_format
    described = describe_checkpoint(content, model, file.day, form=form)
    unnamed, count = "Column_" if form == "lightgbm" else "f", len(described.kinds)
    names = paths.features or described.names or [f"{unnamed}{place}" for place in range(count)]
    if len(names) != count:
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"The model {model} of {file.day} takes {count} features, but checkpoints.features "
            f"lists {len(names)}: list each, in the order of training.",
        )
    classes = labels.classes or described.classes or tuple(range(described.class_count))
    said = {
        "schema_version": SCHEMA_VERSION,
        "model": model,
        "day": file.day,
        "format": form,
        "file": FILES[form],
        "sha256": hashlib.sha256(content).hexdigest(),
        "dataset": labels.table,
        "label": {"column": labels.label, "classes": classes, "state": labels.label_state},
        "features": [
            {"name": name, "kind": kind or _kind_of_column(found, labels, name)}
            for name, kind in zip(names, described.kinds, strict=True)
        ],
        "trained_on": {"first": file.day, "last": file.day, "split": "train"},
        "privacy": given.privacy,
    }
    try:
        manifest = Manifest.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise NotEvaluableError(
            Reason.CHECKPOINT_INVALID,
            f"The model {model} of {file.day} cannot be described by its file and the settings: "
            f"{field} is wrong ({first['msg']}).",
        ) from None
    check_described(described, manifest, lists="the settings list")
    # Not where the labels lie: the same model of the same rows in another place is the same audit.
    plain = manifest.model_dump(mode="json", exclude={"dataset", "file"})
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    return Checkpoint(manifest, digest, content, described)


def in_place_files(
    target: str, proxy: str, labels: LabelTable, *, day: dt.date, privacy: Privacy | None
) -> InPlace:
    """Return the inputs of an audit of two model files on the rows of a table.

    They are those of `[models.checkpoints]` and `[models.labels]`, pinned to these files: whatever
    is tested there is tested here. A path does not say when a model was trained, so the proxy's
    knowledge of the labels is tested, too.

    Raises:
        TerminalError: a file is missing, its ending names no framework or one whose library is not
            installed, or an address holds a credential.
    """
    audited = _placed(target, day, "target")
    return InPlace(
        labels=labels,
        # Both files are pinned, so that no path is made of this template.
        checkpoints=CheckpointPaths.model_validate({"path": "{day}", "format": audited.format}),
        privacy=privacy,
        target=audited,
        proxy=_placed(proxy, day - dt.timedelta(days=1), "proxy"),
    )


def _placed(file: str, day: dt.date, role: str) -> PlacedModel:
    local = local_path(file)
    folder, name = parent_of(str(local) if local is not None else check_uri(file))
    ending = f".{name.rpartition('.')[2].lower()}"
    if ending not in ENDINGS:
        raise TerminalError(
            f"The {role} {file!r} ends in none of {', '.join(ENDINGS)}: save the model in the own "
            "format of CatBoost, XGBoost or LightGBM, or as ONNX. Nothing else is read."
        )
    if not folder.has(name):
        raise TerminalError(
            f"The {role} {file!r} is not a file: give the path of the model's file."
        )
    check_installed(ENDINGS[ending])
    return PlacedModel(folder.uri, name, ENDINGS[ending], day=day)
