"""Configuration: TOML files to frozen models, with the file and line of every error."""

from .errors import ConfigError
from .keys import KEYS, dotted, is_private, printable
from .load import WORKSPACE_FILE, Loaded, config_folder, data_folder, load
from .models import AnomalySection, Config, ProviderSection
from .places import Locations, find_places
from .reference import toml_value
from .trust import is_trusted, set_trusted

__all__ = [
    "KEYS",
    "WORKSPACE_FILE",
    "AnomalySection",
    "Config",
    "ConfigError",
    "Loaded",
    "Locations",
    "ProviderSection",
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
