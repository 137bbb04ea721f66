"""Loaded by pytest first: no test sees settings or credentials of the person who runs it."""

import os
import sys
from collections.abc import MutableMapping

_FOREIGN = ("PRIVAUDIT_", "PREFECT_", "RAY_", "MLFLOW_", "AWS_", "PYICEBERG_")
_KEPT = {"AWS_CA_BUNDLE"}  # of the machine: without it no package index answers
_FILES = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "PREFECT_PROFILES_PATH")


def leave_out_foreign(variables: MutableMapping[str, str]) -> None:
    """Remove what the tools that are tested would read, also from files in a person's home."""
    for name in [*variables]:
        if name.startswith(_FOREIGN) and name not in _KEPT:
            del variables[name]
    variables.update(dict.fromkeys(_FILES, os.devnull))


leave_out_foreign(os.environ)

# Several tests run at once on all processors. Threads that a library adds to each of them wait for
# one another in loops: one audit of a small lake took a sixth more processor time with them.
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(threads, "1")

# Where they may keep none, each worker and each child of a test compiles all libraries anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
