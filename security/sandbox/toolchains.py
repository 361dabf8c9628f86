"""List the folders of toolchains below a home that programs may read, and nothing else there.

Settings, caches and credentials of the same programs lie next to these and are left out. Pure: whether
anything is there is for `tools/process/programs.py` and the sandbox to find.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["PACKAGE_FOLDERS", "TOOLCHAIN_VARIABLES", "toolchains"]


_CARGO = ("bin", "registry", "git")
# What rustup made once and would make again is there, so that it has nothing to write.
_RUSTUP = ("toolchains", "settings.toml", "update-hashes")
_PYENV = ("bin", "libexec", "shims", "versions", "version", "pyenv.d", "plugins", "completions")
_NVM = ("versions", "alias")
_GO = ("bin", "pkg")
_VOLTA = ("bin", "tools", "hooks.json", "layout.v4")
_CONDA = (
    "bin", "condabin", "lib", "libexec", "include", "share", "ssl", "envs", "conda-meta", "pkgs",
    "x86_64-conda-linux-gnu", "aarch64-conda-linux-gnu", "compiler_compat",
)  # fmt: skip
_LOCAL = (
    "bin", "lib", "share/uv/tools", "share/uv/python", "share/pipx", "pipx", "share/pypoetry/venv",
    "share/virtualenvs", "share/hatch/env", "share/mise/installs", "share/mise/shims", "share/fnm",
    "share/pnpm", "share/rtx/installs", "share/coursier/bin",
)  # fmt: skip

_AT_HOME: Mapping[str, tuple[str, ...]] = {
    ".cargo": _CARGO,
    ".rustup": _RUSTUP,
    ".pyenv": _PYENV,
    ".nvm": _NVM,
    "go": _GO,
    ".local": _LOCAL,
    ".volta": _VOLTA,
    ".rbenv": ("bin", "libexec", "shims", "versions", "version", "plugins", "rbenv.d"),
    ".rvm": ("bin", "gems", "rubies", "scripts", "environments", "wrappers", "config", "lib"),
    ".asdf": ("bin", "lib", "libexec", "asdf.sh", "shims", "installs", "plugins"),
    ".bun": ("bin", "install/global"),
    ".deno": ("bin",),
    ".fnm": ("node-versions", "aliases"),
    ".sdkman": ("candidates",),
    ".ghcup": ("bin", "ghc", "cabal", "hls", "stack", "share"),
    ".npm-global": ("bin", "lib"),
    "miniconda3": _CONDA,
    "anaconda3": _CONDA,
    "miniforge3": _CONDA,
    ".conda": ("envs", "pkgs"),
    ".cache/pypoetry": ("virtualenvs",),
    ".opam": ("*/bin", "*/sbin", "*/lib", "*/share", "*/.opam-switch/switch-state"),
    ".juliaup": ("bin", "julia-*"),
    ".julia": ("juliaup",),
    ".dotnet": ("dotnet", "host", "sdk", "shared", "packs", "templates", "tools"),
}
"""Folders of a home, and what of each is a toolchain's; `*` is any part of one name."""

TOOLCHAIN_VARIABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "CARGO_HOME": _CARGO,
        "RUSTUP_HOME": _RUSTUP,
        "PYENV_ROOT": _PYENV,
        "NVM_DIR": _NVM,
        "GOPATH": _GO,
        "GOROOT": ("bin", "lib", "misc", "pkg", "src", "test", "VERSION", "go.env"),
        "VOLTA_HOME": _VOLTA,
        "JAVA_HOME": ("bin", "lib", "conf", "include", "jmods", "jre", "legal", "release"),
    }
)
"""Variables that name another place for such a folder, and what is a toolchain's of what is there."""

PACKAGE_FOLDERS = frozenset({"registry", "git", "pkg", "pkgs"})
"""Of these parts those with what package managers unpacked: as public as its origin, full of test keys."""


def toolchains(home: str) -> tuple[str, ...]:
    """Return where people install toolchains below a home, as patterns, whatever is there."""
    base = home.rstrip("/")
    return tuple(f"{base}/{folder}/{part}" for folder, parts in _AT_HOME.items() for part in parts)
