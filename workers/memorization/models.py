"""Language models as files: what each says of the next token."""

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pyarrow import fs

from privcore.exceptions import InvalidInputError
from workers.lake.formats import check_installed
from workers.lake.layout import open_filesystem
from workers.lake.retries import patiently
from workers.memorization.ngram import VOCABULARY, load_ngram

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
        """Read the file once: of formats whose reader it may crash, in a process of its own.

        Raises:
            InvalidInputError: the file is damaged or unsafe, or of no known format.
        """
        if not self.name.endswith(".onnx"):
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
    folder, _, name = uri.rpartition("/")
    files = open_filesystem(folder or ("/" if uri.startswith("/") else "."))
    try:
        found = files.get_file_info(name)
        if found.type == fs.FileType.Unknown:
            raise InvalidInputError("model", name, "it is a file, and no pipe or device")
        if (found.size or 0) > _MOST_BYTES:
            raise InvalidInputError("model", name, "a model has at most 2 GiB")
        content = patiently(lambda: files.open_input_file(name).read(), name)
    except OSError as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInputError("model", name, f"it cannot be read: {reason}") from None
    model = ModelFile(name, content, begin)
    model.check()
    return model
