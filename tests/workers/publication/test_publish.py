import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privcore.attacks import same_holdout
from privcore.exceptions import TerminalError
from privcore.lower_bounds.verdicts import Verdict
from workers.publication.publish import (
    follows,
    make_key,
    read_key,
    sketch_under,
    statement_of,
)
from workers.publication.statements import Statement, sentence_of, subject_of


def test_a_key_that_is_made_can_be_read_by_its_owner_alone(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "publication.key"
    make_key(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(read_key(None, str(file))) == 32
    make_key(tmp_path / "other.key")
    assert read_key(None, str(tmp_path / "other.key")) != read_key(None, str(file))


def test_a_key_is_never_replaced(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "publication.key"
    make_key(file)
    before = file.read_text()
    with pytest.raises(TerminalError, match="is there already"):
        make_key(file)
    assert file.read_text() == before
    with pytest.raises(TerminalError, match="cannot be written"):
        make_key(tmp_path / "absent" / "key")


def test_the_environments_key_wins_over_the_file(tmp_path: pathlib.Path) -> None:
    assert read_key("ab" * 32, str(tmp_path / "absent")) == bytes.fromhex("ab" * 32)


@pytest.mark.parametrize("digits", ["", "ab", "ab" * 31, "ab" * 65, "no digits at all", "xy" * 32])
def test_what_is_no_key_is_refused_and_not_shown(digits: str) -> None:
    with pytest.raises(TerminalError, match="holds no key") as caught:
        read_key(digits, None)
    assert not digits or digits not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_a_key_that_others_may_read_is_refused(tmp_path: pathlib.Path, mode: int) -> None:
    file = tmp_path / "key"
    make_key(file)
    file.chmod(mode)
    with pytest.raises(TerminalError, match=f"mode {mode:o}"):
        read_key(None, str(file))


def test_no_key_at_all_says_how_one_is_made(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TerminalError, match="set key_file"):
        read_key(None, None)
    with pytest.raises(TerminalError, match=r"absent cannot be read \(No such file or directory\)"):
        read_key(None, str(tmp_path / "absent"))
    with pytest.raises(TerminalError, match="cannot be read"):
        read_key(None, str(tmp_path))


KEY = bytes(range(32))
Maker = Callable[..., Any]
NOISY = {
    "statement_id", "published_at", "evidence_figure", "premises_figure", "verdict", "pvalue",
    "log_evalue", "premises_pvalue",
}  # fmt: skip


def facts(made: Statement) -> dict[str, Any]:
    return made.model_dump(exclude=NOISY)


def test_other_labels_change_the_figures_and_what_is_random_alone(exact: Maker) -> None:
    other = {"labels_digest": "e" * 64, "audit_id": "f" * 32, "evidence_figure": 39_990}
    one, two = statement_of(exact(), KEY), statement_of(exact(**other), KEY)
    assert facts(one) == facts(two)
    assert one.statement_id != two.statement_id


def test_the_noise_does_not_cancel_between_versions_of_the_labels(exact: Maker) -> None:
    """One label moves the figure by 64; if noise were the same, so would the public figure."""
    for number in range(40):
        moved = exact(audit_id=f"{number:032x}", evidence_figure=40_064)
        one, two = statement_of(exact(), KEY), statement_of(moved, KEY)
        assert abs(two.evidence_figure - one.evidence_figure) != 64


def test_a_public_sketch_tells_where_two_agree_and_nothing_else(exact: Maker) -> None:
    """Under another key nothing agrees; each byte is one of 256 at its place, however often."""
    random = np.random.default_rng(3)
    one, other = random.integers(0, 256, (2, 32), dtype=np.uint8)
    other[::2] = one[::2]
    shown = [sketch_under(KEY, each.tobytes().hex()) for each in (one, other)]
    assert same_holdout(shown).tolist() == [-1, 0]
    both = np.array([list(bytes.fromhex(each or "")) for each in shown])
    assert (both[0] == both[1])[::2].all()
    assert (both[0] == both[1]).sum() <= 18
    assert same_holdout([shown[0], one.tobytes().hex()])[1] == -1
    assert same_holdout([shown[0], sketch_under(bytes(32), one.tobytes().hex())])[1] == -1
    assert sketch_under(KEY, None) is None
    made = statement_of(exact(holdout_sketch=one.tobytes().hex()), KEY)
    assert made.holdout_sketch == shown[0]
    counted = Counter(
        byte
        for word in range(256)
        for byte in bytes.fromhex(sketch_under(KEY, f"{word:02x}" * 32) or "")
    )
    assert abs(np.array([counted[byte] for byte in range(256)]) - 32).max() < 32


def test_public_sketches_that_were_published_stay_comparable() -> None:
    """Figures of 2026-11-25: if a byte is replaced otherwise, the ledger charges too little."""
    assert sketch_under(KEY, bytes(range(32)).hex()) == (
        "c6d3087c63c330536b9ce6d74dbb6fc8f24057be70a8c9244a9186c0a9d1c4b8"
    )


def test_with_the_key_the_same_statement_is_made_again(exact: Maker) -> None:
    one, two = statement_of(exact(), KEY), statement_of(exact(), KEY)
    assert one.model_dump(exclude={"published_at"}) == two.model_dump(exclude={"published_at"})
    assert statement_of(exact(), bytes(32)).evidence_figure != one.evidence_figure
    assert Statement.model_validate_json(one.content()) == one


def test_a_statement_follows_from_its_audit_and_key_alone(exact: Maker) -> None:
    made = statement_of(exact(), KEY)
    later = made.model_copy(update={"published_at": "2030-01-01", "code_version": "9"})
    assert follows(later, exact(), KEY)
    assert not follows(made, exact(labels_digest="e" * 64), KEY)
    assert not follows(made, exact(evidence_figure=1), KEY)
    assert not follows(made, exact(), bytes(32))
    forged = made.model_copy(update={"evidence_figure": made.evidence_figure - 1})
    assert not follows(forged, exact(), KEY)


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({}, Verdict.VIOLATED, "The declared 1 is refuted"),
        ({"evidence_figure": 0}, Verdict.NOT_REFUTED, "have seen a leak from 1.20 on, if every"),
        ({"evidence_figure": 0, "epsilon_ceiling": 0.5}, Verdict.INCONCLUSIVE, "looked the same"),
        ({"evidence_figure": 0, "sees_from": 2.1}, Verdict.INCONCLUSIVE, "looked the same"),
        ({"evidence_figure": 0, "sees_from": None}, Verdict.INCONCLUSIVE, "no leak, however large"),
        ({"premises_figure": 90_000}, Verdict.INCONCLUSIVE, "What the test assumes is in doubt"),
        ({"declaration_empty": True}, Verdict.INCONCLUSIVE, "says nothing of so many records"),
    ],
)
def test_the_verdict_follows_from_the_public_figures(
    exact: Maker, changes: dict[str, Any], verdict: Verdict, words: str
) -> None:
    made = statement_of(exact(**changes), KEY)
    assert made.verdict is verdict
    assert words in sentence_of(made)
    assert made.pvalue == made.figures.pvalue
    assert made.premises_pvalue == made.figures.premises_pvalue
    assert made.log_evalue == made.figures.evidence.log_evalue


def test_what_no_label_changes_makes_two_audits_the_same(exact: Maker) -> None:
    assert subject_of(exact(labels_digest="e" * 64, evidence_figure=1)) == subject_of(exact())
    assert subject_of(statement_of(exact(), KEY)) == subject_of(exact())
    for other in ({"epsilon_public": 0.2}, {"target_sha256": None}, {"model": "b"}):
        assert subject_of(exact(**other)) != subject_of(exact())
