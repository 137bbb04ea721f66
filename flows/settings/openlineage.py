"""`[openlineage]` of the settings: which server receives a run event of each audit."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from flows.settings.values import safe_url


class OpenLineageSettings(BaseModel):
    """Receiver of OpenLineage events; without it there are none."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: Annotated[str, AfterValidator(safe_url)] = Field(
        description="Receives a POST per event, like https://marquez.example.com/api/v1/lineage."
    )
    namespace: str = Field(
        default="privaudit", min_length=1, description="Namespace of the audits' jobs."
    )
    api_key: SecretStr | None = Field(
        default=None,
        min_length=1,
        description="Bearer token of the server; keep it in PRIVAUDIT_OPENLINEAGE__API_KEY.",
    )
