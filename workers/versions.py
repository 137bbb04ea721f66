"""Which code and which method made a figure; both stand in every row."""

import importlib.metadata

METHOD_VERSION = "7"
"""Raised by whoever changes what a number means; part of `audit_id`."""

CODE_VERSION = importlib.metadata.version("privaudit")
