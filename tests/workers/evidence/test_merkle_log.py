import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privcore.exceptions import InvalidInputError
from workers.evidence.merkle_log import (
    EMPTY_ROOT,
    MerkleTree,
    is_consistent,
    is_included,
    leaf_hash,
    node_hash,
)

# The reference entries and roots of the Certificate Transparency project's own tests of RFC 6962.
ENTRIES = [
    bytes.fromhex(entry)
    for entry in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


def naive_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, as it is written there."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return node_hash(naive_root(leaves[:split]), naive_root(leaves[split:]))


def naive_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of RFC 6962."""
    if len(leaves) == 1:
        return []
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    if index < split:
        return [*naive_path(index, leaves[:split]), naive_root(leaves[split:])]
    return [*naive_path(index - split, leaves[split:]), naive_root(leaves[:split])]


def naive_proof(size: int, leaves: list[bytes], complete: bool = True) -> list[bytes]:
    """SUBPROOF of RFC 6962."""
    if size == len(leaves):
        return [] if complete else [naive_root(leaves)]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    if size <= split:
        return [*naive_proof(size, leaves[:split], complete), naive_root(leaves[split:])]
    return [*naive_proof(size - split, leaves[split:], False), naive_root(leaves[:split])]


def log(size: int) -> list[bytes]:
    return [leaf_hash(bytes([number])) for number in range(size)]


def test_the_reference_roots_of_rfc_6962() -> None:
    leaves = [leaf_hash(entry) for entry in ENTRIES]
    for size, root in enumerate(ROOTS, start=1):
        assert MerkleTree(leaves[:size]).root.hex() == root
        assert naive_root(leaves[:size]).hex() == root
    assert MerkleTree([]).root == EMPTY_ROOT
    assert EMPTY_ROOT.hex().startswith("e3b0c44298fc1c14")


@pytest.mark.parametrize("size", range(1, 36))
def test_roots_and_proofs_are_those_of_the_definition(size: int) -> None:
    leaves = log(size)
    tree = MerkleTree(leaves)
    assert tree.root == naive_root(leaves)
    for index in range(size):
        path = tree.inclusion_proof(index)
        assert path == naive_path(index, leaves)
        assert is_included(leaves[index], index, size, path, tree.root)
    for earlier in range(1, size + 1):
        proof = tree.consistency_proof(earlier)
        assert proof == naive_proof(earlier, leaves)
        assert is_consistent(earlier, naive_root(leaves[:earlier]), size, tree.root, proof)


def test_every_log_begins_with_the_empty_one() -> None:
    tree = MerkleTree(log(5))
    assert is_consistent(0, EMPTY_ROOT, 5, tree.root, [])
    assert not is_consistent(0, tree.root, 5, tree.root, [])


@pytest.mark.parametrize("size", range(1, 18))
def test_a_proof_of_inclusion_fits_one_entry_place_and_size_only(size: int) -> None:
    leaves = log(size)
    tree = MerkleTree(leaves)
    for index in range(size):
        path = tree.inclusion_proof(index)
        for other in range(size):
            found = is_included(leaves[index], other, size, path, tree.root)
            assert found == (other == index)
        assert not is_included(leaf_hash(b"other"), index, size, path, tree.root)
        assert not is_included(leaves[index], index, size, [*path, path[-1:] or b""], tree.root)
        assert not is_included(leaves[index], size, size, path, tree.root)
        assert not is_included(leaves[index], -1, size, path, tree.root)
        for place in range(len(path)):
            wrong = [*path[:place], leaf_hash(b"x"), *path[place + 1 :]]
            assert not is_included(leaves[index], index, size, wrong, tree.root)
            shorter = path[:place] + path[place + 1 :]
            assert not is_included(leaves[index], index, size, shorter, tree.root)


@given(st.integers(2, 60), st.data())
def test_a_changed_removed_or_reordered_beginning_has_no_proof(
    size: int, data: st.DataObject
) -> None:
    earlier = data.draw(st.integers(1, size))
    leaves = log(size)
    known = MerkleTree(leaves[:earlier]).root
    index = data.draw(st.integers(0, earlier - 1))
    changed = [*leaves[:index], leaf_hash(b"changed"), *leaves[index + 1 :]]
    removed = leaves[:index] + leaves[index + 1 :]
    for other in (changed, removed):
        tree = MerkleTree(other)
        if earlier <= tree.size:
            proof = tree.consistency_proof(earlier)
            if naive_root(other[:earlier]) != known:
                assert not is_consistent(earlier, known, tree.size, tree.root, proof)
    if index + 1 < earlier:
        swapped = [*leaves]
        swapped[index], swapped[index + 1] = swapped[index + 1], swapped[index]
        tree = MerkleTree(swapped)
        proof = tree.consistency_proof(earlier)
        assert not is_consistent(earlier, known, size, tree.root, proof)


def test_a_cut_tail_has_no_proof() -> None:
    tree, cut = MerkleTree(log(9)), MerkleTree(log(7))
    with pytest.raises(InvalidInputError, match="from 1 to 7"):
        cut.consistency_proof(9)
    for path in ([], tree.consistency_proof(7), cut.consistency_proof(3)):
        assert not is_consistent(9, tree.root, 7, cut.root, path)


def test_proofs_with_too_little_or_too_much_are_refused() -> None:
    tree = MerkleTree(log(13))
    for earlier in range(1, 13):
        root, proof = naive_root(log(13)[:earlier]), tree.consistency_proof(earlier)
        assert not is_consistent(earlier, root, 13, tree.root, [])
        assert not is_consistent(earlier, root, 13, tree.root, proof[:-1])
        assert not is_consistent(earlier, root, 13, tree.root, [*proof, proof[-1]])


def test_an_entry_that_is_not_there_has_no_proof() -> None:
    with pytest.raises(InvalidInputError) as refused:
        MerkleTree(log(3)).inclusion_proof(3)
    assert "the log has 3 entries" in str(refused.value)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # noqa: S301
