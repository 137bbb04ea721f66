import datetime as dt
import pickle
import tomllib

import pytest

from flows.commands.operate import write_template
from flows.settings import SettingsError, UnlistedModelError, load_settings
from privcore.exceptions import TerminalError
from tests.support.lake import write_settings
from workers.plan import Plan
from workers.sources.scores.score_tables import ScoreTables


@pytest.fixture
def file(tmp_path):
    return write_settings(tmp_path, ["good", "other"])


def test_paths_are_relative_to_the_files_folder(file, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    settings = load_settings(file)
    assert settings.lake == str(tmp_path / "lake")
    assert settings.warehouse == str(tmp_path / "warehouse")
    assert settings.report == str(tmp_path / "report")


def test_the_environment_overrides_the_file(file, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVAUDIT_LAKE", "/elsewhere")
    monkeypatch.setenv("PRIVAUDIT_PLAN__SEED", "7")
    monkeypatch.setenv("PRIVAUDIT_RAY__CPUS", "2")
    settings = load_settings(file)
    assert settings.lake == "/elsewhere"
    assert settings.warehouse == str(tmp_path / "warehouse")
    assert (settings.plan.seed, settings.plan.repetitions) == (7, 4)
    assert settings.ray.cpus == 2


def test_the_file_is_found_where_it_is_given_or_named_or_lies(file, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "named").mkdir()
    here = write_settings(tmp_path / "here", ["here"])
    named = write_settings(tmp_path / "named", ["named"])
    monkeypatch.chdir(here.parent)
    assert load_settings().models[0].name == "here"
    monkeypatch.setenv("PRIVAUDIT_CONFIG", str(named))
    assert load_settings().models[0].name == "named"
    assert load_settings(file).models[0].name == "good"


WHOLE = 'lake = "l"\nwarehouse = "w"\nreport = "r"\n'
MODEL = '[[models]]\nname = "m"\n'
ONE = WHOLE + MODEL


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("lake = ", "not valid TOML"),
        (b"\xff\xfe", "not valid TOML"),
        ('warehouse = "w"\nreport = "r"\n' + MODEL, "lake: .*required"),
        (WHOLE + "models = []\n", "models"),
        (WHOLE + 'lakes = "l"\n' + MODEL, "lakes"),
        (ONE + "[plan]\nrepeat = 3\n", r"plan\.repeat"),
        (ONE + "[plan]\nsignificance = 0.7\n", r"plan\.significance.*0\.5"),
        (ONE + "[ray]\ncpus = 0\n", r"ray\.cpus"),
        (ONE + MODEL, "m more than once"),
        (ONE + '[night]\ndeadline = "soon"\n', r"night\.deadline: 'soon' is not a time of day"),
        (ONE + "[night]\ndeadline = 9\n", "9 is not a time of day: write it like 09:00:00"),
        (ONE + "[night]\ndeadline = 09:00\n", "written with its seconds: deadline = 09:00:00"),
        (ONE + "[night]\ndeadlin = 09:00:00\n", "did you mean 'deadline'"),
        (ONE + 'datasets = "x"\n', r"models\.0\.datasets: there is no such key, did you mean 'd"),
        (ONE + "[models.plan]\nrepetition = 1\n", "did you mean 'repetitions'"),
        (ONE + "[plan]\nzzz = 1\n", r"plan\.zzz: there is no such key\.$"),
        (ONE + '[night]\ntime_zone = "Mars/Olympus"\n', "is not a time zone"),
        (ONE + '[night]\ndeadline = "09:00+02:00"\n', "without a zone"),
        (ONE + "[models.plan]\nrepetitions = 0\n", r"models\.0\.plan\.repetitions"),
    ],
)
def test_a_file_that_breaks_a_rule_is_one_sentence_that_names_the_key(tmp_path, content, words):
    file = tmp_path / "privaudit.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SettingsError, match=words) as caught:
        load_settings(file)
    sentence = str(caught.value)
    assert sentence.startswith(str(file))
    assert sentence.endswith((".", "?"))
    assert "\n" not in sentence


def test_a_value_from_the_environment_that_breaks_a_rule_is_one_sentence(file, monkeypatch):
    monkeypatch.setenv("PRIVAUDIT_PLAN__SEED", "seven")
    with pytest.raises(SettingsError, match=r"plan\.seed"):
        load_settings(file)
    monkeypatch.delenv("PRIVAUDIT_PLAN__SEED")
    monkeypatch.setenv("PRIVAUDIT_MODELS", "good")
    with pytest.raises(SettingsError, match="models"):
        load_settings(file)


def test_a_missing_file_says_how_to_name_one(tmp_path):
    with pytest.raises(SettingsError, match=r"--config or PRIVAUDIT_CONFIG\.$"):
        load_settings(tmp_path / "nowhere.toml")


def written(folder, more):
    file = folder / "privaudit.toml"
    file.write_text(WHOLE + more)
    return file


def test_other_labels_of_a_table_are_the_plans_and_change_no_other_plan(tmp_path):
    scores = '[models.scores]\ntable = "t"\nlabel = "y"\ntarget = "p"\nproxy = "q"\n'
    files = [written(tmp_path, MODEL + scores + more)
             for more in ("", 'other_labels = ["bought"]\n')]  # fmt: skip
    assert load_settings(files[1]).plan_of("m").other_labels == ("bought",)
    membership = 'other_labels = ["bought"]\n[[models]]\nname = "n"\nmembership = true\n'
    membership += '[models.plan]\nother_labels = ["bought"]\n'
    settings = load_settings(written(tmp_path, MODEL + scores + membership))
    assert [plan.other_labels for plan in settings.plans_of("n")] == [("bought",), ()]
    assert "other_labels" not in Plan().model_dump()
    for field, value in {"slices": ("city",), "privacy_unit": "user", "days": 7}.items():
        with pytest.raises(ValueError, match=f"other_labels .*, and {field} matches records"):
            Plan(other_labels=("bought",), **{field: value})


def test_a_model_overrides_the_common_plan_field_by_field(tmp_path):
    more = MODEL + '[models.plan]\nseed = 5\nslices = ["city"]\n[plan]\nrepetitions = 7\nseed = 1\n'
    settings = load_settings(written(tmp_path, more))
    own, other = settings.plan_of("m"), settings.plan_of("not listed")
    assert (own.repetitions, own.seed, own.slices) == (7, 5, ("city",))
    assert (other.repetitions, other.seed, other.slices) == (7, 1, ())
    once = settings.plan_of("m", {"repetitions": 3})
    assert (once.repetitions, once.seed) == (3, 5)
    with pytest.raises(SettingsError, match="repetitions"):
        settings.plan_of("m", {"repetitions": 0})


def test_a_model_goes_back_to_one_day_and_its_membership_is_of_one(tmp_path):
    more = MODEL + "membership = true\n[models.plan]\ndays = 1\n"
    more += '[[models]]\nname = "n"\nmembership = true\n[plan]\ndays = 7\n'
    settings = load_settings(written(tmp_path, more))
    assert [plan.days for plan in settings.plans_of("m")] == [1, 1]
    assert [plan.days for plan in settings.plans_of("n")] == [7, 1]


def test_a_deadline_is_a_time_of_the_next_day_in_the_nights_zone(tmp_path):
    more = MODEL + 'deadline = 07:30:00\n[[models]]\nname = "n"\n[night]\n'
    more += 'time_zone = "America/New_York"\ndeadline = 09:00:00\n'
    settings = load_settings(written(tmp_path, more))
    day = dt.date(2026, 3, 7)  # clocks change on the 8th
    assert settings.deadline_of("n", day).astimezone(dt.UTC).hour == 13
    assert settings.deadline_of("n", day - dt.timedelta(days=1)).astimezone(dt.UTC).hour == 14
    assert settings.deadline_of("m", day).time() == dt.time(7, 30)
    late = dt.datetime(2026, 3, 8, 3, tzinfo=dt.UTC)  # still the 7th in New York
    assert settings.yesterday(late) == dt.date(2026, 3, 6)


def test_a_model_that_is_not_listed_is_refused_by_the_nearest_name(file):
    settings = load_settings(file)
    settings.check_listed(["good", "other"])
    with pytest.raises(UnlistedModelError, match=r"^The model 'othr' .*, did you mean 'other'\?$"):
        settings.check_listed(["good", "othr"])
    error = UnlistedModelError("othr", ("other",))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301


def test_every_problem_of_a_file_is_kept_and_no_secret_is_shown(tmp_path):
    more = MODEL + "[ray]\ncpus = 0\n[webhook]\nurl = 1\nsecret = 'hush'\n"
    with pytest.raises(SettingsError, match="privaudit check lists them") as caught:
        load_settings(written(tmp_path, more))
    assert len(caught.value.problems) == 3
    assert "hush" not in str(caught.value) + str(caught.value.problems)


def test_every_model_that_the_template_shows_is_one(tmp_path):
    file = tmp_path / "privaudit.toml"
    write_template(file, replace=False)
    text, shown = file.read_text(), []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("# or ")]
        if "# [[models]]" in lines:
            first = lines.index("# [[models]]")
            shown.append("\n".join(line.removeprefix("# ") for line in lines[first:]))
    assert len(shown) >= 2
    file.write_text("\n\n".join([text, *shown]))
    scores = [model.scores for model in load_settings(file).models if model.scores is not None]
    assert [each.record for each in scores] == ["event_id"]
    place = text.split("# or target, proxy, label = ")[1].splitlines()[0]
    joined = scores[0].model_dump() | {"target": tomllib.loads(f"target = {place}")["target"]}
    assert ScoreTables.model_validate(joined).others["target"].record == "id"


def test_the_written_template_is_valid_and_says_the_defaults(tmp_path):
    file = tmp_path / "privaudit.toml"
    write_template(file, replace=False)
    settings = load_settings(file)
    assert settings.plan.model_copy(update={"seed": 0}) == type(settings.plan)()
    assert settings.night == type(settings.night)()
    with pytest.raises(TerminalError, match="--force"):
        write_template(file, replace=False)
    write_template(file, replace=True)
    # An owner who knows the seed can order rows so that folds dull the student.
    drawn = load_settings(file).plan
    assert drawn.seed not in {0, settings.plan.seed}
    uncommented = [
        line.removeprefix("# ") if line.startswith(("# fractions", "# secrets")) else line
        for line in file.read_text().splitlines()
    ]
    file.write_text("\n".join(uncommented))
    assert load_settings(file).plan == drawn


def test_a_registrys_artifacts_may_lie_in_the_lake_and_where_settings_say(tmp_path):
    file = tmp_path / "privaudit.toml"
    file.write_text(
        'lake = "s3://bucket/lake?region=eu-west-1"\nwarehouse = "warehouse"\nreport = "report"\n'
        + "".join(
            f'[[models]]\nname = "{name}"\n[models.checkpoints]\npath = "{path}"\n{more}\n'
            '[models.labels]\ntable = "t"\nlabel = "y"\n'
            for name, path, more in (
                ("a", "models:/a@{day}", 'artifacts = ["mlruns", "s3://other/mlflow"]'),
                ("b", "models:/b@{day}", ""),
                ("c", "m/{day}/model.json", ""),
            )
        )
    )
    lake = "s3://bucket/lake?region=eu-west-1"
    found = [model.checkpoints for model in load_settings(file).models]
    assert [paths and paths.artifacts for paths in found] == [
        (str(tmp_path / "mlruns"), "s3://other/mlflow", lake),
        (lake,),
        None,
    ]


def test_the_file_of_metrics_is_one_of_this_machine_that_a_node_exporter_reads(tmp_path):
    file = tmp_path / "privaudit.toml"
    given = WHOLE + 'metrics = "{}"\n' + MODEL
    file.write_text(given.format("seen/a.prom"))
    assert load_settings(file).metrics == str(tmp_path / "seen" / "a.prom")
    for wrong in ("seen/a.txt", "s3://bucket/a.prom"):
        file.write_text(given.format(wrong))
        with pytest.raises(SettingsError, match="metrics"):
            load_settings(file)
