"""A night on an object store that throttles, hangs, tears reads, or denies one model's prefix."""

import pytest

from flows.run.conclusion import AuditsFailedError
from flows.run.nightly import nightly_audit
from flows.run.runs import start
from tests.hostile.night import EIGHTH, GOOD, make_template, own_labels
from tests.support.faulty_store import Fault, below, faulty_store, sometimes
from tests.support.lake import DAY, write_settings
from tests.support.object_store import upload
from workers.lake.layout import _remote as connected
from workers.warehouse.schema import Status
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process")

MODELS = [*GOOD, EIGHTH]
_NOT_COMPARED = {"audit_id", "labels_digest", "recorded_at", "record_digest", "revision"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Yield a store with a lake of eight models, the eighth with labels of its own."""
    folder = tmp_path_factory.mktemp("store")
    own_labels(make_template(folder / "lake"))
    with faulty_store() as (server, uri):
        connected.cache_clear()
        upload(folder / "lake", f"{uri}/lake")
        yield server, uri
    connected.cache_clear()


@pytest.fixture(scope="module")
def undisturbed(store, tmp_path_factory):
    return figures(night(tmp_path_factory.mktemp("undisturbed"), store[1], "undisturbed"))


def night(folder, uri, warehouse):
    settings = write_settings(folder, MODELS)
    text = settings.read_text(encoding="utf-8")
    text = text.replace('lake = "lake"', f'lake = "{uri}/lake"')
    text = text.replace('warehouse = "warehouse"', f'warehouse = "{uri}/{warehouse}"')
    settings.write_text(text, encoding="utf-8")
    return start(nightly_audit, day=DAY, settings=str(settings))


def figures(rows):
    return {row.model: row.model_dump(exclude=_NOT_COMPARED, mode="json") for row in rows}


_FAULTS = (
    sometimes(Fault.THROTTLED, 0.1, seed=1),
    sometimes(Fault.TORN, 0.1, seed=2),
    sometimes(Fault.HANGING, 0.01, seed=3),
)


@pytest.mark.slow
def test_a_store_that_fails_now_and_then_changes_no_record(store, undisturbed, tmp_path):
    (server, uri), seen = store, set()

    def choice(*request):
        """Take the first fault that comes; each draws for every request."""
        came = [fault for one in _FAULTS if (fault := one(*request)) is not None]
        seen.update(came[:1])
        return came[0] if came else None

    server.choice = choice
    try:
        rows = night(tmp_path, uri, "failing")
    finally:
        server.choice = lambda *_: None
    assert seen == {Fault.THROTTLED, Fault.TORN, Fault.HANGING}
    assert figures(rows) == undisturbed
    current = Warehouse(f"{uri}/failing").current()
    assert set(current["model"]) == set(MODELS)
    assert (tmp_path / "report" / "models" / f"{EIGHTH}.html").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("part", [f"models/{EIGHTH}", f"labels/{EIGHTH}-labels"])
def test_a_prefix_that_is_denied_costs_its_own_model_alone(part, store, undisturbed, tmp_path):
    server, uri = store
    server.choice = below(f"lake/{part}", Fault.DENIED)
    try:
        rows = night(tmp_path, uri, part.replace("/", "-"))
    except AuditsFailedError as error:
        rows = error.rows
    finally:
        server.choice = lambda *_: None
    found = {row.model: row for row in rows}
    assert set(found) == set(MODELS)
    for model in GOOD:
        assert figures([found[model]])[model] == undisturbed[model]
    assert found[EIGHTH].status is Status.NOT_EVALUABLE, found[EIGHTH].reason
    assert found[EIGHTH].detail == "path_unreadable"
    assert (tmp_path / "report" / "models" / f"{EIGHTH}.html").is_file()
