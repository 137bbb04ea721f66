"""`[openlineage]` of the settings: which server receives a run event of each audit."""

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, SecretStr

from flows.settings.values import safe_url
from workers.strict_model import StrictModel


class OpenLineageSettings(StrictModel):
    """Receiver of OpenLineage events; without it there are none."""

    model_config = ConfigDict(hide_input_in_errors=True)

    url: Annotated[str, AfterValidator(safe_url)]
    """Receives a POST per event, like https://marquez.example.com/api/v1/lineage."""
    namespace: str = Field(default="privaudit", min_length=1)
    """Namespace of the audits' jobs."""
    api_key: SecretStr | None = Field(default=None, min_length=1)
    """Bearer token of the server; keep it in PRIVAUDIT_OPENLINEAGE__API_KEY."""
