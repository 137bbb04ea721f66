"""The control plane: Prefect flows, settings, command line, report. No formula."""

import os

# Read by Prefect when it is imported, so they stand before any import of it. Nothing leaves the
# machine unasked.
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY", "false")
# Prefect's client has an analytics library of its own (amplitude), which asks this alone.
os.environ.setdefault("DO_NOT_TRACK", "1")
# Its own server needs 6 to 9 seconds on an idle machine, more on a busy one: the default of 20 is
# not enough when others work too.
os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")

# Before polars is imported, which sweeps a folder when it is.
import workers  # noqa: F401
