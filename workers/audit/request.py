"""Request of a caller: one model, and the plan that it is audited by."""

import datetime as dt
from dataclasses import dataclass, field

from workers.lake.checkpoints import DeclaredManifest
from workers.plan import Plan
from workers.sources.scores.supplied import ExternalInputs


@dataclass(frozen=True, slots=True)
class Request:
    """One model to audit, and the plan to audit it by.

    Attributes:
        model: name of its folder in the lake.
        plan: how the game is played.
        dataset: the only label dataset that its manifest may name; any where None.
        declared: its manifest, where that was read before.
        external_inputs: where its night lies, as the settings say; None where all is in the lake.
        days: those whose labels play, where a record says which; else they are looked for.
        digest_key: the warehouse's secret, under which the record names what was read of labels.
    """

    model: str
    plan: Plan
    dataset: str | None = None
    declared: DeclaredManifest | None = None
    external_inputs: ExternalInputs | None = None
    days: tuple[dt.date, ...] | None = None
    digest_key: bytes = field(default=b"", repr=False)
