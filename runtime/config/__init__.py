"""Configuration: TOML files to frozen models, with the file and line of every error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import lazy_names

from .load import WORKSPACE_FILE, WORKSPACE_FILTERS, Loaded, config_folder, data_folder, load

if TYPE_CHECKING:
    from .errors import ConfigError
    from .keys import KEYS, dotted, is_private, printable
    from .models import AnomalySection, Config, ProviderSection, SecretSection
    from .places import Locations, find_places
    from .reference import toml_value
    from .servers import ServerSection
    from .trust import is_trusted, set_trusted
    from .types import SERVER_NAME

__all__ = [
    "KEYS",
    "SERVER_NAME",
    "WORKSPACE_FILE",
    "WORKSPACE_FILTERS",
    "AnomalySection",
    "Config",
    "ConfigError",
    "Loaded",
    "Locations",
    "ProviderSection",
    "SecretSection",
    "ServerSection",
    "config_folder",
    "data_folder",
    "dotted",
    "find_places",
    "is_private",
    "is_trusted",
    "load",
    "printable",
    "set_trusted",
    "toml_value",
]

_HOMES = {
    "AnomalySection": ".models",
    "Config": ".models",
    "ConfigError": ".errors",
    "KEYS": ".keys",
    "Locations": ".places",
    "ProviderSection": ".models",
    "SecretSection": ".models",
    "SERVER_NAME": ".types",
    "ServerSection": ".servers",
    "dotted": ".keys",
    "find_places": ".places",
    "is_private": ".keys",
    "is_trusted": ".trust",
    "printable": ".keys",
    "set_trusted": ".trust",
    "toml_value": ".reference",
}

__getattr__ = lazy_names(__name__, _HOMES)
