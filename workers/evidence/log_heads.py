"""The log of statements: signed heads, tombstones, and changes of the log in between.

An entry is a statement, or the tombstone that replaces an erased one. A tombstone keeps the hash of
the erased statement's entry, so that the root stays, and says who erased what, with a signature.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, StringConstraints, ValidationError
from securesystemslib.signer import Key, Signer

from privcore.exceptions import TerminalError
from workers.evidence.envelope import (
    DsseEnvelope,
    UntrustedSignatureError,
    canonical_json,
    has_one_form,
    sign_payload,
    verified_payload,
)
from workers.evidence.merkle_log import MerkleTree, is_consistent, leaf_hash
from workers.publication.erased import ErasedStatement, NoStatementError, entry_of
from workers.strict_model import StrictModel

HEAD_TYPE = "application/vnd.privaudit.log-head.v1+json"
"""Type of a signed head's payload."""
TOMBSTONE_TYPE = "application/vnd.privaudit.tombstone.v1+json"
"""Type of a tombstone's payload."""

Payload = TypeVar("Payload", bound=BaseModel)
HexDigest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class LogHead(StrictModel):
    """A log at one moment: its root fixes every entry."""

    size: int
    root: HexDigest
    time: dt.datetime


class Tombstone(StrictModel):
    """Remainder of an erased statement. It holds no figure."""

    statement_id: str
    leaf: HexDigest
    erased_at: dt.datetime
    reason: str


class LogFile(StrictModel):
    """A log's signed head with the hash of every entry, to be kept where it cannot be changed.

    The hashes tell nothing about statements, whose ids are random, and they name which entry was
    tampered with.
    """

    mediaType: Literal["application/vnd.privaudit.log.v1+json"]  # noqa: N815  # as in-toto has it
    head: DsseEnvelope
    leaves: list[HexDigest]


class Tampering(StrEnum):
    """Change of an entry of an append-only log."""

    REMOVED = "removed"
    CHANGED = "changed"
    REORDERED = "reordered"
    INSERTED = "inserted"
    CUT = "cut off the end"


@dataclass(frozen=True, slots=True)
class TamperedEntry:
    """One entry that is not as it was."""

    what: Tampering
    index: int


def tree_of(entries: Iterable[bytes | DsseEnvelope], trusted: Sequence[Key]) -> MerkleTree:
    """Return the tree of a log.

    Args:
        entries: statements as canonical JSON (`log_entry`), tombstones as envelopes.
        trusted: keys, one of which signed each tombstone.

    Raises:
        UntrustedSignatureError: a tombstone that none of these keys signed.
    """
    return MerkleTree(
        [
            leaf_hash(entry)
            if isinstance(entry, bytes)
            else bytes.fromhex(read_tombstone(entry, trusted).leaf)
            for entry in entries
        ]
    )


def tree_of_contents(contents: Iterable[str], trusted: Sequence[Key]) -> MerkleTree:
    """Return the tree of the statements' table.

    Raises:
        UntrustedSignatureError: a tombstone that none of these keys signed, or of another
            statement.
    """
    return tree_of((_log_entry(text, trusted) for text in contents), trusted)


def sign_head(tree: MerkleTree, time: dt.datetime, signer: Signer) -> DsseEnvelope:
    """Return a log's head with a signature."""
    head = LogHead(size=tree.size, root=tree.root.hex(), time=time.astimezone(dt.UTC))
    return sign_payload(canonical_json(head.model_dump(mode="json")), HEAD_TYPE, signer)


def read_head(envelope: DsseEnvelope, trusted: Sequence[Key]) -> LogHead:
    """Return a signed head.

    Raises:
        UntrustedSignatureError: no trusted key signed it as it is.
    """
    payload = verified_payload(envelope, HEAD_TYPE, trusted, "the log's head")
    return _validated(LogHead, payload, "the log's head")


def bury(
    entry: bytes, statement_id: str, *, reason: str, time: dt.datetime, signer: Signer
) -> DsseEnvelope:
    """Return the signed tombstone that replaces a statement's entry in the log."""
    stone = Tombstone(
        statement_id=statement_id,
        leaf=leaf_hash(entry).hex(),
        erased_at=time.astimezone(dt.UTC),
        reason=reason,
    )
    return sign_payload(canonical_json(stone.model_dump(mode="json")), TOMBSTONE_TYPE, signer)


def read_tombstone(envelope: DsseEnvelope, trusted: Sequence[Key]) -> Tombstone:
    """Return a tombstone.

    Raises:
        UntrustedSignatureError: no trusted key signed it as it is.
    """
    payload = verified_payload(envelope, TOMBSTONE_TYPE, trusted, "a tombstone")
    return _validated(Tombstone, payload, "a tombstone")


def check_grown(earlier: LogHead, tree: MerkleTree) -> list[bytes]:
    """Return the proof that a log begins with all that it held at an earlier head.

    Raises:
        TerminalError: an entry was removed, changed or reordered, or the log's end was cut off.
    """
    if tree.size < earlier.size:
        raise TerminalError(
            f"The log has {tree.size} statements, and the head of {earlier.time:%Y-%m-%d %H:%M} "
            f"UTC counts {earlier.size}: its end was cut off, so restore the statements' table."
        )
    proof = tree.consistency_proof(earlier.size) if 0 < earlier.size < tree.size else []
    root = bytes.fromhex(earlier.root)
    if not is_consistent(earlier.size, root, tree.size, tree.root, proof):
        raise TerminalError(
            f"The first {earlier.size} statements of the log are not those of the head of "
            f"{earlier.time:%Y-%m-%d %H:%M} UTC: a statement was removed, changed or reordered, "
            "so restore the statements' table."
        )
    return proof


def write_log(tree: MerkleTree, time: dt.datetime, signer: Signer) -> bytes:
    """Return the file of a log with its signed head, as bytes."""
    made = LogFile(
        mediaType="application/vnd.privaudit.log.v1+json",
        head=sign_head(tree, time, signer),
        leaves=[leaf.hex() for leaf in tree.leaves],
    )
    return canonical_json(made.model_dump(mode="json")) + b"\n"


def read_log(data: bytes, trusted: Sequence[Key]) -> tuple[LogHead, list[bytes]]:
    """Return the head and the entries' hashes of a log's file.

    Raises:
        UntrustedSignatureError: it is no such file, no trusted key signed it as it is, or its
            hashes are not those of its head.
    """
    try:
        found = LogFile.model_validate_json(data)
    except ValidationError:
        raise UntrustedSignatureError(
            "altered", "The file is no log of version 1: it was changed, or it is another file."
        ) from None
    head, leaves = read_head(found.head, trusted), [bytes.fromhex(leaf) for leaf in found.leaves]
    if (MerkleTree(leaves).root.hex(), len(leaves)) != (head.root, head.size):
        raise UntrustedSignatureError(
            "altered", "The entries of the log's file are not those of its signed head."
        )
    return head, leaves


def find_tampering(earlier: Sequence[bytes], later: Sequence[bytes]) -> list[TamperedEntry]:
    """Return what happened to the entries of an append-only log; nothing if it only grew.

    The roots tell *that* something happened, this tells where. Entries differ from each other,
    since each statement has a random id.
    """
    if list(later[: len(earlier)]) == list(earlier):
        return []
    places = {leaf: index for index, leaf in enumerate(later)}
    known = {leaf: index for index, leaf in enumerate(earlier)}
    kept = [index for index, leaf in enumerate(earlier) if leaf in places]
    end = kept[-1] + 1 if kept else 0
    replaced = set()
    found = []
    for index, leaf in enumerate(earlier):
        if leaf in places:
            continue
        if index < len(later) and later[index] not in known:
            found.append(TamperedEntry(Tampering.CHANGED, index))
            replaced.add(index)
        elif index >= max(end, len(later)):
            found.append(TamperedEntry(Tampering.CUT, index))
        else:
            found.append(TamperedEntry(Tampering.REMOVED, index))
    order = sorted(kept, key=lambda index: places[earlier[index]])
    found += [
        TamperedEntry(Tampering.REORDERED, was)
        for was, found_there in zip(kept, order, strict=True)
        if was != found_there
    ]
    last = max((places[earlier[index]] for index in kept), default=-1)
    found += [
        TamperedEntry(Tampering.INSERTED, index)
        for index, leaf in enumerate(later[: last + 1])
        if leaf not in known and index not in replaced
    ]
    return sorted(found, key=lambda each: (each.index, each.what))


def _log_entry(content: str, trusted: Sequence[Key]) -> bytes | DsseEnvelope:
    try:
        entry = entry_of(content)
    except NoStatementError:
        return content.encode()  # of which the log says where it was changed
    if not isinstance(entry, ErasedStatement):
        return content.encode()
    envelope = DsseEnvelope.model_validate(entry.tombstone)
    stone = read_tombstone(envelope, trusted)
    said = stone.statement_id, stone.reason, stone.erased_at
    if said != (entry.statement_id, entry.reason, entry.erased_at):
        raise UntrustedSignatureError(
            "altered", f"The entry of the erased statement {entry.statement_id} was changed."
        )
    return envelope


def _validated(kind: type[Payload], payload: bytes, what: str) -> Payload:
    """Return a payload that a trusted key signed, by its model."""
    try:
        if not has_one_form(payload):
            raise UntrustedSignatureError(
                "altered",
                f"The content of {what} says a field twice, or is not as privaudit writes JSON: "
                "ask its signer for another.",
            )
        return kind.model_validate_json(payload)
    except ValidationError:
        raise UntrustedSignatureError(
            "altered",
            f"The content of {what} has another form than version 1: use a newer version.",
        ) from None
