"""Structured log lines: read by people as words, by machines as the record's `privaudit`."""

import json
import logging
import re
from collections.abc import Mapping

_PLAIN = re.compile(r'[^\s"=\\]*')


def log_event(logger: logging.Logger, fields: Mapping[str, object]) -> None:
    """Log `name=value` for every field, and the fields themselves as the record's `privaudit`.

    A text that could be taken for more fields, or for another line, is written as JSON: files are
    called by the labels' writer.
    """
    words = (f"{name}={_word(value)}" for name, value in fields.items())
    logger.info("%s", " ".join(words), extra={"privaudit": dict(fields)})


def _word(value: object) -> str:
    text = str(value)
    plain = not isinstance(value, list | dict) and text.isprintable() and _PLAIN.fullmatch(text)
    return text if plain else json.dumps(value if isinstance(value, list | dict) else text)
