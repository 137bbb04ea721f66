"""The fewest records of each arm of which an audit concludes anything, if nobody says otherwise."""

MINIMUM_RECORDS = 200
"""Training records."""
MINIMUM_CONTROL_RECORDS = 30
"""Holdout records."""
