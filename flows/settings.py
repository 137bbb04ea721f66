"""`privaudit.toml`: what it may say, how it is read, and what is wrong with it in words."""

import datetime as dt
import difflib
import os
import pathlib
import re
import tomllib
import urllib.parse
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Self, get_args

import pydantic_settings
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from flows.failures import WrongUsageError
from privcore.exceptions import TerminalError
from privcore.lower_bounds import Secret
from privcore.lower_bounds.verdicts import Trust
from workers.lake.manifest import LARGEST_EPSILON, Name
from workers.lake.places import REGISTRY, local_path
from workers.plain_files import open_plain
from workers.plan import Attribute, Plan, TrainingSampling
from workers.sources.checkpoints.in_place_settings import CheckpointPaths, LabelTable
from workers.sources.scores.score_tables import DeclaredPrivacy, ScoreTables
from workers.sources.tables.day_tables import ReleasedLabels, TablePlace
from workers.strict_model import StrictModel, known_zone

_SHORT_TIME = re.compile(r"^[ \t]*[\w.]+[ \t]*=[ \t]*\d{1,2}:\d{2}[ \t]*(#.*)?$", re.MULTILINE)


class SettingsError(TerminalError):
    """The settings cannot be read; the sentence says which part and what to do.

    `problems` holds one "key: what is wrong" for each value that breaks a rule.
    """

    def __init__(self, sentence: str, problems: tuple[str, ...] = ()) -> None:
        self.sentence = sentence
        self.problems = problems
        super().__init__(sentence)


def problems(error: ValidationError, of: type[BaseModel]) -> tuple[str, ...]:
    """Return one "key: what is wrong" for each value that breaks a rule of the model `of`."""
    found = error.errors(include_url=False, include_input=False)
    around = {one["loc"][:depth] for one in found for depth in range(len(one["loc"]))}
    # A list whose entries are wrong is called too short, too: that is no second problem.
    return tuple(
        _problem(one, of) for one in found if one["type"] != "too_short" or one["loc"] not in around
    )


def _problem(problem: Any, of: type[BaseModel]) -> str:
    place: tuple[str | int, ...] = problem["loc"]
    key = ".".join(str(part) for part in place)
    if problem["type"] == "extra_forbidden":
        return f"{key}: there is no such key{did_you_mean(str(place[-1]), _keys(of, place))}"
    return f"{key}: {problem['msg'].removeprefix('Value error, ')}"


def _keys(of: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """Return the keys that there are beside the last one of `place`."""
    within = of
    for part in place[:-1]:
        if isinstance(part, str):
            field = within.model_fields.get(part)
            found = next(_models(field.annotation), None) if field is not None else None
            if found is None:
                return []
            within = found
    return list(within.model_fields)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation names, however deep."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ", did you mean 'x'?", or nothing where no known name is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def _time_of_day(value: object) -> object:
    # A number would be taken for seconds since midnight.
    if isinstance(value, dt.time):
        return value
    try:
        return dt.time.fromisoformat(value)  # type: ignore[arg-type]  # or TypeError
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a time of day: write it like 09:00:00") from None


def _local_time(time: dt.time) -> dt.time:
    if time.tzinfo is not None:
        raise ValueError("write the time without a zone; night.time_zone gives it")
    return time


def safe_url(url: str) -> str:
    """Return an address that alerts may go to: encrypted, or of this machine."""
    parts = urllib.parse.urlsplit(url)  # a bad address is a ValueError of its own
    if not (parts.scheme == "https" and parts.hostname) and not (
        parts.scheme == "http" and parts.hostname in _LOOPBACK
    ):
        raise ValueError("write an https:// address (http:// only for this machine)")
    return without_login(url)


def without_login(url: str) -> str:
    """Return an address that holds no name and no password."""
    if "@" in urllib.parse.unquote(urllib.parse.urlsplit(url).netloc):
        raise ValueError("write the address without a name or password")
    return url


TimeOfDay = Annotated[dt.time, BeforeValidator(_time_of_day), AfterValidator(_local_time)]


class ModelSettings(StrictModel):
    """One audited model."""

    name: Name
    """Name of the model's folder in the lake."""
    dataset: str | None = None
    """The only label dataset that its manifest may name; any if left out."""
    trust: Trust = Trust.SELF
    """Who supplies the evidence. self: the model's owner. independent: a registry gives the model
    files, and the label platform gives rows, labels and a keyed split. controlled: the platform
    privatised the labels before the owner got them (of the records of released_labels)."""
    deadline: TimeOfDay | None = None
    """Instead of the night's deadline, for this model."""
    notify: tuple[str, ...] = ()
    """Who is notified: addresses or channels, passed on with each alert."""
    plan: Plan = Plan()
    """Instead of the common plan, field by field."""
    attribute: Attribute | None = None
    """A categorical feature whose values are audited as well, by their own claim."""
    sampling: TrainingSampling | None = None
    """How training sampled its rows by their label; the holdout is sampled likewise. Left out,
    training took every row that is not held out."""
    membership: bool = False
    """Whether it is audited as well, by its own claim, if records are told to have been trained
    on."""
    drill: Name | None = None
    """Another listed model: the same learner, trained on the same rows without a mechanism. Whether
    it is refuted shows whether a dropped mechanism would be seen."""
    scores: ScoreTables | None = None
    """Tables of both models' probabilities, instead of checkpoints in the lake."""
    checkpoints: CheckpointPaths | None = None
    """Where model files lie, instead of the lake and its manifests."""
    labels: LabelTable | None = None
    """A table of labelled rows, instead of a dataset of the lake."""
    released_labels: ReleasedLabels | None = None
    """A table of true labels beside those that a mechanism released for training: compared every
    night, whatever the model is, by the model's declaration."""
    privacy: DeclaredPrivacy | None = None
    """What is declared, where no manifest in the lake declares."""

    @model_validator(mode="after")
    def _declared_once(self) -> Self:
        if self.scores is not None and (self.checkpoints or self.labels):
            raise ValueError(
                "scores hold probabilities and labels: take [models.checkpoints] and "
                "[models.labels] out, or [models.scores]"
            )
        if self.checkpoints is not None and (self.labels is None or self.labels.label is None):
            raise ValueError(
                "checkpoints outside of the lake have no manifest to name their labels: add "
                "[models.labels] with table, day and label"
            )
        if self.privacy is not None and self.scores is None and self.checkpoints is None:
            raise ValueError(
                "privacy is for models with [models.scores] or [models.checkpoints]: of a "
                "checkpoint in the lake, its manifest declares"
            )
        if self.dataset is not None and (self.scores or self.labels):
            key = "labels" if self.scores is None else "scores"
            raise ValueError(f"dataset is of labels in the lake: {key}.table names the labels")
        return self

    @model_validator(mode="after")
    def _trusted(self) -> Self:
        """Refuse a mode of trust that the rest of the settings does not bear out."""
        if self.trust is Trust.CONTROLLED and self.released_labels is None:
            raise ValueError(
                'trust = "controlled" is of labels that a platform privatised: add '
                "[models.released_labels], or leave trust out"
            )
        if self.trust is Trust.INDEPENDENT:
            labels, registered = self.labels, self.checkpoints and self.checkpoints.registered
            keyed = labels is not None and labels.holdout_rule.keyed_share and labels.classes
            if not (keyed and registered):
                raise ValueError(
                    'trust = "independent" takes model files of a registry ([models.checkpoints] '
                    "with path = models:/NAME@{day}), and classes and a keyed split of the "
                    "platform's own table ([models.labels] with classes and holdout = "
                    '"keyed(column, 0.2)"): add them, or leave trust out'
                )
        return self

    def mode(self, *, released: bool) -> Trust:
        """Return the mode of a record's evidence: of released labels, or of the model's answers.

        Labels that a platform privatised are `controlled` and a model is `independent`, where the
        settings say so; a record of the other kind stands on what its owner supplied.
        """
        own = Trust.CONTROLLED if released else Trust.INDEPENDENT
        return own if self.trust is own else Trust.SELF


def with_absolute_paths(model: ModelSettings, folder: pathlib.Path, *, lake: str) -> ModelSettings:
    """Return a model whose paths are absolute; an Iceberg table, or a query, has a name, no path.

    A registry's artifacts may lie in the lake, too, unless the evidence is independent.
    """
    parts = ("scores", "labels", "released_labels", "checkpoints")
    changes: dict[str, Any] = {
        name: _with_absolute_paths(part, folder)
        for name in parts
        if (part := getattr(model, name)) is not None
    }
    if model.checkpoints is not None and model.checkpoints.registered:
        artifacts = (absolute(folder, each) for each in model.checkpoints.artifacts or ())
        # Who may write the lake could exchange a version's file there after its time.
        own = () if model.trust is Trust.INDEPENDENT else (lake,)
        given = {"artifacts": (*artifacts, *own)}
        changes["checkpoints"] = changes["checkpoints"].model_copy(update=given)
    return model.model_copy(update=changes)


def _with_absolute_paths(part: StrictModel, folder: pathlib.Path) -> StrictModel:
    """Return a part whose table, files and templates of paths are below the settings' folder."""
    changed: dict[str, Any] = {
        role: _with_absolute_paths(other, folder)
        for role, other in getattr(part, "others", {}).items()
    }
    if isinstance(part, TablePlace) and not (part.catalog or getattr(part, "query", None)):
        changed["table"] = absolute(folder, part.table)
    for name in ("holdout_key_file", "statements", "key_file"):
        if (place := getattr(part, name, None)) is not None:
            changed[name] = absolute(folder, place)
    own = str(folder).replace("{", "{{").replace("}", "}}")  # a folder's braces are its own
    for name in ("path", "ready"):
        template = getattr(part, name, None)
        if template and "://" not in template and not template.startswith(REGISTRY):
            changed[name] = str(pathlib.Path(own) / template)
    return part.model_copy(update=changed)


def absolute(folder: pathlib.Path, place: str) -> str:
    """Return a path below the settings' folder as a whole one, and an address as it is.

    Raises:
        SettingsError: it can be neither.
    """
    try:
        relative = "://" not in place and not pathlib.Path(place).is_absolute()
        local = local_path(str(folder / place) if relative else place)
    except TerminalError as error:
        raise SettingsError(str(error)) from None
    return place if local is None else str(local)


FILE = "privaudit.toml"
VARIABLE = "PRIVAUDIT_CONFIG"
_NAMED = 10
"""The most models that are named where one was asked for that is not listed."""


class UnlistedModelError(WrongUsageError):
    """A model was asked for that the settings do not list."""

    def __init__(self, name: str, listed: tuple[str, ...]) -> None:
        self.name = name
        self.listed = listed
        meant = did_you_mean(name, listed) or f": it lists {', '.join(listed[:_NAMED])}."
        super().__init__(f"The model {name!r} is not in {FILE}{meant}")


class NightSettings(StrictModel):
    """Deadline of the nightly audit, and how much of it runs at once."""

    time_zone: Annotated[str, AfterValidator(known_zone)] = "UTC"
    """Zone of every time of day, like Europe/Amsterdam."""
    deadline: TimeOfDay = dt.time(9)
    """Time of the day after the audited one at which a verdict must be there."""
    concurrency: int = Field(default=4, ge=1, le=1000)
    """Audits at the same time, over all flow runs."""


class WebhookSettings(StrictModel):
    """Destination of alerts without Prefect's automations."""

    model_config = ConfigDict(hide_input_in_errors=True)

    url: Annotated[str, AfterValidator(safe_url)]
    """Receives a POST per alert."""
    secret: SecretStr = Field(min_length=16)
    """Key of the HMAC signature; keep it in the environment."""


class RaySettings(StrictModel):
    """Ray that does the work; no number depends on it."""

    address: str = "local"
    """local, auto, or ray://host:port."""
    cpus: int | None = Field(default=None, ge=1)
    """CPUs of a local Ray; all by default."""


class PublicationSettings(StrictModel):
    """Publication of statements that are differentially private for labels."""

    model_config = ConfigDict(hide_input_in_errors=True)

    statements: str
    """Where public statements are kept: a folder or address of its own, which more people may read
    than the warehouse."""
    epsilon: float = Field(default=0.1, gt=0.0, le=10.0)
    """Privacy loss of one statement for one label; plan.epsilon_public of a model wins. Audits of
    some thousand records need 0.5."""
    epsilon_per_label: float = Field(default=1.0, gt=0.0, le=100.0)
    """What all statements in which a label takes part may cost together."""
    key_file: str | None = None
    """File of mode 600 with the key of the noise."""
    key: SecretStr | None = None
    """The key itself; keep it in PRIVAUDIT_PUBLICATION__KEY."""


class TogetherSettings(StrictModel):
    """The total for one day's labels; without it there is no alert."""

    epsilon: float = Field(gt=0.0, le=LARGEST_EPSILON, allow_inf_nan=False)
    """What all models trained on the same labels may promise together. Above it there is an
    alert."""
    delta: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Delta at which declarations are composed."""


class PolicySettings(StrictModel):
    """What the house accepts, of models that are not_refuted; without it no policy is set."""

    max_epsilon: float | None = Field(default=None, gt=0.0, le=LARGEST_EPSILON, allow_inf_nan=False)
    """The largest declared epsilon; any if left out."""
    max_sees_from: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    """The least power: the largest sees_from of the nights together; any if left out."""
    max_age_days: int | None = Field(default=None, ge=0)
    """The oldest proof: days since the last record was made; any if left out."""
    trust: tuple[Trust, ...] | None = Field(default=None, min_length=1)
    """Modes of trust of the evidence; any if left out."""


class Settings(BaseSettings):
    """The whole file; `PRIVAUDIT_<NAME>` in the environment overrides, `__` parts nested names."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        env_prefix="PRIVAUDIT_",
        env_nested_delimiter="__",
        hide_input_in_errors=True,
    )

    lake: str
    warehouse: str
    report: str
    report_url: Annotated[str, AfterValidator(without_login)] | None = None
    """Address under which people open the report; goes into alerts."""
    metrics: str | None = Field(default=None, pattern=r"\.prom$")
    """File of this machine that Prometheus' node exporter reads; ends with .prom."""
    models: tuple[ModelSettings, ...] = Field(min_length=1)
    plan: Plan = Plan()
    night: NightSettings = NightSettings()
    webhook: WebhookSettings | None = None
    publication: PublicationSettings | None = None
    together: TogetherSettings | None = None
    policy: PolicySettings | None = None
    ray: RaySettings = RaySettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over the file."""
        return env_settings, init_settings

    def model_named(self, name: str) -> ModelSettings:
        """Return what is configured for a model, the defaults for one that is not listed."""
        listed = next((model for model in self.models if model.name == name), None)
        return ModelSettings(name=name) if listed is None else listed

    def check_listed(self, names: Iterable[str]) -> None:
        """Refuse a model that is not listed: a mistyped name would leave a record permanently.

        Raises:
            UnlistedModelError: one is not.
        """
        listed = tuple(model.name for model in self.models)
        for name in names:
            if name not in listed:
                raise UnlistedModelError(name, listed)

    def plan_of(self, name: str, overrides: Mapping[str, Any] | None = None) -> Plan:
        """Return a model's plan: the common one, then the fields that the model sets, then these.

        Raises:
            SettingsError: an override breaks a rule of the plan.
        """
        model, merged = self.model_named(name), dict[str, Any]()
        if self.publication is not None:
            merged["epsilon_public"] = self.publication.epsilon
        table = model.scores or model.labels
        unit = None if table is None else table.unit
        for plan in (self.plan, model.plan):
            merged |= {field: getattr(plan, field) for field in plan.model_fields_set}
        merged |= {} if unit is None else {"privacy_unit": unit}
        others = () if table is None else table.other_labels
        merged |= {"other_labels": others} if others else {}
        merged |= {} if model.sampling is None else {"sampling": model.sampling}
        try:
            return Plan(**merged | dict(overrides or {}))
        except ValidationError as error:
            found = problems(error, Plan)
            raise SettingsError(f"The plan is not valid at {found[0]}.", found) from None

    def plans_of(self, name: str, overrides: Mapping[str, Any] | None = None) -> tuple[Plan, ...]:
        """Return a plan for each secret of a model's records that is audited, the label's first.

        Raises:
            SettingsError: as `plan_of`, or a secret that the plan cannot be played with.
        """
        plan, model = self.plan_of(name, overrides), self.model_named(name)
        if plan.secret is not Secret.LABEL:
            return (plan,)  # it alone was asked for
        given = plan.model_dump(exclude={"secret", "attribute"}) | {
            "other_labels": (),
            "policy_epsilon": None,
            "epsilon_public": None,
        }
        plans = [plan]
        try:
            if model.attribute is not None:
                plans.append(Plan(**given, secret=Secret.ATTRIBUTE, attribute=model.attribute))
            if model.membership:
                plans.append(Plan(**given | {"slices": (), "days": 1}, secret=Secret.MEMBERSHIP))
            if model.released_labels is not None:
                alone = {"slices": (), "days": 1, "privacy_unit": None, "sampling": None}
                plans.append(Plan(**given | alone, secret=Secret.RELEASED))
        except ValidationError as error:
            found = problems(error, Plan)
            raise SettingsError(f"The plan of {name} is not valid: {found[0]}.") from None
        return tuple(plans)

    def deadline_of(self, name: str, day: dt.date) -> dt.datetime:
        """Return when the audit of `day` must be there: on the day after, in the night's zone."""
        zone = zoneinfo.ZoneInfo(self.night.time_zone)
        after = day + dt.timedelta(days=1)
        time = self.model_named(name).deadline or self.night.deadline
        return dt.datetime.combine(after, time, tzinfo=zone)

    def yesterday(self, now: dt.datetime) -> dt.date:
        """Return the day before `now` (which knows its zone) in the night's zone."""
        return now.astimezone(zoneinfo.ZoneInfo(self.night.time_zone)).date() - dt.timedelta(days=1)


def settings_path(given: str | os.PathLike[str] | None) -> pathlib.Path:
    """Return the file to read: the given one, `PRIVAUDIT_CONFIG`, or the current folder's."""
    return pathlib.Path(given or os.environ.get(VARIABLE) or FILE)


def load_settings(given: str | os.PathLike[str] | None = None) -> Settings:
    """Return the settings; paths in the file are relative to the file's folder.

    Raises:
        SettingsError: there is no such file, it is not TOML, or a value breaks a rule.
    """
    path = settings_path(given)
    content = _content(path, named=bool(given or os.environ.get(VARIABLE)))
    try:
        settings = Settings(**content)
    except ValidationError as error:
        raise _invalid(path, error) from None
    except (pydantic_settings.SettingsError, RecursionError) as error:  # JSON nested too deep
        raise SettingsError(f"The environment's settings cannot be read: {error}.") from None
    names = [model.name for model in settings.models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError(f"{path} lists {', '.join(twice)} more than once: keep one entry each.")
    for model in settings.models:
        if model.drill is not None and (model.drill not in names or model.drill == model.name):
            raise SettingsError(
                f"{path} names {model.drill!r} as the drill of {model.name}, which is no other "
                "listed model: list the same learner without a mechanism as a model of its own."
            )
    folder = path.absolute().parent
    places = {
        name: absolute(folder, getattr(settings, name)) for name in ("lake", "warehouse", "report")
    }
    if local_path(places["report"]) is None:
        raise SettingsError(
            f"{path} is not valid at report: it is a folder of this machine; copy it to where "
            "people read it, and give that as report_url."
        )
    if settings.metrics is not None:
        metrics = local_path(absolute(folder, settings.metrics))
        if metrics is None:
            raise SettingsError(
                f"{path} is not valid at metrics: it is a file of this machine, which Prometheus' "
                "node exporter reads."
            )
        places["metrics"] = str(metrics)
    models = tuple(
        with_absolute_paths(model, folder, lake=places["lake"]) for model in settings.models
    )
    publication = settings.publication and _with_absolute_paths(settings.publication, folder)
    return settings.model_copy(update={**places, "models": models, "publication": publication})


def _content(path: pathlib.Path, *, named: bool) -> dict[str, Any]:
    """Return what the file says; `named` where a person chose it."""
    text = ""
    try:
        if not named:
            _check_owner(path)
        with open_plain(path) as file:
            text = file.read().decode("utf-8")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise SettingsError(
            f"There is no settings file {path}: run in a folder that has a {FILE}, write one with "
            f"privaudit init, or give --config or {VARIABLE}."
        ) from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        hint = " (a time of day is written with its seconds: deadline = 09:00:00)"
        slip = hint if _SHORT_TIME.search(text) else ""
        raise SettingsError(f"{path} is not valid TOML: {error}{slip}.") from None


def _check_owner(path: pathlib.Path) -> None:
    """Refuse another user's file that nobody named: who runs the command may not know of it.

    It would choose where labels, logins and alerts go. A link may be another's, too. Root is
    trusted, since mounts of containers are root's.
    """
    for found in (path.lstat(), path.stat()):
        if found.st_uid not in {0, os.geteuid()}:
            raise SettingsError(
                f"{path.absolute()} belongs to another user (number {found.st_uid}), who would "
                "decide what is read and where alerts go: if you trust it, name it with --config "
                f"or {VARIABLE}; otherwise run in a folder of your own."
            )


def _invalid(path: pathlib.Path, error: ValidationError) -> SettingsError:
    found = problems(error, Settings)
    more = f" (and {len(found) - 1} more: privaudit check lists them)" if found[1:] else ""
    stop = "" if found[0].endswith("?") and not more else "."
    return SettingsError(f"{path} is not valid at {found[0]}{more}{stop}", found)
