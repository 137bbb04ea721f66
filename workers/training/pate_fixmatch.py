"""PATE-FM: teachers and student are networks that FixMatch trains (Malek et al. 2021)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import NoisyMax, count_votes, disjoint_parts
from workers.training.fixmatch import FixMatch, fixmatch_trainer
from workers.training.networks import FittedNetwork, Network

DELTA = 1e-5


@dataclass(frozen=True, slots=True)
class PateFixMatch:
    """Arxiv:2106.03408: labels are private, images are not.

    Each teacher learns from the labels of its own part and from all images. The teachers vote on
    some of the images, Gaussian noise is added to the votes, and the student learns from the
    answers and from all images. As in the published code, parts include the images that are asked.
    A replaced label changes one teacher, thus one vote of each answer: `NoisyMax` accounts for
    that, whatever the votes are. The published code leaves out images of which a noisy count stays
    below a threshold, and states an epsilon that depends on the private votes; here all images that
    are asked are answered, and none of the budget is spent on choosing them.
    """

    teachers: int
    queries: int
    teaching: FixMatch
    learning: FixMatch

    def mechanism(self, epsilon: float) -> NoisyMax:
        """Return the aggregation at an epsilon, stated at delta 1e-5; infinity is no noise."""
        return NoisyMax.from_epsilon(epsilon, noise="gaussian", queries=self.queries, delta=DELTA)

    def manifest_entry(self, epsilon: float) -> dict[str, Any] | None:
        """Return the mechanism's name and parameters for a manifest; None without noise."""
        return self.mechanism(epsilon).manifest_entry

    def vote(
        self,
        network: Network,
        pixels: NDArray[np.float32],
        labels: NDArray[np.int64],
        *,
        classes: int,
        seed: int,
        random: np.random.Generator,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the images that are asked, and the votes on them, shape (queries, classes).

        The votes are private: only `graduate` may use them.

        Raises:
            InvalidInputError: more teachers or more queries than images.
        """
        if self.queries > len(labels):
            raise InvalidInputError("queries", self.queries, f"there are only {len(labels)} images")
        parts = disjoint_parts(len(labels), self.teachers, random)
        asked = np.sort(random.permutation(len(labels))[: self.queries])
        train = fixmatch_trainer(network, self.teaching, classes)
        said = []
        for place, part in enumerate(parts):
            teacher = train(pixels[part], labels[part], pixels, seed=seed + place)
            said.append(teacher.log_odds(pixels[asked]).argmax(axis=1))
        return asked, count_votes(np.stack(said), classes)

    def graduate(
        self,
        network: Network,
        pixels: NDArray[np.float32],
        ballot: tuple[NDArray[np.int64], NDArray[np.float64]],
        *,
        epsilon: float,
        seed: int,
        random: np.random.Generator,
    ) -> FittedNetwork:
        """Return the student, which sees no label but the noisy answers."""
        asked, votes = ballot
        answers = self.mechanism(epsilon).sample(votes, random)
        train = fixmatch_trainer(network, self.learning, votes.shape[1])
        return train(pixels[asked], answers, pixels, seed=seed)
