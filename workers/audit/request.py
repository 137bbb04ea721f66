"""One model to audit: what a caller asks for, and what is then found and checked."""

import datetime as dt
from dataclasses import dataclass, field

from privcore.exceptions import TerminalError
from privcore.lower_bounds.verdicts import Trust
from workers.lake.checkpoints import DeclaredManifest
from workers.plan import Plan
from workers.scan.partial_results import Game
from workers.sources.scores.supplied import ExternalInputs, external_inputs_from_json
from workers.sources.source import Source
from workers.sources.tables.day_tables import ReleasedNight
from workers.versions import METHOD_VERSION
from workers.warehouse.schema import AuditRow


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
    external_inputs: ExternalInputs | ReleasedNight | None = None
    days: tuple[dt.date, ...] | None = None
    digest_key: bytes = field(default=b"", repr=False)

    @property
    def trust(self) -> Trust:
        """Mode of its evidence."""
        return Trust.SELF if self.external_inputs is None else self.external_inputs.trust


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that an audit reads but the labels, found and checked.

    Attributes:
        request: what was asked for.
        source: where the night comes from.
        epsilon_accounted: of the declared mechanism; None without one.
    """

    request: Request
    source: Source
    epsilon_accounted: float | None

    @property
    def plan(self) -> Plan:
        """How the game is played."""
        return self.request.plan

    @property
    def game(self) -> Game:
        """The game, before anything is known of its rows."""
        return Game(self.source, self.plan)


def stored_request(audit: AuditRow, digest_key: bytes = b"") -> Request:
    """Return what was asked for when a record was made.

    Raises:
        TerminalError: another version of privaudit wrote it.
    """
    if audit.method_version != METHOD_VERSION:
        raise TerminalError(
            f"It was computed by method version {audit.method_version}, this is version "
            f"{METHOD_VERSION}: verify it with privaudit {audit.code_version}, which wrote it."
        )
    try:
        plan = Plan.model_validate_json(audit.plan)
        external_inputs = None if audit.source is None else external_inputs_from_json(audit.source)
    except ValueError:
        raise TerminalError(
            "Its plan or its source is none that this version knows: verify it with privaudit "
            f"{audit.code_version}, which wrote it."
        ) from None
    return Request(
        audit.model,
        plan,
        external_inputs=external_inputs,
        days=audit.label_days,
        digest_key=digest_key,
    )
