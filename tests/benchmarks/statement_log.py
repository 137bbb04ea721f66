"""The log of 100,000 statements: its tree, every inclusion proof, and a proof that it has grown.

    python -m tests.benchmarks.statement_log [--json] [--quick]

Every entry is hashed and its proof made and verified, as who holds all bundles of a log would. With
`--quick`, 5,000 statements.
"""

from typing import Any

from tests.benchmarks.measure import arguments, report, run
from workers.evidence.log_heads import find_tampering
from workers.evidence.merkle_log import MerkleTree, is_consistent, is_included, leaf_hash

ENTRY = b'{"statement_id":"%032x","figures":"' + b"0" * 900 + b'"}'
"""As long as a statement's text."""


def verified(tree: MerkleTree) -> bool:
    """Return whether the proof of every entry holds."""
    return all(
        is_included(leaf, index, tree.size, tree.inclusion_proof(index), tree.root)
        for index, leaf in enumerate(tree.leaves)
    )


def measured(*, quick: bool) -> list[dict[str, Any]]:
    size = 5_000 if quick else 100_000
    entries = [ENTRY % number for number in range(size)]
    made = run(lambda: MerkleTree([leaf_hash(entry) for entry in entries]))
    tree = made.value
    proofs = run(lambda: verified(tree))
    earlier = MerkleTree(tree.leaves[: size // 3])
    grown = run(lambda: tree.consistency_proof(earlier.size))
    assert proofs.value
    assert is_consistent(earlier.size, earlier.root, size, tree.root, grown.value)
    cut = [*tree.leaves[:100], *tree.leaves[101:]]
    found = run(lambda: find_tampering(tree.leaves, cut))
    assert [each.index for each in found.value] == [100]
    return [
        {
            "statements": size,
            "tree, seconds": made.seconds,
            "all inclusion proofs, seconds": proofs.seconds,
            "consistency proof, seconds": grown.seconds,
            "a removed statement is named, seconds": found.seconds,
        }
    ]


def main() -> None:
    report(measured(quick=arguments(__doc__).quick), description=__doc__)


if __name__ == "__main__":
    main()
