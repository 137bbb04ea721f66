"""Printed numbers beside computed ones: every row of what the papers print is accounted for."""

import pytest

from privcore.upper_bounds import (
    NAME_PRIOR,
    epsilon_protect,
    generalised_advantage,
    leakage_curves,
    published_leakage,
    published_noise,
    published_success,
    success_bound,
    zipf_prior,
)
from tests.support.published import printed

WORST_CASE = published_success()
DIFFERENT = {
    "epsilon_protect (Adv <= 0.05) numerical password, most probable": "0.40",
    "advantage bound, most probable password": "0.16",
}


def row_of(stated):
    """Return ours; where the setting is needed to tell what is meant, it ends the quantity."""
    names = {stated["quantity"], f"{stated['quantity']}, {stated['setting'].split(',')[0]}"}
    (row,) = (r for r in WORST_CASE if r.place == stated["place"] and r.quantity in names)
    return row


@pytest.mark.paper("worst_case", "Section 3.2", "Figure 2", "Figure 3", "Figure 4", "Figure 7")
@pytest.mark.parametrize("stated", printed("000_text_values"), ids=lambda row: row["quantity"])
def test_every_number_of_beyond_the_worst_case_has_its_row(stated):
    row = row_of(stated)
    assert row.printed == stated["value"]
    if stated["quantity"] in DIFFERENT:
        assert (row.agrees, row.computed) == (False, DIFFERENT[stated["quantity"]])
        assert row.verdict.startswith("differs, because Zipf's law with the stated exponent 1.1")
    elif row.agrees is None:
        assert not row.computed
        assert row.verdict.startswith("not computed: ")
        assert len(row.remark) > 20
    else:
        assert row.agrees
        assert row.verdict.startswith("agrees")


def test_no_row_states_what_the_paper_does_not():
    stated = printed("000_text_values")
    assert {row_of(each) for each in stated} == set(WORST_CASE)
    assert len(stated) == len(WORST_CASE)


@pytest.mark.paper("worst_case", "Figure 2")
def test_the_two_numbers_of_the_most_probable_name_leave_one_prior_open():
    # Neither this prior nor any other is printed: it is what both numbers have in common.
    def shown(prior):
        success = success_bound(prior, epsilon=5.0, delta=1e-5)
        protect = epsilon_protect(prior, advantage=0.05)
        return f"{protect:.2f}", f"{generalised_advantage(prior, success):.2f}"

    assert shown(NAME_PRIOR) == ("2.37", "0.45")
    assert shown(0.00540) == ("2.37", "0.44")
    assert shown(0.00546) == ("2.36", "0.45")


@pytest.mark.paper("worst_case", "Figure 2")
def test_the_password_numbers_are_those_of_another_exponent():
    for exponent, protect, advantage in ((1.1, 0.3993, 0.1556), (1.2, 0.2547, 0.2376)):
        prior = zipf_prior(1, exponent=exponent, size=10**9)
        success = success_bound(prior, epsilon=1.0)
        assert epsilon_protect(prior, advantage=0.05) == pytest.approx(protect, abs=1e-4)
        assert generalised_advantage(prior, success) == pytest.approx(advantage, abs=1e-4)


@pytest.mark.paper("renyi", "Figure 7")
@pytest.mark.slow
def test_leakage_of_short_and_long_secrets():
    curves = leakage_curves(secret_bits=[1, 20], noise_multipliers=(0.32, 0.34, 0.47, 0.5))
    stated = {row["quantity"]: row["value"] for row in printed("002_text_values")}
    short, long = published_leakage(reversed(curves))
    assert stated[short.quantity] == short.printed == "below 10"
    assert stated[long.quantity] == long.printed == "around 50"
    assert 5.0 < float(short.computed) < 10.0
    assert 45.0 < float(long.computed) < 55.0
    assert short.agrees
    assert long.agrees


@pytest.mark.paper("reidentification", "Figure 1", "Proposition 9")
def test_noise():
    example, ratio, beyond = published_noise()
    assert example.computed == "1.0000; 95,264"
    assert ratio.computed == "6.3"
    assert "from n = 32 on" in ratio.remark
    assert beyond.computed == "374 at n = 48"
    assert all(row.agrees for row in (example, ratio, beyond))
