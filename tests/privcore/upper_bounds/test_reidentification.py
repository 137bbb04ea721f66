"""Re-identification privacy: conversions, noise that suffices or does not, all training sets."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import binomial, mp, mpf
from scipy.stats import binomtest, kstest
from scipy.stats import gamma as gamma_distribution

from privcore.upper_bounds import (
    anisotropic_noise,
    generalised_advantage,
    laplace_radius_noise,
    least_noise_scale,
    noise_needed,
    optimal_accuracy,
    optimal_adversary,
    optimised_noise_scale,
    printed_reidentification_private,
    reciprocal_sum_deviation,
    reciprocal_sum_sensitivity,
    reidentification_eta,
    reidentification_private,
    rip_epsilon,
    rip_eta,
    rip_noise_scale,
    success_bound,
    training_sets,
)
from tests.support.published import printed
from tests.support.refusals import refused


@pytest.mark.parametrize("epsilon", [1e-12, 0.01, 1.0, 4.0, 20.0])
def test_eta_against_mpmath_and_back(epsilon):
    with mp.workdps(40):
        eta = 1 / (1 + mp.exp(-mpf(epsilon))) - mpf(1) / 2
        back = mp.log((1 + 2 * mpf(0.3)) / (1 - 2 * mpf(0.3)))
    assert rip_eta(epsilon) == pytest.approx(float(eta), rel=1e-14)
    assert rip_epsilon(0.3) == pytest.approx(float(back), rel=1e-14)
    assert rip_epsilon(rip_eta(epsilon)) == pytest.approx(epsilon, rel=1e-7)


def test_eta_is_membership_success_above_a_half():
    epsilon = np.array([0.0, 0.5, 2.0, np.inf])
    success = success_bound(0.5, epsilon=epsilon)
    np.testing.assert_allclose(0.5 + rip_eta(epsilon), success, rtol=1e-14)
    np.testing.assert_allclose(2.0 * rip_eta(epsilon), generalised_advantage(0.5, success))
    assert rip_epsilon([0.0, 0.5]).tolist() == [0.0, np.inf]


def test_noise_scales():
    assert rip_noise_scale(0.1) == pytest.approx(5625.0)
    assert rip_noise_scale(0.1, moment=np.inf) == pytest.approx(75.0)
    assert rip_noise_scale([0.1, 0.2], moment=4.0).shape == (2,)
    assert least_noise_scale(0.1) == pytest.approx(5.0)


@pytest.mark.paper("reidentification", "Theorem 4", "Theorem 7", "Corollary 8", "Algorithm 1")
def test_the_constants_are_those_of_the_paper():
    stated = {row["item"]: row["value"] for row in printed("001_constants")}
    eta, epsilon, moment, sigma, sensitivity = 0.3, 1.7, 4.0, 2.5, 7.0
    # The printed formulas, read as Python.
    names = {"eta": eta, "epsilon": epsilon, "M": moment, "sigma": sigma, "Delta": sensitivity}

    def value(item):
        return eval(  # noqa: S307  # our own file's formulas
            stated[item].replace("^", "**").replace("2 eta", "2*eta"),
            {"exp": np.exp, "log": np.log, **names},
        )

    assert rip_eta(epsilon) == pytest.approx(value("Theorem 4 eta"))
    assert rip_noise_scale(eta, moment=moment) == pytest.approx(value("Theorem 7 c"))
    assert optimised_noise_scale(eta) == pytest.approx(value("Corollary 8 radius scale"))
    assert rip_noise_scale(eta) * sigma == pytest.approx(value("Algorithm 1 radius scale"))
    assert optimised_noise_scale(eta) * sigma == pytest.approx(value("Figure 1 RIP scale"))
    assert sensitivity / rip_epsilon(eta) == pytest.approx(value("Figure 1 DP scale"))


def test_noise_has_its_density():
    # N = 4,000 draws in 3 dimensions, judged at 1e-6: radius Gamma(3, c), direction uniform.
    draw = functools.partial(anisotropic_noise, eta=0.25, generator=np.random.default_rng(31))
    deviations = np.array([1.0, 10.0, 3.0])
    noise = np.array([draw(deviations) for _ in range(4_000)]) / deviations
    radius = np.sqrt(np.mean(noise**2, axis=1))
    assert kstest(radius, gamma_distribution(3, scale=900.0).cdf).pvalue > 1e-6
    assert kstest(radius, gamma_distribution(3, scale=1.1 * 900.0).cdf).pvalue < 1e-6
    # In three dimensions the coordinates of a uniform direction are uniform (Archimedes).
    along = noise[:, 2] / (np.sqrt(3.0) * radius)
    assert kstest(along, "uniform", args=(-1.0, 2.0)).pvalue > 1e-6
    assert draw([1.0, 0.0])[1] == 0.0


def attack_accuracy(radius, dimension, generator):
    """How often the sign of the mean coordinate tells +1 from -1 in every coordinate.

    The output is +-(1, ..., 1) as a record is in or out, with deviation 1 in each coordinate, plus
    sqrt(dimension) radius times a uniform direction, whose mean coordinate is all that counts.
    """
    normal = generator.standard_normal(radius.size)
    rest = generator.chisquare(dimension - 1, radius.size)
    mean_noise = radius * normal / np.sqrt(normal**2 + rest)
    return np.mean(1.0 + mean_noise > 0.0)


@pytest.mark.paper("reidentification", "Theorem 7")
@pytest.mark.parametrize("dimension", [2, 100, 10**6, 10**9])
def test_noise_of_the_theorem_hides_membership_in_any_dimension(dimension):
    # N = 100,000 attacks, judged at 1e-6, against the published scale and the least one.
    generator = np.random.default_rng(37)
    for scale in (float(rip_noise_scale(0.25)), float(least_noise_scale(0.25))):
        radius = generator.gamma(dimension, scale, 100_000)
        accuracy = attack_accuracy(radius, dimension, generator)
        right = round(accuracy * 100_000)
        assert binomtest(right, 100_000, 0.75, alternative="greater").pvalue > 1e-6


@pytest.mark.paper("reidentification", "Corollary 8")
def test_published_laplace_radius_does_not_hide_membership_in_many_dimensions():
    # N = 100,000 attacks. The promise at eta 0.25 is an accuracy of at most 0.75.
    generator = np.random.default_rng(41)
    radius = np.abs(generator.laplace(0.0, (6.16 / 0.25) ** 2, 100_000))
    assert attack_accuracy(radius, 100, generator) < 0.75
    assert attack_accuracy(radius, 10**6, generator) > 0.9
    drawn = [laplace_radius_noise([1.0, 1.0], eta=0.25, generator=generator) for _ in range(4_000)]
    assert np.mean(np.linalg.norm(drawn, axis=1)) / np.sqrt(2.0) == pytest.approx(607.0, rel=0.1)


def test_least_noise_scale_is_nearly_needed():
    # Two outputs at +-1, Laplace noise of scale c in one dimension: the best accuracy is exactly
    # 1 - e^(-1/c)/2, which is within eta^2 of 1/2 + eta.
    for eta in (0.01, 0.1, 0.4):
        accuracy = 1.0 - np.exp(-1.0 / least_noise_scale(eta)) / 2.0
        assert 0.5 + eta - eta**2 <= accuracy <= 0.5 + eta


def mean_and_count(half):
    return [[half.mean(), float(half.size)]]


def test_wrapper_estimates_deviations_and_adds_noise():
    records = np.random.default_rng(43).normal(size=200)
    first = reidentification_private(
        mean_and_count, records, eta=0.2, halves=400, generator=np.random.default_rng(5)
    )
    # Means of 100 of 200 values without replacement.
    expected = records.std(ddof=1) * np.sqrt(1.0 / 100 - 1.0 / 200)
    assert first.deviations[0, 0] == pytest.approx(expected, rel=0.15)
    # The count never varies, so nothing hides it: the estimate is all that is known.
    assert first.deviations[0, 1] == 0.0
    assert first.output.shape == (1, 2)
    assert first.output[0, 1] == 100.0
    assert first.output[0, 0] != pytest.approx(records.mean(), abs=1.0)


@pytest.mark.paper("reidentification", "Algorithm 1")
def test_algorithm_1_as_printed_estimates_one_sigma_from_quarters():
    # 400 estimates of sigma, from halves of a half of 200 records: for a mean, each varies sqrt(2)
    # as much as halves of all records do; over coordinates the variances add up.
    records = np.random.default_rng(43).normal(size=(200, 3)) * [1.0, 10.0, 0.0]

    def mean(half):
        return half.mean(axis=0)

    sigmas = [
        float(
            printed_reidentification_private(
                mean, records, eta=0.2, halves=30, generator=np.random.default_rng(seed)
            ).deviations
        )
        for seed in range(400)
    ]
    spread = np.sqrt(np.sum(records.var(axis=0, ddof=1)))
    assert np.mean(sigmas) == pytest.approx(spread * np.sqrt(1.0 / 50 - 1.0 / 100), rel=0.03)
    halves_of_all = spread * np.sqrt(1.0 / 100 - 1.0 / 200)
    assert np.mean(sigmas) == pytest.approx(np.sqrt(2.0) * halves_of_all, rel=0.03)


@pytest.mark.slow
@pytest.mark.paper("reidentification", "Algorithm 1")
def test_noise_of_algorithm_1_is_laplace_in_a_random_direction():
    # N = 3,000, judged at 1e-6: the radius over sigma is Laplace((7.5/eta)^2), the direction
    # uniform, whatever the coordinates' own deviations: also the one that never varies gets noise.
    records = np.arange(8.0)

    def train(half):
        return np.array([half.mean(), 100.0 * half.mean(), 5.0])

    radii, shares = [], []
    for seed in range(3_000):
        found = printed_reidentification_private(
            train, records, eta=0.25, halves=4, generator=np.random.default_rng(seed)
        )
        constant = found.output[2] - 5.0
        generator = np.random.default_rng(seed)
        half = records[generator.permutation(8)[:4]]
        noise = found.output - train(half)
        assert noise[2] == pytest.approx(constant)
        if found.deviations > 0.0:
            radii.append(np.linalg.norm(noise) / found.deviations)
            shares.append(noise[2] / np.linalg.norm(noise))
    assert kstest(radii, "expon", args=(0.0, 30.0**2)).pvalue > 1e-6
    assert kstest(radii, "expon", args=(0.0, 1.2 * 30.0**2)).pvalue < 1e-6
    assert kstest(shares, "uniform", args=(-1.0, 2.0)).pvalue > 1e-6


@pytest.mark.parametrize("private", [reidentification_private, printed_reidentification_private])
@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"eta": 0.0}, "eta is 0.0"),
        ({"halves": 1}, "halves is 1"),
        ({"records": [1.0]}, "records is"),
        ({"train": lambda half: half[: int(half[0])]}, "shapes of outputs"),
        ({"train": lambda half: [half.mean() * np.nan]}, "output is nan"),
    ],
)
def test_wrappers_refuse_bad_input(private, changes, name):
    given = {"train": mean_and_count, "records": np.arange(10.0), "eta": 0.1} | changes
    train, records = given.pop("train"), given.pop("records")
    refused(name, private, train, records, generator=np.random.default_rng(1), **given)


def test_algorithm_1_halves_a_half():
    refused(
        "a half of a half needs four records",
        printed_reidentification_private,
        mean_and_count,
        [1.0, 2.0, 3.0],
        eta=0.1,
        generator=np.random.default_rng(1),
    )


@pytest.mark.parametrize("noise", [anisotropic_noise, laplace_radius_noise])
def test_noise_refuses_bad_deviations(noise):
    for deviations in ([-1.0], [np.inf], [], [[1.0]]):
        refused("deviations", noise, deviations, eta=0.1, generator=np.random.default_rng(1))


HALVES_OF_FOUR = training_sets(4, size=2)


def stochastic(rows, columns, seed):
    """A random table whose rows are distributions, some entries 0."""
    generator = np.random.default_rng(seed)
    table = generator.random((rows, columns)) * (generator.random((rows, columns)) < 0.7)
    table[:, 0] += 1e-3
    return table / table.sum(axis=1, keepdims=True)


tables = st.builds(stochastic, st.just(6), st.integers(1, 4), st.integers(0, 10**6))


def test_training_sets_are_all_of_them_once():
    members = training_sets(6, size=2)
    assert members.shape == (15, 6)
    assert (members.sum(axis=1) == 2).all()
    assert len({row.tobytes() for row in members}) == 15


@pytest.mark.paper("reidentification", "Definition 1", "Proposition 2")
@settings(deadline=None, max_examples=50)
@given(tables)
def test_no_adversary_does_better_than_the_one_of_proposition_2(table):
    # Every deterministic adversary there is: 2^outputs, for each record.
    accuracy = optimal_accuracy(table, members=HALVES_OF_FOUR)
    says = optimal_adversary(table, members=HALVES_OF_FOUR)
    for record in range(4):
        takes_part = HALVES_OF_FOUR[:, record]
        reached = [
            np.mean(table[takes_part] @ guess) / 2 + np.mean(table[~takes_part] @ (1 - guess)) / 2
            for guess in map(np.array, itertools.product([0, 1], repeat=table.shape[1]))
        ]
        assert accuracy[record] == pytest.approx(max(reached), abs=1e-12)
        own = says[record].astype(int)
        mine = np.mean(table[takes_part] @ own) / 2 + np.mean(table[~takes_part] @ (1 - own)) / 2
        assert mine == pytest.approx(accuracy[record], abs=1e-12)


@pytest.mark.paper("reidentification", "Equation (1)")
@pytest.mark.parametrize("seed", range(10))
def test_equation_1_with_fresh_records_holds_at_the_eta_of_dp(seed):
    # All training sets of two records of three values, a mechanism of four outputs, and the best
    # adversary: shown is a record of the training set or a fresh one, as the coin says.
    random = np.random.default_rng([1, seed])
    population = random.dirichlet(np.ones(3))
    sets = list(itertools.product(range(3), repeat=2))
    runs = np.exp(random.uniform(0.0, 1.5, (9, 4)))
    runs /= runs.sum(axis=1, keepdims=True)
    near = [
        (one, other)
        for (one, a), (other, b) in itertools.product(enumerate(sets), repeat=2)
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1
    ]
    epsilon = max(float(np.abs(np.log(runs[one] / runs[other])).max()) for one, other in near)
    member, fresh = np.zeros((3, 4)), np.zeros((3, 4))
    for place, records in enumerate(sets):
        chance = float(np.prod(population[list(records)]))
        for record in records:
            member[record] += chance / 2.0 * runs[place]
        fresh += chance * np.outer(population, runs[place])
    accuracy = float(np.maximum(member, fresh).sum()) / 2.0
    assert 0.5 < accuracy <= 0.5 + float(rip_eta(epsilon)) + 1e-12


@pytest.mark.paper("reidentification", "Theorem 3")
@settings(deadline=None, max_examples=100)
@given(tables, st.integers(1, 5), st.integers(0, 10**6))
def test_no_function_of_the_output_raises_eta(table, outputs, seed):
    after = np.minimum(table @ stochastic(table.shape[1], outputs, seed), 1.0)
    before = reidentification_eta(table, members=HALVES_OF_FOUR)
    assert reidentification_eta(after, members=HALVES_OF_FOUR) <= before + 1e-12


@pytest.mark.paper("reidentification", "Theorem 4")
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_theorem_4_is_tight_on_two_records(epsilon):
    kept = 1.0 / (1.0 + np.exp(-epsilon))
    table = [[kept, 1.0 - kept], [1.0 - kept, kept]]
    eta = reidentification_eta(table, members=training_sets(2, size=1))
    assert eta == pytest.approx(rip_eta(epsilon), rel=1e-12)


@pytest.mark.paper("reidentification", "Theorem 4", "Proposition 6")
@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.floats(0.01, 4.0))
def test_dp_implies_eta_and_bounds_the_odds_at_every_output(seed, epsilon):
    # Any table whose entries differ by at most e^epsilon between any two training sets is
    # epsilon-DP, whichever sets are neighbours.
    generator = np.random.default_rng(seed)
    table = np.exp(generator.uniform(0.0, epsilon / 2.0, (6, 5)))
    table /= table.sum(axis=1, keepdims=True)
    assert np.ptp(np.log(table), axis=0).max() <= epsilon
    assert reidentification_eta(table, members=HALVES_OF_FOUR) <= rip_eta(epsilon)
    taking = HALVES_OF_FOUR.T @ table
    without = (~HALVES_OF_FOUR).T @ table
    assert np.abs(np.log(taking / without)).max() <= epsilon


@pytest.mark.paper("reidentification", "Theorem 5")
@pytest.mark.parametrize("eta", [0.2, 0.01, 1e-4])
def test_eta_without_any_epsilon(eta):
    # The paper's example: each record of the training set is published with a small probability,
    # or nothing is. Its eta is as small as one likes, and no epsilon is finite.
    published = 2.0 * eta
    members = training_sets(6, size=3)
    table = np.column_stack([members * (published / 3.0), np.full(len(members), 1.0 - published)])
    found = reidentification_eta(table, members=members)
    assert 0.0 < found <= eta
    neighbours = [
        (one, other)
        for one, other in itertools.combinations(range(len(members)), 2)
        if (members[one] & members[other]).sum() == 2
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = [np.abs(np.log(table[one] / table[other])) for one, other in neighbours]
    assert np.nanmax(losses) == np.inf


def all_halves(records):
    """Half -> statistic, as the proposition says it, in 60 digits."""
    rare = 1 / binomial(records, records // 2)
    odd_one = mp.sqrt(rare) - sum(mpf(2) ** i for i in range(records // 2 - 1))
    data = [mpf(2) ** i for i in range(records - 1)] + [odd_one]
    halves = itertools.combinations(range(records), records // 2)
    return {frozenset(half): 1 / mp.fsum(data[i] for i in half) for half in halves}


@pytest.mark.paper("reidentification", "Proposition 9")
@pytest.mark.parametrize("records", [4, 6, 8, 10])
def test_every_half_gives_these_moments(records):
    with mp.workdps(60):
        found = all_halves(records)
        values = list(found.values())
        mean = mp.fsum(values) / len(values)
        deviation = mp.sqrt(mp.fsum((value - mean) ** 2 for value in values) / len(values))
        sensitivity = max(
            abs(found[one] - found[other])
            for one, other in itertools.combinations(found, 2)
            if len(one & other) == records // 2 - 1
        )
        # The one half that sums to sqrt(p), and all others in [0, 1].
        assert max(values) == pytest.approx(float(mp.sqrt(len(values))), rel=1e-14)
        assert all(0 <= value <= 1 for value in values if value != max(values))
    assert reciprocal_sum_deviation(records) == pytest.approx(float(deviation), rel=1e-13)
    assert reciprocal_sum_sensitivity(records) == pytest.approx(float(sensitivity), rel=1e-13)


@pytest.mark.paper("reidentification", "Proposition 9")
def test_the_deviation_stays_while_the_sensitivity_grows():
    for records in range(18, 200, 2):
        assert reciprocal_sum_deviation(records) == pytest.approx(1.0, abs=2e-5)
        assert reciprocal_sum_sensitivity(records) > 2.0 ** (records / 3.0)


def test_the_bound_beyond_enumeration_goes_on_where_enumeration_ends(monkeypatch):
    exact = {records: reciprocal_sum_deviation(records) for records in (16, 18, 20, 22)}
    monkeypatch.setattr("privcore.upper_bounds.reidentification._ENUMERATED", 4)
    for records, deviation in exact.items():
        bound = reciprocal_sum_deviation(records)
        assert deviation <= bound
        assert bound == pytest.approx(deviation, rel=2.0 ** (5 - records))


@pytest.mark.paper("reidentification", "Figure 1")
@pytest.mark.parametrize("row", printed("001_figure1_recomputed"), ids=lambda row: row["records"])
def test_figure_1_is_that_of_another_implementation(row):
    found = noise_needed(int(row["records"]), eta=float(row["eta"]))
    assert found.sensitivity == pytest.approx(float(row["sensitivity"]), rel=1e-5)
    assert found.dp_scale == pytest.approx(float(row["dp_laplace_scale"]), rel=1e-5)
    assert found.rip_scale == pytest.approx(float(row["rip_laplace_scale"]), rel=1e-5)


@pytest.mark.paper("reidentification", "Figure 1")
def test_figure_1_shows_what_the_paper_says_of_it():
    for records in (36, 40, 44, 48):
        for eta in np.linspace(0.01, 0.49, 25):
            found = noise_needed(records, eta=float(eta))
            assert found.rip_scale < found.dp_scale
            assert least_noise_scale(eta) * found.deviation < found.rip_scale
    # DP needs less at a very small eta: "for almost all values", not for all.
    tiny = noise_needed(36, eta=0.001)
    assert tiny.dp_scale < tiny.rip_scale


@pytest.mark.slow
@pytest.mark.paper("reidentification", "Figure 1")
@pytest.mark.parametrize("eta", [0.05, 0.2, 0.4])
def test_the_drawn_noise_keeps_its_promise_on_the_statistic(eta):
    # The best adversary's accuracy on every record of n = 8, by integration over the noisy output;
    # with a hundredth of the least noise the strictest promise is broken.
    with mp.workdps(30):
        found = {half: float(value) for half, value in all_halves(8).items()}
    needed = noise_needed(8, eta=eta)
    least = float(least_noise_scale(eta)) * needed.deviation

    def accuracy(scale):
        """Best accuracy on the record told best, with Laplace noise of this scale."""
        reach = 40.0 * scale + 20.0
        grid = np.linspace(-reach, reach, 100_001)
        densities = {half: np.exp(-np.abs(grid - at) / scale) for half, at in found.items()}
        best = 0.0
        for record in range(8):
            taking = sum(density for half, density in densities.items() if record in half)
            without = sum(density for half, density in densities.items() if record not in half)
            step = grid[1] - grid[0]
            best = max(best, float(np.sum(np.maximum(taking, without)) * step))
        return best / (len(found) * 2.0 * scale)

    for scale in (needed.rip_scale, least):
        assert accuracy(scale) <= 0.5 + eta + 1e-3
    if eta == 0.05:
        assert accuracy(least / 100.0) > 0.5 + eta


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: rip_eta(-1.0), "epsilon is -1.0"),
        (lambda: rip_epsilon(0.6), "eta is 0.6"),
        (lambda: rip_noise_scale(0.0), "eta is 0.0"),
        (lambda: rip_noise_scale(0.1, moment=0.5), "moment is 0.5"),
        (lambda: least_noise_scale(-0.1), "eta is -0.1"),
        (lambda: training_sets(0, size=0), "records is 0"),
        (lambda: training_sets(3, size=4), "size is 4"),
        (lambda: reidentification_eta([[1.0]], members=[[1]]), "members is"),
        (lambda: reidentification_eta([[1.0]], members=HALVES_OF_FOUR), "shape of likelihoods"),
        (
            lambda: reidentification_eta(np.full((6, 2), 0.4), members=HALVES_OF_FOUR),
            "sum of probabilities is 0.8",
        ),
        (lambda: noise_needed(37), "records is 37"),
        (lambda: noise_needed(2), "records is 2"),
        (lambda: noise_needed(1_002), "records is 1002"),
        (lambda: noise_needed(36, eta=0.0), r"eta is 0\.0"),
    ],
)
def test_bad_input_is_named(call, name):
    refused(name, call)
