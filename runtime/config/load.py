"""Load the configuration: merge all layers, and record where each value was set.

    defaults  <  the person's file  <  one of its profiles  <  a trusted workspace's file (tighter only)
              <  LEEWARD_*  <  flags

`load` returns the configuration or raises `ConfigError` with every problem it found. `layers.py` reads a
layer, `models.py` defines the keys, and `runtime/policy.py` cuts out what a gate may see of it all.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import platformdirs
from pydantic import ValidationError

from leeward.security.lazy import dataclass
from leeward.tools import distill

from .errors import ConfigError, ConfigProblem, ValueSource
from .keys import KEYS, Key, dotted, found, printable
from .layers import ABSENT, DEFAULT, Layer, environment_layer, file_layer, flag_layer, problems_of
from .models import ONE_LAYER, Config, ProviderSection, SecretSection
from .profiles import PROFILE_VARIABLE, problems_in, without_profiles
from .toml_lines import KeyPath
from .types import Section

if TYPE_CHECKING:
    from leeward.tools.distill import Layer as FilterLayer
    from leeward.tools.distill import RuleSet

__all__ = ["WORKSPACE_FILE", "Loaded", "config_folder", "data_folder", "load"]

WORKSPACE_FILE = ".leeward/config.toml"
"""The configuration a workspace brings along, relative to it; read only where the workspace is trusted."""

WORKSPACE_FILTERS = ".leeward/filters.toml"
"""The output filters it brings along; the person's own have the same name, beside their configuration."""

_MOST_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration that holds, and where it comes from.

    `sources` tells for each dotted key "FILE:LINE", "environment NAME", "flag" or "default"; entries
    of lists of tables and of tables with free names have their own ("permissions.rules.0",
    "security.trust.fetch"). `files` were read; `digest` is the SHA-256 (hex) of the values. `filters` are the
    rules for outputs, None where nobody wrote any beside the built-in ones.
    """

    config: Config
    sources: Mapping[str, str]
    files: tuple[Path, ...]
    digest: str
    filters: RuleSet | None = None


def config_folder() -> Path:
    """Return the folder of the person's configuration, absolute: `~/.config/leeward` on Linux.

    Raises:
        ConfigError: XDG_CONFIG_HOME is not an absolute path.
    """
    return _absolute(platformdirs.user_config_path("leeward", appauthor=False), "XDG_CONFIG_HOME")


def data_folder() -> Path:
    """Return the folder of what is stored, absolute: `~/.local/share/leeward` on Linux.

    Raises:
        ConfigError: XDG_DATA_HOME is not an absolute path.
    """
    return _absolute(platformdirs.user_data_path("leeward", appauthor=False), "XDG_DATA_HOME")


def _absolute(folder: Path, variable: str) -> Path:
    """Refuse a folder that would lie somewhere else wherever the program is started."""
    if not folder.is_absolute():
        source = ValueSource(f"environment {variable}")
        raise ConfigError(
            [ConfigProblem(source, "", f"found {found(str(folder), ())}, expected an absolute path")]
        )
    return folder


def load(
    *,
    file: Path | None = None,
    config_dir: Path | None = None,
    workspace: Path | None = None,
    trusted: bool = False,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Read all layers and lay them over each other.

    `file` (else LEEWARD_CONFIG) must exist where it is given; without it `config.toml` in
    `config_dir` is read if there is one; the profile that `flags` (`profile`) or
    LEEWARD_PROFILE name is laid over it. `flags` maps dotted keys to values, None meaning that the
    flag was not given. The configuration in `workspace` is read only if that is `trusted`. A `filters.toml`
    beside either file is read with it.

    Raises:
        ConfigError: something cannot be read or used; all problems of all layers are in it.
    """
    environment = os.environ if environment is None else environment
    reading = _Reading()
    named = file or (Path(environment["LEEWARD_CONFIG"]) if environment.get("LEEWARD_CONFIG") else None)
    path = named or (config_dir or config_folder()) / "config.toml"
    reading.read(path, str(named or "config.toml"), required=named is not None, has_profiles=True)
    flags = dict(flags or {})
    profile = flags.pop("profile", None) or environment.get(PROFILE_VARIABLE)
    reading.use_profile(str(profile or ""))
    filters = path.with_name(Path(WORKSPACE_FILTERS).name)
    reading.read_filters(filters, str(filters) if named else filters.name, "yours")
    inner = workspace / WORKSPACE_FILE if workspace is not None and trusted else None
    if inner is not None and not _is_same(inner, path):
        reading.read(inner, WORKSPACE_FILE, required=False, narrow=True)
        reading.read_filters(inner.with_name(filters.name), WORKSPACE_FILTERS, "workspace")
    reading.add(*environment_layer(environment, (PROFILE_VARIABLE, *reading.key_variables())))
    reading.add(*flag_layer(flags))
    return reading.result()


def laid_over(loaded: Loaded, values: Mapping[str, object]) -> Loaded:
    """Return a configuration with further values by dotted key over it, as flags are laid over.

    Raises:
        ConfigError: there is no such key, or a value cannot be used.
    """
    reading = _Reading(loaded)
    reading.add(*flag_layer(values))
    return reading.result()


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths are one file: a file the person named is theirs, wherever it lies."""
    return os.path.realpath(one) == os.path.realpath(other)


class _Reading:
    """The values that hold so far, the place of each, and the problems; layers are added from below."""

    def __init__(self, loaded: Loaded | None = None) -> None:
        self._values: dict[KeyPath, Any] = {path: key.default for path, key in KEYS.items()}
        self._places: dict[KeyPath, ValueSource] = dict.fromkeys(KEYS, DEFAULT)
        self._problems: list[ConfigProblem] = []
        self._files: list[Path] = []
        self._filters: RuleSet | None = None
        self._profiles: dict[str, Layer] = {}
        if loaded is not None:
            self._values = {path: _value_at(loaded.config, path) for path in KEYS}
            self._places = _places_of(loaded, self._values)
            self._files, self._filters = [*loaded.files], loaded.filters

    def read_filters(self, path: Path, label: str, layer: FilterLayer) -> None:
        """Lay a file of output filters, if there is one, over those that hold so far."""
        try:
            read = file_layer(path, label, required=False)
        except ConfigError as error:
            self._problems.extend(error.problems)
            return
        if read is ABSENT:
            return
        self._files.append(path.absolute())
        self._filters, problems = (self._filters or distill.built_in_rules()).with_file(read.tree, layer)
        for problem in problems[:_MOST_PROBLEMS]:
            place, key = read.place(problem.path), dotted(problem.path)
            self._problems.append(ConfigProblem(place, key, printable(problem.message)))

    def read(
        self, path: Path, label: str, *, required: bool, narrow: bool = False, has_profiles: bool = False
    ) -> None:
        """Add a file; that it cannot be read is one more problem. Only the person's own has profiles."""
        try:
            layer = file_layer(path, label, required=required)
        except ConfigError as error:
            self._problems.extend(error.problems)
            return
        if layer is not ABSENT:
            self._files.append(path.absolute())
        if has_profiles:
            layer, self._profiles, problems = without_profiles(layer)
            self._problems.extend(problems)
        self.add(layer, narrow=narrow)

    def use_profile(self, name: str) -> None:
        """Lay a profile over what holds, none where `name` is ""; each has to be right, used or not."""
        for other, layer in self._profiles.items():
            if other != name:
                self._problems.extend(problems_in(layer))
        if name in self._profiles:
            self.add(self._profiles[name])
        elif name:
            known = ", ".join(sorted(map(printable, self._profiles))) or "none"
            why = f"there is no profile {printable(name)} (there are: {known})"
            self._problems.append(ConfigProblem(ValueSource("profile"), "", why))

    def add(self, layer: Layer, problems: Iterable[ConfigProblem] = (), *, narrow: bool = False) -> None:
        """Lay a layer over what holds so far, except for what in it cannot be right."""
        self._problems.extend(problems)
        try:
            model = Config.model_validate(layer.tree, context=ONE_LAYER)
        except ValidationError as error:
            self._problems.extend(problems_of(error, layer))
            return
        wrong: list[ConfigProblem] = []
        for key in KEYS.values():
            if _stands_in(layer.tree, key.path):
                value = _value_at(model, key.path)
                widened = self._widened(key, value, layer) if narrow else []
                wrong.extend(widened)
                if not widened:
                    self._lay(key, value, layer)
        self._problems.extend(sorted(wrong, key=lambda problem: problem.source.line or 0))

    def _widened(self, key: Key, value: object, layer: Layer) -> list[ConfigProblem]:
        """Say what a workspace may not: set a key that is not its to set, or loosen what holds."""
        if key.narrowing is None:
            return [
                ConfigProblem(layer.place(key.path), dotted(key.path), "a workspace may not set this key")
            ]
        holds, hint = self._values[key.path], f"a workspace may only {key.narrowing.words}"
        problems = []
        for below in key.narrowing.looser(holds, value):
            path = (*key.path, *below)
            shown = f" ({found(holds, path)})" if isinstance(holds, int | float | str) else ""
            text = f"{found(_value_at(value, below), path)} is looser than what holds{shown}"
            problems.append(ConfigProblem(layer.place(path), dotted(path), text, hint=hint))
        return problems

    def _lay(self, key: Key, value: Any, layer: Layer) -> None:
        """Set one key; rules of all layers hold together, and tables with free names are joined by name."""
        before = len(self._values[key.path]) if key.is_gathered else 0
        if key.entry is not None and not key.is_table:
            for index in range(len(value)):
                self._places[*key.path, before + index] = layer.place((*key.path, index))
        if key.is_gathered:
            value = (*self._values[key.path], *value)
        if key.is_table:
            self._places.update({(*key.path, name): layer.place((*key.path, name)) for name in value})
            value = {**self._values[key.path], **value}
        self._values[key.path] = value
        if not key.is_table or key.path in layer.places:
            self._places[key.path] = layer.place(key.path)

    def key_variables(self) -> tuple[str, ...]:
        """Return the environment variables that hold keys of providers, and other secrets."""
        providers: tuple[ProviderSection, ...] = self._values["llm", "providers"]
        secrets: Mapping[str, SecretSection] = self._values["secrets",]
        named = (*(one.api_key_env for one in providers), *(one.env for one in secrets.values()))
        return tuple(filter(None, named))

    def result(self) -> Loaded:
        """Return what holds.

        Raises:
            ConfigError: there were problems, or the layers do not go together.
        """
        if self._problems:
            raise ConfigError(self._problems)
        tree = _tree(self._values)
        try:
            config = Config.model_validate(tree)
        except ValidationError as error:
            raise ConfigError(problems_of(error, Layer(tree, self._places))) from None
        there = {path: place for path, place in self._places.items() if self._is_there(path)}
        sources = {dotted(path): str(place) for path, place in there.items()}
        files, digest = tuple(self._files), _digest(config)
        return Loaded(config, MappingProxyType(sources), files, digest, self._filters)

    def _is_there(self, path: KeyPath) -> bool:
        """Whether a place still speaks of something: a list may have been replaced by a shorter one."""
        return path in KEYS or not isinstance(path[-1], int) or path[-1] < len(self._values[path[:-1]])


def _places_of(loaded: Loaded, values: Mapping[KeyPath, Any]) -> dict[KeyPath, ValueSource]:
    """Return where the values of a configuration were set, by the paths of keys and of their entries."""
    paths = [*KEYS]
    for path, value in values.items():
        if isinstance(value, tuple | Mapping):
            paths.extend(
                (*path, entry) for entry in (value if isinstance(value, Mapping) else range(len(value)))
            )
    written = {path: loaded.sources.get(dotted(path)) for path in paths}
    return {path: ValueSource(place) for path, place in written.items() if place is not None}


def _stands_in(tree: Mapping[str, Any], path: KeyPath) -> bool:
    for name in path:
        if name not in tree:
            return False
        tree = tree[str(name)]
    return True


def _value_at(value: Any, path: KeyPath) -> object:
    """Follow a path through models, lists and tables."""
    for name in path:
        value = getattr(value, str(name)) if isinstance(value, Section) else value[name]
    return value


_ADDED_SINCE = (
    ("hooks",),
    ("mcp",),
    ("secrets",),
    ("security", "fence"),
    ("tools", "sandbox", "allow_hosts"),
    *(
        ("tools", "shell", key)
        for key in ("caches", "memory", "overlay", "processes", "trial", "trial_bytes")
    ),
)
"""Keys that 0.1.0 did not have."""


def _section(values: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return the table at a path of a configuration."""
    for name in path:
        values = values[name]
    return values


def _digest(config: Config) -> str:
    """Return the SHA-256 (hex) of what a configuration says, by which a resumed session knows it again.

    A key that 0.1.0 did not have counts only where it is set: else what a session was granted would lapse
    because a release added a key.
    """
    values, usual = config.model_dump(mode="json"), Config().model_dump(mode="json")
    # How a terminal behaves allows nothing.
    del values["terminal"]
    for *section, key in _ADDED_SINCE:
        set_values, unsaid = _section(values, section), _section(usual, section)
        if set_values[key] == unsaid[key]:
            del set_values[key]
    for provider in values["llm"]["providers"]:
        if not provider["fence"]:
            del provider["fence"]
    for rule in values["permissions"]["rules"]:
        for later in ("folder", "command"):
            if rule[later] is None:
                del rule[later]
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def _tree(values: Mapping[KeyPath, object]) -> dict[str, object]:
    """Turn values by path into tables within tables."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        table = tree
        for name in path[:-1]:
            table = table.setdefault(str(name), {})
        table[str(path[-1])] = value
    return tree
