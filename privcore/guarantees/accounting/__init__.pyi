from .composition import Composition
from .labels import (
    LaplaceOneHotAccount,
    PureMechanism,
    RandomizedResponseAccount,
    RandomizedResponseWithPriorAccount,
)
from .mechanism import Mechanism, Neighbors
from .registry import mechanism_from_manifest
from .training import (
    DpSgd,
    GaussianMechanism,
    NoisyMaxGaussian,
    NoisyMaxLaplace,
)

__all__ = [
    "Composition",
    "DpSgd",
    "GaussianMechanism",
    "LaplaceOneHotAccount",
    "Mechanism",
    "Neighbors",
    "NoisyMaxGaussian",
    "NoisyMaxLaplace",
    "PureMechanism",
    "RandomizedResponseAccount",
    "RandomizedResponseWithPriorAccount",
    "mechanism_from_manifest",
]
