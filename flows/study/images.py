"""`privaudit study images`: Tables 1, 4 and 6 of the game's paper on networks that read images.

"Observational Auditing of Privacy" (arXiv:2511.14084), sections 6.2 and 6.3: the training images
are halved at random, the proxy is trained on one half without noise, and the target on the other
with each mechanism and epsilon. As many of the target's images play as there are test images, whose
labels no network saw: these are the controls.

PATE-FM's teachers are trained once: their votes are answered at each epsilon with noise of its own.
"""

import hashlib
import math
import pathlib
from dataclasses import asdict, dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.study import attacks
from flows.study.attacks import Answers, ModelTable
from flows.study.printed import Setting
from flows.study.runner import Cell, Computed, Shown, Study, kept_arrays
from flows.study.tables import CellRow, binomial_error, paragraphs
from privcore.attacks import generator
from privcore.exceptions import InvalidInputError
from workers.datasets.labelled_images import CIFAR_10, CLASSES, Images, read_images
from workers.training.fixmatch import FixMatch, PateFixMatch
from workers.training.image_methods import NETWORKS, PRIOR_EPSILON, WITH_PRIOR, ImageMethod
from workers.training.networks import FittedNetwork, Network, Schedule

SEED = 633
PATE_FM = "pate-fm"
MECHANISMS = ("lp-1st", WITH_PRIOR, PATE_FM, "alibi")
EPSILONS = (math.inf, 10.0, 1.0)
CANARIES = 10_000
EPOCHS = 60  # 200 in the cited code
SCHEDULES: dict[str, Schedule] = {
    "lp-1st": Schedule(EPOCHS, batch=512, rate=0.4, optimizer="sgd", mixup=4.0),
    WITH_PRIOR: Schedule(EPOCHS, batch=512, rate=0.4, optimizer="sgd", mixup=4.0),
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
TABLES = {
    "Table 1: figure ± deviation": ModelTable("Table 1"),
    "Table 4: test accuracy": ModelTable(
        "Table 4", "test_accuracy", "test_accuracy_error", 1, unit=100.0
    ),
    "Table 6: figure at 1%": ModelTable("Table 6", "epsilon_fixed", "epsilon_fixed_deviation"),
}


@dataclass(frozen=True, slots=True, eq=False)
class ImageHalves:
    """The target's half, the test images, and what the proxy says of both."""

    source: str
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
        "canaries": CANARIES,
        "game": attacks.GAME_SETTINGS,
    }
    teaching, learning = (
        replace(schedule, flips=images.source == CIFAR_10)
        for schedule in (PATE.teaching, PATE.learning)
    )
    pate = PateFixMatch(taught, min(PATE.queries, half), teaching, learning)
    cells = []
    for name in MECHANISMS:
        if name == PATE_FM:  # whose teachers serve all epsilons
            cells.append(Cell(name, {**shared, "mechanism": name, "settings": asdict(pate)}))
            continue
        own = {**shared, "mechanism": name, "schedule": asdict(SCHEDULES[name])}
        own |= {"prior_epsilon": PRIOR_EPSILON} if name == WITH_PRIOR else {}
        cells += [Cell(f"{name}-{epsilon:g}", {**own, "epsilon": epsilon}) for epsilon in EPSILONS]

    def proxy() -> list[NDArray[np.float64]]:
        model = _fitted(ImageMethod("lp-1st", math.inf), network, first, SEED)
        return [model.probabilities(part.pixels) for part in (second, images.test)]

    kept = Cell("proxy", {**shared, "schedule": asdict(SCHEDULES["lp-1st"])})
    answers = kept_arrays(output, kept, proxy)
    return Study(
        "Images",
        "Private labels of images, by mechanism and epsilon",
        cells,
        _compute,
        ImageHalves(images.source, network, pate, second, images.test, answers),
        _shown,
        settings_of(images.source, network, pate, half),
        drawn=f"{images.source}, seed {SEED}, network {network}.",
    )


def _compute(world: ImageHalves, cell: Cell) -> list[CellRow]:
    mechanism = cell.parameters["mechanism"]
    if mechanism == PATE_FM:
        return _students(world)
    epsilon = cell.parameters["epsilon"]
    model = _fitted(ImageMethod(mechanism, epsilon), world.network, world.target, SEED + 1)
    return _rows(world, mechanism, epsilon, model)


def _students(world: ImageHalves) -> list[CellRow]:
    """Return the rows of each epsilon: the same teachers' votes, with noise of its own."""
    network, target = _network(PATE_NETWORKS[world.network], world.target), world.target
    ballot = world.pate.vote(
        *(network, target.pixels, target.labels),
        classes=CLASSES,
        seed=SEED + 10,
        random=generator(SEED, PATE_FM, "teachers"),
    )
    asked, votes = ballot
    voted = float((votes.argmax(axis=1) == target.labels[asked]).mean())
    about = {"teachers": world.pate.teachers, "answers": len(asked), "voted": voted}
    rows = []
    for epsilon in EPSILONS:
        student = world.pate.graduate(
            *(network, target.pixels, ballot),
            epsilon=epsilon,
            seed=SEED + 1,
            random=generator(SEED, PATE_FM, f"{epsilon:g}"),
        )
        rows += [{**row, **about} for row in _rows(world, PATE_FM, epsilon, student)]
    return rows


def _rows(
    world: ImageHalves, mechanism: str, epsilon: float, model: FittedNetwork
) -> list[CellRow]:
    arms = [
        Answers(model.probabilities(part.pixels), proxy, part.labels)
        for part, proxy in zip((world.target, world.test), world.proxy, strict=True)
    ]
    right = arms[1].accuracy
    return attacks.model_rows(mechanism, epsilon, arms, canaries=CANARIES, test_accuracy=right)


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


def settings_of(source: str, network: str, pate: PateFixMatch, half: int) -> list[Setting]:
    """Return what the paper and the code that it cites fix, beside what it is here."""
    epochs = f"{pate.teaching.epochs}, {pate.learning.epochs}, {pate.teaching.batch}"
    found = [
        Setting("images", CIFAR_10, source),
        Setting("of these in each half", "25,000", f"{half:,}"),
        Setting("canaries", "as many as test images", "as many as test images"),
        Setting("PATE-FM: network", "wrn-28-4", PATE_NETWORKS[network], PATE_FM),
        Setting("PATE-FM: teachers", "800", f"{pate.teachers}", PATE_FM),
        Setting("PATE-FM: answers", "250", f"{pate.queries}", PATE_FM),
        Setting("PATE-FM: epochs of teachers and student, batch", "40, 200, 64", epochs, PATE_FM),
    ]
    for name, schedule in SCHEDULES.items():
        of, cited = f"{name} at", "128, 0.1, 0" if name == "alibi" else "512, 0.4, 4"
        own = f"{schedule.batch}, {schedule.rate:g}, {schedule.mixup:g}"
        found += [
            Setting(f"{name}: network", "resnet18", network, of),
            Setting(f"{name}: epochs", "200", f"{schedule.epochs}", of),
            Setting(f"{name}: batch, rate, mixup", cited, own, of),
        ]
    clustered = ("clusters' features", "DINO", "principal components", f"{WITH_PRIOR} at")
    return [*found, Setting(*clustered)]


def _shown(world: ImageHalves, found: Computed) -> Shown:
    rows = [
        {**row, "test_accuracy_error": binomial_error(row["test_accuracy"], row["test_records"])}
        for row in found.rows.to_dicts()
    ]
    return attacks.game_shown(
        rows,
        _sentences(rows),
        TABLES,
        source=world.source,
        data={"images": found.rows.with_columns(source=pl.lit(world.source))},
        colors="blue green red orange",
    )


def _sentences(models: list[CellRow]) -> list[str]:
    labels = attacks.labels_of(models)
    first = labels[0]
    pate = next(row for row in labels if row["mechanism"] == PATE_FM)
    highest = max(row["control_epsilon_paper"] for row in labels)
    return paragraphs(f"""
    Proxy and target are trained on {first["trained_on"]:,} images each; {first["records"]:,} of the
    target's play, and as many test images, which no network saw. The highest control of label
    inference is {highest:.2f}.

    An attack that is always right would have {first["ceiling"]:.2f} in Table 1 and
    {first["ceiling_fixed"]:.2f} in Table 6.

    PATE-FM: {pate["teachers"]} teachers vote on {pate["answers"]} images, and without noise the
    answer is right for {pate["voted"]:.0%} of them. Its epsilon is that of Gaussian noise on the
    votes, at delta 1e-5, whatever the votes are.
    """)
