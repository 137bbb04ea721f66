"""Contents of the lake: a manifest that is proposed."""

import json
import os
import shutil

import jsonschema
import polars as pl
import pytest

from privcore.exceptions import TerminalError
from tests.support.lake import DAY, EVE, label_path, manifest_of, model_path
from tests.test_architecture import ROOT
from workers.lake.layout import Lake
from workers.lake.manifest import json_schema, parse_manifest
from workers.lake.model_sandbox import describe_model
from workers.sources import proposal
from workers.sources.proposal import proposed_manifest


def asked(lake, *more):
    file = model_path(lake, "good") / "model.cbm"
    table = label_path(lake, "flights")
    named = ["--model", "good", "--dataset", "flights", "--day", str(DAY), "--label", "late"]
    return ["manifest", str(file), "--table", str(table), *named, *more]


def test_the_proposed_manifest_is_the_one_that_training_wrote(template, privaudit):
    answer = privaudit(*asked(template, "--epsilon", "0.5", "--unit", "flight"))
    assert answer.code == 0, answer.err
    proposed, written = json.loads(answer.out), manifest_of(template, "good", DAY)
    assert set(written) <= set(proposed)
    for field in set(written) - {"privacy", "trained_on", "label"}:
        assert proposed[field] == written[field], field
    assert proposed["label"] | {"state": None} == written["label"]
    assert proposed["trained_on"] == {"first": str(DAY), "last": str(DAY), "split": "train"}
    assert proposed["privacy"]["epsilon"] == 0.5
    assert parse_manifest(answer.out.encode(), where="here").privacy.unit == "flight"
    assert json.loads(privaudit(*asked(template)).out)["privacy"] is None


def test_what_cannot_be_proposed_is_one_sentence(template, privaudit, tmp_path):
    wrong = privaudit(*asked(template, "--label", "lat"))
    assert wrong.code == 3
    assert "has no column 'lat': it has delay, hour, city, late, split." in wrong.err
    missing = tmp_path / "without.parquet"
    pl.read_parquet(label_path(template, "flights")).drop("city").write_parquet(missing)
    lacking = privaudit(*asked(template, "--table", str(missing)))
    assert "The model takes the feature 'city', which" in lacking.err
    (tmp_path / "model.pkl").write_bytes(b"x")
    arguments = asked(template)
    arguments[1] = str(tmp_path / "model.pkl")
    assert (
        "ends in none of .cbm, .cb, .ubj, .json, .xgb, .txt, .lgb, .onnx"
        in privaudit(*arguments).err
    )
    assert privaudit("manifest").code == 64
    negative = privaudit(*asked(template, "--epsilon", "-1"))
    assert (negative.code, "privacy.epsilon" in negative.err) == (3, True)


def test_models_of_a_lake_that_lack_a_manifest_get_one(template, privaudit, tmp_path):
    shutil.copytree(template.uri, tmp_path / "lake")
    lake = Lake(str(tmp_path / "lake"))
    before = {day: manifest_of(lake, "good", day) for day in (EVE, DAY)}
    kept = model_path(lake, "good", EVE) / "manifest.json"
    content = kept.read_bytes()
    (model_path(lake, "good") / "manifest.json").unlink()
    arguments = ["manifest", lake.uri, "--dataset", "flights", "--label", "late"]
    answer = privaudit(*arguments, "--epsilon", "0.5", "--unit", "flight")
    assert (answer.code, answer.out.count("Wrote ")) == (0, 1), answer.err
    found = manifest_of(lake, "good", DAY)
    assert {name: found[name] for name in ("model", "day", "sha256", "features")} == {
        name: before[DAY][name] for name in ("model", "day", "sha256", "features")
    }
    assert found["privacy"]["epsilon"] == 0.5
    assert kept.read_bytes() == content
    assert privaudit(*arguments).out == ""

    (model_path(lake, "good") / "manifest.json").unlink()
    assert privaudit(*arguments, "--day", str(DAY)).code == 64
    unlabelled = privaudit("manifest", lake.uri, "--dataset", "trains", "--label", "late")
    assert (unlabelled.code, "has no Parquet file" in unlabelled.err) == (3, True)
    shutil.copy(model_path(lake, "good") / "model.cbm", model_path(lake, "good") / "other.cbm")
    assert "has 2 model files, and a manifest is of one" in privaudit(*arguments).err


def test_a_column_of_many_values_is_no_label(template, privaudit, monkeypatch):
    def nameless(content, **how):
        return describe_model(content, **how).model_copy(update={"classes": None})

    monkeypatch.setattr(proposal, "describe_model", nameless)
    assert privaudit(*asked(template)).code == 0
    monkeypatch.setattr(proposal, "_MOST_CLASSES", 1)
    answer = privaudit(*asked(template))
    assert (answer.code, answer.out) == (3, "")
    assert "more than 1 values in 'late', which are no classes" in answer.err


def test_the_documented_manifest_and_schema_are_the_codes(privaudit):
    example = (ROOT / "docs" / "reference" / "manifest.json").read_bytes()
    parse_manifest(example, where="docs/reference/manifest.json")
    schema = json.loads((ROOT / "docs" / "reference" / "manifest.schema.json").read_text())
    assert schema == json_schema() == json.loads(privaudit("manifest", "--schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    check.validate(json.loads(example))
    for changed in ({"epsilon": 1}, {"label": None}, {"schema_version": 2}):
        assert not check.is_valid(json.loads(example) | changed)


@pytest.mark.parametrize("pipe", ["model.cbm", "rows.parquet"])
def test_a_manifest_is_made_of_plain_files(tmp_path, pipe):
    for name in ("model.cbm", "rows.parquet"):
        (tmp_path / name).write_bytes(b"nothing")
    (tmp_path / pipe).unlink()
    os.mkfifo(tmp_path / pipe)
    with pytest.raises(TerminalError, match="cannot be read"):
        proposed_manifest(
            tmp_path / "model.cbm", tmp_path / "rows.parquet",
            model="m", day=DAY, dataset="d", label="y",
        )  # fmt: skip
