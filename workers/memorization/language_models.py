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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from workers.contained import Contained, ContainedError
from workers.contained_child import WithBytes
from workers.lake import limits
from workers.lake.formats import check_installed
from workers.lake.formats.contract import ModelRefusedError
from workers.lake.layout import read_named
from workers.lake.model_sandbox import Holding, why_unread

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
            read = json.loads(content)
            counts, order = Counter(read["counts"]), read["order"]
            known = read["format"] == FORMAT and all(
                0 < len(run) <= order and 0 < count <= _MOST and ord(run[-1]) <= END
                for run, count in counts.items()
            )
        except (ValueError, LookupError, TypeError, RecursionError):
            known = False
        if not (known and counts):
            rule = f"it is a file of the format {FORMAT}, as `privaudit memorization fit` writes it"
            raise InvalidInputError("model", "another file", rule)
        return cls(order, counts)


def _check_runs(counts: Counter[str]) -> None:
    if len(counts) > _MOST_RUNS:
        rule = f"a model holds at most {_MOST_RUNS:,}: count less text, or a lower order"
        raise InvalidInputError("different runs of characters", len(counts), rule)


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
        followers = {}
        for context, pairs in found.items():
            tokens, times = zip(*pairs, strict=True)
            followers[context] = np.array(tokens), np.array(times, dtype=np.float64)
        return cls(counts.order, followers)

    def log_probabilities(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the model says of each token given those before it, (tokens, vocabulary)."""
        text = _BEGIN * (self.order - 1) + "".join(map(chr, tokens))
        rows = np.empty((len(tokens), VOCABULARY))
        for place in range(len(tokens)):
            rows[place] = self._next(text[place : place + self.order - 1])
        return np.log(rows)

    def _next(self, context: str) -> NDArray[np.float64]:
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


_MOST_BYTES = 2 << 30  # ONNX has no larger files
_SECONDS, _SECONDS_FOR_A_TOKEN = 10.0, 0.25
"""Time that a sequence may take: so long, and so long for each of its tokens."""


class LanguageModel(Protocol):
    """An autoregressive model of token sequences."""

    def log_probabilities(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log-probabilities, shape (tokens, vocabulary).

        Row i is of token i, given those before it; its probabilities sum to 1.
        """


def answering(
    load: Callable[[bytes, int], LanguageModel], tried: int
) -> Callable[..., WithBytes | dict[str, str] | None]:
    """Return what a child answers about the language models that it holds, which have numbers.

    `load` reads a file, given the token that stands before a sequence; `describe` also tries it on
    so many tokens; `score` gives log-probabilities, as bytes. A refusal is an answer.
    """
    held: dict[int, LanguageModel] = {}

    def answer(
        content: bytes, *, verb: str, number: int, begin: int, tokens: Sequence[int] = ()
    ) -> WithBytes | dict[str, str] | None:
        try:
            if verb != "score":
                held[number] = load(content, begin)
                tokens = [begin] * (tried if verb == "describe" else 0)
            found = held[number].log_probabilities(np.array(tokens, dtype=np.int64))
            return WithBytes(found.shape, found.tobytes()) if verb == "score" else None
        except InvalidInputError as error:
            return {"refused": error.rule}
        except ModelRefusedError as error:
            return {"refused": f"it {error.why}"}

    return answer


answer = answering(lambda content, _: NgramModel.of(NgramCounts.from_json(content)), tried=0)
"""What the child of an n-gram model answers."""


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

    def check(self) -> None:
        """Read the file, and try it.

        Raises:
            InvalidInputError: it is damaged or unsafe, of no known format, or it takes too long or
                too much memory.
        """
        self._ask({"verb": "describe"})
        _holding(self).let_go()

    def log_probabilities(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the model says of each token given those before it, (tokens, vocabulary).

        Raises:
            InvalidInputError: as `check`; or its answer has another shape, or it cannot score the
                sequence.
        """
        seconds = int(_SECONDS + _SECONDS_FOR_A_TOKEN * len(tokens))
        found = self._ask({"verb": "score", "tokens": tokens.tolist()}, seconds=seconds)
        try:
            return np.frombuffer(found.content).reshape(len(tokens), -1)
        except (AttributeError, ValueError):
            rule = f"it gives no answer for each of {len(tokens)} tokens"
            raise InvalidInputError("model", self.name, rule) from None

    def _ask(self, about: dict[str, Any], **bounds: int) -> Any:
        """Return what the child that holds the file answers: its reader may crash or never end."""
        holding = _holding(self)
        try:
            found = holding.ask(self.content, about | {"begin": self.begin}, **bounds)
        except ContainedError as error:
            read = f"it {why_unread(error, holding.name)}"
            scored = f"it cannot score a sequence: its reader {error.why}"
            rule = read if about["verb"] == "describe" else scored
            raise InvalidInputError("model", self.name, rule) from None
        if isinstance(found, dict):
            rule = str(found.get("refused"))[: limits.REASON_CHARACTERS]
            raise InvalidInputError("model", self.name, rule)
        return found


@functools.lru_cache(maxsize=4)
def _holding(file: ModelFile) -> Holding:
    """Return what holds a model's file, once for each process."""
    if file.name.endswith(".json"):
        return Holding("n-gram", _contained(__name__))
    if file.name.endswith(".onnx"):
        check_installed("onnx")
        return Holding("ONNX", _contained("workers.memorization.onnx_model"))
    rule = "a model's name ends with .json (n-gram) or .onnx"
    raise InvalidInputError("model", file.name, rule)


@functools.cache
def _contained(module: str) -> Contained:
    """Return the process whose children read a kind of file, and score with it."""
    memory = limits.MODEL_MEMORY_BYTES
    return Contained(f"{module}:answer", seconds=limits.MODEL_SECONDS, memory=memory, fork=True)


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
