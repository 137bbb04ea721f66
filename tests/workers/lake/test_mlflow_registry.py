import base64
import contextlib
import hashlib
import pathlib
import time

import pytest
from pyarrow import fs

from privcore.exceptions import TerminalError, TransientError
from tests.support.mlflow_stub import Registry, mlflow_stub
from tests.support.object_store import empty_bucket, object_store
from workers.contained import ContainedError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits, mlflow_registry
from workers.lake.mlflow_registry import (
    Flavor,
    Version,
    _native,
    check_version,
    find_registered,
    parse,
    promote,
    read_artifact,
)
from workers.lake.places import placed, within

XGBOOST = (
    "flavors:\n  python_function:\n    loader_module: mlflow.xgboost\n  xgboost:\n    data: {}\n"
)
ADDRESS = "models:/ads@2026-03-02"


@pytest.fixture
def registry(monkeypatch):
    for name in ("REGISTRY_URI", "TRACKING_TOKEN", "TRACKING_USERNAME", "TRACKING_PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_{name}", raising=False)
    with mlflow_stub() as registry:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{registry.address}/")
        yield registry


def register(registry: Registry, **more: str) -> None:
    registry.register("ads", "2026-03-02", XGBOOST.format("model.ubj"), b"a model", **more)


def refused(address: str = ADDRESS) -> NotEvaluableError:
    with pytest.raises(NotEvaluableError) as caught:
        find_registered(address)
    return caught.value


@pytest.mark.parametrize(
    ("flavor", "data"),
    [
        ("xgboost", "model.ubj"),
        ("xgboost", "model.json"),
        ("lightgbm", "model.lgb"),
        ("catboost", "model.cb"),
        ("onnx", "model.onnx"),
    ],
)
def test_an_alias_leads_to_a_native_file_whatever_flavor_is_beside_it(registry, flavor, data):
    other = "onnx" if flavor == "lightgbm" else "lightgbm"
    flavors = f"flavors:\n  {flavor}: {{data: {data}}}\n  {other}: {{data: model.pkl}}\n"
    flavors += f"  python_function: {{data: {data}}}\n"
    registry.register("ads", "2026-03-01", flavors, b"older", data=data)
    registry.register("ads", "2026-03-02", flavors, b"a model", data=data)
    found = find_registered(ADDRESS)
    assert (found.version, found.name, found.format) == ("2", data, flavor)
    assert found.run == "712e10d6133d47579963ea01a8fab301"
    assert read_artifact(found.folder, found.name, at_most=100) == b"a model"


def test_what_is_not_registered_or_not_ready_is_not_there(registry):
    assert find_registered(ADDRESS) is None  # nor is the model
    register(registry, status="PENDING_REGISTRATION")
    assert find_registered(ADDRESS) is None
    assert find_registered("models:/ads@2026-03-03") is None


def put_files(folder: pathlib.Path) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "MLmodel").write_text(XGBOOST.format("model.ubj"))
    (folder / "model.ubj").write_bytes(b"local")
    return folder


def test_files_are_read_below_places_that_operators_allow(registry, tmp_path):
    folder = put_files(tmp_path / "root" / "0" / "m")
    for allowed in (tmp_path, folder, folder.parent):
        for place in (str(folder), folder.as_uri()):
            registry.versions.clear()
            register(registry, place=place)
            found = find_registered(ADDRESS, ("s3://bucket/mlflow", str(allowed)))
            assert read_artifact(found.folder, found.name, at_most=100) == b"local"


def test_a_registry_names_no_folder_of_this_machine(registry, tmp_path):
    allowed, outside = tmp_path / "allowed", put_files(tmp_path / "outside")
    allowed.mkdir()
    (allowed / "link").symlink_to(outside)
    for place in (
        str(outside), outside.as_uri(), f"{allowed}/../outside", f"{allowed}/link",
        f"{allowed}x/../outside", "FILE://localhost" + str(outside), "/", "", ".",
        f"file://elsewhere{outside}", f"{outside}\0", f"{allowed.as_uri()}/%2e%2e/outside",
    ):  # fmt: skip
        registry.root = str(tmp_path)  # whatever it says of its own
        registry.versions.clear()
        register(registry, place=place or " ")
        with pytest.raises(NotEvaluableError, match="below no place that the settings") as caught:
            find_registered(ADDRESS, (str(allowed),))
        assert caught.value.reason is Reason.PATH_OUTSIDE


@pytest.mark.parametrize(
    "place",
    [
        "s3://bucket/mlflow/0/m?endpoint_override={stranger}&scheme=http&region=us-east-1",
        "s3://{stranger}/mlflow/0/m",
        "s3://other/mlflow/0/m",
        "s3://bucket/mlflowx/0/m",
        "s3://bucket/mlflow/../other/m",
        "s3://bucket/mlflow#/0/m",
        "s3://AKIA:secret@bucket/mlflow/0/m",
        "hdfs://{stranger}/mlflow/0/m",
        "abfs://bucket@{stranger}/mlflow/0/m",
        "http://{stranger}/mlflow/0/m",
        "mlflow-artifacts://{stranger}/0/m",
        "mlflow-artifacts://[x/m",
        "mlflow-artifacts:/0/../../../../2.0/mlflow/experiments/search",
        "runs:/712e10d6133d47579963ea01a8fab301/model",
        "dbfs:/mlflow",
    ],
)
def test_a_registry_chooses_no_endpoint(registry, monkeypatch, place):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    registry.root = "s3://bucket/mlflow"
    with mlflow_stub() as stranger:
        register(registry, place=place.format(stranger=stranger.address.removeprefix("http://")))
        for allowed in ((), ("s3://bucket/mlflow",), ("s3://bucket/mlflow?region=eu-west-1",)):
            with pytest.raises(NotEvaluableError) as caught:
                find_registered(ADDRESS, allowed)
            assert caught.value.reason is Reason.PATH_OUTSIDE
    assert stranger.told == []


def test_region_and_endpoint_are_those_of_the_settings(registry):
    """A registry names the bucket, operators how it is reached."""
    query = "?endpoint_override=127.0.0.1:9&scheme=http&region=eu-west-1"
    assert within("s3://bucket/mlflow/0/m", [f"s3://bucket/mlflow{query}"]) == (
        f"s3://bucket/mlflow{query}", "0/m"
    )  # fmt: skip
    assert placed(f"s3://bucket/mlflow{query}", "0/m") == f"s3://bucket/mlflow/0/m{query}"
    with object_store() as endpoint, empty_bucket(endpoint) as bucket:
        host = endpoint.removeprefix("http://")
        files, path = fs.FileSystem.from_uri(f"{bucket}/mlflow/0/m")
        for name, content in (
            ("MLmodel", XGBOOST.format("model.ubj").encode()),
            ("model.ubj", b"m"),
        ):
            with files.open_output_stream(f"{path}/{name}") as stream:
                stream.write(content)
        register(registry, place=f"{bucket}/mlflow/0/m")
        refused()
        registry.root = f"{bucket}/mlflow"
        found = find_registered(ADDRESS)
        assert read_artifact(found.folder, found.name, at_most=9) == b"m"
        registry.root = "mlflow-artifacts:"
        with pytest.MonkeyPatch.context() as environment:
            environment.delenv("AWS_ENDPOINT_URL")
            given = f"{bucket}/mlflow?endpoint_override={host}&scheme=http&region=us-east-1"
            found = find_registered(ADDRESS, (given,))
            assert read_artifact(found.folder, found.name, at_most=9) == b"m"


MANY = "flavors:\n" + "".join(f"  f{number}:\n    data: x\n" for number in range(3_000))
CODE = ("Version 1 of ads in the MLflow registry has the flavors", "sklearn", "[models.scores]",
        "may hold code and is never read")  # fmt: skip
NO_MLMODEL, NO_FILE = (
    ("has no file MLmodel that can be read",),
    ("no file in XGBoost's own format",),
)


def of_flavor(name: str, data: str) -> str:
    return f"flavors:\n  {name}:\n    data: {data}\n"


@pytest.mark.parametrize(
    ("mlmodel", "words"),
    [
        ("flavors:\n  sklearn:\n    pickled_model: model.pkl\n  python_function: {}\n", CODE),
        ("flavors:\n  xgboost:\n    data: [model.ubj]\n  sklearn: {}\n", CODE),
        ("flavors:\n  xgboost: model.ubj\n  sklearn: 2026-03-02\n  9: {}\n", CODE),
        (MANY, ("and 2,990 more, and no file",)),
        *((text, NO_MLMODEL) for text in
          ("", "flavors: 3", "{", "[]", "!!python/object/apply:os.abort []", "[" * 9999)),
        *((XGBOOST.format(file), NO_FILE) for file in
          ("../model.ubj", "/etc/passwd.ubj", "a/b.ubj", "model.ubj?x", "model.ubj#x",
           '"\\e[2Jm.ubj"', "'<b>.ubj'", "..", "file:///etc/passwd.ubj", "'%2e%2e%2fmodel.ubj'")),
        *((of_flavor(flavor, data), (f"holds {data!r}", to_do)) for flavor, data, to_do in (
            ("lightgbm", "model.pkl", "log model.booster_, and not the LGBMClassifier"),
            ("lightgbm", "model.skops", "log model.booster_"),
            ("xgboost", "model.None", 'with mlflow.xgboost and model_format="ubj"'),
            ("xgboost", "../model.ubj", "log it with mlflow.xgboost"),
            ("catboost", "model.pkl", "log the CatBoostClassifier with mlflow.catboost"),
            ("onnx", "model.pt", "log it with mlflow.onnx as one file"),
        )),
    ],
    ids=lambda one: str(one)[:25],
)  # fmt: skip
def test_a_version_without_a_file_of_its_own_format_is_refused_with_what_to_do(
    registry, mlmodel, words
):
    registry.register("ads", "2026-03-02", mlmodel, b"")
    error = refused()
    assert error.reason is Reason.CHECKPOINT_INVALID
    assert [word for word in words if word not in error.sentence] == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "refuses access: set MLFLOW_TRACKING_TOKEN"),
        (403, "refuses access"),
        (302, "answers with the status 302"),
        (200, "answers with something else than MLflow's REST interface"),
    ],
)
def test_a_server_that_cannot_be_asked_is_said(registry, status, words):
    register(registry)
    registry.fails = [status]
    error = refused()
    assert error.reason is Reason.PATH_UNREADABLE
    assert error.sentence.startswith(f"The MLflow server 127.0.0.1 {words}")


@pytest.mark.usefixtures("waits")
def test_a_server_that_is_away_for_a_moment_is_asked_again(registry, monkeypatch):
    register(registry)
    registry.fails = [503, 429, 500]
    assert find_registered(ADDRESS) is not None
    registry.fails = [503] * 20
    with pytest.raises(TransientError, match="at the MLflow server"):
        find_registered(ADDRESS)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(TransientError, match="at the MLflow server"):
        find_registered(ADDRESS)


def test_a_file_that_is_gone_or_too_large_is_said(registry):
    register(registry)
    found = find_registered(ADDRESS)
    with pytest.raises(NotEvaluableError, match="larger than the 3 bytes"):
        read_artifact(found.folder, found.name, at_most=3)
    registry.files.clear()
    with pytest.raises(FileNotFoundError):
        read_artifact(found.folder, found.name, at_most=100)


def test_the_environments_credentials_go_to_this_server_alone(registry, monkeypatch):
    register(registry)
    find_registered(ADDRESS)
    assert set(registry.told) == {None}
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "lovelace")
    registry.told.clear()
    find_registered(ADDRESS)
    assert set(registry.told) == {f"Basic {base64.b64encode(b'ada:lovelace').decode()}"}
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    registry.told.clear()
    find_registered(ADDRESS)
    assert set(registry.told) == {"Bearer secret"}
    registry.versions.clear()
    register(registry, place="mlflow-artifacts://elsewhere:80/0/models/m")
    registry.told.clear()
    error = refused()
    assert error.reason is Reason.PATH_OUTSIDE
    assert "nothing is told to another server" in error.sentence


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("", "No MLflow server is named"),
        ("sqlite:///mlflow.db", "No MLflow server is"),
        ("https://ada:lovelace@example.com", "holds a name or a password"),
    ],
)
def test_the_environment_names_a_server_and_no_password(monkeypatch, address, words):
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    with pytest.raises(TerminalError, match=words) as caught:
        find_registered(ADDRESS)
    assert "lovelace" not in str(caught.value)


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "answer",
    [DEEP, b'{"model_version": %s}' % DEEP, b'{"model_version": NaN}', b'{"model_version": [1]}',
     b'{"model_version": {"version": "\\ud800"}}',
     b'{"model_version": {"version": 1%s}}' % (b"0" * 5000)],
    ids=["deep", "deep-inside", "nan", "list", "half-a-character", "digits"],
)  # fmt: skip
def test_a_registrys_answer_that_is_none_ends_in_a_sentence(registry, monkeypatch, answer):
    """Before, some of these ended the audit with an unexpected error."""
    monkeypatch.setattr(registry, "answer", lambda _path: (200, answer))
    assert "MLflow" in str(refused(ADDRESS))


@pytest.mark.parametrize(
    "served", [Flavor("model.ubj", "mlflow.pyfunc.model"), Flavor("b.ubj", "mlflow.xgboost")]
)
def test_a_version_that_mlflow_serves_by_another_file_is_refused(served):
    """A gate passed and tagged a version for a file beside the one that MLflow serves."""
    flavors = {"xgboost": Flavor("model.ubj"), "python_function": served}
    with pytest.raises(NotEvaluableError, match="may answer otherwise"):
        _native(flavors, "Version 1")
    flavors["python_function"] = Flavor("model.ubj", "mlflow.xgboost")
    assert _native(flavors, "Version 1") == ("model.ubj", "xgboost")


SHA256 = hashlib.sha256(b"a model").hexdigest()


@pytest.fixture
def promoted(registry, waits, monkeypatch):
    assert waits == []
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    registry.register("ads", "today", "flavors:\n  xgboost:\n    data: model.ubj\n", b"a model")
    return registry


def test_tags_are_written_before_the_alias_moves(promoted):
    check_version(Version("ads", "1"), SHA256)
    promote(Version("ads", "1", "production"), {"privaudit.gate": "pass"})
    named = {"name": "ads", "version": "1"}
    assert promoted.written == [
        ("model-versions/set-tag", named | {"key": "privaudit.gate", "value": "pass"}),
        ("registered-models/alias", named | {"alias": "production"}),
    ]
    assert set(promoted.told) == {"Bearer secret"}


def test_another_file_and_a_missing_version_are_refused(promoted):
    with pytest.raises(TerminalError, match="holds another model file"):
        check_version(Version("ads", "1"), "0" * 64)
    with pytest.raises(TerminalError, match="has no version 2 of ads"):
        check_version(Version("ads", "2"), SHA256)
    with pytest.raises(TerminalError, match="does not take model-versions/set-tag"):
        promote(Version("ads", "2", "production"), {"privaudit.gate": "pass"})
    assert promoted.written == []


def test_a_busy_registry_is_asked_again_and_one_that_refuses_is_not(promoted):
    promoted.fails = [503]
    promote(Version("ads", "1"), {"privaudit.gate": "pass"})
    assert len(promoted.written) == 1
    promoted.fails = [403]
    with pytest.raises(NotEvaluableError, match="refuses access"):
        promote(Version("ads", "1"), {"privaudit.gate": "pass"})
    promoted.fails = [503] * 50
    with pytest.raises(TransientError):
        promote(Version("ads", "1", "production"), {})
    assert len(promoted.written) == 1


@pytest.mark.parametrize(("code", "taken"), [("null", True), ("code", False)])
def test_a_version_that_mlflow_serves_with_code_is_not_promoted(registry, code, *, taken):
    """Its folder comes before MLflow's own modules, and may hold another `xgboost`."""
    serves = f"  python_function:\n    loader_module: mlflow.xgboost\n    code: {code}\n"
    flavors = f"flavors:\n  xgboost:\n    data: model.ubj\n{serves}"
    registry.register("ads", "today", flavors, b"a model")
    refused = pytest.raises(TerminalError, match="with code of its own")
    with contextlib.nullcontext() if taken else refused:
        check_version(Version("ads", "1"), SHA256)


BOMBS = {
    "deep": "flavors: " + "[" * 2_000_000,
    "sexagesimal": f"flavors: {'1:' * 1_000_000}1\n",
    "keys": "flavors: {" + ", ".join(f"? [{n}] : x" for n in range(1000)) + "}\n",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_mlmodel_that_unpacks_is_not_unpacked(bomb):
    begun = time.monotonic()
    with pytest.raises(ContainedError):
        mlflow_registry._contained(BOMBS[bomb].encode())
    assert time.monotonic() - begun < limits.MLMODEL_SECONDS + 10.0


def test_flavors_are_text_and_nothing_else():
    text = b"""
    flavors:
      xgboost: {data: model.ubj, model_class: xgboost.core.Booster}
      python_function: {loader_module: mlflow.xgboost}
      2026-03-02: {data: 2026-03-02}
      onnx: {data: [model.onnx]}
      lightgbm: model.lgb
    """
    assert parse(text) == {
        "xgboost": Flavor("model.ubj"),
        "python_function": Flavor(None, "mlflow.xgboost"),
        "2026-03-02": Flavor("2026-03-02"),
        "onnx": Flavor(None),
        "lightgbm": Flavor(None),
    }
