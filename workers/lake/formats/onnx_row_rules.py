"""For each ONNX operator that keeps rows apart: on which axis its answer has them, and when.

A rule raises `NotShownError` where rows meet.
"""

from onnx import TensorProto

from workers.lake.formats.onnx_shape_rules import MOVING, PICKING
from workers.lake.formats.onnx_traced import (
    ROWS,
    NotShownError,
    Rule,
    Shape,
    Traced,
    TracedNode,
    axis_of,
    from_first,
    has_rows,
    together,
    without,
)


def rule_of(domain: str, operator: str) -> Rule | None:
    """Return the rule of an operator, or None."""
    return (_OF_LEARNERS if domain == "ai.onnx.ml" else _RULES).get(operator)


def _alike(step: TracedNode) -> list[Traced]:
    """Each number from the numbers at its place."""
    return [Traced(together(*step.shapes()))]


def _same(step: TracedNode) -> list[Traced]:
    given = step.inputs[0]
    return [] if given is None else [given]


def _cast(step: TracedNode) -> list[Traced]:
    """Numbers are kept by as wide whole numbers alone."""
    given = step.inputs[0]
    if given is not None and step.attributes["to"] == TensorProto.INT64:
        return [given]
    return [Traced(step.shape(0))]


def _beyond(step: TracedNode, default: int = 1) -> list[Traced]:
    """All that lies on the axes from `axis` on, in the standard's older reading, is looked at."""
    shape = step.shape(0)
    if axis_of(shape) >= step.axis(default, len(shape)):
        raise NotShownError
    together(shape, *step.shapes()[1:])
    return [Traced(shape)]


def _last(step: TracedNode) -> list[Traced]:
    return _beyond(step, -1)


def _reduced(step: TracedNode) -> list[Traced]:
    shape = step.shape(0)
    axes = step.numbers("axes", 1)
    if not axes:
        if step.attributes.get("noop_with_empty_axes"):
            return [Traced(shape)]
        axes = tuple(range(len(shape)))
    return [Traced(without(shape, axes, kept=step.attributes.get("keepdims", 1)))]


def _place_of_most(step: TracedNode) -> list[Traced]:
    shape = step.shape(0)
    axes = (step.attributes.get("axis", 0),)
    return [Traced(without(shape, axes, kept=step.attributes.get("keepdims", 1)))]


def _matmul(step: TracedNode) -> list[Traced]:
    return [Traced(_multiplied(step.shape(0), step.shape(1)))]


def _multiplied(left: Shape, right: Shape) -> Shape:
    wide_left, wide_right = (left if len(left) > 1 else (1, *left)), right
    if len(right) == 1:
        wide_right = (*right, 1)
    if has_rows((wide_left[-1], wide_right[-2])):
        raise NotShownError
    found = together(wide_left[:-2], wide_right[:-2]) if len(wide_left + wide_right) > 4 else ()
    first = (wide_left[-2],) if len(left) > 1 else ()
    return (*found, *first, *((wide_right[-1],) if len(right) > 1 else ()))


def _gemm(step: TracedNode) -> list[Traced]:
    left, right = step.shape(0), step.shape(1)
    left = left[::-1] if step.attributes.get("transA") else left
    right = right[::-1] if step.attributes.get("transB") else right
    more = [step.shape(2)] if step.has(2) else []
    return [Traced(together(_multiplied(left, right), *more))]


def _one_hot(step: TracedNode) -> list[Traced]:
    shape = step.shape(0)
    step.constant(1, 2)
    axis = step.axis(-1, len(shape) + 1)
    return [Traced((*shape[:axis], None, *shape[axis:]))]


def _highest(step: TracedNode) -> list[Traced]:
    shape = step.shape(0)
    step.constant(1)
    axis = step.axis(-1, len(shape))
    if axis_of(shape) == axis:
        raise NotShownError
    many = step.entries(1)[0] if step.has(1) else step.attributes["k"]
    return [Traced((*shape[:axis], many, *shape[axis + 1 :]))] * 2


def _summed_up(step: TracedNode) -> list[Traced]:
    shape, axis = step.shape(0), step.entries(1)
    if len(axis) != 1 or not isinstance(axis[0], int):
        raise NotShownError
    if from_first(axis[0], len(shape)) == axis_of(shape):
        raise NotShownError
    return [Traced(shape)]


def _images(step: TracedNode) -> list[Traced]:
    """Each of many images, which lie on the first axis, by constant weights."""
    shape = step.shape(0)
    step.constant(*range(1, len(step.inputs)))
    if axis_of(shape) != 0 or len(shape) < 2 or step.attributes.get("training_mode"):
        raise NotShownError
    kept = shape[1:] if step.operator.endswith("Normalization") else (None,) * (len(shape) - 1)
    return [Traced((shape[0], *kept))]


def _matrices(step: TracedNode) -> None:
    """Raise unless all inputs are matrices of which each line is a row."""
    if any(len(each) != 2 or each[0] != ROWS for each in step.shapes()):
        raise NotShownError


def _scored(step: TracedNode) -> list[Traced]:
    _matrices(step)
    return [Traced((ROWS, None))]


def _labelled(step: TracedNode) -> list[Traced]:
    """Return labels and scores, of as many classes as onnxruntime gives them."""
    _matrices(step)
    labels = max(len(step.attributes.get(each, ())) for each in _LABELS)
    classes = labels if step.operator == "TreeEnsembleClassifier" else None
    if step.operator == "LinearClassifier":
        classes = len(step.attributes.get("intercepts", ()))
        classes = labels if (classes, labels) == (1, 2) else classes
    return [Traced((ROWS,)), Traced((ROWS, classes if classes and classes > 1 else None))]


def _kept(step: TracedNode) -> list[Traced]:
    _matrices(step)
    return [Traced(step.shape(0))]


def _words(step: TracedNode) -> list[Traced]:
    """One of each of the file's words, or numbers, beside the others."""
    lists = [step.attributes[each] for each in _WORDS if each in step.attributes]
    return [Traced((*step.shape(0), len(lists[0]) if len(lists) == 1 else None))]


_WORDS = "cats_int64s", "cats_strings"
_LABELS = "classlabels_int64s", "classlabels_ints", "classlabels_strings"
_ALIKE = """Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr
BitwiseXor Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual
HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not
Or PRelu Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt StringConcat
Sub Sum Tan Tanh ThresholdedRelu Where Xor"""
_REDUCED = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
_RULES: dict[str, Rule] = {
    **MOVING,
    **dict.fromkeys(_ALIKE.split(), _alike),
    **dict.fromkeys((f"Reduce{each}" for each in _REDUCED.split()), _reduced),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _beyond),
    **dict.fromkeys(("LayerNormalization", "LpNormalization"), _last),
    **dict.fromkeys(("ArgMax", "ArgMin"), _place_of_most),
    **dict.fromkeys(("AveragePool", "BatchNormalization", "Conv", "GlobalAveragePool",
                     "GlobalMaxPool", "InstanceNormalization", "MaxPool"), _images),
    "Cast": _cast, "CastLike": lambda step: [Traced(step.shape(0))], "CumSum": _summed_up,
    "Dropout": _same, "Gemm": _gemm, "Identity": _same, "MatMul": _matmul, "OneHot": _one_hot,
    "TopK": _highest,
}  # fmt: skip
_OF_LEARNERS: dict[str, Rule] = {
    **dict.fromkeys(("LinearRegressor", "SVMRegressor", "TreeEnsemble", "TreeEnsembleRegressor",
                     "FeatureVectorizer"), _scored),
    **dict.fromkeys(("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"), _labelled),
    **dict.fromkeys(("Imputer", "Normalizer", "Scaler"), _kept),
    **dict.fromkeys(("Binarizer", "CategoryMapper", "LabelEncoder"), _alike),
    "ArrayFeatureExtractor": PICKING, "OneHotEncoder": _words,
}  # fmt: skip
