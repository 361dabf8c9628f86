"""Configuration: TOML files to frozen models, with the file and line of every error."""

from .errors import ConfigError
from .keys import KEYS, dotted, is_private, printable
from .load import WORKSPACE_FILE, Loaded, config_folder, data_folder, load
from .models import Anomaly, Config, Provider
from .places import Places, find_places
from .reference import toml_value
from .trust import is_trusted, set_trusted

__all__ = [
    "KEYS",
    "WORKSPACE_FILE",
    "Anomaly",
    "Config",
    "ConfigError",
    "Loaded",
    "Places",
    "Provider",
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
