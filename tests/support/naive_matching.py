"""`match` told record by record, as its docstring says it: what the quick one is held against."""

import math

import numpy as np
from scipy.special import expit, logit

from privcore.attacks import odds_tally
from privcore.attacks.matching import SHARES, recalibrate


def rows_of(arm):
    """Each record by itself: (proxy, target, label), at the middle of its bins."""
    cells = odds_tally(*arm).cells()
    return [
        (proxy, target, label)
        for proxy, target, zeros, ones in zip(
            cells.proxy, cells.target, cells.zeros, cells.ones, strict=True
        )
        for label, count in ((0, zeros), (1, ones))
        for _ in range(count)
    ]


def naive_tables(training, control):
    """Record by record, as `match` tells it; right ones of the control as an interval.

    Which of the records of a border cell are matched is a matter of chance, so the least and the
    most that may be right are returned; last, the sums over strata in three deviations.
    """
    trained, held_out = rows_of(training), rows_of(control)
    fit = recalibrate([odds_tally(*arm).cells() for arm in (training, control)])

    def moved(row):
        return expit(row[1]) - expit(fit.apply(row[0]))

    everyone = sorted(row[0] for row in trained + held_out)
    surest = sorted((abs(moved(row)) for row in trained + held_out), reverse=True)
    number = min(max(min(len(trained), len(held_out)) // 50, 1), 128)
    edges = sorted({everyone[math.ceil(i / number * len(everyone)) - 1] for i in range(1, number)})
    strata = [
        [
            [row for row in rows if sum(row[0] >= edge for edge in edges) == place]
            for rows in (trained, held_out)
        ]
        for place in range(len(edges) + 1)
    ]
    return [
        naive_set(
            strata, moved, 0.0 if share == 1.0 else surest[math.ceil(share * len(surest)) - 1], fit
        )
        for share in SHARES
    ]


def naive_set(strata, moved, least, fit):
    def past(rows, side):
        return [row for row in rows if abs(moved(row)) >= least and (moved(row) > 0) == side]

    def counts(mine, unseen, side):
        """Training and holdout records past the cut, the latter expected, their variance."""
        chosen, alike = len(past(mine, side)), len(past(unseen, side))
        if not mine or not unseen:
            return chosen, alike, 0.0, 0.0
        pooled = (chosen + alike) / (len(mine) + len(unseen))
        variance = pooled * (1.0 - pooled) * (1.0 / len(mine) + 1.0 / len(unseen))
        return chosen, alike, chosen * len(unseen) / len(mine), variance * len(unseen) ** 2

    beyond, wanted, tables = {}, {}, []
    for side in (1, 0):
        each = [counts(*arms, side) for arms in strata]
        _, alike, expected, variance = np.sum(each, axis=0)
        beyond[side] = (alike - expected) / (3.0 * math.sqrt(variance) + 1e-9)
        by_itself = [naive_held(*one, beyond[side]) for one in each]
        sizes = [len(unseen) for _, unseen in strata]
        wanted[side] = naive_wanted(each, by_itself, sizes)
    for place, (mine, unseen) in enumerate(strata):
        left = len(unseen)
        for side in (1, 0):
            chosen, held = len(past(mine, side)), min(wanted[side][place], left)
            if held and chosen:
                left -= held
                ranked = sorted(unseen, key=moved, reverse=bool(side))[:held]
                tables.append(naive_table(past(mine, side), unseen, ranked, side, moved, fit))
    return tables, beyond


def naive_held(chosen, alike, expected, variance, beyond):
    chance = 3.0 * math.sqrt(variance)
    held = max(alike, math.floor(expected - chance + 1e-9), 0)
    if beyond > 1.0 or alike > expected + chance + 1e-9:
        held = min(held, math.floor(expected + 1e-9))
    return held if chosen else 0


def naive_wanted(each, by_itself, sizes):
    """What is taken once neighbours have their share less three deviations of their sum."""
    wanted, run = [], []
    for place in range(len(each)):
        run.append(place)
        expected, variance = (sum(each[at][part] for at in run) for part in (2, 3))
        least = expected - 3.0 * math.sqrt(variance) + 1e-9
        if place + 1 < len(each) and not least >= expected / 2.0 > 0.0:
            continue
        held = [by_itself[at] for at in run]
        if least - sum(held) >= 1.0:
            size = [sizes[at] if each[at][0] else 0 for at in run]
            weights = [
                max(least * mine / sum(size) - had, 0.0)
                for mine, had in zip(size, held, strict=True)
            ]
            whole, given = math.floor(least - sum(held)), 0
            for at in range(len(run)):
                reached = math.floor(whole * sum(weights[: at + 1]) / sum(weights) + 1e-9)
                held[at] += reached - given
                given = reached
        wanted, run = wanted + held, []
    return wanted


def naive_table(chosen, unseen, ranked, side, moved, fit):
    def mean_log_odds(rows, transform):
        sign = 1.0 if side else -1.0
        return logit(np.mean([expit(sign * transform(row[0])) for row in rows]))

    inside = [row for row in ranked if moved(row) != moved(ranked[-1])]
    at = [row for row in unseen if moved(row) == moved(ranked[-1])]
    drawn = len(ranked) - len(inside)
    sure, may = (sum(row[2] == side for row in rows) for rows in (inside, at))
    lifted = [
        mean_log_odds(chosen, transform) - mean_log_odds(ranked, transform)
        for transform in (fit.apply, lambda x: x)
    ]
    likelier = min(
        mean_log_odds(ranked, transform) - mean_log_odds(unseen, transform)
        for transform in (fit.apply, lambda x: x)
    )
    rate = np.mean([row[2] == side for row in unseen])
    return (
        len(chosen),
        sum(row[2] == side for row in chosen),
        len(ranked),
        sure + max(0, drawn - (len(at) - may)),
        sure + min(drawn, may),
        max(0.0, *lifted),
        len(ranked) * expit(logit(rate) + likelier) if 0.0 < rate < 1.0 else 0.0,
    )
