"""Labels and checkpoints where they lie: the same audit as of the lake, and what can be wrong."""

import datetime as dt
import json
import pathlib
from typing import Any

import deltalake
import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from pyiceberg.catalog.sql import SqlCatalog

from tests.support.frameworks import (
    Trained,
    put_trained,
    rows_with_gaps,
    train_lightgbm,
    train_onnx,
    train_xgboost,
)
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    MEMORISE,
    PLAN,
    declared,
    figures,
    label_rows,
    model_path,
    put_labels,
    put_model,
)
from tests.support.mlflow_stub import mlflow_stub
from workers.audit.run import Request, run_audit, run_audits
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy
from workers.plan import Attribute, Plan
from workers.sources import predicted
from workers.sources.checkpoint_paths import CheckpointPaths
from workers.sources.in_place import InPlace
from workers.sources.label_tables import LabelTable
from workers.sources.placed_models import find_earlier
from workers.warehouse.schema import AuditRecord, AuditRow

NOWHERE = Lake("/nowhere")
ROWS = {EVE: label_rows(900, seed=1), DAY: label_rows(900, seed=2)}
OVERFIT = {"max_depth": 10, "eta": 1.0, "min_child_weight": 0.0, "lambda": 0.0}


def train(day: dt.date, **more: Any) -> Trained:
    """Train XGBoost on a day's training rows; they say nothing of their labels, so it learns them
    by heart.
    """
    return train_xgboost(ROWS[day].filter(split="train"), **OVERFIT | more)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder of models as training writes them: <model>/2026/03/02/model.json."""
    root = tmp_path_factory.mktemp("models")
    for day in (EVE, DAY):
        put_file(root / f"ads/{day:%Y/%m/%d}/model.json", train(day, kind="json").content)
    return root


def put_file(path: pathlib.Path, content: bytes = b"") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def stored(day: dt.date) -> pl.DataFrame:
    """Return a day's rows as somebody's own table has them."""
    return ROWS[day].select(
        ds=pl.lit(day),
        clicked="late",
        delay="delay",
        dep_hour="hour",
        city="city",
        arm="split",
        flight=pl.int_range(pl.len()).cast(pl.String),
    )


def delta(place: pathlib.Path, **more: Any) -> pathlib.Path:
    """Write both days, one after the other: a version for each."""
    for day in (EVE, DAY):
        deltalake.write_deltalake(str(place), stored(day), mode="append", **more)
    return place


def labels(table: pathlib.Path | str, **changes: Any) -> LabelTable:
    given = {
        "table": str(table),
        "day": "ds",
        "label": "clicked",
        "split": "arm",
        "columns": {"hour": "dep_hour"},
    }
    return LabelTable.model_validate(given | changes)


def paths(root: pathlib.Path, **changes: Any) -> CheckpointPaths:
    given = {"path": f"{root}/{{model}}/{{day:%Y/%m/%d}}/model.json"}
    return CheckpointPaths.model_validate(given | changes)


def audit(
    given: InPlace,
    *,
    lake: Lake = NOWHERE,
    day: dt.date = DAY,
    plan: Plan = PLAN,
    name: str = "ads",
) -> AuditRecord:
    return run_audit(lake, name, day, plan=plan, executor=InProcess(), elsewhere=given)


def refused(given: InPlace, code: str, **more: Any) -> str:
    row = audit(given, **more).audit
    assert (row.status, row.reason_code) == ("not_evaluable", code), row.reason
    return row.reason


def counted(row: AuditRow) -> tuple[Any, ...]:
    """Return what does not depend on the files' names, which key the games."""
    return (
        row.records,
        row.control_records,
        row.epsilon_if_proxy_right,
        row.target_log_loss,
        row.proxy_log_loss,
        row.target_sha256,
        row.proxy_sha256,
        row.verdict,
    )


PRIVACY = Privacy.model_validate(declared(0.5))


@pytest.fixture(scope="module")
def in_the_lake(models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> AuditRow:
    """Return the record of the same models and rows, audited from a lake."""
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    for day in (EVE, DAY):
        content = (models / f"ads/{day:%Y/%m/%d}/model.json").read_bytes()
        trained = Trained("xgboost", content, lambda _: np.empty(0))
        put_trained(lake, day, trained, label=BINARY, model="ads", privacy=declared(0.5))
        put_labels(lake, day, ROWS[day])
    return run_audit(lake, "ads", DAY, plan=PLAN, executor=InProcess()).audit


def test_the_audit_of_a_table_is_that_of_the_lake(
    models: pathlib.Path, in_the_lake: AuditRow, tmp_path: pathlib.Path, catalog: SqlCatalog
) -> None:
    assert in_the_lake.verdict == "violated"
    for day in (EVE, DAY):
        folder = tmp_path / "hive" / f"ds={day}"
        folder.mkdir(parents=True)
        stored(day).drop("ds").write_parquet(folder / "part-0.parquet")
    both = pl.concat([stored(EVE), stored(DAY)])
    (tmp_path / "plain").mkdir()
    both.write_parquet(tmp_path / "plain" / "all.parquet", row_group_size=500)
    iceberg = catalog.create_table("ads.clicks", schema=both.to_arrow().schema)
    iceberg.append(both.to_arrow())
    tables = {
        "hive": labels(tmp_path / "hive"),
        "plain": labels(tmp_path / "plain"),
        "delta": labels(delta(tmp_path / "delta")),
        "parts": labels(delta(tmp_path / "parts", partition_by=["ds"])),
        "iceberg": labels("ads.clicks", catalog="here"),
    }
    for name, table in tables.items():
        row = audit(InPlace(table, paths(models), PRIVACY)).audit
        assert counted(row) == counted(in_the_lake), name
        assert (row.scores, row.proxy_day, row.declared_by) == ("computed", EVE, "a test")
        assert row.dataset == table.table


def test_a_model_that_learned_nothing_by_heart_is_not_accused(tmp_path: pathlib.Path) -> None:
    for day in (EVE, DAY):
        shallow = train(day, max_depth=1, eta=0.01, kind="ubj")
        put_file(tmp_path / f"{day}.ubj", shallow.content)
    where = paths(tmp_path, path=f"{tmp_path}/{{day}}.ubj")
    row = audit(InPlace(labels(delta(tmp_path / "t")), where, PRIVACY)).audit
    assert (row.verdict, row.epsilon_lower) == ("consistent", 0.0)


def test_verify_reads_the_version_and_the_proxy_that_were_audited(tmp_path: pathlib.Path) -> None:
    table = delta(tmp_path / "t")
    before = EVE - dt.timedelta(days=1)
    for day, content in ((before, train(EVE).content), (DAY, train(DAY).content)):
        put_file(tmp_path / f"{day}.ubj", content)
    given = InPlace(labels(table), paths(tmp_path, path=f"{tmp_path}/{{day}}.ubj"), PRIVACY)
    record = audit(given)
    kept = json.loads(str(record.audit.source))
    assert (kept["labels"]["version"], kept["proxy"]["day"]) == (1, str(before))
    deltalake.write_deltalake(str(table), stored(DAY), mode="append")
    put_file(tmp_path / f"{EVE}.ubj", train(EVE, max_depth=2).content)  # came late
    assert verify(record, NOWHERE, InProcess()).finding is Finding.REPRODUCED
    later = audit(given).audit
    assert (later.proxy_day, later.records) == (EVE, 2 * record.audit.records)
    put_file(tmp_path / f"{DAY}.ubj", train(DAY, max_depth=2).content)
    changed = verify(record, NOWHERE, InProcess())
    assert changed.finding is Finding.INPUTS_CHANGED
    assert "target_sha256 is" in changed.sentence
    (tmp_path / f"{DAY}.ubj").unlink()
    gone = verify(record, NOWHERE, InProcess())
    assert gone.finding is Finding.INPUTS_CHANGED
    assert "is gone: keep model files" in gone.sentence


def test_where_all_lies_changes_no_number_and_what_it_means_does(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    def identity(table: pathlib.Path, where: pathlib.Path, **changes: Any) -> Any:
        row = audit(InPlace(labels(table, **changes), paths(where), PRIVACY)).audit
        return row.target_manifest_sha256, row.proxy_manifest_sha256

    table = delta(tmp_path / "t")
    moved = tmp_path / "moved"
    for day in (EVE, DAY):
        name = f"ads/{day:%Y/%m/%d}/model.json"
        put_file(moved / name, (models / name).read_bytes())
    first = identity(table, models)
    assert identity(delta(tmp_path / "u"), moved) == first
    assert identity(table, models, holdout="arm = 'holdout'") != first
    assert identity(table, models, unit="flight") != first


def test_only_the_days_rows_are_scored(
    models: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    # Row groups of one day, of the other, and of both.
    both = pl.concat([stored(EVE), stored(DAY)])
    both.write_parquet(tmp_path / "t" / "all.parquet", row_group_size=600)
    asked, inputs = [], predicted.as_inputs

    def counting(model: Any, manifest: Any, frame: pl.DataFrame) -> Any:
        asked.append(frame.height)
        return inputs(model, manifest, frame)

    monkeypatch.setattr(predicted, "as_inputs", counting)
    audit(InPlace(labels(tmp_path / "t"), paths(models), PRIVACY))
    assert sorted(asked) == [300, 600]  # both models share inputs


def test_two_models_that_read_other_columns_of_one_table_share_its_read_alone(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    table = tmp_path / "t"
    for day in (EVE, DAY):
        rows = stored(day).with_columns(shifted=(pl.col("dep_hour") + 12) % 24)
        deltalake.write_deltalake(str(table), rows, mode="append")
    requests = [
        Request(
            "ads", PLAN, elsewhere=InPlace(labels(table, columns={"hour": name}), paths(models))
        )
        for name in ("dep_hour", "shifted")
    ]
    together = list(run_audits(NOWHERE, DAY, requests, executor=InProcess()))
    alone = [
        next(run_audits(NOWHERE, DAY, [request], executor=InProcess())) for request in requests
    ]
    assert [figures(record) for record in together] == [figures(record) for record in alone]
    losses = {record.audit.target_log_loss for record in together}
    assert len(losses) == 2


def test_an_earlier_model_is_looked_for_as_far_back_as_in_the_lake(tmp_path: pathlib.Path) -> None:
    where = paths(tmp_path, path=f"{tmp_path}/{{day}}.ubj")

    def found() -> dt.date | None:
        file = find_earlier(where, "ads", DAY, within_days=7)
        return None if file is None else file.day

    for back, nearest in ((8, None), (7, 7), (0, 7), (-1, 7), (1, 1), (3, 1)):
        put_file(tmp_path / f"{DAY - dt.timedelta(days=back)}.ubj")
        assert found() == (None if nearest is None else DAY - dt.timedelta(days=nearest))


@pytest.mark.parametrize("kind", ["lightgbm", "onnx"])
def test_other_frameworks_files_say_what_they_are(tmp_path: pathlib.Path, kind: str) -> None:
    learn = {"lightgbm": train_lightgbm, "onnx": train_onnx}[kind]
    ending = {"lightgbm": "lgb", "onnx": "onnx"}[kind]
    for seed, day in enumerate((EVE, DAY)):
        frame = rows_with_gaps(800, seed=seed).with_columns(
            ds=pl.lit(day), arm=pl.Series(["train", "train", "holdout", "train"] * 200)
        )
        deltalake.write_deltalake(str(tmp_path / "t"), frame, mode="append")
        put_file(tmp_path / f"{day}.{ending}", learn(frame.filter(arm="train")).content)
    table = labels(tmp_path / "t", label="late", columns={})
    given = InPlace(table, paths(tmp_path, path=f"{tmp_path}/{{day}}.{ending}"))
    row = audit(given).audit
    assert (row.status, row.verdict) == ("evaluated", "undeclared"), row.reason
    assert row.target_log_loss is not None
    assert row.target_log_loss < 0.6  # it knows what it was trained for


def test_a_manifest_in_the_lake_and_labels_in_a_table(tmp_path: pathlib.Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    for day in (EVE, DAY):
        put_labels(lake, day, ROWS[day])
        put_model(lake, day, parameters=MEMORISE, privacy=declared(0.5))
    there = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    given = InPlace(labels(delta(tmp_path / "t")))
    record = audit(given, lake=lake, name="good")
    assert counted(record.audit) == counted(there)
    assert record.audit.target_manifest_sha256 != there.target_manifest_sha256
    assert verify(record, lake, InProcess()).finding is Finding.REPRODUCED
    told = refused(
        InPlace(labels(tmp_path / "t", classes=(0, 1))), "manifest_invalid", lake=lake, name="good"
    )
    assert "what labels.classes of its settings says, too: take that out" in told
    (model_path(lake, "good") / "_SUCCESS").unlink()
    assert "_SUCCESS is missing" in refused(given, "missing_target", lake=lake, name="good")


def test_an_attribute_of_another_name_and_persons_are_played(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    table = tmp_path / "t"
    for day in (EVE, DAY):
        deltalake.write_deltalake(str(table), stored(day).rename({"city": "town"}), mode="append")
    given = InPlace(
        labels(table, columns={"hour": "dep_hour", "city": "town"}, unit="flight"),
        paths(models),
        PRIVACY,
    )
    persons = audit(given, plan=Plan(repetitions=4, privacy_unit="flight")).audit
    assert (persons.privacy_unit, persons.records) == (
        "flight",
        ROWS[DAY].filter(split="train").height,
    )
    attribute = Attribute(column="city", values=("AMS", "BER", "CDG"))
    plan = Plan(repetitions=4, secret="attribute", attribute=attribute)  # noqa: S106
    row = audit(given, plan=plan).audit
    assert (row.status, row.records) == ("evaluated", persons.records), row.reason


def test_a_proxy_that_saw_the_day_is_refused_whatever_its_path_says(
    tmp_path: pathlib.Path,
) -> None:
    for day in (EVE, DAY):
        put_file(tmp_path / f"{day}.json", train(DAY, kind="json").content)
    where = paths(tmp_path, path=f"{tmp_path}/{{day}}.json")
    told = refused(InPlace(labels(delta(tmp_path / "t")), where), "proxy_saw_the_day")
    assert "The proxy knows labels of 2026-03-02" in told


def test_a_day_is_ready_when_its_files_and_its_rows_are(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    table = delta(tmp_path / "t")

    def given(**changes: Any) -> InPlace:
        ready = {"ready": f"{tmp_path}/done/{{model}}-{{day}}"}
        return InPlace(
            labels(table, **(ready if "labels" in changes else {})),
            paths(models, **(ready if "models" in changes else {})),
        )

    for part, code in (("models", "missing_target"), ("labels", "missing_labels")):
        assert f"{tmp_path}/done/ads-{DAY} is missing" in refused(given(**{part: True}), code)
    put_file(tmp_path / "done" / f"ads-{DAY}")
    assert audit(given(labels=True)).audit.status == "evaluated"
    # A proxy has to be complete too.
    assert "in the 7 days before" in refused(given(models=True), "missing_proxy")
    put_file(tmp_path / "done" / f"ads-{EVE}")
    assert audit(given(models=True)).audit.status == "evaluated"


@pytest.mark.parametrize(
    ("table", "where", "code", "words"),
    [
        ({"label": "late"}, {}, "label_invalid", "has no column 'late': correct labels.label"),
        ({"split": "split"}, {}, "label_invalid", "has no column 'split': correct labels"),
        ({"columns": {}}, {}, "label_invalid", "has no column 'hour': correct labels.columns"),
        ({"day": "dep_hour"}, {}, "missing_labels", "has no dep_hour = 2026-03-02"),
        ({"day": "city"}, {}, "missing_labels", "has no city = 2026-03-02"),
        ({"table": "/nowhere"}, {}, "missing_labels", "is no Delta table"),
        ({"version": 0}, {}, "missing_labels", "has no ds = 2026-03-02"),
        ({"classes": (1, 2)}, {}, "label_invalid", "correct labels.classes, or the labels"),
        ({"classes": (0, 1, 2)}, {}, "checkpoint_invalid", "but the settings list [0, 1, 2]"),
        ({"split": "city"}, {}, "feature_invalid", "takes 'city' as a feature, which says which"),
        (
            {"holdout": "bucket(city, 5) = 0"},
            {},
            "feature_invalid",
            "takes 'city' as a feature, which says which",
        ),
        ({"holdout": "arm = 'nobody'"}, {}, "no_holdout", "see that labels.holdout, arm = 'nobo"),
        ({"columns": {"hour": "city"}}, {}, "feature_invalid", "as String, but the model takes it"),
        ({}, {"path": "{day}.json"}, "missing_target", "2026-03-02.json is missing"),
        ({}, {"format": "lightgbm"}, "checkpoint_invalid", "is not in LightGBM's format"),
        (
            {},
            {"features": ("a", "b")},
            "checkpoint_invalid",
            "takes 3 features, but checkpoints.fe",
        ),
        ({}, {"features": ("a", "b", "c")}, "checkpoint_invalid", "but the settings list ['a'"),
    ],
)
def test_each_mistake_ends_in_a_sentence_that_says_what_to_set(
    models: pathlib.Path,
    tmp_path: pathlib.Path,
    table: dict[str, Any],
    where: dict[str, Any],
    code: str,
    words: str,
) -> None:
    if "path" in where:
        where = {"path": f"{tmp_path}/{where['path']}"}
    found = labels(delta(tmp_path / "t")).model_dump() | table
    given = InPlace(LabelTable.model_validate(found), paths(models, **where))
    assert words in refused(given, code)


def test_a_day_without_a_checkpoint_or_rows_or_an_earlier_model_is_said(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    given = InPlace(labels(delta(tmp_path / "t")), paths(models))
    later = DAY + dt.timedelta(days=1)
    assert f"{later:%Y/%m/%d}/model.json is missing" in refused(given, "missing_target", day=later)
    assert "no checkpoint of ads in the 7 days before" in refused(given, "missing_proxy", day=EVE)
    put_file(tmp_path / "m" / f"{later}.json", b"{}")
    early = InPlace(given.labels, paths(tmp_path, path=f"{tmp_path}/m/{{day}}.json"))
    assert f"has no ds = {later}" in refused(early, "missing_labels", day=later)


def test_a_model_that_names_no_features_is_told_them(tmp_path: pathlib.Path) -> None:
    import xgboost  # noqa: PLC0415

    names = ["delay", "hour"]
    for day in (EVE, DAY):
        rows = ROWS[day].filter(split="train")
        data = xgboost.DMatrix(rows.select(names).to_numpy(), rows["late"].to_numpy())
        put_file(
            tmp_path / f"{day}.json", bytes(xgboost.train({"nthread": 1}, data, 2).save_raw("json"))
        )
    table = labels(delta(tmp_path / "t"))
    where = paths(tmp_path, path=f"{tmp_path}/{{day}}.json")
    assert "gives no probabilities of classes" in refused(
        InPlace(table, where), "checkpoint_invalid"
    )
    for day in (EVE, DAY):
        rows = ROWS[day].filter(split="train")
        data = xgboost.DMatrix(rows.select(names).to_numpy(), rows["late"].to_numpy())
        logistic = {"nthread": 1, "objective": "binary:logistic"}
        put_file(tmp_path / f"{day}.json", bytes(xgboost.train(logistic, data, 2).save_raw("json")))
    assert "does not name its 2 features: list them in checkpoints.features" in refused(
        InPlace(table, where), "checkpoint_invalid"
    )
    told = where.model_copy(update={"features": tuple(names)})
    assert audit(InPlace(table, told)).audit.status == "evaluated"


def test_an_mlflow_registry_names_the_models(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, models: pathlib.Path
) -> None:
    flavors = "flavors:\n  xgboost: {data: model.json}\n"
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    with mlflow_stub() as registry:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", registry.address)
        content = {
            day: (models / f"ads/{day:%Y/%m/%d}/model.json").read_bytes() for day in (EVE, DAY)
        }
        where = CheckpointPaths(path="models:/clicks-{model}@{day:%Y%m%d}")
        given = InPlace(labels(delta(tmp_path / "t")), where, PRIVACY)
        told = refused(given, "missing_target")
        assert f"the MLflow registry has no models:/clicks-ads@{DAY:%Y%m%d} that is ready" in told
        for day in (EVE, DAY):
            alias = f"{day:%Y%m%d}"
            registry.register("clicks-ads", alias, flavors, content[day], data="model.json")
        record = audit(given)
        in_files = audit(InPlace(given.labels, paths(models), PRIVACY)).audit
        # Where a model was found is no number: it is the same audit.
        assert record.audit.audit_id == in_files.audit_id
        assert record.audit.verdict == "violated"
        kept = json.loads(str(record.audit.source))
        assert (kept["target"]["version"], kept["proxy"]["version"]) == ("2", "1")
        assert kept["target"]["run"] == "712e10d6133d47579963ea01a8fab301"
        # An alias that moves changes what is audited next, and nothing of what was.
        registry.register("clicks-ads", f"{DAY:%Y%m%d}", flavors, content[EVE], data="model.json")
        assert verify(record, NOWHERE, InProcess()).finding is Finding.REPRODUCED
        assert audit(given).audit.target_sha256 != record.audit.target_sha256
        registry.files.clear()
        gone = verify(record, NOWHERE, InProcess())
        assert "model.json, is gone: keep model files" in gone.sentence


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path": "models:/ads/3-{day}"}, "write models:/NAME@"),
        ({"path": "models:/ads@{day:%Y/%m/%d}"}, "with an alias of letters"),
        ({"path": "models:/ads@{day}", "format": "xgboost"}, "leave them out"),
        ({"path": "models:/ads@{day}", "ready": "done/{day}"}, "leave them out"),
        ({"path": "m/model.json"}, "names no day"),
        ({"path": "{day:%Y-%m}.json"}, "names several days alike"),
        ({"path": "{day}/model.pkl"}, r"ends in none of .cbm.*\[models.scores\]"),
        ({"path": "{day}/model"}, "set format to catboost"),
        ({"path": "{day}.json", "format": "sklearn"}, "reading it may run code"),
        ({"path": "{day}.json", "ready": "done/{date}"}, "holds {date}"),
    ],
)
def test_what_settings_cannot_say_of_model_files(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        CheckpointPaths.model_validate(changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": (0, 0)}, "names one twice"),
        ({"record": "id"}, "Extra inputs"),
        ({"holdout": "x > 1"}, "is no rule"),
        ({"ready": "done"}, "names no day"),
    ],
)
def test_what_settings_cannot_say_of_labels(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        labels("t", **changes)
