"""Labels, and maybe checkpoints, that are audited where they already lie, and not in the lake."""

import dataclasses
import datetime as dt
import functools
import zoneinfo
from dataclasses import dataclass

import pyarrow as pa
from pydantic import TypeAdapter

from privcore.exceptions import TerminalError
from privcore.lower_bounds.verdicts import Trust
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.parquet import read_footer
from workers.lake.checkpoints import DeclaredManifest
from workers.lake.formats import ENDINGS, check_installed
from workers.lake.layout import LabelFile, Lake
from workers.lake.manifest import Privacy
from workers.lake.places import check_uri, local_path, split_day_path
from workers.plan import Plan
from workers.sources.checkpoints.checkpoint_source import (
    CheckpointSource,
    fitting,
    lake_checkpoints,
    no_proxy,
)
from workers.sources.checkpoints.in_place_settings import CheckpointPaths, LabelTable
from workers.sources.checkpoints.label_places import TableLabels
from workers.sources.checkpoints.placed_models import (
    PlacedModel,
    find_earlier,
    find_model_file,
    read_model_file,
    stored_kind,
)
from workers.sources.tables.table_files import TableDay, find_day, parent_of, without_csv


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
        NotEvaluableError: there is no such table or day, or no mark that it is complete.
    """
    if labels.ready is not None:
        folder, name = split_day_path(labels.ready, model, day)
        if not Lake(folder).has(name):
            raise NotEvaluableError(
                Reason.MISSING_LABELS,
                f"The labels of {model} for {day} are not complete: {folder}/{name} is missing.",
            )
    return without_csv(find_day(labels, day))


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
    paths = given.checkpoints
    begins = _check_registered(given, model, day) if given.trust is Trust.INDEPENDENT else None
    earlier = given.proxy or find_earlier(
        paths, model, day, within_days=plan.proxy_within_days, registered_before=begins
    )
    if earlier is None:
        raise no_proxy(model, day, plan, registered_before=begins)
    given = dataclasses.replace(given, proxy=earlier)
    assert given.target is not None  # noqa: S101  # as find_ready returns it
    kind_of = functools.partial(_kind_of_column, found, given.labels)
    target, proxy = (
        read_model_file(
            file, paths, given.labels, model=model, privacy=given.privacy, kind_of=kind_of
        )
        for file in (given.target, earlier)
    )
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


def _kind_of_column(found: TableDay, labels: LabelTable, feature: str) -> str | None:
    """Return the kind of a feature by how its column is stored; None where there is no such.

    A file that lacks the column, or holds no value of it, says no kind.
    """
    column = labels.columns.get(feature, feature)
    for file in found.files:
        schema = _schema(found.root, file)
        kind = schema.field(column).type if schema.names.count(column) == 1 else pa.null()
        if not pa.types.is_null(kind):
            return stored_kind(kind)
    return None  # the reader of the rows says so


@functools.lru_cache(maxsize=8)
def _schema(root: Lake, file: LabelFile) -> pa.Schema:
    return read_footer(root, file.name, listed=file).schema()


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
