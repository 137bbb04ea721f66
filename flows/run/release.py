"""The flow `release-audit`: attacks a table, or a system that answers, under a relaxation."""

import prefect
from prefect.runtime import flow_run

from flows.progress import announce
from flows.run import attempts
from flows.run.publish_report import publish
from flows.settings import Settings, load_settings
from privcore.exceptions import InvalidInputError
from workers.executors import on_ray
from workers.release.attack import audit_release
from workers.release.interface import connect
from workers.release.live import audit_interface
from workers.release.release_plan import Definition, ReleasePlan
from workers.release.table import as_columns, as_table, read_frame
from workers.warehouse.release_row import ReleaseRow
from workers.warehouse.store import Warehouse


def _run_name() -> str:
    given = flow_run.parameters
    what = str(given["interface"] or given["table"])
    return f"{what.rpartition('/')[2]} {given['definition']}"


@prefect.flow(
    name="release-audit",
    flow_run_name=_run_name,
    validate_parameters=True,
    persist_result=False,
)
def release_audit(
    table: str | None,
    definition: Definition,
    k: int = 1,
    epsilon: float = 0.01,
    precision: float = 0.01,
    targets: tuple[dict[str, str], ...] = (),
    interface: str | None = None,
    settings: str | None = None,
) -> ReleaseRow:
    """Attack a live interface, or a table behind what a definition recommends, and commit.

    Args:
        table: a Parquet or CSV file, at a path or URI: what is attacked, or, with an interface,
            the table behind it, to compare with what was read.
        definition: idp, group_idp or bdp; or dp, the honest control, which must resist.
        k: group size of group_idp.
        epsilon: budget that all answers together may claim.
        precision: width to which floating-point columns are read.
        targets: persons to attack singly, each by some columns' values. Prefect keeps parameters:
            give made-up persons, or none, where its database must hold no personal data.
        interface: a function that returns a live `QueryInterface`, as module:function. Whoever may
            start this flow can have it called.
        settings: path of the settings file; PRIVAUDIT_CONFIG or ./privaudit.toml if left out.

    Returns:
        The committed row.

    Raises:
        InvalidInputError: neither table nor interface; the table cannot be read, has missing
            values, or fewer than 2k records; targets without a table; no such interface.
    """
    loaded = load_settings(settings)
    plan = ReleasePlan(
        definition=definition, k=k, epsilon=epsilon, precision=precision, targets=targets
    )
    if interface is None and table is not None:
        row: ReleaseRow = attempts.do(_attack, table, plan, loaded)
    elif interface is not None and (table is not None or not targets):
        row = attempts.do(_ask, interface, table, plan)
    else:
        rule = "it is what is attacked, or what an interface's answers on targets are compared with"
        raise InvalidInputError("table", table, rule)
    Warehouse(loaded.warehouse).commit_release(row)
    publish(loaded)
    return row


@prefect.task(name="attack-release", persist_result=False, **attempts.RETRIES)
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


@prefect.task(name="attack-interface", persist_result=False, **attempts.RETRIES)
def _ask(name: str, uri: str | None, plan: ReleasePlan) -> ReleaseRow:
    interface = connect(name)
    return audit_interface(
        interface,
        plan,
        name=name,
        table=None if uri is None else as_columns(read_frame(uri), interface.columns),
        table_name=None if uri is None else uri.rpartition("/")[2],
        done=lambda done, total: announce("Reading columns", done, total),
    )
