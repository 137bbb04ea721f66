"""A night on an object store lists as often after thirteen nights as after three.

Delta Lake writes a checkpoint of a table each tenth commit.
"""

import datetime as dt
import re
import urllib.parse
from collections import Counter

import pytest

from flows.run.nightly import nightly_audit
from flows.run.runs import start
from tests.support.audits import copy_of, run_audits
from tests.support.faulty_store import faulty_store, never
from tests.support.lake import (
    DAY,
    PLAN,
    declared,
    label_rows,
    put_labels,
    put_model,
    write_settings,
)
from tests.support.object_store import upload
from workers.audit.request import Request
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.layout import _remote as connected
from workers.warehouse.nights_together import commit_nights
from workers.warehouse.store import Warehouse

EARLY, LATE = 3, 13
"""Nights before those that are counted."""
ROWS = 400


class Listings:
    """Counts requests that list a bucket, by what they list and whether it is all of a folder."""

    def __init__(self):
        self.found: Counter[tuple[str, str]] = Counter()

    def __call__(self, method, path):
        """Count a request, and let it pass."""
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query)
        if method == "GET" and "list-type" in asked:
            # A day has a name of its own on each night.
            place = re.sub(r"\d{4}-\d\d-\d\d", "*", asked.get("prefix", [""])[0])
            self.found[place, "from the newest on" if "start-after" in asked else "all"] += 1


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_a_night_lists_as_often_after_thirteen_nights_as_after_three(tmp_path):
    with faulty_store() as (store, bucket):
        connected.cache_clear()
        uri, warehouse = f"{bucket}/lake", Warehouse(f"{bucket}/warehouse")
        settings = write_settings(tmp_path, ["good"])
        text = settings.read_text()
        for place in ("lake", "warehouse"):
            text = text.replace(f'{place} = "{place}"', f'{place} = "{bucket}/{place}"')
        settings.write_text(text)
        counted = []
        for first, last in ((0, EARLY), (EARLY + 1, LATE)):
            upload(days(tmp_path / str(last), first, last), uri)
            (record,) = run_audits(Lake(uri), day(1), [Request("good", PLAN)], executor=InProcess())
            for night in range(max(first, 1), last):
                commit_nights(warehouse, [copy_of(record, "good", day(night))])
            store.choice = listings = Listings()
            (row,) = start(nightly_audit, day=day(last), settings=str(settings))
            store.choice = never
            assert row.status == "evaluated", row.reason
            counted.append(listings.found)
    connected.cache_clear()
    early, late = counted
    assert early.total() > 0
    assert late == early
    # What is listed whole is one day's, or a mark of a table format, of which there is none here.
    # (A log is listed before it is opened, to know its size.)
    listed = {place for place, how in late if how == "all"}
    whole = {place for place in listed if not place.endswith("/_delta_log/")}
    marks = (".hoodie", "_spark_metadata", "metadata", "snapshot")
    assert whole == {
        "lake/labels/flights/day=*/",
        *(f"lake/labels/flights/{mark}/" for mark in marks),
    }


def day(night):
    """Return a night's day."""
    return DAY + dt.timedelta(days=night)


def days(folder, first, last):
    """Write labels and checkpoints of nights into a lake on disk, and return it."""
    lake = Lake(str(folder))
    for night in range(first, last + 1):
        put_labels(lake, day(night), label_rows(ROWS, seed=night))
        put_model(lake, day(night), privacy=declared())
    return folder
