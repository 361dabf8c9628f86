"""Write the example configuration and the tables of the reference.

Both are made from the models, and tests compare them with `config.example.toml` and `docs/configuration.md`,
so neither can differ from what the code does.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator

from .keys import KEYS, SECTIONS, Key, dotted, expected_at
from .toml_lines import KeyPath
from .types import Section

__all__ = ["example", "reference", "toml_key", "toml_value"]

_WIDTH = 100

_HEAD = """\
# Leeward's configuration: every key with its default. Copy what you want to change into
# config.toml of the configuration folder (~/.config/leeward on Linux).
# Above it come LEEWARD_* variables (LEEWARD_AGENT__MAX_TURNS=10) and flags of the command line.
# A trusted workspace may bring a .leeward/config.toml; it can only tighten what holds already.
# Filters for the output of programs are in a filters.toml beside either: docs/filters.md.
"""

_SAMPLES: dict[KeyPath, tuple[tuple[str, str], ...]] = {
    ("llm", "providers"): (
        ("name", '"local"'),
        ("kind", '"openai"'),
        ("base_url", '"http://localhost:11434/v1"'),
        ("model", '"NAME"'),
        ("api_key_env", '""'),
        ("api_key_file", '""'),
        ("auth_header", '""'),
        ("headers", "{}"),
        ("query", "{}"),
        ("body", "{}"),
        ("pictures", '""'),
        ("fence", '""'),
    ),
    ("cost", "prices"): (
        ("model", '"local:*"'),
        ("input", "0.5"),
        ("output", "1.5"),
        ("cache_read", "0.05"),
        ("cache_write", "0.5"),
    ),
    ("permissions", "rules"): (
        ("tool", '"keep"'),
        ("match", '"build/**"'),
        ("action", '"allow"'),
        ("force", "false"),
        ("folder", '"."'),
        ("command", '"make *"'),
    ),
    ("security", "trust"): (("fetch", '"verified"'),),
    ("secrets",): (
        ("env", '"FORGE_TOKEN"'),
        ("file", '""'),
        ("hosts", '["api.forge.example"]'),
        ("programs", '["git push", "git fetch"]'),
        ("user", '"git"'),
        ("show_output", "false"),
    ),
    ("hooks",): (
        ("on", '"before_call"'),
        ("command", '["python3", "/home/you/.config/leeward/hooks/guard.py"]'),
        ("tools", '["shell", "keep"]'),
        ("sandbox", '"read_only"'),
        ("read", "[]"),
        ("timeout", "10"),
    ),
    ("mcp", "servers"): (
        ("command", '["mcp-server-time"]'),
        ("url", '""'),
        ("enabled", "true"),
        ("env", "{}"),
        ("secrets", "[]"),
        ("bearer_env", '""'),
        ("hosts", "[]"),
        ("write", "false"),
        ("read", "[]"),
        ("roots", "false"),
        ("asks", "false"),
        ("timeout", "60"),
        ("start_timeout", "20"),
        ("tools", '{ convert_time = { effects = ["read"], arguments = { time = "text" } } }'),
    ),
}
"""What is shown, commented out, of the keys whose default is nothing and whose entries have a form."""


def example() -> str:
    """Return a TOML text that holds every key with its default and says what it means."""
    blocks = [_HEAD]
    for path, section in _ordered():
        keys = [key for key in KEYS.values() if key.path[:-1] == path]
        plain = [key for key in keys if key.path not in _SAMPLES]
        if plain:
            blocks.append("\n".join([*_comment(section.__doc__ or ""), f"[{dotted(path)}]", *_lines(plain)]))
        blocks.extend(_sample(key) for key in keys if key.path in _SAMPLES)
    return "\n".join(blocks)


def _ordered() -> list[tuple[KeyPath, type[Section]]]:
    """Return the tables as they are written down, those with names of the person's own last."""
    root, *others = SECTIONS.items()
    return [*others, root]


def _lines(keys: list[Key]) -> Iterator[str]:
    for key in keys:
        yield from _comment(key.description)
        yield f"{key.path[-1]} = {toml_value(key.default)}"
    yield ""


def _sample(key: Key) -> str:
    """Show the form of the entries of a key; taken out of their comments, the lines are good TOML."""
    header = f"# {_header(key, 'name')}"
    lines = [*_comment(key.description), header]
    for name, value in _SAMPLES[key.path]:
        meaning = key.entry.model_fields[name].description if key.entry else f"or {_others(key)}"
        lines.append(f"# {name} = {value}  # {meaning}")
    return "\n".join([*lines, ""])


def _header(key: Key, of: str = "NAME") -> str:
    """Return the header of one entry of a key; where entries have names, of that one."""
    name = dotted(key.path)
    if key.entry is None:
        return f"[{name}]"
    return f"[{name}.{of}]" if key.is_table else f"[[{name}]]"


def _others(key: Key) -> str:
    """Return the other levels that the sample of a trust level could name."""
    words = expected_at((*key.path, "fetch")).replace(" or ", ", ").split(", ")
    *most, last = [word for word in words if word != _SAMPLES[key.path][0][1]]
    return f"{', '.join(most)} or {last}"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH - 2)]


def toml_value(value: object) -> str:
    """Write a value as TOML has it; None is left out of tables, for there it has no form."""
    match value:
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case dict():
            pairs = (
                f"{toml_key(name)} = {toml_value(one)}" for name, one in value.items() if one is not None
            )
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return json.dumps(value, ensure_ascii=False)


def toml_key(name: str) -> str:
    """Write a name as a key of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def reference() -> str:
    """Return the tables of the reference: each key, its default, what it may be, and a workspace's say."""
    tables = []
    for path, section in _ordered():
        keys = [key for key in KEYS.values() if key.path[:-1] == path]
        if keys and path:
            tables.append(f"### `[{dotted(path)}]`\n\n{section.__doc__}\n\n{_table(keys)}")
        tables.extend(_entries(key, key.entry) for key in keys if key.entry is not None)
    return "\n".join(tables)


def _table(keys: list[Key]) -> str:
    rows = ["| key | default | value | a workspace may | |", "|---|---|---|---|---|"]
    for key in keys:
        default = toml_value(key.default) if not key.is_table else "{}"
        may = key.narrowing.words if key.narrowing is not None else "not set it"
        rows.append(f"| `{key.path[-1]}` | `{default}` | {key.expected} | {may} | {key.description} |")
    return "\n".join([*rows, ""])


def _entries(key: Key, entry: type[Section]) -> str:
    """Return the table of the entries of an array of tables."""
    rows = ["| key | default | value | |", "|---|---|---|---|"]
    for name, field in entry.model_fields.items():
        default = "required" if field.is_required() else f"`{toml_value(field.default)}`"
        shown = "none" if default == "`null`" else default
        place = (*key.path, "NAME" if key.is_table else 0, name)
        rows.append(f"| `{name}` | {shown} | {expected_at(place)} | {field.description} |")
    return "\n".join([f"### `{_header(key)}`", "", entry.__doc__ or "", "", *rows, ""])
