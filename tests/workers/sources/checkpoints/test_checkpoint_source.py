"""Checkpoints and labels as one model's night."""

import pytest

from tests.support.lake import BINARY, DAY, EVE, NO_JOIN_NEEDED, PLAN, declared, small_lake
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.layout import labels_folder
from workers.sources.checkpoints.checkpoint_source import find_checkpoints


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return small_lake(tmp_path_factory.mktemp("sources") / "lake", privacy=declared(2.0))


def test_a_night_says_what_it_is_made_of(lake):
    source = find_checkpoints(lake, "good", DAY, plan=PLAN)
    assert (source.model, source.day, source.label) == ("good", DAY, BINARY)
    assert source.columns == ("late", "split", "delay", "hour", "city")
    told = {"dataset": "flights", "proxy_day": EVE, "trust": "self"}
    assert source.facts == told
    assert source.privacy is not None
    assert source.privacy.epsilon == 2.0
    assert source.digests().target == source.target.manifest.sha256
    assert source.digests().proxy_manifest == source.proxy.manifest_sha256
    root, partition = source.find_partition(joining=NO_JOIN_NEEDED)
    assert root == lake
    assert partition.path(partition.files[0].name).startswith(labels_folder("flights", DAY))


def test_models_of_one_dataset_share_a_read_and_others_do_not(lake, tmp_path):
    one = find_checkpoints(lake, "good", DAY, plan=PLAN)
    assert one.labels_key() == "lake flights"
    other = small_lake(tmp_path / "lake")
    assert find_checkpoints(other, "good", DAY, plan=PLAN).digests() != one.digests()


def test_a_day_without_an_earlier_checkpoint_has_no_proxy(lake):
    with pytest.raises(NotEvaluableError, match="could be its earlier model") as caught:
        find_checkpoints(lake, "good", EVE, plan=PLAN)
    assert caught.value.reason is Reason.MISSING_PROXY
