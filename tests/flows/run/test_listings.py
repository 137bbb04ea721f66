"""A night on an object store lists as often after thirty nights as after three."""

import datetime as dt
import pathlib
import re
import urllib.parse

import pytest

from flows.run.nightly import nightly_audit
from flows.run.start import start
from tests.support.faulty_store import faulty_store
from tests.support.lake import DAY, declared, label_rows, put_labels, put_model, write_settings
from workers.lake.layout import Lake
from workers.lake.layout import _remote as connected
from workers.warehouse.store import Warehouse

EARLY, LATE = 3, 30
"""Nights before those that are counted."""
ROWS = 200


class Listings:
    """Counts requests that list a bucket, by what they list."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def __call__(self, method: str, path: str) -> None:
        """Count a request, and let it pass."""
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query)
        if method == "GET" and "list-type" in asked:
            prefix = asked.get("prefix", [""])[0]
            # A pass and a day have names of their own on each night.
            place = re.sub(r"[0-9a-f]{16,}|\d{4}-\d\d-\d\d", "*", prefix)
            self.found[place] = self.found.get(place, 0) + 1


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_a_night_lists_as_often_after_thirty_nights_as_after_three(tmp_path: pathlib.Path) -> None:
    with faulty_store() as (store, bucket):
        connected.cache_clear()
        lake = Lake(f"{bucket}/lake")
        settings = write_settings(tmp_path, ["good"])
        text = settings.read_text()
        for place in ("lake", "warehouse"):
            text = text.replace(f'{place} = "{place}"', f'{place} = "{bucket}/{place}"')
        settings.write_text(text)
        put(lake, 0)
        counted = {}
        for night in range(1, LATE + 2):
            put(lake, night)
            store.choice = listings = Listings()
            start(nightly_audit, day=DAY + dt.timedelta(days=night), settings=str(settings))
            counted[night - 1] = listings.found
        audits = Warehouse(f"{bucket}/warehouse").scan("audits").collect()
    connected.cache_clear()
    assert audits.height == LATE + 1
    assert set(audits["status"]) == {"evaluated"}
    assert sum(counted[EARLY].values()) > 0
    assert counted[LATE] == counted[EARLY]


def put(lake: Lake, night: int) -> None:
    """Write a day's labels and checkpoint."""
    day = DAY + dt.timedelta(days=night)
    put_labels(lake, day, label_rows(ROWS, seed=night))
    put_model(lake, day, privacy=declared())
