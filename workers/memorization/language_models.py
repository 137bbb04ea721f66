"""Language models as files: what each says of the next token.

The n-gram model is counted and written as JSON. Characters are the bytes of
UTF-8 text, and one more that ends a sequence. Counts are smoothed by Witten and Bell's rule: what
a context was followed by, and, in proportion to how many different characters that were, what the
next shorter context was followed by, down to a uniform character.
"""

import functools
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from workers.contained import Contained, ContainedError
from workers.lake import limits
from workers.lake.formats import check_installed
from workers.lake.layout import read_named

FORMAT = "privaudit-ngram-1"
END = 256
VOCABULARY = 257
_BEGIN = chr(257)
_AT_ONCE, _MOST_RUNS = 1 << 20, 1 << 25  # of 135 bytes each; a file of more is not read
_LONGEST, _MOST = 12, 2**53  # counts beyond are no floating-point numbers


@dataclass(frozen=True, slots=True)
class NgramCounts:
    """Counts of each character after each context.

    Attributes:
        order: n, the length of the longest counted runs of characters; 1 to 12.
        counts: run -> how often; a character is its byte's code point, the end's is 256, and what
            comes before a sequence is 257.
    """

    order: int
    counts: Counter[str]

    def __post_init__(self) -> None:
        if not 1 <= self.order <= _LONGEST:
            raise InvalidInputError("order", self.order, f"it lies in 1 to {_LONGEST}")

    @classmethod
    def of(cls, sequences: Iterable[NDArray[np.int64]], order: int) -> "NgramCounts":
        """Return the counts of tokenised sequences; each is counted with its end.

        Raises:
            InvalidInputError: a token is no byte and no end, or there are too many different runs.
        """
        counts: Counter[str] = Counter()
        for tokens in sequences:
            if (largest := int(tokens.max(initial=0))) > END:
                raise InvalidInputError("tokens", largest, f"they lie in 0 to {END}")
            text = _BEGIN * (order - 1) + "".join(map(chr, tokens))
            for length in range(1, order + 1):
                first = order - length  # no run ends before the first character
                for start in range(first, len(text) - length + 1, _AT_ONCE):
                    stop = min(start + _AT_ONCE, len(text) - length + 1)
                    counts.update(text[at : at + length] for at in range(start, stop))
                    _check_runs(counts)
        return cls(order, counts)

    def to_json(self) -> bytes:
        """Return the model as a file."""
        content = {
            "format": FORMAT,
            "order": self.order,
            "counts": dict(sorted(self.counts.items())),
        }
        return json.dumps(content).encode()

    @classmethod
    def from_json(cls, content: bytes) -> "NgramCounts":
        """Read the model from a file.

        Raises:
            InvalidInputError: the file is another, or damaged.
        """
        try:
            read = json.loads(content, object_pairs_hook=_said_once)
            # Other fields would be held in memory by each process that loads the model.
            given = read.keys() == {"format", "order", "counts"} and read["format"] == FORMAT
            counts, order = Counter(read["counts"]), read["order"]
            known = type(order) is int and all(
                0 < len(run) <= order
                and type(count) is int
                and 0 < count <= _MOST
                and ord(run[-1]) <= END
                and max(map(ord, run)) <= VOCABULARY
                for run, count in counts.items()
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            given = known = False
        if not (given and counts and known):
            rule = f"it is a file of the format {FORMAT}, as `privaudit memorization fit` writes it"
            raise InvalidInputError("model", "another file", rule)
        return cls(order, counts)


def _check_runs(counts: Counter[str]) -> None:
    if len(counts) > _MOST_RUNS:
        rule = f"a model holds at most {_MOST_RUNS:,}: count less text, or a lower order"
        raise InvalidInputError("different runs of characters", len(counts), rule)


def _said_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field is said twice")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class NgramModel:
    """The model that counts make."""

    order: int
    followers: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]

    @classmethod
    def of(cls, counts: NgramCounts) -> "NgramModel":
        """Return the model of some counts."""
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for run, count in counts.counts.items():
            found[run[:-1]].append((ord(run[-1]), count))
        followers = {
            context: (
                np.array([token for token, _ in pairs]),
                np.array([count for _, count in pairs], dtype=np.float64),
            )
            for context, pairs in found.items()
        }
        return cls(counts.order, followers)

    def log_probabilities(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the model says of each token given those before it, (tokens, vocabulary)."""
        text = _BEGIN * (self.order - 1) + "".join(map(chr, tokens))
        rows = np.empty((len(tokens), VOCABULARY))
        for place in range(len(tokens)):
            rows[place] = self._next(text[place : place + self.order - 1])
        return np.log(rows)

    def _next(self, context: str) -> NDArray[np.float64]:
        """Probabilities of the next token; every token has some."""
        chances = np.full(VOCABULARY, 1.0 / VOCABULARY)
        for length in range(len(context) + 1):
            seen = self.followers.get(context[len(context) - length :])
            if seen is None:
                break  # a longer context was not seen either
            tokens, counts = seen
            kinds, total = len(tokens), counts.sum()
            chances *= kinds / (total + kinds)
            chances[tokens] += counts / (total + kinds)
        return chances


def check_ngram(content: bytes) -> None:
    """Read a file in a contained process: 60 MB of nested lists take 1.6 GB.

    Raises:
        InvalidInputError: the file is another, damaged, or takes too long or too much memory.
    """
    try:
        refused: str | None = _contained(content)
    except ContainedError as error:
        refused = f"its reader {error.why}: give a smaller one"
    if refused is not None:
        raise InvalidInputError("model", "another file", refused)


def why_refused(content: bytes) -> str | None:
    """Return why a file is refused, or None; runs in the contained process."""
    try:
        NgramCounts.from_json(content)
    except InvalidInputError as error:
        return error.rule
    return None


_contained = Contained(
    f"{__name__}:{why_refused.__name__}",
    seconds=limits.MODEL_SECONDS,
    memory=limits.MODEL_MEMORY_BYTES,
    fork=True,
)


@functools.lru_cache(maxsize=4)
def load_ngram(content: bytes) -> NgramModel:
    """Return the model of a file, once for each process."""
    return NgramModel.of(NgramCounts.from_json(content))


_MOST_BYTES = 2 << 30  # ONNX has no larger files


class LanguageModel(Protocol):
    """An autoregressive model of token sequences."""

    def log_probabilities(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log-probabilities, shape (tokens, vocabulary).

        Row i is of token i, given those before it; its probabilities sum to 1.
        """


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model's file, read once by the driver and carried to the workers."""

    name: str
    content: bytes
    begin: int = 0

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return hashlib.sha256(self.content).hexdigest()

    def load(self) -> LanguageModel:
        """Return the model; each process loads a file once.

        Raises:
            InvalidInputError: the file is damaged, or of no known format.
        """
        if self.name.endswith(".json"):
            return load_ngram(self.content)
        if self.name.endswith(".onnx"):
            check_installed("onnx")
            from workers.memorization.onnx_model import load_onnx  # noqa: PLC0415  # an extra

            return load_onnx(self.content, self.begin)
        rule = "a model's name ends with .json (n-gram) or .onnx"
        raise InvalidInputError("model", self.name, rule)

    def check(self) -> None:
        """Read the file once, in a process of its own: it may crash its reader or take all memory.

        Raises:
            InvalidInputError: the file is damaged or unsafe, or of no known format.
        """
        if not self.name.endswith(".onnx"):
            if self.name.endswith(".json"):
                check_ngram(self.content)
            self.load()
            return
        check_installed("onnx")
        from workers.memorization.onnx_model import why_refused  # noqa: PLC0415  # an extra

        if refused := why_refused(self.content, self.begin):
            raise InvalidInputError("model", self.name, refused)


def read_model(uri: str, *, begin: int = 0) -> ModelFile:
    """Return a model's file from a path or URI.

    Raises:
        InvalidInputError: there is no such file, it is too large, damaged, or of no known format.
    """
    name = uri.rpartition("/")[2]
    try:
        content = read_named(uri, at_most=_MOST_BYTES)
    except OSError as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInputError("model", name, f"it cannot be read: {reason}") from None
    model = ModelFile(name, content, begin)
    model.check()
    return model
