"""Language models as files: what each says of the next token."""

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from workers.lake.formats import check_installed
from workers.lake.layout import read_named
from workers.memorization.ngram import VOCABULARY, check_ngram, load_ngram

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

    @property
    def vocabulary(self) -> int | None:
        """Number of tokens; None where the format does not say so."""
        return VOCABULARY if self.name.endswith(".json") else None

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
