import pathlib
import pickle
from typing import Any

import pyarrow as pa
import pytest

from privcore.exceptions import TransientError
from workers.exceptions import NotEvaluableError
from workers.labels.parquet import ContentDigest
from workers.lake.layout import PATIENCE, Lake, may_go_away, open_below, patiently


def failing(times: int, error: Exception) -> Any:
    left = [times]

    def action() -> str:
        if left[0]:
            left[0] -= 1
            raise error
        return "content"

    return action


def test_a_failure_that_goes_away_is_waited_for_longer_each_time(waits):
    assert patiently(failing(4, OSError("Connection reset")), "labels") == "content"
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_a_throttled_storage_is_left_alone_for_longer(waits):
    error = OSError("AWS Error SLOW_DOWN during GetObject operation: Please reduce your rate.")
    patiently(failing(3, error), "labels")
    assert waits == pytest.approx([0.4, 0.8, 1.6])


def test_a_failure_that_stays_is_transient_and_tells_no_detail(waits):
    action = failing(99, OSError("https://key:secret@host/ refused"))
    with pytest.raises(TransientError, match="Storage failed 7 times at labels") as caught:
        patiently(action, "labels")
    assert len(waits) == PATIENCE.attempts - 1
    assert sum(waits) < 30.0
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("no such file"),
        PermissionError("no"),
        OSError("When reading: AWS Error ACCESS_DENIED during GetObject operation"),
        OSError("AWS Error UNKNOWN (HTTP status 403) during HeadObject operation"),
    ],
    ids=["missing", "permission", "access-denied", "http-403"],
)
def test_what_trying_again_cannot_help_is_raised_at_once(waits, error):
    with pytest.raises(type(error)):
        patiently(failing(1, error), "labels")
    assert waits == []
    assert not may_go_away(error)


def test_the_digest_of_content_adds_in_any_order_and_forgets_nothing():
    entries = [ContentDigest.of("row group", f"part-{place}", 0, b"x") for place in range(5)]
    total = sum(entries, ContentDigest())
    assert sum(reversed(entries), ContentDigest()) == total
    assert (entries[0] + entries[1]) + (entries[2] + entries[3] + entries[4]) == total
    assert len(total.hexdigest()) == 64
    others = [
        sum(entries[:4], ContentDigest()),
        total + entries[0],
        sum([*entries[:4], ContentDigest.of("row group", "part-4", 0, b"y")], ContentDigest()),
        sum([*entries[:4], ContentDigest.of("row group", "part-", 40, b"x")], ContentDigest()),
    ]
    assert len({digest.hexdigest() for digest in [total, *others]}) == 5
    assert ContentDigest.of("ab", "c") != ContentDigest.of("a", "bc")
    assert ContentDigest.of("row", b"a") != ContentDigest.of("row", "a")


def test_a_store_that_lists_keys_of_other_folders_is_said_to_do_so(tmp_path):
    """Arrow's own error ended the audit as an unexpected one."""

    def listed() -> None:
        raise pa.ArrowException("Underlying filesystem returned path 'bucket/../x'")

    with pytest.raises(NotEvaluableError, match="labels cannot be read"):
        Lake(str(tmp_path)).patiently(listed, "labels")


def test_a_file_is_read_at_random_and_nothing_stays_open(tmp_path):
    (tmp_path / "rows").write_text("lake")
    descriptors = len(list(pathlib.Path("/dev/fd").iterdir()))
    with open_below(str(tmp_path), "rows") as file:
        assert (file.size(), file.read_at(2, 1)) == (4, b"ak")
    with pytest.raises(FileNotFoundError):
        open_below(str(tmp_path), "others")
    assert len(list(pathlib.Path("/dev/fd").iterdir())) == descriptors
