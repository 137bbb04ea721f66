"""Small protected tables and adversaries, and the Bank data where it can be had."""

import pathlib
from collections import Counter

import numpy as np
import polars as pl
import pytest

from flows.study.relaxations import BANK_BOUNDS
from privcore.attacks.query_adversary import Adversary, NotZeroOrOne
from privcore.mechanisms.local_sensitivity import KLaplace, Unprotected
from privcore.mechanisms.protected_table import ProtectedTable
from privcore.mechanisms.threshold_queries import Column
from workers.release.release_attack import as_table

ROOT = pathlib.Path(__file__).resolve().parents[2]


def protect(cells, columns, mechanism, *, seed=0):
    random = np.random.default_rng(seed)
    return ProtectedTable(np.asarray(cells), tuple(columns), mechanism, random)


def attack(cells, columns, *, k=1, rule=None, epsilon=1e-10, mechanism=None, seed=0):
    """Return an adversary before a table that the k-Laplace mechanism protects (k = 0: none)."""
    mechanism = mechanism or (KLaplace(k) if k else Unprotected())
    table = protect(cells, columns, mechanism, seed=seed)
    return Adversary(table, rule or NotZeroOrOne(), k=k, epsilon=epsilon)


def domain(*sizes):
    """Return columns with cells 0 to size - 1."""
    return tuple(Column(f"c{place}", 0, size - 1) for place, size in enumerate(sizes))


def as_multiset(reconstruction):
    """Return the reconstructed records with their multiplicity, columns in the table's order."""
    order = np.argsort(reconstruction.groups.columns)
    rows = reconstruction.groups.cells[:, order].tolist()
    counts = reconstruction.counts.tolist()
    return Counter({tuple(row): count for row, count in zip(rows, counts, strict=True)})


def multiset(cells):
    return Counter(map(tuple, np.asarray(cells).tolist()))


def bank_file():
    """Return the path of the Bank data, or skip the test."""
    for folder in ROOT.parents:
        if (place := folder / "shared/data/bank-full.parquet").exists():
            return place
    return pytest.skip("the Bank data is not here (shared/data/bank-full.parquet)")


def bank():
    """Return the Bank data's cells and columns, as the attacker believes them to be bounded."""
    table = as_table(pl.read_parquet(bank_file()), bounds=BANK_BOUNDS)
    return table.cells, table.columns
