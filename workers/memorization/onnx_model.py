"""Language models in ONNX: needs the extra `privaudit[onnx]`.

The model has one input, token ids of shape (1, tokens), and its first output is logits of shape
(1, tokens, vocabulary): row i speaks of the token after token i, as causal models are exported.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from scipy.special import log_softmax

from privcore.exceptions import InvalidInputError
from workers.lake.formats.onnx_session import check_graphs, open_session
from workers.memorization.language_models import answering

_TRIED_TOKENS = 16
_LOGITS = {"tensor(float)", "tensor(double)", "tensor(float16)"}


@dataclass(frozen=True, slots=True, eq=False)
class OnnxModel:
    """A loaded model; begin: the token that stands before a sequence."""

    session: Any
    begin: int

    def log_probabilities(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the model says of each token given those before it, (tokens, vocabulary).

        Raises:
            InvalidInputError: the model's answer has another shape, or it cannot score the
                sequence.
        """
        given = np.concatenate([[self.begin], tokens[:-1]]).astype(np.int64)[np.newaxis]
        logits = np.asarray(self._run(given), dtype=np.float64)
        if logits.ndim != 3 or logits.shape[:2] != given.shape:
            raise _refused(
                f"its first output has the shape {logits.shape}, and logits have the shape "
                f"(1, {given.shape[1]}, vocabulary)"
            )
        return np.asarray(log_softmax(logits[0], axis=1))

    def _run(self, given: NDArray[np.int64]) -> Any:
        name, wanted = self.session.get_inputs()[0].name, self.session.get_outputs()[0].name
        options = onnxruntime.RunOptions()
        options.log_severity_level = 4
        try:
            return self.session.run([wanted], {name: given}, options)[0]
        except Exception as error:  # noqa: BLE001  # onnxruntime has a dozen, for all that goes wrong
            raise _refused(f"it cannot score a sequence: {_first_line(error)}") from None


def load_onnx(content: bytes, begin: int) -> OnnxModel:
    """Return the model of a file.

    Audited models are refused for the same: files beside it, loops, operators of chance or of its
    own.

    Raises:
        ModelRefusedError: it has one of these.
        InvalidInputError: onnxruntime cannot load the file, or it takes more than token ids.
    """
    check_graphs(content)
    try:
        session = open_session(content)
    except Exception as error:  # noqa: BLE001  # onnxruntime has a dozen, all for a bad file
        raise _refused(f"it cannot be loaded: {_first_line(error)}") from None
    given, answered = session.get_inputs(), session.get_outputs()
    if [each.type for each in given] != ["tensor(int64)"] or answered[0].type not in _LOGITS:
        raise _refused(
            "it takes more than token ids or answers no logits: export it with one input of 64-bit "
            "integers, and its logits as the first output"
        )
    return OnnxModel(session, begin)


def _refused(why: str) -> InvalidInputError:
    return InvalidInputError("model", "an ONNX file", why)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


answer = answering(load_onnx, tried=_TRIED_TOKENS)
"""What the child of such a model answers."""
