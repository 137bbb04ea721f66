"""Structured log lines: read by people as words, by machines as the record's `privaudit`."""

import json
import logging
from collections.abc import Mapping


def log_event(logger: logging.Logger, fields: Mapping[str, object]) -> None:
    """Log `name=value` for every field, and the fields themselves as the record's `privaudit`."""
    words = (
        f"{name}={json.dumps(value) if isinstance(value, list | dict) else value}"
        for name, value in fields.items()
    )
    logger.info("%s", " ".join(words), extra={"privaudit": dict(fields)})
