"""`privaudit gate` of a real model file, before and after its audit."""

from tests.support.lake import DAY, model_path, write_settings
from workers.lake.layout import Lake


def test_a_file_is_inconclusive_until_it_was_audited(folder, privaudit):
    file = next(model_path(Lake(str(folder / "lake")), "good", DAY).glob("model.*"))
    run = ("run", "--model", "good", "--day", str(DAY))
    assert privaudit(*run).code == 0
    other = folder / "other.cbm"
    other.write_bytes(file.read_bytes() + b" ")
    unknown = privaudit("gate", "--sha256", str(other))
    assert unknown.code == 2
    assert unknown.out.startswith("inconclusive. No audit knows this file")
    known = privaudit("gate", "--sha256", str(file))
    assert str(DAY) in known.out
    # The lake's few rows refute nothing and could not have: the gate does not open.
    assert known.code == 2
    assert f"good on {DAY} is inconclusive (nights_needed)" in " ".join(known.out.split())
    accepted = privaudit("gate", "--sha256", str(file), "--accept", "nights_needed")
    assert accepted.code == 0
    assert privaudit("gate", "--sha256", str(file), "--accept", "few_held_out").code == 2
    for limit, code in ((0.5, 0), (0.49, 2)):
        write_settings(folder, ["good"], more=f"[policy]\nmax_epsilon = {limit}\n")
        by_policy = privaudit("gate", "--sha256", str(file), "--accept", "nights_needed")
        assert by_policy.code == code
        assert ("policy.max_epsilon: at most 0.49" in by_policy.words) == (code == 2)
    both = ("--accept", "nights_needed", "--accept", "over_policy")
    assert privaudit("gate", "--sha256", str(file), *both).code == 0
    named = privaudit("gate", "--sha256", str(file), "--model", "good")
    assert (named.code, str(DAY) in named.out) == (2, True)
    assert "No audit knows" in privaudit("gate", "--sha256", str(file), "--model", "other").out
    assert privaudit("gate", "--model", "good").code == 64
    assert privaudit("gate", "--sha256", str(folder / "none")).code == 3
