"""`privaudit study images`: Tables 1, 4 and 6 of the game's paper on networks that read images.

"Observational Auditing of Privacy" (arXiv:2511.14084), sections 6.2 and 6.3: the training images
are halved at random, the proxy is trained on one half without noise, and the target on the other
with each mechanism and epsilon. 10,000 canaries play, or all where there are fewer.

The control plays the same game on test images, whose labels no network saw. One more row plays it
on all of the target's half with networks that never saw the labels in question: each half of it is
asked of a network that was trained on the other.

PATE-FM's teachers are trained once: their votes are answered at each epsilon with noise of its own.
"""

import hashlib
import math
import pathlib
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.report.study_page import StudyTable
from flows.study.runner import Cell, Shown, Study, make_folder
from flows.study.tables import (
    FIGURE,
    FIGURE_1,
    FIGURE_5,
    FIXED,
    IMAGE_EPSILONS,
    MEMBERSHIP,
    PAIRS,
    REPETITIONS,
    SIGNIFICANCE,
    TABLE_1,
    TABLE_4,
    TABLE_6,
    TITLE,
    Answers,
    Axis,
    CellRow,
    Show,
    attack_figures,
    chart,
    colored,
    figure_beside,
    figure_ceiling,
    figure_points,
    paper_figures,
    paragraphs,
    play_all,
    play_label_inference,
    points_of,
    printed_cells,
    printed_points,
    table_of,
)
from privcore.attacks import generator
from privcore.exceptions import InvalidInputError
from privcore.guarantees import mechanism_from_manifest
from privcore.upper_bounds import Published
from workers.datasets.labelled_images import CIFAR_10, CLASSES, Images, read_images
from workers.plan import Plan
from workers.training.fixmatch import DELTA, FixMatch, PateFixMatch
from workers.training.image_methods import NETWORKS, PRIOR_EPSILON, WITH_PRIOR, ImageMethod
from workers.training.networks import FittedNetwork, Network, Schedule

SEED = 633
PATE_FM = "pate-fm"
ATTACKS = {"labels": PAIRS, "loss": MEMBERSHIP[0], "rmia": MEMBERSHIP[1]}
"""The attacks of Figures 1 and 5, by the first word of their columns."""
MECHANISMS = ("lp-1st", "lp-1st-out-of-domain-prior", PATE_FM, "alibi")
EPSILONS = (math.inf, 10.0, 1.0)
CONTROL = "control"
_FIGURE, _ACCURACY = "paper's figure ± deviation", "test accuracy"
CANARIES = 10_000
PLAN = Plan(power=2.0, repetitions=100, significance=0.05, delta=1e-5, seed=SEED)
EPOCHS = 60  # 200 in the cited code
SCHEDULES = {
    "lp-1st": Schedule(EPOCHS, batch=512, rate=0.4, optimizer="sgd", mixup=4.0),
    "lp-1st-out-of-domain-prior": Schedule(EPOCHS, batch=512, rate=0.4, optimizer="sgd", mixup=4.0),
    "alibi": Schedule(EPOCHS, batch=128, rate=0.1, optimizer="sgd"),
}
PATE = PateFixMatch(
    teachers=25,  # 800 in the cited code, with 250 answers, 40 and 200 epochs, and batches of 64
    queries=100,
    teaching=FixMatch(epochs=3, batch=32),
    learning=FixMatch(epochs=10, batch=32),
)
PATE_NETWORKS = {"small": "small", "resnet18": "wrn-28-4"}
"""PATE-FM's architecture beside the others'."""


@dataclass(frozen=True, slots=True, eq=False)
class ImageHalves:
    """The target's half, the test images, and what the proxy says of both."""

    network: str
    pate: PateFixMatch
    target: Images
    test: Images
    proxy: list[NDArray[np.float64]]


def study(
    path: pathlib.Path, output: pathlib.Path, *, scale: float, network: str = "small"
) -> Study:
    """Return the study, whose proxy is trained: every mechanism at every epsilon.

    PATE-FM has fewer teachers at a smaller scale, so that each has as many labels.

    Raises:
        InvalidInputError: images that cannot be read, or too few for the teachers.
    """
    images = read_images(path, seed=SEED)
    shuffled = generator(SEED, "halves").permutation(len(images.train.labels))
    half = round(scale * len(shuffled)) // 2
    taught = max(2, round(scale * PATE.teachers))
    if taught > half:
        rule = f"each of PATE-FM's {taught} teachers has one of {half:,} labels"
        raise InvalidInputError("--scale", scale, rule)
    first, second = (images.train.take(shuffled[at : at + half]) for at in (0, half))
    content = hashlib.sha256(first.pixels.tobytes() + second.pixels.tobytes())
    content.update(first.labels.tobytes() + second.labels.tobytes())
    shared = {
        "images": content.hexdigest(),
        "network": network,
        "seed": SEED,
        "plan": PLAN.model_dump(mode="json"),
        "canaries": CANARIES,
        "game": [REPETITIONS, SIGNIFICANCE],
    }
    pate = replace(
        PATE,
        teachers=taught,
        queries=min(PATE.queries, half),
        teaching=replace(PATE.teaching, flips=images.source == CIFAR_10),
        learning=replace(PATE.learning, flips=images.source == CIFAR_10),
    )
    proxy = Cell("proxy", {**shared, "schedule": asdict(SCHEDULES["lp-1st"])})
    answers = _proxy_answers(output, proxy, first, second, images.test)
    source, judged = images.source, (CIFAR_10, "resnet18")
    return Study(
        "Images",
        "Private labels of images, by mechanism and epsilon",
        _cells(shared, pate),
        compute,
        ImageHalves(network, pate, second, images.test, answers),
        lambda found: shown(found.rows, source, network, scale),
        scale,
        data="" if (source, network) == judged else "other images or networks",
    )


def _proxy_answers(
    output: pathlib.Path, cell: Cell, first: Images, second: Images, test: Images
) -> list[NDArray[np.float64]]:
    """Return the proxy's answers on the target's half and the test images, trained once."""
    make_folder(output)
    path = output / f"proxy-{cell.identity}.npz"
    if not path.exists():
        model = _fitted(ImageMethod("lp-1st", math.inf), cell.parameters["network"], first, SEED)
        said = [model.probabilities(part.pixels) for part in (second, test)]
        with path.with_suffix(".part").open("wb") as file:
            np.savez(file, *said)
        path.with_suffix(".part").replace(path)
    with np.load(path) as found:
        return [found[name] for name in ("arr_0", "arr_1")]


def _cells(shared: dict[str, Any], pate: PateFixMatch) -> list[Cell]:
    """Return a cell for each network and, as teachers serve all epsilons, one for PATE-FM."""
    cells = []
    for name in MECHANISMS:
        if name == PATE_FM:
            cells.append(Cell(name, {**shared, "mechanism": name, "settings": asdict(pate)}))
            continue
        own = {**shared, "mechanism": name, "schedule": asdict(SCHEDULES[name])}
        if name == WITH_PRIOR:
            own["prior_epsilon"] = PRIOR_EPSILON
        cells += [Cell(f"{name}-{epsilon:g}", {**own, "epsilon": epsilon}) for epsilon in EPSILONS]
    own = {"mechanism": CONTROL, "schedule": asdict(SCHEDULES["lp-1st"]), "epsilon": math.inf}
    return [*cells, Cell(CONTROL, {**shared, **own})]


def compute(world: ImageHalves, cell: Cell) -> list[CellRow]:
    """Return the row of one model, or of each of PATE-FM's students."""
    mechanism = cell.parameters["mechanism"]
    if mechanism == PATE_FM:
        return _students(world)
    epsilon = cell.parameters["epsilon"]
    if mechanism == CONTROL:
        return [_row(world, CONTROL, epsilon, _control_answers(world))]
    method = ImageMethod(mechanism, epsilon)
    model = _fitted(method, world.network, world.target, SEED + 1)
    return [_model_row(world, mechanism, epsilon, model, method.manifest_entry(CLASSES))]


def _students(world: ImageHalves) -> list[CellRow]:
    """Return a row for each epsilon: the same teachers' votes, with noise of its own."""
    network, target = _network(PATE_NETWORKS[world.network], world.target), world.target
    ballot = world.pate.vote(
        *(network, target.pixels, target.labels),
        classes=CLASSES,
        seed=SEED + 10,
        random=generator(SEED, PATE_FM, "teachers"),
    )
    asked, votes = ballot
    voted = float((votes.argmax(axis=1) == target.labels[asked]).mean())
    rows = []
    for epsilon in EPSILONS:
        student = world.pate.graduate(
            *(network, target.pixels, ballot),
            epsilon=epsilon,
            seed=SEED + 1,
            random=generator(SEED, PATE_FM, f"{epsilon:g}"),
        )
        row = _model_row(world, PATE_FM, epsilon, student, world.pate.manifest_entry(epsilon))
        rows.append({**row, "teachers": world.pate.teachers, "answers": len(asked), "voted": voted})
    return rows


def _model_row(
    world: ImageHalves,
    mechanism: str,
    epsilon: float,
    model: FittedNetwork,
    entry: dict[str, Any] | None,
) -> CellRow:
    """Return the row of a model, with the epsilon that its mechanism's manifest accounts for."""
    said = [model.probabilities(part.pixels) for part in (world.target, world.test)]
    delta = DELTA if mechanism == PATE_FM else 0.0
    accounted = mechanism_from_manifest(**entry).epsilon(delta) if entry else None
    return {**_row(world, mechanism, epsilon, said), "epsilon_accounted": accounted}


def _control_answers(world: ImageHalves) -> list[NDArray[np.float64]]:
    """Ask each half of the target's images of a network that the other half trained."""
    fold = np.arange(len(world.target.labels)) % 2
    method = ImageMethod("lp-1st", math.inf)
    said = np.zeros((len(fold), CLASSES))
    test = np.zeros((len(world.test.labels), CLASSES))
    for each in (0, 1):
        other = world.target.take(np.flatnonzero(fold != each))
        model = _fitted(method, world.network, other, SEED + 2 + each)
        said[fold == each] = model.probabilities(world.target.pixels[fold == each])
        test += model.probabilities(world.test.pixels) / 2.0
    return [said, test]


def _fitted(method: ImageMethod, network: str, images: Images, seed: int) -> FittedNetwork:
    return method.fit(
        _network(network, images),
        images.pixels,
        images.labels,
        SCHEDULES[method.name],
        classes=CLASSES,
        seed=seed,
        random=generator(SEED, method.name, f"{method.epsilon:g}", seed),
    )


def _network(name: str, images: Images) -> Network:
    return NETWORKS[name](images.pixels.shape[1], images.pixels.shape[3])


def _row(
    world: ImageHalves, mechanism: str, epsilon: float, said: list[NDArray[np.float64]]
) -> CellRow:
    """Return the figures of one model, beside those of its control on test images."""
    parts = zip(said, world.proxy, (world.target.labels, world.test.labels), strict=True)
    trained, test = (Answers(*part) for part in parts)
    row: CellRow = {"mechanism": mechanism, "epsilon": f"{epsilon:g}"}
    for arm, answers in (("", trained), ("control_", test)):
        name = f"{arm}{mechanism}-{epsilon:g}"
        figures = paper_figures(answers, plan=PLAN, canaries=CANARIES, name=name)
        bound = attack_figures(play_label_inference(answers))["epsilon_lower"]
        row |= {f"{arm}{key}": value for key, value in {**figures, "epsilon_lower": bound}.items()}
    # Figures 1 and 5: members are the target's images, all others test images.
    tallies = play_all(trained, test)
    for short, name in ATTACKS.items():
        row |= {f"{short}_{key}": value for key, value in attack_figures(tallies[name]).items()}
    played, pairs = row["canaries"], tallies[MEMBERSHIP[0]].records
    return row | {
        "ceiling": figure_ceiling(played),
        "ceiling_fixed": figure_ceiling(played, (FIXED,)),
        "pairs": pairs,
        "ceiling_pairs": figure_ceiling(pairs),
        "records": trained.records,
        "test_accuracy": test.accuracy,
        "repetitions": PLAN.repetitions,
    }


def shown(models: pl.DataFrame, source: str, network: str, scale: float) -> Shown:
    """Return what there is to show of all models of images from a source."""
    return Shown(
        sentences(models, source, network, scale),
        [_table(models, f"{source}, network {network}"), _attacks(models)],
        published(models),
        {"images": models.with_columns(source=pl.lit(source), seed=pl.lit(SEED))},
        {"images": _chart(models, f"Mechanisms on {source}")},
    )


def _table(models: pl.DataFrame, title: str) -> StudyTable:
    return table_of(
        title,
        models.to_dicts(),
        {
            "mechanism": "{mechanism}",
            "epsilon": "{epsilon}",
            "right": "{test_accuracy:.1%}",
            "paper's": FIGURE,
            "its control": "{control_epsilon_paper:.2f}",
            "at 1%": "{epsilon_fixed:.2f} ± {epsilon_fixed_deviation:.2f}",
            "ceiling at 1%": "{ceiling_fixed:.2f}",
            "lower": "{epsilon_lower:.2f}",
            "control": "{control_epsilon_lower:.2f}",
            "ceiling": "{ceiling:.2f}",
        },
        text=("mechanism",),
        wide=("ceiling", "control"),
    )


def _attacks(models: pl.DataFrame) -> StudyTable:
    rows = models.to_dicts()
    columns: dict[str, Show] = {"mechanism": "{mechanism}", "epsilon": "{epsilon}"}
    for short, name in ATTACKS.items():
        columns[name.partition(",")[0]] = f"{_figure(short)} / {{{short}_epsilon_lower:.2f}}"
    title = f"Attacks on {rows[0]['pairs']:,} images, or pairs: figure ± deviation / lower bound"
    return table_of(title, rows, columns, text=("mechanism",))


def _figure(attack: str) -> str:
    return f"{{{attack}_epsilon_paper:.2f}} ± {{{attack}_epsilon_paper_deviation:.2f}}"


def published(models: pl.DataFrame) -> list[Published]:
    """Return every cell of Tables 1, 4 and 6 beside ours.

    A figure agrees within two printed standard deviations, an accuracy within 2 points.
    """
    ours = {(row["mechanism"], row["epsilon"]): row for row in models.to_dicts()}
    tables = (
        ("Table 1", "epsilon", TABLE_1),
        ("Table 4", "accuracy", TABLE_4),
        ("Table 6", "epsilon at 1%", TABLE_6),
    )
    return [each for key, row in ours.items() if key[0] in MECHANISMS for each in _drawn(row)] + [
        Published(
            TITLE, place, f"{quantity} of {key[0]} at {key[1]}", *_beside(ours[key], place, cell)
        )
        for place, quantity, table in tables
        for key, cell in printed_cells(table, IMAGE_EPSILONS).items()
        if cell is not None
    ]


def _drawn(row: CellRow) -> list[Published]:
    """Return what the paper says of Figures 1 and 5 beside ours, at one mechanism and epsilon.

    "Similar" is read as within the larger deviation, "slightly above" as above, by less than that.
    """
    figure = {name: row[f"{name}_epsilon_paper"] for name in ATTACKS}
    spread = max(row[f"{name}_epsilon_paper_deviation"] for name in ATTACKS)
    labels, loss, rmia = (_figure(name).format(**row) for name in ATTACKS)
    at = f"{row['mechanism']} at {row['epsilon']}"
    above = figure["rmia"] - max(figure["labels"], figure["loss"])
    similar = abs(figure["labels"] - figure["loss"]) <= spread
    first, fifth = f"{labels}; {loss}", f"{rmia}; {labels}, {loss}"
    found = [Published(TITLE, "Fig 1", f"{FIGURE_1}: {at}", "similar", first, similar)]
    if row["epsilon"] == "inf":
        quantity, agrees = f"{FIGURE_5}: {at}", 0.0 < above <= spread
        found.append(Published(TITLE, "Fig 5", quantity, "slightly above", fifth, agrees))
    return found


def _beside(row: CellRow, place: str, cell: tuple[float, float | None]) -> tuple[str, str, bool]:
    value, deviation = cell
    if deviation is None:
        accuracy = 100.0 * row["test_accuracy"]
        return f"{value:.2f}", f"{accuracy:.2f}", abs(accuracy - value) <= 2.0
    kind = "epsilon_paper" if place == "Table 1" else "epsilon_fixed"
    ceiling = f", ceiling {row['ceiling_fixed']:.2f}" if place == "Table 6" else ""
    return figure_beside(row, cell, kind, ceiling)


def sentences(models: pl.DataFrame, source: str, network: str, scale: float) -> list[str]:
    """Return what the study says in words, with its seeds and its terms."""
    first = models.row(0, named=True)
    own = models.filter(pl.col("mechanism") != CONTROL)
    (whole,) = models.filter(mechanism=CONTROL).to_dicts()
    pate = models.filter(mechanism=PATE_FM).row(0, named=True)
    highest = max(own["control_epsilon_paper"].to_list())
    return paragraphs(f"""
    {source}, scale {scale:g}, seed {SEED}, network {network}. Proxy and target are trained on
    {first["records"]:,} images each; {first["canaries"]:,} of the target's play, and in the
    controls {first["control_canaries"]:,} test images, which no network saw. The network, the
    schedules' epochs and the features that are clustered for the prior (principal components in
    place of DINO's) are ours; all else is the paper's or that of the code that it cites.

    Column paper's: score exponent 2, best of 1..100% guesses, Gaussian family, 95%, delta 1e-5,
    mean ± standard deviation over {first["repetitions"]} repetitions; not corrected. Column at 1%:
    the same at a fixed 1% of guesses (Table 6). Column lower: the corrected bound, which takes the
    proxy's probabilities as true. Ceilings are the figures of an attack that is always right.

    The highest paper's figure of a control on test images is {highest:.2f}. Row {CONTROL}: networks
    that never saw the labels in question, on all {whole["canaries"]:,} records; the paper's figure
    is {FIGURE.format(**whole)}. A figure near a control's says nothing of a leak.

    The second table's attacks play on {first["pairs"]:,} of these images each: members against test
    images, or label inference on as many members. Other test images are the population of RMIA and
    of the calibrated loss's threshold. An attack that is always right has
    {first["ceiling_pairs"]:.2f} there. Membership inference speaks of a whole record, which no
    mechanism for labels promises to hide: images are open.

    PATE-FM: {pate["teachers"]} teachers vote on {pate["answers"]} images, and without noise the
    answer is right for {pate["voted"]:.0%} of them. Its epsilon is that of Gaussian noise on the
    votes, at delta 1e-5, whatever the votes are.
    """)


def _chart(models: pl.DataFrame, title: str) -> Any:
    rows = models.filter(pl.col("mechanism") != CONTROL).to_dicts()
    return chart(
        [
            *figure_points(rows, "epsilon", "{mechanism}", _FIGURE),
            *points_of(rows, "epsilon", {"test_accuracy": "{mechanism}"}, panel=_ACCURACY),
            *printed_points(TABLE_1, _FIGURE, IMAGE_EPSILONS),
            *printed_points(TABLE_4, _ACCURACY, IMAGE_EPSILONS, unit=0.01),
        ],
        title,
        x=Axis("declared epsilon", order=["1", "10", "inf"]),
        y=Axis(None, own_scales=True),
        colors=colored(MECHANISMS, "blue green red orange"),
        size=(260, 220),
    )
