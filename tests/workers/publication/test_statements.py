import datetime as dt
import pathlib
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
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


def test_a_day_is_published_once(statements, exact):
    (first,) = put(statements, exact())
    assert statements.all() == [first]
    assert put(statements, exact()) == []
    assert statements.all() == [first]
    assert Statements(f"{statements.uri}-none").all() == []


def test_a_table_with_columns_beside_the_text_goes_on(statements, exact):
    """As it was written before the text alone stood there: what labels were charged counts."""
    (first,) = put(statements, exact())
    path = f"{statements.uri}/statements"
    shutil.rmtree(path)
    row = {"position": 0, "statement_id": first.statement_id, "content": first.content()}
    append_only = {"delta.appendOnly": "true"}
    deltalake.write_deltalake(path, pa.Table.from_pylist([row]), configuration=append_only)
    assert put(statements, exact()) == []
    (second,) = put(statements, exact(day=DAY + dt.timedelta(days=1)))
    assert statements.all() == [first, second]
    assert "statement_id" in deltalake.DeltaTable(path).to_pyarrow_table().column_names


def test_labels_that_changed_publish_nothing_of_themselves(statements, exact):
    """That there is a second statement would tell that labels changed."""
    put(statements, exact())
    changed = exact(labels_digest="e" * 64, audit_id="f" * 32, evidence_figure=1)
    assert put(statements, changed) == []
    assert len(statements.all()) == 1


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


def test_days_that_share_labels_are_charged_together(statements, exact):
    eve = DAY - dt.timedelta(days=1)
    put(statements, exact(label_days=(eve, DAY)), limit=0.15)
    with pytest.raises(OverspentError):
        put(statements, exact(day=eve), limit=0.15)
    with pytest.raises(OverspentError, match=r"owners agree\.$"):  # neither outside nor again
        put(statements, exact(model="other"), limit=0.15)
    put(statements, exact(day=DAY + dt.timedelta(days=1)), limit=0.15)


def test_tables_outside_the_lake_are_charged_together(statements, exact):
    """The scores of two models lie in a table each, and the labels beside them are the same."""
    put(statements, exact(dataset="s3://scores/ads"), limit=0.15)
    with pytest.raises(OverspentError, match="taken to hold the same labels"):
        put(statements, exact(model="b", dataset="/tables/b"), limit=0.15)
    put(statements, exact(model="b", dataset="/tables/b", day=DAY - dt.timedelta(1)), limit=0.15)
    put(statements, exact(model="b", dataset="scores"), limit=0.15)


def test_labels_that_recur_are_charged_on_all_days(statements, exact):
    put(statements, exact(), limit=0.15)
    later = DAY + dt.timedelta(days=9)
    with pytest.raises(OverspentError):
        put(statements, exact(day=later, labels_recur=True), limit=0.15)
    put(statements, exact(day=later), limit=0.15)


def test_labels_of_a_holdout_that_comes_again_are_charged_again(statements, exact):
    """More than half of it suffices; what other models published on those days counts, too."""
    one, new = bytes(range(32)), bytes(range(100, 132))
    days = [DAY + dt.timedelta(days=place) for place in range(4)]
    put(statements, exact(day=days[0], holdout_sketch=one.hex()), limit=0.25)
    other = {"model": "b", "day": days[0], "holdout_sketch": bytes(range(50, 82)).hex()}
    put(statements, exact(**other), limit=0.25)
    put(statements, exact(day=days[1], holdout_sketch=(new[:21] + one[21:]).hex()), limit=0.25)
    again = exact(day=days[2], holdout_sketch=(new[:20] + one[20:]).hex())
    with pytest.raises(OverspentError, match=r"3 statements that cost 0\.3 .* comes again from"):
        put(statements, again, limit=0.35)
    put(statements, again, limit=0.45)
    put(statements, exact(day=days[3]), limit=0.15)


def test_where_nothing_tells_holdouts_apart_all_of_the_dataset_are_charged(statements, exact):
    """Conservative: ten nights at the defaults, then names or features are asked for."""
    days = [DAY + dt.timedelta(days=place) for place in range(4)]
    put(statements, exact(day=days[0], holdout_sketch=None), limit=0.15)
    with pytest.raises(OverspentError, match=r"so it is taken to: name scores\.context"):
        put(statements, exact(day=days[1], holdout_sketch=None), limit=0.15)
    with pytest.raises(OverspentError, match="1 statements"):
        put(statements, exact(day=days[1]), limit=0.15)
    put(statements, exact(day=days[1], dataset="other"), limit=0.15)
    put(statements, exact(day=days[1], holdout_sketch=None), limit=0.25)


def test_where_nothing_tells_holdouts_apart_tables_outside_are_one_dataset_too(statements, exact):
    """One holdout beside two models' tables: it may come again in the other's on another day."""
    untold = {"holdout_sketch": None}
    put(statements, exact(dataset="s3://scores/ads", **untold), limit=0.15)
    other = {"model": "b", "dataset": "/tables/b", "day": DAY + dt.timedelta(days=1)}
    with pytest.raises(OverspentError, match=r"hold the same labels\. Nothing tells whether"):
        put(statements, exact(**other, **untold), limit=0.15)
    with pytest.raises(OverspentError, match=r"hold the same labels\.$"):
        put(statements, exact(**other), limit=0.15)


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


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TerminalError):
        Statements(str(tmp_path / "file")).check_place()
    Statements(str(tmp_path / "new")).check_place()


def test_the_page_lies_beside_the_statements_and_is_replaced(statements):
    statements.check_place()
    for text in ("first, and long", "second"):
        assert statements.write_page(text) == f"{statements.uri}/index.html"
        assert pathlib.Path(f"{statements.uri}/index.html").read_text("utf-8") == text
    assert statements.all() == []


NOISY = {
    "statement_id", "published_at", "evidence_figure", "premises_figure", "verdict", "pvalue",
    "log_evalue", "premises_pvalue",
}  # fmt: skip


def facts(made):
    return made.model_dump(exclude=NOISY)


def test_other_labels_change_the_figures_and_what_is_random_alone(exact):
    other = {"labels_digest": "e" * 64, "audit_id": "f" * 32, "evidence_figure": 39_990}
    one, two = statement_of(exact(), KEY), statement_of(exact(**other), KEY)
    assert facts(one) == facts(two)
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
    assert Statement.model_validate_json(made.content()) == made
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
    assert subject_of(exact(labels_digest="e" * 64, evidence_figure=1)) == subject_of(exact())
    assert subject_of(statement_of(exact(), KEY)) == subject_of(exact())
    for other in ({"epsilon_public": 0.2}, {"target_sha256": None}, {"model": "b"}):
        assert subject_of(exact(**other)) != subject_of(exact())
