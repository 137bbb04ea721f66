"""The flow `maintain-warehouse`: compacts the tables and deletes files replaced long ago."""

import prefect

from flows.settings import load_settings
from workers.warehouse.maintenance import KEPT_DAYS, Compacted, compact
from workers.warehouse.store import Warehouse


@prefect.flow(
    name="maintain-warehouse",
    validate_parameters=True,
    persist_result=False,
)
def maintain_warehouse(settings: str | None = None, kept_days: int = KEPT_DAYS) -> list[Compacted]:
    """Compact every table; no row is changed or deleted.

    Args:
        settings: path of the settings file; `PRIVAUDIT_CONFIG` or ./privaudit.toml by default.
        kept_days: how long replaced files stay.
    """
    loaded = load_settings(settings)
    done = compact(Warehouse(loaded.warehouse), kept_days=kept_days)
    logger = prefect.get_run_logger()
    for table in done:
        logger.info(
            "%s: %d files became %d; %d old ones deleted.",
            table.table,
            table.files_before,
            table.files_after,
            table.files_deleted,
        )
    return done
