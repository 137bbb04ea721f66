"""Attributes and membership through the whole pipeline: a leak, none, and what is asked of them."""

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from privcore.lower_bounds import Secret
from tests.support.audits import audited, recorded, run_audits
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    MEMORISE,
    Shuffled,
    copied,
    declared,
    edit_manifest,
    figures,
    put_labels,
    put_model,
)
from tests.support.verdicts import nothing_wrong
from workers.audit.request import Request
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Feature
from workers.plan import Attribute, Plan
from workers.warehouse.record_digest import seal

CITIES = ("AMS", "BER", "CDG")
LABEL = Plan(repetitions=4)
ATTRIBUTE = Plan(
    repetitions=4, secret=Secret.ATTRIBUTE, attribute=Attribute(column="city", values=CITIES)
)
MEMBERSHIP = Plan(repetitions=4, secret=Secret.MEMBERSHIP)
SHALLOW = {"iterations": 20, "depth": 1, "learning_rate": 0.3}
DEEP = MEMORISE | {"iterations": 150, "one_hot_max_size": 10}
DP = declared(0.1, definition="dp")


def rows(number, *, seed):
    """Return rows whose label depends on hour and city; `delay` tells each row from the others."""
    random = np.random.default_rng(seed)
    hour, city = random.integers(0, 24, number), random.choice(CITIES, number)
    chance = np.where(city == "AMS", 0.8, 0.3) - 0.01 * hour
    return pl.DataFrame(
        {
            "delay": random.normal(size=number).round(4),
            "hour": hour,
            "city": city,
            "late": (random.random(number) < chance).astype(int),
            "split": np.where(random.random(number) < 0.3, "holdout", "train"),
        }
    )


def lake_of(folder, *, number=4000):
    """Return a lake of a model that memorises so many rows a day."""
    lake = Lake(str(folder))
    for seed, (day, parameters) in enumerate({EVE: SHALLOW, DAY: DEEP}.items()):
        put_labels(lake, day, rows(number, seed=seed), row_group_size=1024)
        put_model(lake, day, label=BINARY, privacy=DP, parameters=parameters)
    return lake


@pytest.fixture(scope="module")
def leaking(tmp_path_factory):
    return lake_of(tmp_path_factory.mktemp("leaking"))


def test_a_model_that_memorises_tells_who_was_in(leaking):
    row = audited(leaking, MEMBERSHIP)
    assert (row.secret, row.verdict) == ("membership", "violated"), row.reason
    assert 0.1 < row.epsilon_lower <= row.epsilon_ceiling
    assert row.epsilon_if_proxy_right is None
    assert "split at random" in MEMBERSHIP.assumption
    assert row.records + row.control_records == 4000
    assert row.epsilon_paper > 0.1
    assert row.control_epsilon_lower == 0.0


def test_a_model_that_memorises_tells_an_attribute_beyond_what_holds_in_general(leaking):
    row = audited(leaking, ATTRIBUTE)
    assert (row.secret, row.epsilon_declared) == ("attribute:city", 0.1)
    assert 0.0 < row.epsilon_lower <= row.epsilon_ceiling
    assert "attribute" in ATTRIBUTE.assumption


@pytest.mark.paper("observational", "Algorithm 2")
def test_a_set_of_attributes_is_audited_as_the_column_of_their_pairs(tmp_path):
    lake, pairs = Lake(str(tmp_path)), tuple(f"{city} {half}" for city in CITIES for half in "ap")
    half = pl.when(pl.col("hour") < 12).then(pl.lit("a")).otherwise(pl.lit("p"))
    features = (Feature(name="delay", kind="numeric"), Feature(name="pair", kind="categorical"))
    for seed, (day, parameters) in enumerate({EVE: SHALLOW, DAY: DEEP}.items()):
        frame = rows(4000, seed=seed).with_columns(pair=pl.concat_str("city", half, separator=" "))
        put_labels(lake, day, frame, row_group_size=1024)
        put_model(lake, day, label=BINARY, features=features, privacy=DP, parameters=parameters)
    row = audited(lake, ATTRIBUTE, attribute=Attribute(column="pair", values=pairs))
    assert (row.secret, row.status) == ("attribute:pair", "evaluated")
    assert 0.0 < row.epsilon_lower <= row.epsilon_ceiling


@pytest.mark.slow
@pytest.mark.parametrize("plan", [ATTRIBUTE, MEMBERSHIP], ids=["attribute", "membership"])
def test_rows_that_training_never_saw_tell_nothing(leaking, tmp_path, plan):
    """A guarantee for labels declares nothing of other secrets; a record is verified as any."""
    lake = copied(leaking, tmp_path)
    put_labels(lake, DAY, rows(4000, seed=99), row_group_size=1024)
    record = recorded(lake, plan)
    assert record.audit.epsilon_lower == 0.0
    assert nothing_wrong(record.audit), record.audit.reason
    assert verify(seal(record), lake, InProcess()).finding is Finding.REPRODUCED
    edit_manifest(lake, "good", DAY, privacy=declared(0.1))
    row = audited(lake, plan)
    assert (row.verdict, row.epsilon_declared) == ("undeclared", None)
    assert "nothing was declared of" in row.reason
    assert audited(lake, LABEL).epsilon_declared == 0.1


@pytest.mark.slow
def test_a_record_without_a_label_plays_for_no_secret(leaking, tmp_path):
    lake, first = copied(leaking, tmp_path), pl.int_range(pl.len()) < 3
    bad = rows(1000, seed=1).with_columns(late=pl.when(~first).then("late"))
    put_labels(lake, DAY, bad, row_group_size=1024)
    for plan in (LABEL, MEMBERSHIP, ATTRIBUTE):
        row = audited(lake, plan, max_bad_records=3)
        assert row.records + row.control_records == 997


def test_all_secrets_share_one_read_and_none_changes_another(leaking):
    requests = [Request("good", plan) for plan in (LABEL, ATTRIBUTE, MEMBERSHIP)]
    units = []
    records = list(
        run_audits(
            leaking,
            DAY,
            requests,
            executor=Shuffled(5),
            progress=lambda done, total: units.append((done, total)),
            work_unit_bytes=1,
        )
    )
    assert {total for _, total in units} == {len(units)}
    assert len({record.audit.audit_id for record in records}) == 3
    for record, plan in zip(records, (LABEL, ATTRIBUTE, MEMBERSHIP), strict=True):
        assert figures(record) == figures(recorded(leaking, plan))
    assert [record.audit.secret for record in records] == ["label", "attribute:city", "membership"]
    assert records[2].reliability == ()
    assert records[1].reliability


def test_the_prior_of_an_attribute_may_be_wrong(leaking):
    skewed = Attribute(column="city", values=CITIES, prior=(0.98, 0.01, 0.01))
    row = audited(leaking, ATTRIBUTE, attribute=skewed)
    assert row.status == "evaluated"
    assert row.epsilon_lower <= row.epsilon_ceiling


def test_what_cannot_be_an_attribute_is_said(leaking):
    for column, values, words in (
        ("delay", CITIES, "not a categorical feature"),
        ("town", CITIES, "not a categorical"),
        ("city", ("AMS", "BER"), "none of attribute.values"),
    ):
        plan = ATTRIBUTE.model_copy(update={"attribute": Attribute(column=column, values=values)})
        row = audited(leaking, plan)
        assert (row.status, row.detail) == ("not_evaluable", "feature_invalid")
        assert words in row.reason
        assert "CDG" not in row.reason
        assert row.secret == f"attribute:{column}"


def test_too_few_records_are_said(leaking, tmp_path):
    lake, frame = copied(leaking, tmp_path), rows(400, seed=1)
    put_labels(lake, DAY, frame.with_columns(split=pl.lit("train")))
    assert audited(lake, MEMBERSHIP).detail == "no_holdout"
    put_labels(lake, DAY, frame.head(100))
    assert audited(lake, MEMBERSHIP).detail == "too_few_records"


def test_plans_of_secrets_are_checked():
    for wrong in (
        {"secret": "attribute"},
        {"attribute": {"column": "city", "values": CITIES}},
        {"secret": "membership", "privacy_unit": "person"},
        {"secret": "membership", "slices": ["city"]},
        *(
            {"secret": "attribute", "attribute": {"column": "city", "values": CITIES} | attribute}
            for attribute in (
                {"values": ["AMS"]},
                {"values": ["AMS", "AMS"]},
                {"prior": [0.5, 0.5]},
                {"prior": [0.5, 0.4, 0.3]},
            )
        ),
    ):
        with pytest.raises(ValidationError):
            Plan.model_validate(wrong)
    for plan in (LABEL, ATTRIBUTE, MEMBERSHIP):
        assert Plan.model_validate_json(plan.model_dump_json()) == plan
