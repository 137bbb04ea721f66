"""Base of what is read strictly: settings, plans, manifests and the rows of tables."""

import zoneinfo
from typing import Any

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """Frozen, and refuses what it has no field for; the text below a field describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Join each description's lines: forms, templates and pages have lines of their own."""
        for field in cls.model_fields.values():
            field.description = " ".join(field.description.split()) if field.description else None


def known_zone(name: str) -> str:
    """Return the name of a time zone, which settings give."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"{name!r} is not a time zone: write a name like Europe/Amsterdam or UTC"
        ) from None
    return name
