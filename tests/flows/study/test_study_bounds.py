"""`privaudit study bounds`: the same files every time, that show what the papers show."""

import json
import pathlib

import polars as pl
import pytest

from flows.study import bounds
from flows.study.printed import REIDENTIFICATION, RENYI, WORST_CASE, printed_values
from flows.study.runner import run_study
from privcore.upper_bounds import success_bound, zipf_prior
from tests.support.published import printed
from tests.support.studies import check_files


@pytest.mark.paper("worst_case", "Figure 2")
def test_the_two_numbers_of_the_most_probable_name_leave_one_prior_open():
    # Neither this prior nor any other is printed: it is what both numbers have in common.
    for prior, numbers in (
        (bounds.NAME_PRIOR, ("2.37", "0.45")),
        (0.00540, ("2.37", "0.44")),
        (0.00546, ("2.36", "0.45")),
    ):
        shown = f"{bounds._protect(prior):.2f}", f"{bounds._advantage(prior, 5.0):.2f}"
        assert shown == numbers


@pytest.mark.paper("worst_case", "Figure 2", "Figure 3")
def test_no_prior_of_at_most_500_names_gives_the_printed_name_of_figure_3_too():
    # Each of 500 sequences has one name. The ten most probable share least where all others do.
    most = 0.00546
    of_ten = most / (most + 9.0 * (1.0 - most) / 499)
    assert of_ten == pytest.approx(0.233, abs=1e-3)
    assert success_bound(of_ten, epsilon=1.0, delta=1e-5) == pytest.approx(0.453, abs=1e-3)
    assert success_bound(of_ten, epsilon=1.0, delta=1e-5) < 0.525 - 2.0 * 0.0112


@pytest.mark.paper("worst_case", "Figure 1")
def test_success_against_the_prior():
    rows = bounds.success(2, 10, 1_000)
    assert len(rows) == 3 * (5 + 3) * 3
    found = {tuple(row.values())[:4]: row["success"] for row in rows}
    assert {delta for _, _, delta, _ in found} == {0.0, 1e-5}
    assert found["any_attack", 4.0, 0.0, 0.5] == pytest.approx(0.9820, abs=5e-5)
    for (bound, epsilon, delta, prior), success in found.items():
        ours = found["any_attack", epsilon, 0.0, prior]
        if bound == "any_attack":
            assert success == pytest.approx(ours + delta, rel=1e-12)
        elif bound == "tradeoff":
            assert success == pytest.approx(ours + delta * (1.0 - ours), rel=1e-6)
        else:
            assert ours <= success * (1.0 + 1e-9)


@pytest.mark.paper("worst_case", "Figure 2")
def test_advantage_by_epsilon_is_that_of_another_exponent_than_stated():
    found = pl.DataFrame(bounds.advantage())
    by_secret = dict(found.group_by("secrets", "rank"))
    assert len(by_secret) == 3 * 3
    for rows in by_secret.values():
        assert rows["advantage"].is_sorted()
        assert rows["advantage"][0] < rows["advantage"][4] <= 1.0
    priors = bounds.secret_priors()
    assert {priors["uniform", rank] for rank in ("least", "median", "most")} == {1e-9}
    assert priors["Zipf 1.1", "median"] == zipf_prior(5 * 10**8, exponent=1.1, size=10**9)
    # The median password is rarer than a uniform one, as the paper says of its figure.
    for zipf in ("Zipf 1.1", "Zipf 1.2"):
        assert priors[zipf, "least"] < priors[zipf, "median"] < 1e-9 < priors[zipf, "most"]
    for zipf, protect, advantage in (("Zipf 1.1", 0.3993, 0.1556), ("Zipf 1.2", 0.2547, 0.2376)):
        row = by_secret[zipf, "most"].row(by_predicate=pl.col("epsilon") == 1.0, named=True)
        assert row["epsilon_protect"] == pytest.approx(protect, abs=1e-4)
        assert row["advantage"] == pytest.approx(advantage + 1e-5, abs=1e-4)


@pytest.mark.paper("renyi", "Section 4.3")
def test_the_run_is_that_of_the_paper():
    stated = {(row["place"], row["quantity"]): row["value"] for row in printed("002_text_values")}
    run = (stated["Fig 1, 2, 4.3", name] for name in ("sampling rate q", "training steps"))
    assert tuple(map(float, run)) == tuple(bounds.RUN.values())
    assert float(stated["Fig 1", "delta"]) == bounds.RUN_DELTA
    assert float(stated["Fig 2", "secret length (bits)"]) == bounds.LONG_SECRET
    rate, epochs = map(float, stated["Fig 6", "q, epochs"].split(", "))
    assert {"sampling_rate": rate, "steps": epochs / rate} == bounds.DENSE_RUN


@pytest.mark.paper("renyi", "Figure 1", "Figure 5", "Figure 7")
@pytest.mark.slow
def test_leakage_is_what_figures_1_5_and_7_say():
    strong, middle, weak = (bounds.leakage(noise, 1, 20, 64) for noise in (0.8, 0.469, 0.33))
    # Figure 7: one bit leaks whole below epsilon 10, twenty bits only around 50.
    assert middle[0]["epsilon"] == pytest.approx(8.8, abs=0.1)
    assert middle[0]["leaked"] == pytest.approx(1.0, abs=1e-3)
    assert middle[1]["leaked"] < 11.0
    assert weak[1]["epsilon"] == pytest.approx(49.4, abs=1.0)
    assert 0.985 * 20 < weak[1]["leaked"] < 20.0
    # Figure 1: the new bound is below both conversions for secrets that are not tiny.
    for rows in (strong, middle):
        assert all(row["leaked"] <= row["direct"] for row in rows)
        assert rows[1]["leaked"] < rows[1]["direct"]
    # Figure 5: for long secrets and little noise it is below the improved one, too.
    found = bounds.leakage(0.5, 20, 64)
    assert [row["leaked"] for row in found] == pytest.approx([8.05, 21.10], abs=0.01)
    assert all(row["leaked"] < row["improved_conversion"] for row in found)


@pytest.mark.slow
@pytest.mark.paper("renyi", "Figure 2")
def test_a_long_secret_leaks_with_the_steps_and_never_as_the_usual_conversion_fears(smaller):
    smaller(bounds, FIGURE_2_STEPS=(1_000, 30_000, bounds.RUN["steps"]))
    found = pl.DataFrame(bounds.steps(0.3, 0.5))
    weak, strong = (found.filter(noise_multiplier=noise) for noise in (0.3, 0.5))
    for rows in (weak, strong):
        assert rows["leaked"].is_sorted()
        assert rows["leaked"].n_unique() == 3
        assert (rows["leaked"] <= rows["direct"]).all()
        assert rows["leaked"][-1] < bounds.LONG_SECRET
    assert (weak["leaked"] > strong["leaked"]).all()
    # Even at the lowest noise of section 4.3 the secret never leaks whole; the usual conversion
    # says that it may, from the first thousand steps on.
    assert weak["leaked"][-1] == pytest.approx(57.6, abs=0.1)
    assert (weak["direct"] == bounds.LONG_SECRET).all()
    # The last point is that of Figure 1 at 60 bits.
    (whole,) = bounds.leakage(0.5, 60)
    assert strong["leaked"][-1] == pytest.approx(whole["leaked"], rel=1e-9)


@pytest.mark.slow
@pytest.mark.paper("renyi", "Figure 6")
def test_dense_sampling():
    loud, quiet = (bounds._PARTS["dense"](noise, 1, 10, 20, 64) for noise in (8.0, 2.0))
    # Without any order below 2, which would not converge: whatever the orders, it is a bound.
    epsilons = (loud[0]["epsilon"], quiet[0]["epsilon"])
    assert epsilons == pytest.approx((2.73, 14.53), abs=0.01)
    assert [row["leaked"] for row in loud] == pytest.approx([0.73, 2.80, 4.07, 7.53], abs=0.01)
    # At epsilon 14.5 a bit leaks whole and sixty-four keep more than half: the paper's point.
    assert quiet[0]["leaked"] == 1.0
    assert quiet[-1]["leaked"] < 32.0
    # Below one another: ours, then (for long secrets) the improved conversion, then the usual one.
    for rows in (loud, quiet):
        assert all(row["leaked"] <= row["direct"] for row in rows)
        assert rows[-1]["leaked"] < rows[-1]["improved_conversion"] < rows[-1]["direct"]


@pytest.fixture
def few(smaller):
    """Make the training runs few: they take seconds each; and leave out Ray."""
    smaller(
        bounds,
        FIGURE_1_NOISE=(0.5, 0.8),
        FIGURE_7_NOISE=(0.32, 0.34, 0.47),
        SECRET_BITS=(1.0, 20.0),
        FIGURE_7_BITS=(1.0, 20.0),
        FIGURE_2_NOISE=(0.5,),
        FIGURE_6_NOISE=(8.0,),
    )


NAMES = (
    "success",
    "advantage",
    "leakage_by_bits",
    "leakage_by_steps",
    "leakage_by_bits_dense",
    "leakage_by_epsilon",
    "noise",
)


@pytest.mark.slow
@pytest.mark.paper("worst_case", "Section 3.2", "Figure 2")
@pytest.mark.paper("renyi", "Figure 7")
@pytest.mark.paper("reidentification", "Figure 1", "Proposition 9")
def test_programs_get_every_printed_number_as_rows(few, tmp_path, privaudit):  # noqa: ARG001
    one, two = tmp_path / "one" / "deep", tmp_path / "two"
    code, told, _ = privaudit("study", "bounds", "--json", "--output", str(one))
    assert code == 0
    files = [*(f"{name}.csv" for name in (*NAMES, "published")), *(f"{name}.svg" for name in NAMES)]
    assert [pathlib.Path(file).name for file in json.loads(told)["files"][:-2]] == files
    run_study(bounds.study(), two)
    for name in (*files, "index.html"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
    check_files(one)
    page = (one / "index.html").read_text(encoding="utf-8")
    assert "differs: " in page
    assert page.count("data:image/svg+xml") == len(NAMES)
    success, noise, leakage = (
        pl.read_csv(one / f"{name}.csv") for name in ("success", "noise", "leakage_by_bits")
    )
    assert success["success"].is_between(0.0, 1.0).all()
    assert noise.filter(pl.col("eta") >= 0.01, pl.col("rip_scale") >= pl.col("dp_scale")).is_empty()
    assert leakage.filter(secret_bits=20).sort("epsilon")["leaked"].is_sorted()
    tables = {table["title"].removesuffix(": printed, and ours"): table["rows"]
              for table in json.loads(told)["tables"]}  # fmt: skip
    places = [
        *((WORST_CASE, place) for place in ("Section 3.2", "Fig 2b", "Fig 2a")),
        *((RENYI, "Fig 7"), (REIDENTIFICATION, "Proposition 9"), (REIDENTIFICATION, "Fig 1")),
    ]
    assert set(tables) == {f"{place} of {paper}" for paper, place in places}
    for paper, place in places:
        rows = {row["quantity"]: row for row in tables[f"{place} of {paper}"]}
        assert set(rows) == set(printed_values(paper, place))  # none is left out
        for row in rows.values():
            assert list(row) == ["quantity", "printed", "here", "verdict"]
            if row["printed"] in ("0.25", "0.24"):  # the most probable password
                assert row["here"] in ("0.40", "0.16")
                assert row["verdict"].startswith("differs: Zipf's law with 1.2")
            elif row["here"]:
                assert row["verdict"] == "agrees", row
            else:
                assert row["verdict"].startswith("not computed: the names' priors need GPT-2")
