"""`privaudit.toml`: what it may say, how it is read, and what is wrong with it in words."""

from flows.settings.file import (
    FILE,
    VARIABLE,
    NightSettings,
    RaySettings,
    Settings,
    UnlistedModelError,
    WebhookSettings,
    load_settings,
    settings_path,
)
from flows.settings.model import ModelSettings
from flows.settings.problems import SettingsError

__all__ = [
    "FILE",
    "VARIABLE",
    "ModelSettings",
    "NightSettings",
    "RaySettings",
    "Settings",
    "SettingsError",
    "UnlistedModelError",
    "WebhookSettings",
    "load_settings",
    "settings_path",
]
