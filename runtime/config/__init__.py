"""Configuration: TOML files to frozen models, with the file and line of every error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

from .load import WORKSPACE_FILE, WORKSPACE_FILTERS, Loaded, config_folder, data_folder, laid_over, load

if TYPE_CHECKING:
    from .brought import (
        AGENTS_FOLDER,
        COMMANDS_FOLDER,
        CONFIGURATION,
        INSTRUCTIONS,
        WORKSPACE_SERVERS,
        brought_by,
        contents_of,
        purpose_of,
    )
    from .editing import CannotChange, as_written, replace_file, text_of, with_value
    from .errors import ConfigError
    from .keys import KEYS, dotted, is_private, printable
    from .models import AnomalySection, Config, ProviderSection, SecretSection
    from .places import Locations, find_places
    from .reference import toml_value
    from .servers import ServerSection
    from .trust import Trust, set_trusted, trust_in, trust_of, trusted_now
    from .types import SERVER_NAME

__all__ = [
    "AGENTS_FOLDER",
    "COMMANDS_FOLDER",
    "CONFIGURATION",
    "INSTRUCTIONS",
    "KEYS",
    "SERVER_NAME",
    "WORKSPACE_FILE",
    "WORKSPACE_FILTERS",
    "WORKSPACE_SERVERS",
    "AnomalySection",
    "CannotChange",
    "Config",
    "ConfigError",
    "Loaded",
    "Locations",
    "ProviderSection",
    "SecretSection",
    "ServerSection",
    "Trust",
    "as_written",
    "brought_by",
    "config_folder",
    "contents_of",
    "data_folder",
    "dotted",
    "find_places",
    "is_private",
    "laid_over",
    "load",
    "printable",
    "purpose_of",
    "replace_file",
    "set_trusted",
    "text_of",
    "toml_value",
    "trust_in",
    "trust_of",
    "trusted_now",
    "with_value",
]

_HOMES = {
    "AnomalySection": ".models",
    "COMMANDS_FOLDER": ".brought",
    "CONFIGURATION": ".brought",
    "Config": ".models",
    "ConfigError": ".errors",
    "AGENTS_FOLDER": ".brought",
    "INSTRUCTIONS": ".brought",
    "KEYS": ".keys",
    "Locations": ".places",
    "ProviderSection": ".models",
    "SecretSection": ".models",
    "SERVER_NAME": ".types",
    "ServerSection": ".servers",
    "Trust": ".trust",
    "CannotChange": ".editing",
    "as_written": ".editing",
    "replace_file": ".editing",
    "text_of": ".editing",
    "with_value": ".editing",
    "brought_by": ".brought",
    "WORKSPACE_SERVERS": ".brought",
    "contents_of": ".brought",
    "dotted": ".keys",
    "find_places": ".places",
    "is_private": ".keys",
    "printable": ".keys",
    "purpose_of": ".brought",
    "set_trusted": ".trust",
    "toml_value": ".reference",
    "trust_in": ".trust",
    "trust_of": ".trust",
    "trusted_now": ".trust",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
