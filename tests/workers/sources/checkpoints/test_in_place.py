"""Labels and checkpoints where they lie: the same audit as of the lake, and what can be wrong."""

import datetime as dt
import json
from operator import attrgetter

import deltalake
import numpy as np
import polars as pl
import pytest

from tests.support.audits import run_audits
from tests.support.frameworks import (
    Trained,
    put_trained,
    rows_with_gaps,
    train_lightgbm,
    train_onnx,
)
from tests.support.in_place import (
    EMPTY_LAKE,
    PRIVACY,
    ROWS,
    audit,
    delta,
    labels,
    paths,
    put_file,
    refused,
    stored,
    train,
)
from tests.support.lake import (
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
from tests.support.verdicts import nothing_wrong
from tests.test_architecture import ROOT
from workers.audit.request import Request
from workers.audit.run import run_audit
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.places import split_day_path
from workers.plan import Attribute, Plan
from workers.sources.checkpoints import checkpoint_source
from workers.sources.checkpoints.in_place import InPlace, find_earlier
from workers.sources.checkpoints.in_place_settings import CheckpointPaths, LabelTable
from workers.warehouse.record_digest import seal

# What does not depend on the files' names, which key the games.
counted = attrgetter(
    "records", "control_records", "epsilon_if_proxy_right", "target_log_loss", "proxy_log_loss",
    "target_sha256", "proxy_sha256", "verdict",
)  # fmt: skip


@pytest.fixture(scope="module")
def in_the_lake(models, tmp_path_factory):
    """Return the record of the same models and rows, audited from a lake."""
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    for day in (EVE, DAY):
        content = (models / f"ads/{day:%Y/%m/%d}/model.json").read_bytes()
        trained = Trained("xgboost", content, lambda _: np.empty(0))
        put_trained(lake, day, trained, model="ads", privacy=declared(0.5))
        put_labels(lake, day, ROWS[day])
    return run_audit(lake, "ads", DAY, plan=PLAN, executor=InProcess()).audit


@pytest.mark.slow
def test_the_audit_of_a_table_is_that_of_the_lake(models, in_the_lake, tmp_path, catalog):
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
        assert (row.proxy_day, row.declared_by) == (EVE, "a test")
        assert row.dataset == table.table


@pytest.mark.parametrize("feature", ["delay", "city"])
def test_a_feature_that_a_file_lacks_or_has_no_value_of_is_missing(models, tmp_path, feature):
    def audited(name, second):
        folder = tmp_path / name / f"ds={DAY}"
        folder.mkdir(parents=True)
        rows[:300].write_parquet(folder / "part-1.parquet")
        second.write_parquet(folder / "part-0.parquet")
        return counted(audit(InPlace(labels(folder.parent), paths(models), PRIVACY)).audit)

    rows = stored(DAY).drop("ds")
    rest = rows[300:].with_columns(pl.lit(None, rows.schema[feature]).alias(feature))
    typed = audited("typed", rest)
    assert typed[-1] == "violated"
    assert audited("null", rest.with_columns(pl.lit(None).alias(feature))) == typed
    assert audited("older", rest.drop(feature)) == typed


@pytest.mark.parametrize("rule", [None, "arm = 'holdout'"])
def test_a_split_that_folders_say_is_that_of_a_column(models, in_the_lake, tmp_path, rule):
    for (arm,), rows in stored(DAY).drop("ds").group_by("arm"):
        folder = tmp_path / f"ds={DAY}" / f"arm={arm}"
        folder.mkdir(parents=True)
        rows.drop("arm").write_parquet(folder / "part.parquet")
    given = InPlace(labels(tmp_path, holdout=rule), paths(models), PRIVACY)
    assert counted(audit(given).audit) == counted(in_the_lake)
    for folder in list(tmp_path.glob("ds=*/arm=*")):
        folder.rename(folder.parent / folder.name.replace("arm=", "city="))
    told = refused(InPlace(labels(tmp_path, split="city"), paths(models)), "feature_invalid")
    assert "takes 'city' as a feature" in told


def test_a_model_that_learned_nothing_by_heart_is_not_accused(tmp_path):
    for day in (EVE, DAY):
        shallow = train(day, max_depth=1, eta=0.01, kind="ubj")
        put_file(tmp_path / f"{day}.ubj", shallow.content)
    where = paths(tmp_path, path=f"{tmp_path}/{{day}}.ubj")
    row = audit(InPlace(labels(delta(tmp_path / "t")), where, PRIVACY)).audit
    assert (nothing_wrong(row), row.epsilon_lower) == (True, 0.0)


@pytest.mark.slow
def test_verify_reads_the_version_and_the_proxy_that_were_audited(tmp_path):
    table = delta(tmp_path / "t")
    before = EVE - dt.timedelta(days=1)
    for day, content in ((before, train(EVE).content), (DAY, train(DAY).content)):
        put_file(tmp_path / f"{day}.ubj", content)
    given = InPlace(labels(table), paths(tmp_path, path=f"{tmp_path}/{{day}}.ubj"), PRIVACY)
    record = audit(given)
    kept = json.loads(str(record.audit.source))
    assert (kept["labels"]["version"], kept["proxy"]["day"]) == (1, str(before))
    # Rows of their own: each row twice would make any difference of the arms count twice.
    more = stored(DAY, label_rows(900, seed=3))
    deltalake.write_deltalake(str(table), more, mode="append")
    put_file(tmp_path / f"{EVE}.ubj", train(EVE, max_depth=2).content)  # came late
    assert verify(seal(record), EMPTY_LAKE, InProcess()).finding is Finding.REPRODUCED
    later = audit(given).audit
    said = later.proxy_day, later.records
    assert said == (EVE, record.audit.records + more.filter(arm="train").height), later.reason
    put_file(tmp_path / f"{DAY}.ubj", train(DAY, max_depth=2).content)
    changed = verify(seal(record), EMPTY_LAKE, InProcess())
    assert changed.finding is Finding.INPUTS_CHANGED
    assert "target_sha256 is" in changed.sentence
    (tmp_path / f"{DAY}.ubj").unlink()
    gone = verify(seal(record), EMPTY_LAKE, InProcess())
    assert gone.finding is Finding.INPUTS_CHANGED
    assert "is gone: keep model files" in gone.sentence


def test_only_the_days_rows_are_scored(models, tmp_path, monkeypatch):
    (tmp_path / "t").mkdir()
    # Row groups of one day, of the other, and of both.
    both = pl.concat([stored(EVE), stored(DAY)])
    both.write_parquet(tmp_path / "t" / "all.parquet", row_group_size=600)
    asked, inputs = [], checkpoint_source.as_inputs

    def counting(checkpoint, frame):
        asked.append(frame.height)
        return inputs(checkpoint, frame)

    monkeypatch.setattr(checkpoint_source, "as_inputs", counting)
    audit(InPlace(labels(tmp_path / "t"), paths(models), PRIVACY))
    # Both models share inputs; the student's sample asked about holdout rows of the day before.
    assert sorted(asked)[-2:] == [300, 600]
    assert sum(asked[:-2]) < 300


@pytest.mark.slow
def test_two_models_that_read_other_columns_of_one_table_share_its_read_alone(models, tmp_path):
    table = tmp_path / "t"
    for day in (EVE, DAY):
        rows = stored(day).with_columns(shifted=(pl.col("dep_hour") + 12) % 24)
        deltalake.write_deltalake(str(table), rows, mode="append")
    hours = [labels(table, columns={"hour": name}) for name in ("dep_hour", "shifted")]
    requests = [Request("ads", PLAN, external_inputs=InPlace(one, paths(models))) for one in hours]
    together = list(run_audits(EMPTY_LAKE, DAY, requests, executor=InProcess()))
    alone = [next(run_audits(EMPTY_LAKE, DAY, [one], executor=InProcess())) for one in requests]
    assert [figures(record) for record in together] == [figures(record) for record in alone]
    losses = {record.audit.target_log_loss for record in together}
    assert len(losses) == 2


@pytest.mark.slow
def test_a_manifest_in_the_lake_and_labels_in_a_table(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    for day in (EVE, DAY):
        put_labels(lake, day, ROWS[day])
        put_model(lake, day, parameters=MEMORISE, privacy=declared(0.5))
    there = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    given = InPlace(labels(delta(tmp_path / "t")))
    record = audit(given, lake=lake, name="good")
    assert counted(record.audit) == counted(there)
    assert record.audit.target_manifest_sha256 != there.target_manifest_sha256
    assert verify(seal(record), lake, InProcess()).finding is Finding.REPRODUCED
    told = refused(
        InPlace(labels(tmp_path / "t", classes=(0, 1))), "manifest_invalid", lake=lake, name="good"
    )
    assert "take labels.classes out of the settings" in told
    (model_path(lake, "good") / "_SUCCESS").unlink()
    assert "_SUCCESS is missing" in refused(given, "missing_target", lake=lake, name="good")


def test_an_attribute_of_another_name_and_persons_are_played(models, tmp_path):
    table = tmp_path / "t"
    for day in (EVE, DAY):
        deltalake.write_deltalake(str(table), stored(day).rename({"city": "town"}), mode="append")
    given = InPlace(
        labels(table, columns={"hour": "dep_hour", "city": "town"}, unit="flight"),
        paths(models),
        PRIVACY,
    )
    persons = audit(given, plan=Plan(repetitions=4, privacy_unit="flight")).audit
    trained = ROWS[DAY].filter(split="train").height
    assert (persons.privacy_unit, persons.records) == ("flight", trained)
    attribute = Attribute(column="city", values=("AMS", "BER", "CDG"))
    plan = Plan(repetitions=4, secret="attribute", attribute=attribute)  # noqa: S106
    row = audit(given, plan=plan).audit
    assert (row.status, row.records) == ("evaluated", persons.records), row.reason
    by_town = Plan(privacy_unit="town")
    assert "'town' as a feature, which is the privacy" in refused(
        given, "feature_invalid", plan=by_town
    )


@pytest.mark.slow
def test_a_proxy_that_saw_the_day_is_refused_whatever_its_path_says(tmp_path):
    put_file(tmp_path / f"{DAY}.json", train(DAY, kind="json").content)
    put_file(tmp_path / f"{EVE}.json", train(DAY, kind="json", seed=7, max_bin=200).content)
    where = paths(tmp_path, path=f"{tmp_path}/{{day}}.json")
    told = refused(InPlace(labels(delta(tmp_path / "t")), where), "proxy_saw_the_day")
    assert "The earlier model knows labels of 2026-03-02" in told


def test_a_day_is_ready_when_its_files_and_its_rows_are(models, tmp_path):
    table = delta(tmp_path / "t")

    def given(**changes):
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


TELLS = "takes 'city' as a feature, which says which"


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
        ({"classes": (1, 2)}, {}, "label_invalid", "correct the labels, or labels.classes"),
        ({"classes": (0, 1, 2)}, {}, "checkpoint_invalid", "but the settings list [0, 1, 2]"),
        ({"split": "city"}, {}, "feature_invalid", TELLS),
        ({"label": "delay"}, {}, "feature_invalid", "as a feature, which is the label itself"),
        ({"holdout": "bucket(city, 5) = 0"}, {}, "feature_invalid", TELLS),
        ({"holdout": "arm = 'nobody'"}, {}, "no_holdout", "see that labels.holdout, arm = 'nobo"),
        ({"columns": {"hour": "city"}}, {}, "feature_invalid", "as String, but it is taken as"),
        ({}, {"path": "{day}.json"}, "missing_target", "2026-03-02.json is missing"),
        ({}, {"format": "lightgbm"}, "checkpoint_invalid", "it is a file of XGBoost"),
        ({}, {"features": ("a", "b")}, "checkpoint_invalid", "3 features, but checkpoints.feature"),
        ({}, {"features": ("a", "b", "c")}, "checkpoint_invalid", "but the settings list ['a'"),
    ],
)
def test_each_mistake_ends_in_a_sentence_that_says_what_to_set(
    models, tmp_path, table, where, code, words
):
    if "path" in where:
        where = {"path": f"{tmp_path}/{where['path']}"}
    found = labels(delta(tmp_path / "t")).model_dump() | table
    given = InPlace(LabelTable.model_validate(found), paths(models, **where))
    assert words in refused(given, code)


def test_a_day_without_a_checkpoint_or_rows_or_an_earlier_model_is_said(models, tmp_path):
    given = InPlace(labels(delta(tmp_path / "t")), paths(models))
    later = DAY + dt.timedelta(days=1)
    assert f"{later:%Y/%m/%d}/model.json is missing" in refused(given, "missing_target", day=later)
    assert "no checkpoint of ads in the 7 days before" in refused(given, "missing_proxy", day=EVE)
    put_file(tmp_path / "m" / f"{later}.json", b"{}")
    early = InPlace(given.labels, paths(tmp_path, path=f"{tmp_path}/m/{{day}}.json"))
    assert f"has no ds = {later}" in refused(early, "missing_labels", day=later)


def test_an_earlier_model_is_looked_for_as_far_back_as_in_the_lake(tmp_path):
    where = paths(tmp_path, path=f"{tmp_path}/{{day}}.ubj")

    def found():
        file = find_earlier(where, "ads", DAY, within_days=7)
        return None if file is None else file.day

    for back, nearest in ((8, None), (7, 7), (0, 7), (-1, 7), (1, 1), (3, 1)):
        put_file(tmp_path / f"{DAY - dt.timedelta(days=back)}.ubj")
        assert found() == (None if nearest is None else DAY - dt.timedelta(days=nearest))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lightgbm", "onnx"])
def test_other_frameworks_files_say_what_they_are(tmp_path, kind):
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


def test_a_model_that_names_no_features_has_its_frameworks_names(tmp_path):
    import xgboost  # noqa: PLC0415

    names = ["delay", "hour"]
    table = labels(delta(tmp_path / "t"))
    where = paths(tmp_path, path=f"{tmp_path}/{{day}}.json")

    def put(**learn):
        for day in (EVE, DAY):
            rows = ROWS[day].filter(split="train")
            data = xgboost.DMatrix(rows.select(names).to_numpy(), rows["late"].to_numpy())
            trained = xgboost.train({"nthread": 1} | learn, data, 2)
            put_file(tmp_path / f"{day}.json", bytes(trained.save_raw("json")))

    put()
    assert "gives no probabilities" in refused(InPlace(table, where), "checkpoint_invalid")
    put(objective="binary:logistic")
    said = refused(InPlace(table, where), "label_invalid")
    assert "has no column 'f0': correct labels.columns" in said
    told = table.model_copy(update={"columns": {"f0": "delay", "f1": "dep_hour"}})
    assert audit(InPlace(told, where)).audit.status == "evaluated"
    listed = where.model_copy(update={"features": tuple(names)})
    assert audit(InPlace(table, listed)).audit.status == "evaluated"


@pytest.mark.slow
def test_an_mlflow_registry_names_the_models(tmp_path, monkeypatch, models):
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
        assert verify(seal(record), EMPTY_LAKE, InProcess()).finding is Finding.REPRODUCED
        assert audit(given).audit.target_sha256 != record.audit.target_sha256
        registry.files.clear()
        gone = verify(seal(record), EMPTY_LAKE, InProcess())
        assert "model.json, is gone" in gone.sentence


def test_layouts_of_hosted_training_are_templates():
    """As their documentation has them; neither service was asked."""
    page = (ROOT / "docs" / "how-to" / "own-models.md").read_text(encoding="utf-8")
    # Name of the training job, and OutputDataConfig with CompressionType NONE, at SageMaker; at
    # Vertex baseOutputDirectory gs://bucket/ads/{day}: AIP_MODEL_DIR is its folder model.
    for place, layout in (
        ("gs://bucket/ads", "{day}/model/model.json"),
        ("s3://bucket/ads", "ads-{day}/output/model/model.json"),
    ):
        assert f"`{place}/{layout}`" in page
        folder, name = split_day_path(f"{place}/{layout}", "ads", DAY)
        assert f"{folder}/{name}" == f"{place}/{layout}".replace("{day}", str(DAY))
