"""`privaudit explain`: true sentences, honest rounding, and one sentence for every mistake."""

import json
from functools import partial

import pytest

from flows.learn.explain import explain, guarantee_sentence, promised_by
from privcore.guarantees import Relation
from privcore.upper_bounds import Promised


@pytest.fixture
def privaudit(privaudit):
    """Return `privaudit explain`."""
    return partial(privaudit, "explain")


def answers(promised, **asked):
    return {answer.quantity: answer for answer in explain(promised, **asked)}


def test_the_usual_answers(privaudit):
    code, out, _ = privaudit("--epsilon", "1")
    assert code == 0
    assert "Epsilon 1, for replacing one record's secret." in out
    assert "nobody" in out.lower()
    # 73.106%, rounded up.
    assert "with more than 73.2% success." in out
    assert "bits leaked of a 64-bit secret" in out
    assert "17.77" in out
    _, out, _ = privaudit("--epsilon", "4")
    assert "Of a random secret of 20 bits, at most 5.8 leak." in out


def test_many_guesses(privaudit):
    _, out, _ = privaudit("--epsilon", "1", "--delta", "1e-6", "--records", "1000")
    assert "nobody has more than 754 right, with 95% confidence" in out
    _, rarer, _ = privaudit("--epsilon", "1", "--records", "1000", "--prior", "0.1")
    assert "Of 1,000 guesses that were right with probability 0.1 blindly, nobody has" in rarer


def test_a_given_prior_is_asked_of_one_guess():
    found = answers(Promised(1.0), prior=0.1)
    assert found.keys() == {"success_bound", "secret_advantage", "epsilon_protect"}
    success = found["success_bound"].value
    assert success == Promised(1.0).success(0.1)
    assert found["secret_advantage"].value == pytest.approx((success - 0.1) / 0.9)


def test_a_mechanism_is_accounted_for(privaudit):
    parameters = ["--parameter", "noise_multiplier=1", "--delta", "1e-5"]
    code, out, _ = privaudit("--mechanism", "gaussian", *parameters)
    assert code == 0
    # 4.377178, rounded up.
    assert "Epsilon 4.3772, delta 1e-5" in out
    assert "Stock et al." in out
    code, _, err = privaudit("--mechanism", "gaussian", *parameters, "--epsilon", "4")
    assert (code, "4.37718" in err) == (3, True)


def test_the_relation_is_said_and_converted():
    promised = promised_by(
        epsilon=1.0, delta=1e-6, neighbors="add_remove", mechanism=None, parameters=[]
    )
    assert promised.neighbors is Relation.ADD_REMOVE
    assert guarantee_sentence(promised) == (
        "Epsilon 1, delta 1e-6, for adding or removing one record; for replacing one, at most "
        "epsilon 2, delta 3.8e-6."
    )


def test_json_is_json(privaudit):
    for epsilon in ("1", "inf"):
        _, out, _ = privaudit("--epsilon", epsilon, "--json")
        found = json.loads(out, parse_constant=pytest.fail)
        assert found["neighbors"] == "replace"
        first = found["promises"][0]
        assert (first["quantity"], first["parameter"]) == ("success_bound", 0.5)
        assert 0.5 < first["value"] <= 1.0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "--epsilon is None"),
        (["--epsilon", "-1"], "epsilon is -1.0"),
        (["--epsilon", "nan"], "epsilon is nan"),
        (["--epsilon", "1", "--delta", "1"], "delta is 1.0"),
        (["--epsilon", "1", "--prior", "1.5"], "prior is 1.5"),
        (["--epsilon", "1", "--records", "-1"], "--records is -1"),
        (["--epsilon", "1", "--neighbors", "near"], "--neighbors is 'near'"),
        (["--epsilon", "1", "--parameter", "a=1"], "--parameter is 'a=1'"),
        (["--mechanism", "pure", "--parameter", "epsilon"], "--parameter is 'epsilon'"),
        (["--mechanism", "magic"], "mechanism is 'magic'"),
        (["--mechanism", "dp_sgd"], "missing parameter is 'noise_multiplier'"),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_value(privaudit, arguments, named):
    code, out, err = privaudit(*arguments)
    assert (code, out) == (3, "")
    assert named in err
    assert err.count("\n") == 1
