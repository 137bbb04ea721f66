"""Language models in ONNX: needs the extra `privaudit[onnx]`.

The model has one input, token ids of shape (1, tokens), and its first output is logits of shape
(1, tokens, vocabulary): row i speaks of the token after token i, as causal models are exported.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from privcore.exceptions import InvalidInputError, TerminalError


@dataclass(frozen=True, slots=True, eq=False)
class OnnxModel:
    """A loaded model."""

    session: Any
    begin: int

    def log_probabilities(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the model says of each token given those before it, (tokens, vocabulary).

        Raises:
            InvalidInputError: the model's answer has another shape.
        """
        given = np.concatenate([[self.begin], tokens[:-1]]).astype(np.int64)[np.newaxis]
        name = self.session.get_inputs()[0].name
        logits = np.asarray(self.session.run(None, {name: given})[0], dtype=np.float64)
        if logits.ndim != 3 or logits.shape[:2] != given.shape:
            rule = f"logits have the shape (1, {given.shape[1]}, vocabulary)"
            raise InvalidInputError("shape of the model's first output", logits.shape, rule)
        return np.asarray(log_softmax(logits[0], axis=1))


@functools.lru_cache(maxsize=4)
def load_onnx(content: bytes, begin: int) -> OnnxModel:
    """Return the model of a file, once for each process, on one thread.

    Raises:
        TerminalError: onnxruntime is not installed.
        InvalidInputError: onnxruntime cannot load the file.
    """
    try:
        import onnxruntime  # noqa: PLC0415  # an extra
    except ImportError:
        raise TerminalError(
            "ONNX models need onnxruntime: install privaudit[onnx] on every node."
        ) from None
    onnxruntime.disable_telemetry_events()  # nothing leaves the machine unasked
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  # onnxruntime has a dozen, all for a bad file
        reason = str(error).partition("\n")[0]
        raise InvalidInputError("model", "an ONNX file", f"it cannot be loaded: {reason}") from None
    return OnnxModel(session, begin)
