"""What is tested: a claim about the privacy loss."""

from dataclasses import dataclass

from privcore.guarantees import ApproxDP, Family, Gaussian, Guarantee, Neighbors, gaussian_mu


@dataclass(frozen=True, slots=True)
class Claim:
    """Epsilon at `delta` in the family that fits the declaration.

    Attributes:
        family: without a declaration the (epsilon, delta) family, at a delta agreed beforehand.
        delta: where epsilon is stated.
        significance: allowed probability that a bound against the claim is wrong.
        shift: bound on the total-variation distance between labels and proxy, tau.
        neighbors: the relation that the claim's epsilon speaks of.
        epsilon: what was declared; None where nothing was.
    """

    family: Family = ApproxDP()  # noqa: RUF009  # frozen, without state
    delta: float = 1e-5
    significance: float = 0.05
    shift: float = 0.0
    neighbors: Neighbors = Neighbors.REPLACE
    epsilon: float | None = None

    def guarantee(self) -> Guarantee | None:
        """Return the declared guarantee; None where nothing was declared."""
        if self.epsilon is None:
            return None
        parameter = self.epsilon
        if isinstance(self.family, Gaussian):
            parameter = float(gaussian_mu(self.epsilon, delta=self.delta))
        return self.family.member(parameter, delta=self.delta)
