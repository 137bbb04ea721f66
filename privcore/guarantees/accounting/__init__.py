"""From a mechanism's parameters to the guarantee that they account for.

A mechanism is an immutable description of what was done to the data, like dp_accounting's
`DpEvent`. It answers `epsilon(delta)`, `renyi(orders)` and `privacy_loss()`, the dp_accounting
privacy loss distribution (PLD) from which compositions are counted, and states its neighbouring
relation. The answers are the cost of the *described* mechanism; whether the training really was
that mechanism is what an audit asks.
"""

from privcore.guarantees.accounting.composition import Composition
from privcore.guarantees.accounting.labels import (
    LaplaceOneHotAccount,
    PureMechanism,
    RandomizedResponseAccount,
    RandomizedResponseWithPriorAccount,
)
from privcore.guarantees.accounting.mechanism import Mechanism, Neighbors
from privcore.guarantees.accounting.registry import mechanism_from_manifest
from privcore.guarantees.accounting.training import (
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
