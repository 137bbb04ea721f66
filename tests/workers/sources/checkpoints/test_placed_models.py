"""Model files where training writes them, whichever framework's, and those a registry names."""

import datetime as dt
import json

import deltalake
import polars as pl
import pytest

from tests.support.frameworks import rows_with_gaps, train_lightgbm, train_onnx
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
    train,
)
from tests.support.lake import DAY, EVE
from tests.support.mlflow_stub import mlflow_stub
from tests.support.object_store import empty_bucket, object_store
from tests.test_architecture import ROOT
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.places import split_day_path
from workers.sources.checkpoints.in_place import InPlace
from workers.sources.checkpoints.in_place_settings import CheckpointPaths
from workers.sources.checkpoints.placed_models import find_earlier
from workers.warehouse.record_digest import seal


def test_an_earlier_model_is_looked_for_as_far_back_as_in_the_lake(tmp_path):
    where = paths(tmp_path, path=f"{tmp_path}/{{day}}.ubj")

    def found() -> dt.date | None:
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

    def put(**learn: object) -> None:
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


CLOUDS = {
    # Name of the training job, and OutputDataConfig with CompressionType NONE.
    "SageMaker": "{bucket}/ads/ads-{{day}}/output/model/model.json",
    # baseOutputDirectory gs://bucket/ads/{day}: AIP_MODEL_DIR is its folder model.
    "Vertex": "{bucket}/ads/{{day}}/model/model.json",
}


@pytest.mark.slow
@pytest.mark.parametrize("cloud", CLOUDS)
def test_layouts_of_hosted_training_are_templates(cloud, tmp_path):
    """As their documentation has them, on moto's S3: neither service was asked."""
    page = (ROOT / "docs" / "how-to" / "own-models.md").read_text(encoding="utf-8")
    rows = delta(tmp_path / "rows")
    with object_store() as endpoint, empty_bucket(endpoint) as bucket:
        template = CLOUDS[cloud].format(bucket=bucket)
        shown = template.replace(bucket, {"SageMaker": "s3", "Vertex": "gs"}[cloud] + "://bucket")
        assert f"`{shown}`" in page
        for day in (EVE, DAY):
            root, name = split_day_path(template, "ads", day)
            Lake(root).write(name, train(day).content)
        where = CheckpointPaths.model_validate({"path": template})
        record = audit(InPlace(labels(rows), where, PRIVACY))
        assert record.audit.status == "evaluated", record.audit.reason
        assert record.audit.epsilon_lower > 0.5
        assert json.loads(record.audit.source)["target"]["day"] == str(DAY)
