"""The flow `release-audit`: attacks a table whose answers claim a relaxation of privacy."""

import prefect
from prefect.runtime import flow_run

from flows.progress import announce
from flows.run.auditing import may_go_away
from flows.run.publish import publish
from flows.settings import Settings, load_settings
from workers.executors import on_ray
from workers.release.attack import audit_release
from workers.release.plan import Definition, ReleasePlan
from workers.release.table import as_table, read_frame
from workers.warehouse.schema import ReleaseRow
from workers.warehouse.store import Warehouse

_RETRIES = 3


def _run_name() -> str:
    given = flow_run.parameters
    return f"{str(given['table']).rpartition('/')[2]} {given['definition']}"


@prefect.flow(
    name="release-audit",
    flow_run_name=_run_name,
    validate_parameters=True,
    persist_result=False,
)
def release_audit(
    table: str,
    definition: Definition,
    k: int = 1,
    epsilon: float = 0.01,
    precision: float = 0.01,
    targets: tuple[dict[str, str], ...] = (),
    settings: str | None = None,
) -> ReleaseRow:
    """Put a table behind the mechanism that a definition recommends, attack it, and commit.

    Args:
        table: a Parquet or CSV file, at a path or URI.
        definition: idp, group_idp or bdp; or dp, the honest control, which must resist.
        k: group size of group_idp.
        epsilon: budget that all answers together may claim.
        precision: width to which floating-point columns are read.
        targets: persons to attack singly, each by some columns' values. Prefect keeps parameters:
            give made-up persons, or none, where its database must hold no personal data.
        settings: path of the settings file; PRIVAUDIT_CONFIG or ./privaudit.toml if left out.

    Returns:
        The committed row.

    Raises:
        InvalidInputError: the table cannot be read, has missing values, or fewer than 2k records.
    """
    loaded = load_settings(settings)
    plan = ReleasePlan(
        definition=definition, k=k, epsilon=epsilon, precision=precision, targets=targets
    )
    row = _attack(table, plan, loaded)
    Warehouse(loaded.warehouse).commit_release(row)
    publish(loaded)
    return row


@prefect.task(
    name="attack-release",
    retries=_RETRIES,
    retry_delay_seconds=[2, 10, 30],
    retry_condition_fn=may_go_away,
    persist_result=False,
)
def _attack(uri: str, plan: ReleasePlan, settings: Settings) -> ReleaseRow:
    table = as_table(read_frame(uri), precision=plan.precision)
    ray = settings.ray
    with on_ray(ray.address, ray.cpus, ray.task_cpus, ray.task_memory) as executor:
        return audit_release(
            table,
            plan,
            name=uri.rpartition("/")[2],
            executor=executor,
            done=lambda done, total: announce("Reconstructing", done, total),
        )
