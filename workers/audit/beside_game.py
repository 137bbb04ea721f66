"""A remark on labels that the game tells and the bound does not, of more than two classes.

The bound looks at one class of each record: the one whose probability the target raised most. An
owner who has it raise another class a little more, by a rule over the features, hides what it says
of the label. The game compares each label with one that is drawn from the earlier model.
"""

import math

import numpy as np

from privcore.attacks import Tallies
from workers.lake.manifest import Privacy

_CERTAIN = 5.0
"""Standard errors, at the confidence where there are most of them."""
_FEWEST = 30
"""Wrong guesses about holdout records, without which nothing is said."""


def beside_game(tallies: Tallies, privacy: Privacy | None) -> str:
    """Return that the game tells more of training labels than the declaration allows, or "".

    The guesses of some confidence that are wrong about training records are to be as many as about
    records that training never saw, as the holdout's are (assumption E), but for those at true
    labels, which are half of all. Of these an (epsilon, delta) guarantee leaves at least e^-epsilon
    times as many, less delta, and takes at most tanh(epsilon / 2) of all, however wrong the earlier
    model is. With add_remove, replacing a label takes two steps. It accuses nobody: arms are
    compared as they are, without matching.
    """
    if privacy is None or tallies.classes == 2 or tallies.ordered or tallies.decoys is not None:
        return ""
    if any(each.records for each in tallies.unread):
        return ""
    arms = tallies.game, tallies.control_game
    # Guesses of at least each confidence, per record.
    wrong, fresh = (
        np.cumsum((arm.guesses - arm.correct).sum(axis=0)[::-1]) / (arm.repetitions * arm.records)
        for arm in arms
    )
    epsilon = privacy.epsilon * (2.0 if privacy.neighbors == "add_remove" else 1.0)
    taken = np.minimum(-math.expm1(-epsilon) * fresh, 0.5 * math.tanh(epsilon / 2.0))
    least = np.maximum(fresh - taken - privacy.delta, 0.0)
    kept = 1.0 - taken / np.maximum(fresh, 1e-300)
    error = np.sqrt(
        least * (1.0 - least) / arms[0].records + kept**2 * fresh * (1.0 - fresh) / arms[1].records
    )
    far = (least - wrong) / np.maximum(error, 1e-300)
    place = int(np.where(fresh * arms[1].records >= _FEWEST, far, 0.0).argmax())
    if fresh[place] * arms[1].records < _FEWEST or far[place] < _CERTAIN:
        return ""
    return (
        "The game shows more than this bound, if the holdout was drawn at random: shown a label, "
        f"or one that the earlier model expects, the target misjudges {wrong[place]:.1%} of the "
        f"training records and {fresh[place]:.1%} of the holdout's, where the declared "
        f"{privacy.epsilon:g} allows {least[place]:.1%} or more. The bound looks at the class "
        "alone whose probability the target raised most: what other classes say of the label is "
        "not in it. See why the target raises other classes more than the label's."
    )
