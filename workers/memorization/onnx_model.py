"""Language models in ONNX: needs the extra `privaudit[onnx]`.

The model has one input, token ids of shape (1, tokens), and its first output is logits of shape
(1, tokens, vocabulary): row i speaks of the token after token i, as causal models are exported.
"""

import functools
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from scipy.special import log_softmax

from privcore.exceptions import InvalidInputError
from workers.contained import Contained, ContainedError
from workers.lake import limits
from workers.lake.formats.contract import ModelRefusedError
from workers.lake.formats.onnx_session import check_graphs, most_memory, open_session
from workers.lake.model_sandbox import why_unread
from workers.memory import at_most_more

_SECONDS, _SECONDS_FOR_A_TOKEN = 10.0, 0.25
"""Time that a sequence may take: so long, and so long for each of its tokens."""
_TRIED_TOKENS = 16
_LOGITS = {"tensor(float)", "tensor(double)", "tensor(float16)"}


@dataclass(frozen=True, slots=True, eq=False)
class OnnxModel:
    """A loaded model."""

    session: Any
    begin: int

    def log_probabilities(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the model says of each token given those before it, (tokens, vocabulary).

        Raises:
            InvalidInputError: the model's answer has another shape, or the model takes too long or
                cannot score the sequence.
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
        """Return the model's first output, within bounds on time and memory."""
        name, wanted = self.session.get_inputs()[0].name, self.session.get_outputs()[0].name
        seconds = _SECONDS + _SECONDS_FOR_A_TOKEN * given.size
        options = onnxruntime.RunOptions()
        options.log_severity_level = 4
        timer = threading.Timer(seconds, setattr, (options, "terminate", True))
        timer.start()
        try:
            with at_most_more(most_memory()):
                return self.session.run([wanted], {name: given}, options)[0]
        except Exception as error:  # noqa: BLE001  # onnxruntime has a dozen, for all that goes wrong
            if options.terminate:
                why = (
                    f"it takes over {seconds:g} seconds for {given.size} tokens: give a smaller one"
                )
                raise _refused(why) from None
            raise _refused(f"it cannot score a sequence: {_first_line(error)}") from None
        finally:
            timer.cancel()


@functools.lru_cache(maxsize=4)
def load_onnx(content: bytes, begin: int) -> OnnxModel:
    """Return the model of a file that `check_onnx` was content with, once for each process.

    Raises:
        InvalidInputError: onnxruntime cannot load the file, or it takes more than token ids.
    """
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


def why_refused(content: bytes, begin: int) -> str | None:
    """Return why a file is refused, or None; it is read and tried where nothing can be lost.

    Audited models are refused for the same: files beside it, loops, operators of chance or of its
    own, and a reader that crashes, or takes too long or too much memory.
    """
    try:
        refused: str | None = _contained(content, begin=begin)
    except ContainedError as error:
        return f"it {why_unread(error, 'ONNX')}"
    return refused


def describe(content: bytes, begin: int) -> str | None:
    """Return why a file is refused, or None; runs in the contained process."""
    try:
        check_graphs(content)
        load_onnx(content, begin).log_probabilities(np.full(_TRIED_TOKENS, begin))
    except ModelRefusedError as error:
        return f"it {error.why}"
    except InvalidInputError as error:
        return error.rule
    return None


def _refused(why: str) -> InvalidInputError:
    return InvalidInputError("model", "an ONNX file", why)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


_contained = Contained(
    f"{__name__}:{describe.__name__}",
    seconds=limits.MODEL_SECONDS,
    memory=limits.MODEL_MEMORY_BYTES,
    fork=True,
)
