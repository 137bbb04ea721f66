import contextlib
import datetime as dt
import pathlib
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import deltalake
import numpy as np
import pytest

from privcore.attacks import same_holdout
from privcore.exceptions import TerminalError
from privcore.lower_bounds.verdicts import Verdict
from tests.support.lake import DAY
from workers.publication.statements import (
    OverspentError,
    Statement,
    Statements,
    follows,
    publish,
    sentence_of,
    sketch_under,
    statement_of,
    subject_of,
)

KEY = bytes(range(32))
Maker = Callable[..., Any]


@pytest.fixture
def statements(tmp_path):
    return Statements(str(tmp_path / "statements"))


def put(statements, row, limit=1.0):
    made, refused = publish([row], statements=statements, key=KEY, epsilon_per_label=limit)
    for error in refused:
        raise error
    return made


def test_a_day_is_published_once_also_if_its_labels_changed(statements, exact):
    """That there is a second statement would tell that labels changed."""
    (first,) = put(statements, exact())
    changed = exact(labels_digest="e" * 64, audit_id="f" * 32, evidence_figure=1)
    assert put(statements, exact()) == put(statements, changed) == []
    assert statements.all() == [first]
    assert Statements(f"{statements.uri}-none").all() == []


def test_a_night_is_one_append_and_what_costs_too_much_is_left_out_alone(statements, exact):
    rows = [exact(model=f"m{number}") for number in range(4)]
    rows += [exact(model="m5", day=DAY + dt.timedelta(days=1)), rows[0]]
    made, refused = publish(rows, statements=statements, key=KEY, epsilon_per_label=0.25)
    assert [one.model for one in made] == ["m0", "m1", "m5"]
    assert ["m2" in str(refused[0]), "m3" in str(refused[1]), len(refused)] == [True, True, 2]
    assert statements.all() == made
    table = deltalake.DeltaTable(f"{statements.uri}/statements")
    assert len(table.file_uris()) == 1
    assert table.to_pyarrow_table()["position"].to_pylist() == [0, 1, 2]


def test_a_label_is_charged_for_every_statement_that_it_takes_part_in(statements, exact):
    """Ten tenths are one, exactly; the eleventh model on the same labels is refused."""
    for number in range(10):
        put(statements, exact(model=f"m{number}"))
    with pytest.raises(OverspentError, match="10 statements that cost 1 together"):
        put(statements, exact(model="m10"))
    assert len(statements.all()) == 10
    put(statements, exact(dataset="other"))
    put(statements, exact(day=DAY + dt.timedelta(days=1)))
    assert put(statements, exact(model="m3")) == []  # what is there costs nothing


DAYS = [DAY + dt.timedelta(days=ahead) for ahead in range(4)]
EVE = DAY - dt.timedelta(days=1)
SCORES, OTHER_TABLE = {"dataset": "s3://scores/ads"}, {"model": "b", "dataset": "/tables/b"}
UNTOLD = {"holdout_sketch": None}
_ONE, _NEW = bytes(range(32)), bytes(range(100, 132))
_AGAIN = {"day": DAYS[2], "holdout_sketch": (_NEW[:20] + _ONE[20:]).hex()}
CHARGED = {
    # What is published, with the most that a label may cost and, where it is refused, the words.
    "days that share labels": [
        ({"label_days": (EVE, DAY)}, 0.15, None),
        ({"day": EVE}, 0.15, "cost"),
        ({"model": "other"}, 0.15, r"owners agree\.$"),  # neither outside nor again
        ({"day": DAYS[1]}, 0.15, None),
    ],
    # The scores of two models lie in a table each, and the labels beside them are the same.
    "tables outside the lake": [
        (SCORES, 0.15, None),
        (OTHER_TABLE, 0.15, "taken to hold the same labels"),
        (OTHER_TABLE | {"day": EVE}, 0.15, None),
        ({"model": "b", "dataset": "scores"}, 0.15, None),
    ],
    "labels that recur": [
        ({}, 0.15, None),
        ({"day": DAYS[3], "labels_recur": True}, 0.15, "cost"),
        ({"day": DAYS[3]}, 0.15, None),
    ],
    # More than half of a holdout suffices; what other models published on those days counts, too.
    "a holdout that comes again": [
        ({"day": DAYS[0], "holdout_sketch": _ONE.hex()}, 0.25, None),
        ({"model": "b", "holdout_sketch": bytes(range(50, 82)).hex()}, 0.25, None),
        ({"day": DAYS[1], "holdout_sketch": (_NEW[:21] + _ONE[21:]).hex()}, 0.25, None),
        (_AGAIN, 0.35, r"3 statements that cost 0\.3 .* comes again from"),
        (_AGAIN, 0.45, None),
        ({"day": DAYS[3]}, 0.15, None),
    ],
    # Conservative: ten nights at the defaults, then names or features are asked for.
    "nothing tells holdouts apart": [
        (UNTOLD, 0.15, None),
        (UNTOLD | {"day": DAYS[1]}, 0.15, r"so it is taken to: name scores\.context"),
        ({"day": DAYS[1]}, 0.15, "1 statements"),
        ({"day": DAYS[1], "dataset": "other"}, 0.15, None),
        (UNTOLD | {"day": DAYS[1]}, 0.25, None),
    ],
    "nor that of tonight": [
        ({}, 0.15, None),
        (UNTOLD | {"day": DAYS[1]}, 0.15, r"so it is taken to: name scores\.context"),
    ],
    # One holdout beside two models' tables: it may come again in the other's on another day.
    "nor those of tables outside": [
        (SCORES | UNTOLD, 0.15, None),
        (OTHER_TABLE | UNTOLD | {"day": DAYS[1]}, 0.15,
         r"hold the same labels\. Nothing tells whether"),
        (OTHER_TABLE | {"day": DAYS[1]}, 0.15, r"hold the same labels\.$"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("steps", CHARGED.values(), ids=CHARGED)
def test_statements_that_may_share_labels_are_charged_together(statements, exact, steps):
    for changes, limit, refused in steps:
        with (
            contextlib.nullcontext()
            if refused is None
            else pytest.raises(OverspentError, match=refused)
        ):
            put(statements, exact(**changes), limit=limit)


def test_another_model_file_or_claim_is_another_statement(statements, exact):
    put(statements, exact())
    put(statements, exact(target_sha256="0" * 64))
    put(statements, exact(epsilon_declared=2.0))
    put(statements, exact(epsilon_public=0.2))
    put(statements, exact(significance=0.01))  # no reason to draw noise again
    assert len(statements.all()) == 4


def test_many_writers_at_once_never_charge_more_than_a_label_may_cost(statements, exact):
    """Twelve models at once, of which five may publish."""
    refused = []

    def write(number):
        try:
            put(Statements(statements.uri), exact(model=f"m{number}"), limit=0.5)
        except OverspentError as error:
            refused.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statements.all()) == 5
    assert len(refused) == 7


def test_the_page_lies_beside_the_statements_and_is_replaced(statements, tmp_path):
    statements.check_place()
    for text in ("first, and long", "second"):
        assert statements.write_page(text) == f"{statements.uri}/index.html"
        assert pathlib.Path(f"{statements.uri}/index.html").read_text("utf-8") == text
    assert statements.all() == []
    (tmp_path / "file").write_text("")
    with pytest.raises(TerminalError):
        Statements(str(tmp_path / "file")).check_place()


NOISY = {
    "statement_id", "published_at", "evidence_figure", "premises_figure", "verdict", "pvalue",
    "log_evalue", "premises_pvalue",
}  # fmt: skip


def test_other_labels_change_the_figures_and_what_is_random_alone(exact):
    other = {"labels_digest": "e" * 64, "audit_id": "f" * 32, "evidence_figure": 39_990}
    one, two = statement_of(exact(), KEY), statement_of(exact(**other), KEY)
    assert one.model_dump(exclude=NOISY) == two.model_dump(exclude=NOISY)
    assert one.statement_id != two.statement_id


def test_the_noise_does_not_cancel_between_versions_of_the_labels(exact):
    """One label moves the figure by 64; if noise were the same, so would the public figure."""
    for number in range(40):
        moved = exact(audit_id=f"{number:032x}", evidence_figure=40_064)
        one, two = statement_of(exact(), KEY), statement_of(moved, KEY)
        assert abs(two.evidence_figure - one.evidence_figure) != 64


def test_a_public_sketch_tells_where_two_agree_and_nothing_else(exact):
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


def test_public_sketches_that_were_published_stay_comparable():
    """Figures of 2026-11-25: if a byte is replaced otherwise, the ledger charges too little."""
    assert sketch_under(KEY, bytes(range(32)).hex()) == (
        "c6d3087c63c330536b9ce6d74dbb6fc8f24057be70a8c9244a9186c0a9d1c4b8"
    )


def test_a_statement_follows_from_its_audit_and_key_alone(exact):
    made = statement_of(exact(), KEY)
    assert Statement.model_validate_json(made.model_dump_json()) == made
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
def test_the_verdict_follows_from_the_public_figures(exact, changes, verdict, words):
    made = statement_of(exact(**changes), KEY)
    assert made.verdict is verdict
    assert words in sentence_of(made)
    assert made.pvalue == made.figures.pvalue
    assert made.premises_pvalue == made.figures.premises_pvalue
    assert made.log_evalue == made.figures.evidence.log_evalue


def test_what_no_label_changes_makes_two_audits_the_same(exact):
    changed = exact(labels_digest="e" * 64, evidence_figure=1)
    assert subject_of(changed) == subject_of(statement_of(exact(), KEY)) == subject_of(exact())
    for other in ({"epsilon_public": 0.2}, {"target_sha256": None}, {"model": "b"}):
        assert subject_of(exact(**other)) != subject_of(exact())
