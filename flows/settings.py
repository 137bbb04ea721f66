"""`privaudit.toml`: where things are, which models are audited, and how the game is played."""

import os
import pathlib
import tomllib
from typing import Any

import pydantic_settings
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from privcore.exceptions import TerminalError
from workers.plan import Plan

FILE = "privaudit.toml"
VARIABLE = "PRIVAUDIT_CONFIG"


class SettingsError(TerminalError):
    """The settings cannot be read; the sentence says which part and what to do."""


class ModelSettings(BaseModel):
    """One audited model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="Name of the model's folder in the lake.")


class RaySettings(BaseModel):
    """Where the work is carried; none of it changes a number."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str = Field(default="local", description="local, auto, or ray://host:port.")
    cpus: int | None = Field(default=None, ge=1, description="CPUs of a local Ray; all by default.")


class Settings(BaseSettings):
    """The whole file; `PRIVAUDIT_<NAME>` in the environment overrides, `__` parts nested names."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="PRIVAUDIT_", env_nested_delimiter="__"
    )

    lake: str
    warehouse: str
    report: str
    models: tuple[ModelSettings, ...] = Field(min_length=1)
    plan: Plan = Plan()
    ray: RaySettings = RaySettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over the file."""
        return env_settings, init_settings


def settings_path(given: str | os.PathLike[str] | None) -> pathlib.Path:
    """Return the file to read: the given one, `PRIVAUDIT_CONFIG`, or the current folder's."""
    return pathlib.Path(given or os.environ.get(VARIABLE) or FILE)


def load_settings(given: str | os.PathLike[str] | None = None) -> Settings:
    """Return the settings; paths in the file are relative to the file's folder.

    Raises:
        SettingsError: there is no such file, it is not TOML, or a value breaks a rule.
    """
    path = settings_path(given)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(
            f"There is no settings file {path}: run in a folder that has a {FILE}, or give "
            f"--config or {VARIABLE}."
        ) from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.") from None
    try:
        settings = Settings(**content)
    except ValidationError as error:
        first: Any = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{path} is not valid at {field}: {first['msg']}.") from None
    except pydantic_settings.SettingsError as error:
        raise SettingsError(f"The environment's settings cannot be read: {error}.") from None
    folder = path.absolute().parent
    places = {
        name: _absolute(folder, getattr(settings, name)) for name in ("lake", "warehouse", "report")
    }
    return settings.model_copy(update=places)


def _absolute(folder: pathlib.Path, place: str) -> str:
    return place if "://" in place else str(folder / place)
