"""Description of a checkpoint by itself: `manifest.json`, read strictly."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from workers.exceptions import NotEvaluableError, Reason
from workers.strict_model import StrictModel

SCHEMA_VERSION = 1
POLICY = "policy"
MAX_EPSILON = "--max-epsilon"
NO_OWNERS = {POLICY, MAX_EPSILON}
"""Values of a record's `declared_by` that stand for the house's limit, and for a command's."""
_TRUTH = {"true": "1", "false": "0"}
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.0+)?")
_DIGITS = re.compile(r"-?[0-9]{1,100}")
LARGEST_EPSILON = 1e6
"""A guarantee of more protects nothing, and its arithmetic leaves what numbers can hold."""
LEAST_DELTA = 1e-100
"""A delta below it that is not 0 is no promise of anybody's, and its arithmetic does the same."""

Text = Annotated[
    str,
    # No control characters and no reordering of text: a terminal or a page would obey them.
    Field(max_length=1_000, pattern=r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$"),
]
Name = Annotated[Text, Field(min_length=1)]


def _without_fraction(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Label = Annotated[bool | int | Text, BeforeValidator(_without_fraction)]


_CODE = {
    "cloudpickle", "joblib", "keras", "mlflow", "pickle", "pkl", "pt", "pyfunc", "pytorch",
    "sklearn", "skops", "tensorflow", "torch", "torchscript",
}  # fmt: skip
"""Formats that models are often saved in and that may hold code, or need it to be read."""


def _safe_format(value: Any) -> Any:
    if isinstance(value, str) and value.lower() in _CODE:
        raise ValueError(
            f"{value} is refused, since reading it may run code: save the model as catboost, "
            "xgboost, lightgbm or onnx, or give its probabilities as a table ([models.scores])"
        )
    return value


FormatName = Annotated[
    Literal["catboost", "xgboost", "lightgbm", "onnx"], BeforeValidator(_safe_format)
]
"""A format that is read; others are refused with the way out."""


class DeclaredMechanism(StrictModel):
    """The mechanism that made the labels, or the training, private."""

    name: Name
    parameters: dict[str, Any] = Field(default_factory=dict)


OF_LABELS = {"randomized_response", "randomized_response_with_prior", "laplace_one_hot"}
"""Mechanisms that change labels one by one: what they make can be put in the labels' place."""


class PrivatisedBy(StrictModel):
    """The mechanism that had made the labels private before they came into the lake."""

    privatised_by: DeclaredMechanism

    @model_validator(mode="after")
    def _changes_labels(self) -> "PrivatisedBy":
        if self.privatised_by.name not in OF_LABELS:
            raise ValueError(
                f"{self.privatised_by.name} changes no labels before training: write secret here, "
                "and name it as the declaration's mechanism"
            )
        return self


LabelState = Literal["secret"] | PrivatisedBy | None


def class_word(value: object) -> str:
    """Return the one word of a class, as a column, a model or settings have it.

    The same class are 1, 1.0, true and the texts of these; of other text, each is its own.
    """
    word = str(value)
    if word.lower() in _TRUTH:
        return _TRUTH[word.lower()]
    return str(int(word.partition(".")[0])) if _WHOLE.fullmatch(word) else word


def looked_up(classes: Iterable[object]) -> list[str]:
    """Return the words of classes, with which those of a column's values are compared."""
    return [class_word(one) for one in classes]


def named_twice(classes: Iterable[object]) -> list[str]:
    """Return what several classes share: a label would be of one of them, or another.

    Numbers that differ in their spelling alone, like 01 and 1, are told apart by no column.
    """
    numbers = (str(int(word)) if _DIGITS.fullmatch(word) else word for word in looked_up(classes))
    return [word for word, times in Counter(numbers).items() if times > 1]


class LabelColumn(StrictModel):
    """The label's column and its classes, in the order of the model's probabilities.

    `state` says whether the column holds the labels that are to stay secret, or what a mechanism
    has made of them; null where nobody says, which is read as secret.
    """

    column: Name
    classes: tuple[Label, ...] = Field(min_length=2)
    state: LabelState = None

    @model_validator(mode="after")
    def _told_apart(self) -> "LabelColumn":
        if twice := named_twice(self.classes):
            raise ValueError(
                f"several classes are {twice[0]!r} in a column (true is 1, as are 1.0 and 01): "
                "write each class once"
            )
        return self

    @property
    def privatised_by(self) -> DeclaredMechanism | None:
        """The mechanism that made the column's labels; None where they are the secret ones."""
        return self.state.privatised_by if isinstance(self.state, PrivatisedBy) else None

    @property
    def words(self) -> tuple[str, ...]:
        """The classes' words (`class_word`)."""
        return tuple(looked_up(self.classes))


class Feature(StrictModel):
    """One input of the model; a missing categorical value is scored as an empty string."""

    name: Name
    kind: Literal["numeric", "categorical"]


class TrainedOn(StrictModel):
    """The labels that training saw."""

    first: dt.date
    last: dt.date
    split: Literal["train"]

    @model_validator(mode="after")
    def _ordered(self) -> "TrainedOn":
        if self.first > self.last:
            raise ValueError(f"first {self.first} is after last {self.last}")
        return self


class OutputCorrection(StrictModel):
    """A step that changes the model's probabilities before they are served: part of the model.

    It must be public: post-processing, which depends on no label. `noise_correction` multiplies by
    the inverse of randomized response's flip matrix at `epsilon`, and clips at `floor`.
    """

    name: Literal["noise_correction"]
    epsilon: Annotated[float, Field(gt=0.0, le=LARGEST_EPSILON, allow_inf_nan=False)]
    floor: Annotated[float, Field(ge=0.0, lt=0.5)]


def _of_the_calendar(moment: dt.datetime) -> dt.datetime:
    """Refuse a moment that has no UTC: a record keeps moments in UTC."""
    try:
        moment.astimezone(dt.UTC)
    except OverflowError:
        raise ValueError(
            f"{moment} is before the year 1 or after 9999 in UTC: write a time in between"
        ) from None
    return moment


Moment = Annotated[dt.datetime, AfterValidator(_of_the_calendar)]


def check_simulated(definition: str, neighbors: str) -> None:
    """Raise `ValueError` where a guarantee is for simulating something else than labels.

    The simulator of an audit imputes a label ("Observational Auditing of Privacy", Definition 2).
    """
    if neighbors == "simulate" and definition != "label_dp":
        raise ValueError(f"simulate is for labels: definition is {definition}, write label_dp")


def _computable(delta: float) -> float:
    if 0.0 < delta < LEAST_DELTA:
        raise ValueError(f"delta {delta:g} is above 0 and below {LEAST_DELTA:g}: write 0")
    return delta


Delta = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False), AfterValidator(_computable)]


class Privacy(StrictModel):
    """The declared guarantee."""

    definition: Literal["label_dp", "dp", "idp", "group_idp", "bdp"]
    neighbors: Literal["replace", "add_remove", "simulate"]
    unit: Name
    epsilon: Annotated[float, Field(ge=0.0, le=LARGEST_EPSILON, allow_inf_nan=False)]
    delta: Delta
    mechanism: DeclaredMechanism | None
    declared_by: Name
    declared_at: Moment | None

    @model_validator(mode="after")
    def _simulates_labels_alone(self) -> "Privacy":
        check_simulated(self.definition, self.neighbors)
        return self


class Manifest(StrictModel):
    """The whole manifest; a missing declaration is null, never infinity and never zero."""

    schema_version: Literal[1]
    model: str
    day: dt.date
    format: FormatName
    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    dataset: str
    label: LabelColumn
    features: tuple[Feature, ...] = Field(min_length=1)
    trained_on: TrainedOn
    # May be missing: manifests from before it have none.
    output_correction: OutputCorrection | None = None
    privacy: Privacy | None

    @model_validator(mode="after")
    def _says_each_once(self) -> "Manifest":
        names = [feature.name for feature in self.features]
        if twice := [name for name, times in Counter(names).items() if times > 1]:
            raise ValueError(f"features names {twice[0]!r} twice: write each feature once")
        return self


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of manifests, as editors and other languages' tools read it."""
    schema = Manifest.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def guarantee_of(privacy: Privacy | None) -> Privacy | None:
    """Return a declaration; None where there is none, or none of a definition that protects.

    Individual, group individual and bootstrap differential privacy let all records be read at any
    epsilon ("Reconstruction Attacks on Aggressive Relaxations of Differential Privacy").
    """
    return privacy if privacy and privacy.definition in {"label_dp", "dp"} else None


def parse_manifest(text: bytes, *, where: str) -> Manifest:
    """Return the manifest in `text`.

    Raises:
        NotEvaluableError: `manifest_invalid`, naming `where` and the first field that is missing,
            unknown or wrong; an unknown schema version comes before all else. It is wrong, too,
            where no owner declares.
    """
    try:
        manifest = Manifest.model_validate_json(text, strict=True)
    except ValidationError as error:
        problems = error.errors()
        first = next((p for p in problems if p["loc"] == ("schema_version",)), problems[0])
        raise NotEvaluableError(Reason.MANIFEST_INVALID, _sentence(where, first)) from None
    if manifest.privacy is not None and manifest.privacy.declared_by in NO_OWNERS:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The manifest {where} has declared_by {manifest.privacy.declared_by!r}, which records "
            "write where no owner declares: write who declares.",
        )
    return manifest


def _sentence(where: str, problem: Any) -> str:
    field = ".".join(str(part) for part in problem["loc"]) or "the document"
    if field == "schema_version" and problem["type"] != "missing":
        return (
            f"The manifest {where} has schema_version {problem['input']!r}, but this privaudit "
            f"reads version {SCHEMA_VERSION}: write that version, or upgrade."
        )
    if problem["type"] == "missing":
        return f"The manifest {where} has no field {field}: add it."
    said = problem["msg"].removeprefix("Value error, ")
    return f"The manifest {where} is not valid at {field}: {said}."
