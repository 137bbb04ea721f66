"""`privaudit study bounds`: three papers' figures and printed numbers on what a guarantee promises.

Nothing is random and no clock is read: the same version writes the same files.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from flows.study.bounds_charts import (
    advantage_chart,
    leakage_by_bits_chart,
    leakage_by_epsilon_chart,
    leakage_by_steps_chart,
    noise_chart,
    success_chart,
)
from flows.study.cells import make_folder
from flows.study.drawing import write_svg
from privcore.upper_bounds import (
    LeakageCurve,
    NoiseNeeded,
    Published,
    advantage_curves,
    leakage_curves,
    noise_needed,
    published_leakage,
    published_noise,
    published_success,
    steps_curves,
    success_curves,
)
from privcore.upper_bounds.leakage_figures import (
    DENSE_LEAST_ORDER,
    DENSE_SAMPLING_RATE,
    DENSE_STEPS,
)

CHOICES = (2, 3, 4, 5, 6, 8, 10, 14, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1_000, 3_000, 10_000)
SECRET_BITS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 64.0)
FIGURE_1_NOISE = (0.4, 0.5, 0.6, 0.8)
FIGURE_2_NOISE = (0.3, 0.4, 0.5, 1.0)
FIGURE_6_NOISE = (1.0, 2.0, 4.0, 8.0)
FIGURE_7_NOISE = (0.3, 0.32, 0.34, 0.36, 0.38, 0.42, 0.47, 1.0)
FIGURE_7_BITS = (1.0, 5.0, 10.0, 20.0, 40.0)
RECORDS = (36, 40, 44, 48)
ETAS = tuple(float(eta) for eta in np.geomspace(0.001, 0.49, 40))


@dataclass(frozen=True, slots=True)
class Study:
    """What the study wrote, and the published figures beside ours."""

    files: tuple[pathlib.Path, ...]
    published: tuple[Published, ...]


def study_bounds(output: pathlib.Path, *, advance: Callable[[], object] = lambda: None) -> Study:
    """Write each figure's data (CSV) and drawing (SVG) into `output`, making it.

    Args:
        output: the folder; files of the same names are replaced.
        advance: called `STEPS` times, once after each part of the work.

    Raises:
        InvalidInputError: the folder cannot be made.
        OSError: a file cannot be written.
    """
    make_folder(output)
    success, advantage, noise = success_data(), advantage_data(), noise_data()
    advance()
    curves = []
    for multiplier in sorted({*FIGURE_1_NOISE, *FIGURE_7_NOISE}):
        curves += leakage_curves(secret_bits=SECRET_BITS, noise_multipliers=(multiplier,))
        advance()
    leakage = leakage_data(curves)
    steps = steps_data()
    advance()
    dense = leakage_data(
        leakage_curves(
            secret_bits=SECRET_BITS,
            noise_multipliers=FIGURE_6_NOISE,
            sampling_rate=DENSE_SAMPLING_RATE,
            steps=DENSE_STEPS,
            least_order=DENSE_LEAST_ORDER,
        )
    )
    advance()
    by_bits = leakage.filter(pl.col("noise_multiplier").is_in(FIGURE_1_NOISE))
    by_epsilon = leakage.filter(pl.col("secret_bits").is_in(FIGURE_7_BITS))
    dense_title = "Leaked bits under DP-SGD, sampling rate 20%, 500 steps, delta 3e-7"
    figures = {
        "success": (success, success_chart(success)),
        "advantage": (advantage, advantage_chart(advantage)),
        "leakage_by_bits": (by_bits, leakage_by_bits_chart(by_bits)),
        "leakage_by_steps": (steps, leakage_by_steps_chart(steps)),
        "leakage_by_bits_dense": (dense, leakage_by_bits_chart(dense, title=dense_title)),
        "leakage_by_epsilon": (by_epsilon, leakage_by_epsilon_chart(by_epsilon)),
        "noise": (noise, noise_chart(noise)),
    }
    files = []
    for name, (data, chart) in figures.items():
        data.write_csv(output / f"{name}.csv")
        write_svg(chart, output / f"{name}.svg")
        files += [output / f"{name}.csv", output / f"{name}.svg"]
        advance()
    published = (*published_success(), *published_leakage(curves), *published_noise())
    return Study(tuple(files), published)


STEPS = 1 + len({*FIGURE_1_NOISE, *FIGURE_7_NOISE}) + 2 + 7
"""How often `study_bounds` reports progress."""


def success_data() -> pl.DataFrame:
    """Return Figure 1 of "Beyond the Worst Case": a row per bound, epsilon, delta and prior."""
    return pl.concat(
        pl.DataFrame({"prior": curve.priors, "success": curve.success}).select(
            bound=pl.lit(curve.bound),
            epsilon=pl.lit(curve.epsilon),
            delta=pl.lit(curve.delta),
            prior="prior",
            success="success",
        )
        for curve in success_curves(choices=CHOICES)
    )


def leakage_data(curves: Sequence[LeakageCurve]) -> pl.DataFrame:
    """Return Figures 1 and 7 of Stock et al. 2022: a row per noise multiplier and secret."""
    return pl.concat(
        pl.DataFrame({"secret_bits": curve.secret_bits}).with_columns(
            noise_multiplier=pl.lit(curve.noise_multiplier),
            epsilon=pl.lit(curve.epsilon),
            leaked=pl.Series(curve.leaked),
            direct=pl.Series(curve.direct),
            improved_conversion=pl.Series(curve.improved_conversion),
        )
        for curve in curves
    )


def advantage_data() -> pl.DataFrame:
    """Return Figure 2 of "Beyond the Worst Case": a row per secret and epsilon."""
    return pl.concat(
        pl.DataFrame({"epsilon": curve.epsilons, "advantage": curve.advantage}).select(
            secrets=pl.lit(curve.secrets),
            rank=pl.lit(curve.rank),
            prior=pl.lit(curve.prior),
            epsilon_protect=pl.lit(curve.epsilon_protect),
            epsilon="epsilon",
            advantage="advantage",
        )
        for curve in advantage_curves()
    )


def steps_data() -> pl.DataFrame:
    """Return Figure 2 of Stock et al. 2022: a row per noise multiplier and number of steps."""
    return pl.concat(
        pl.DataFrame({"steps": curve.steps.astype(int)}).with_columns(
            noise_multiplier=pl.lit(curve.noise_multiplier),
            secret_bits=pl.lit(curve.secret_bits),
            leaked=pl.Series(curve.leaked),
            direct=pl.Series(curve.direct),
        )
        for curve in steps_curves(noise_multipliers=FIGURE_2_NOISE)
    )


def noise_data() -> pl.DataFrame:
    """Return Figure 1 of Izzo et al.: a row per number of records and eta."""
    needed = [noise_needed(records, eta=eta) for records in RECORDS for eta in ETAS]
    names = [field.name for field in dataclasses.fields(NoiseNeeded)]
    return pl.DataFrame({name: [getattr(each, name) for each in needed] for name in names})
