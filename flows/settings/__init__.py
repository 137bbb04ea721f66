"""`privaudit.toml`: what it may say, how it is read, and what is wrong with it in words."""

from flows.settings.file import (
    FILE,
    VARIABLE,
    ModelSettings,
    NightSettings,
    RaySettings,
    Settings,
    SettingsError,
    UnlistedModelError,
    WebhookSettings,
    load_settings,
    settings_path,
)

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
