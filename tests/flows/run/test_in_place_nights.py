"""Models whose labels, checkpoints or scores lie outside of the lake: planned, checked, audited."""

import datetime as dt

import deltalake
import polars as pl
import pytest

from flows.commands.checks import checks
from flows.run.night_plan import Job, plan_night
from flows.run.nightly import audit_model
from flows.run.runs import start
from flows.settings import SettingsError, load_settings
from tests.support.frameworks import train_xgboost
from tests.support.lake import DAY, EVE, label_rows
from workers.audit.verify import Finding, verify
from workers.executors import InProcess, on_ray
from workers.lake.layout import Lake
from workers.warehouse.store import Warehouse

CHECKPOINTS = """
[models.checkpoints]
path = "models/{model}/{day:%Y%m%d}.ubj"
"""
LABELS = """
[models.labels]
table = "clicks"
day = "ds"
label = "late"
columns = { hour = "dep_hour" }
"""
PRIVACY = "[models.privacy]\nepsilon = 0.5\n"
REGISTERED = '[models.checkpoints]\npath = "models:/ads@{day}"\n'
KEYED = f'{LABELS}holdout = "keyed(flight, 0.25)"\nholdout_key_file = "holdout.key"\n'
SCORES = '[models.scores]\ntable = "t"\nlabel = "y"\ntarget = "p"\nproxy = "q"\n'
WHOLE = CHECKPOINTS + LABELS + PRIVACY
NEXT = DAY + dt.timedelta(days=1)


def settings_in(folder, text):
    path = folder / "privaudit.toml"
    head = 'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n[plan]\nrepetitions = 4\n'
    path.write_text(f'{head}[[models]]\nname = "ads"\n{text}', encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained():
    """Return each day's rows, and a model that has learned its training labels by heart."""
    found = {}
    for seed, day in enumerate((EVE, DAY)):
        rows = label_rows(900, seed=seed)
        model = train_xgboost(rows.filter(split="train"), max_depth=10, eta=1.0, min_child_weight=0)
        found[day] = rows.rename({"hour": "dep_hour"}).with_columns(ds=pl.lit(day)), model.content
    return found


@pytest.fixture
def path(tmp_path, trained):
    # Braces in the folder's own name are no template.
    home = tmp_path / "{home}"
    (home / "models" / "ads").mkdir(parents=True)
    for day, (rows, content) in trained.items():
        deltalake.write_deltalake(str(home / "clicks"), rows, mode="append", partition_by=["ds"])
        (home / "models" / "ads" / f"{day:%Y%m%d}.ubj").write_bytes(content)
    return settings_in(home, WHOLE)


def planned(path, day):
    settings = load_settings(path)
    (one,) = plan_night(Lake(settings.lake), [Job("ads", day)], settings)
    return one


def test_a_night_waits_for_the_model_and_its_rows_and_pins_both(path):
    home = path.parent
    ready = planned(path, DAY)
    assert ready.missing is None
    assert ready.external_inputs.labels.version == 1
    assert ready.external_inputs.target.name == f"ads/{DAY:%Y%m%d}.ubj"
    assert ready.external_inputs.proxy is None  # the audit looks for it
    assert ready.label_bytes > 0
    assert ready.shares == (f"table {home / 'clicks'}", None)
    waiting = planned(path, NEXT)
    assert f"its checkpoint: There is no complete checkpoint of ads for {NEXT}" in waiting.missing
    (home / "models" / "ads" / f"{NEXT:%Y%m%d}.ubj").write_bytes(b"{}")
    assert f"its rows: {home / 'clicks'} has no ds = {NEXT}" in planned(path, NEXT).missing


@pytest.mark.slow
def test_check_looks_at_the_newest_day_that_has_a_model(path):
    def said(text):
        found = {each.what: each for each in checks(settings_in(path.parent, text))}
        assert found["lake"].ok
        return found["model ads"].sentence

    told = said(WHOLE)
    assert told.startswith(
        f"{DAY} of {path.parent / 'clicks'}, version 1, earlier model {EVE}, declares epsilon 0.5; "
    )
    assert "declares nothing" in said(CHECKPOINTS + LABELS)
    assert "no column 'hour': correct labels.columns" in said(WHOLE.replace("dep_hour", "hour"))
    undated = said(WHOLE.replace('day = "ds"', 'day = "city"'))
    assert "the newest: set labels.day to the column that holds the day" in undated
    (path.parent / "models" / "ads" / f"{DAY:%Y%m%d}.ubj").unlink()
    assert f"no checkpoint of ads in the 7 days before {EVE}" in said(WHOLE)


def test_check_asks_what_the_label_column_holds(path):
    parameters = "parameters = { epsilon = 0.5, classes = 2 }"
    by = f'mechanism = {{ name = "randomized_response", {parameters} }}\n'
    found = {each.what: each for each in checks(settings_in(path.parent, WHOLE + by))}
    assert 'say so with labels.label_state "secret"' in found["model ads"].sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CHECKPOINTS, r"add \[models.labels\] with table, day and label"),
        (CHECKPOINTS + LABELS.replace('label = "late"', ""), r"add \[models.labels\] with table"),
        (LABELS + PRIVACY, "of a checkpoint in the lake, its manifest declares"),
        (f'dataset = "d"\n{LABELS}', "labels.table names the labels"),
        (CHECKPOINTS.replace("{day:%Y%m%d}", "newest") + LABELS, "names no day"),
        (CHECKPOINTS.replace("ubj", "pickle") + LABELS, "ends in none of .cbm"),
        (WHOLE.replace("columns", "column"), r"there is no such key, did you mean 'columns'\?$"),
        (WHOLE + SCORES, r"or \[models.scores\]"),
        (PRIVACY, "privacy is for models with"),
        (f'dataset = "d"\n{SCORES}', "dataset is of labels in the lake"),
        (SCORES.replace('"q"', '"p"'), "proxy is the target"),
        (f'trust = "controlled"\n{WHOLE}', r"add \[models.released_labels\]"),
        (f'trust = "independent"\n{WHOLE}', "takes model files of a registry"),
        (f'trust = "independent"\n{REGISTERED}{LABELS}', "and classes and a keyed split of the"),
        (f'trust = "independent"\n{REGISTERED}{KEYED}', "and classes and a keyed split of the"),
        (f'trust = "independent"\n{CHECKPOINTS}{KEYED}', "takes model files of a registry"),
        (f'{SCORES}holdout = "keyed(id, 0.2)"\n', "who computes scores knows the split"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(tmp_path, text, words):
    with pytest.raises(SettingsError, match=words):
        load_settings(settings_in(tmp_path, text))


def test_addresses_are_kept_and_the_unit_is_the_plans(tmp_path):
    text = WHOLE.replace('"models/', '"s3://bucket/models/').replace("[models.privacy]", "")
    text = text.replace("epsilon = 0.5", 'unit = "flight"')
    settings = load_settings(settings_in(tmp_path, text))
    assert settings.models[0].checkpoints.path == "s3://bucket/models/{model}/{day:%Y%m%d}.ubj"
    assert settings.plan_of("ads").privacy_unit == "flight"
    scored = load_settings(settings_in(tmp_path, f'{TABLE}unit = "user_id"\n'))
    assert scored.plan_of("ads").privacy_unit == "user_id"


@pytest.mark.slow
def test_a_model_in_place_is_audited_on_ray_and_verified(path):
    with on_ray("local", 1):  # which the flow finds; by itself it would start none for so little
        (row,) = start(audit_model, model="ads", day=DAY, settings=str(path))
    warehouse = Warehouse(str(path.parent / "warehouse"))
    record = warehouse.record(row.audit_id)
    stored = record.audit
    assert (stored.verdict, stored.proxy_day) == ("violated", EVE)
    assert stored.dataset == str(path.parent / "clicks")
    assert (path.parent / "report" / "index.html").exists()
    lake = Lake(str(path.parent / "lake"))
    again = verify(record, lake, InProcess(), warehouse.digest_key())
    assert again.finding is Finding.REPRODUCED, again.sentence


TABLE = """
[models.scores]
table = "predictions"
label = "clicked"
target = "p_today"
proxy = "p_yesterday"
holdout = "bucket(event_id, 3) = 0"
"""


def rows(day, count=3_000):
    """Return rows whose target gives every label away."""
    numbers = pl.int_range(count, eager=True)
    label = (numbers * 7919 % 5 < 2).cast(pl.Int64)
    return pl.DataFrame(
        {
            "day": [day] * count,
            "event_id": numbers.cast(pl.String),
            "clicked": label,
            "p_today": 0.3 + 0.2 * label,
            "p_yesterday": [0.4] * count,
            "user_id": numbers,
        }
    )


@pytest.fixture
def table(tmp_path):
    deltalake.write_deltalake(str(tmp_path / "predictions"), rows(DAY), partition_by=["day"])
    return settings_in(tmp_path, TABLE + PRIVACY)


def test_a_night_waits_for_the_tables_day_and_pins_its_version(table):
    settings = load_settings(table)
    place = settings.models[0].scores.table
    assert place == str(table.parent / "predictions")
    ready = planned(table, DAY)
    assert (ready.missing, ready.external_inputs.tables.version) == (None, 0)
    assert ready.label_bytes > 0
    assert ready.shares == (f"table {place}", None)
    assert f"has no day = {EVE}" in planned(table, EVE).missing


def test_check_looks_at_the_newest_day_and_its_columns(table):
    def said(text):
        given = settings_in(table.parent, text)
        found = checks(given)
        lake = next(each for each in found if each.what == "lake")
        assert lake.ok
        return next(each.sentence for each in found if each.what == "model ads")

    told = said(TABLE + PRIVACY)
    assert told.startswith(
        f"{DAY} of {table.parent / 'predictions'}, version 0, declares epsilon 0"
    )
    assert "declares nothing" in said(TABLE)
    assert "no column 'p_tomorrow'" in said(TABLE.replace("p_today", "p_tomorrow"))
    assert "is no Delta table" in said(TABLE.replace("predictions", "elsewhere"))


def test_the_settings_say_what_the_label_column_holds(tmp_path):
    by = '{ privatised_by = { name = "randomized_response", parameters = { epsilon = 1.0 } } }'
    for said in ('"secret"', by):
        read = load_settings(settings_in(tmp_path, f"{TABLE}label_state = {said}\n"))
        assert read.models[0].scores.label_state is not None
    with pytest.raises(SettingsError, match=r"label_state"):
        load_settings(settings_in(tmp_path, f'{TABLE}label_state = "public"\n'))
