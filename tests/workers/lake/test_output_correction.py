"""A model that is answered for by its manifest's correction: what every reader of it sees."""

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

from privcore.mechanisms import RandomizedResponse
from tests.support.audits import audited, recorded
from tests.support.frameworks import probabilities
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    FEATURES,
    edit_manifest,
    label_path,
    label_rows,
    manifest_for,
    put_labels,
)  # fmt: skip
from workers.exceptions import NotEvaluableError
from workers.lake.checkpoints import read_checkpoint
from workers.lake.layout import Lake
from workers.lake.manifest import parse_manifest
from workers.training.jobs import Recipe, TrainingJob, train
from workers.training.methods import MultiStage

FEW = {"iterations": 20, "depth": 4}


@pytest.fixture
def lake(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(800, seed=seed, chances=(0.9, 0.1)))
        for correct in (False, True):
            method = MultiStage(2.0, noise_correction=correct)
            recipe = Recipe(
                f"corrected-{correct}".lower(), "flights", BINARY, FEATURES, method, None, FEW
            )
            # The same seed and model name would draw the same noise; the names differ.
            train(lake, TrainingJob(recipe, day, seed=1))
    return lake


def rows(lake):
    stored = pl.read_parquet(label_path(lake, "flights", DAY))
    return stored.select(feature.name for feature in FEATURES)


@pytest.mark.paper("observational", "Table 2")
def test_who_asks_a_corrected_model_gets_what_the_inverse_gives(lake):
    checkpoint = read_checkpoint(lake, "corrected-true", DAY)
    features = rows(lake)
    correction = checkpoint.manifest.output_correction

    def said(output_correction):
        manifest = checkpoint.manifest.model_copy(update={"output_correction": output_correction})
        return probabilities(dataclasses.replace(checkpoint, manifest=manifest), features)

    before, after = said(None), said(correction.model_copy(update={"floor": 0.01}))
    flip = RandomizedResponse(2.0, 2).distribution()
    expected = np.clip(np.linalg.solve(flip.T, before.T).T, 0.01, 1.0)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(after, expected, rtol=1e-12)
    # 10% late: randomized response at epsilon 2 says 20%, and the correction takes that back.
    assert before[:, 1].mean() > 0.17
    assert after[:, 1].mean() == pytest.approx(0.1, abs=0.03)


@pytest.mark.slow
def test_the_audit_plays_against_the_corrected_model(lake):
    corrected, plain = (recorded(lake, model=f"corrected-{name}") for name in ("true", "false"))
    assert corrected.audit.status == plain.audit.status == "evaluated"
    before = corrected.audit
    # The same model file without its correction is another target, with other numbers.
    edit_manifest(lake, "corrected-true", DAY, output_correction=None)
    without = audited(lake, model="corrected-true")
    assert without.status == "evaluated"
    assert without.audit_id != before.audit_id
    assert without.epsilon_paper != before.epsilon_paper


@pytest.mark.parametrize(
    ("correction", "named"),
    [
        ({"name": "magic", "epsilon": 1.0, "floor": 0.01}, "output_correction.name"),
        ({"name": "noise_correction", "floor": 0.01}, "output_correction.epsilon"),
        ({"name": "noise_correction", "epsilon": 0.0, "floor": 0.0}, "output_correction.epsilon"),
        ({"name": "noise_correction", "epsilon": 1.0, "floor": 0.5}, "output_correction.floor"),
        (
            {"name": "noise_correction", "epsilon": 1.0, "floor": 0.0, "matrix": []},
            "output_correction.matrix",
        ),
    ],
)
def test_a_correction_that_is_not_known_is_refused_by_name(correction, named):
    manifest = manifest_for().model_dump(mode="json") | {"output_correction": correction}
    with pytest.raises(NotEvaluableError, match=named):
        parse_manifest(json.dumps(manifest).encode(), where="here")


def test_a_correction_that_no_model_can_have_ends_as_a_record(lake):
    # Answers that hardly depend on the label: the flip matrix has no inverse.
    tiny = {"name": "noise_correction", "epsilon": 1e-14, "floor": 0.0}
    edit_manifest(lake, "corrected-true", DAY, output_correction=tiny)
    checkpoint = read_checkpoint(lake, "corrected-true", DAY)
    with pytest.raises(NotEvaluableError, match="output_correction of corrected-true"):
        probabilities(checkpoint, rows(lake))
    audit = audited(lake, model="corrected-true")
    assert (audit.status, audit.verdict) == ("not_evaluable", "failed")
