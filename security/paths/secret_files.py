"""Recognise secret files: by known folders of credentials, by name, or as files of the system.

Paths are judged by their text alone; nothing here reads a disk. What the person's configuration names as
secret, or as not secret, counts beside the tables. `text/secrets.py` finds secrets within texts.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..lazy import regex
from ..policy import Policy
from .pattern import as_one_name, means_path
from .workspace import DEVICES, at_home, is_below

__all__ = ["NAMED_SECRET", "NOT_TO_BE_READ", "secret_places", "secret_reason"]

# What of a home holds credentials, whole folders and single files; `/` replaces the folders between.
_SECRET_OF_HOMES = (
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".config/gh",
    ".config/gcloud",
    ".password-store",
    ".local/share/keyrings",
    # The rest of `.local` is open to commands, for the programs in it.
    ".local/share/kwalletd",
    ".local/share/python_keyring",
    ".local/share/uv/credentials",
    ".local/share/containers/auth.json",
    ".local/share/jupyter/runtime",
    ".local/share/fish/fish_history",
    ".local/share/atuin",
    ".dotnet/corefx/cryptography",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".config/Signal",
    "snap/firefox",
    "snap/chromium",
    ".var/app/org.mozilla.firefox",
    ".var/app/org.mozilla.Thunderbird",
    ".var/app/org.chromium.Chromium",
    ".var/app/com.google.Chrome",
    ".var/app/com.brave.Browser",
    ".var/app/com.microsoft.Edge",
    "Library/Keychains",
    "Library/Cookies",
    "Library/Safari",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
    "Library/Application Support/Chromium",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Microsoft Edge",
    # Clouds and hosting.
    ".oci",
    ".aliyun",
    ".bluemix",
    ".boto",
    ".s3cfg",
    ".mc/config.json",
    ".config/rclone",
    ".config/doctl",
    ".config/hcloud",
    ".config/linode-cli",
    ".config/scw",
    ".config/configstore",
    ".config/netlify",
    ".config/.wrangler",
    ".config/heroku",
    ".config/stripe",
    ".config/ngrok",
    ".ngrok2",
    ".fly",
    ".railway",
    ".supabase",
    ".local/share/com.vercel.cli",
    ".terraform.d/credentials.tfrc.json",
    ".pulumi/credentials.json",
    ".databrickscfg",
    ".databricks",
    ".snowflake",
    ".snowsql",
    ".okta",
    ".saml2aws",
    ".config/containers/auth.json",
    ".config/helm/registry",
    ".config/helm/repositories.yaml",
    # Registries, forges and other programs that keep a token.
    ".config/hub",
    ".config/glab-cli",
    ".config/git/credentials",
    ".config/github-copilot",
    ".gem/credentials",
    ".local/share/gem/credentials",
    ".m2/settings-security.xml",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".config/pypoetry/auth.toml",
    ".subversion/auth",
    ".circleci/cli.yml",
    ".sentryclirc",
    ".kaggle",
    ".huggingface",
    ".cache/huggingface/token",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    # Vaults, keys and wallets.
    ".vault-token",
    ".config/op",
    ".op",
    ".config/Bitwarden",
    ".config/Bitwarden CLI",
    ".config/sops/age",
    ".config/borg",
    ".local/share/gopass",
    ".pki",
    ".putty",
    ".config/putty",
    ".bitcoin",
    ".electrum",
    ".ethereum/keystore",
)
# What of it is as telling wherever it lies; a project may have a `.aws` or `.docker` of its own.
_SECRET_ANYWHERE = (
    ".ssh",
    ".gnupg",
    ".password-store",
    ".oci",
    ".terraform.d/credentials.tfrc.json",
    ".aws/credentials",
    ".aws/config",
    ".aws/sso",
    ".aws/cli",
    ".azure",
    ".kube/config",
    ".docker/config.json",
    ".config/gh",
    ".config/gcloud",
    ".local/share/keyrings",
    ".cargo/credentials",
    ".cargo/credentials.toml",
)
_IN_CREDENTIALS = ("/.", "/library", "/snap/")
NOT_TO_BE_READ = "the configuration says that it is not to be read (deny_read)"
NAMED_SECRET = "its name says that it holds a key or passwords"  # noqa: S105 — a reason
"""Why a file is secret where the configuration decides: the one lifts what the other says."""

_HOMES = ("/root", "/home/[^/]+", "/Users/[^/]+")
_SWAP = regex(r"(?is)(\.?)(.+)\.sw[a-p]")
_BACKUP = regex(
    r"(?is)#(?P<draft>.+)#"
    r"|(?P<copied>.+?)(?:\.~\d{1,8}~|~+|\.\d{1,8}| ?\(\d{1,8}\)"
    r"|[. _-](?:bak|backup|old|orig|save|tmp|copy)\d{0,8})"
)
_LONGEST_NAME = 255
_TEMPLATE = r"(?:example|sample|template|dist|schema|defaults?)"
_SECRET_NAME = regex(
    r"(?is)id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?(?:[_-][\w@-]+)?(?:\.(?:pem|priv|private))?"
    rf"|\.env(?:rc)?(?:[._-](?!{_TEMPLATE}$)[\w.-]+)?"
    # `process.env` is what programs call their environment, in words that may look like a path.
    rf"|(?!\.?{_TEMPLATE}\.|process\.|import\.meta\.)[\w.-]+\.env"
    r"|.*\.(?:key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|(?!.*pub)(?:.*[._-])?(?:priv(?:ate)?[._-]?)?key\d*\.pem"
    r"|[._](?:netrc|pgpass|npmrc|pypirc|git-credentials|htpasswd|my\.cnf|mylogin\.cnf|s3cfg|boto|vault-token)"
    r"|[._](?:databrickscfg|authinfo|msmtprc|fetchmailrc|terraformrc)(?:\.gpg)?"
    r"|pip\.(?:conf|ini)|ssh_host_\w+_key"
    # Data, and no code or prose, about credentials: what clouds and frameworks hand out under such names.
    r"|(?!(?:.*[._-])?(?:example|sample|template|dist|schema|mock|fake|dummy)[._-])"
    r"(?:(?:.*[._-])?credentials?(?:[._-]?\d+)?|secrets?|client_secrets?(?:_[\w.-]+)?"
    r"|(?:.*[._-])?service[._-]?account(?:[._-]?key)?|.*access[_-]?keys?|(?:.*[._-])?oauth[_-]creds)"
    r"(?:[._-](?:prod|production|staging|dev|development|local))?"
    r"\.(?:json|ya?ml|ini|csv|cfg|conf|properties|xml|plist)"
)
# Something of this is in every such name, so most names are looked at once.
_HINT = regex(
    r"id_|env|key|p12|pfx|jks|kdbx|ppk|pip\.|rc|pgpass|cred|secret|account|htpasswd|cnf|cfg|boto|token|authinfo"
)
_PROC = regex(
    r"/proc/(?:self|thread-self|\d+)/(?:environ|mem|root|cwd|fd|fdinfo|exe|maps|map_files|task)(?:/|$)"
)
_SECRET_SYSTEM = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/run/secrets",
    "/var/run/secrets",
    "/dev",
)
_SYSTEM = ("/etc", "/proc", "/run", "/var/run", "/dev")


def secret_reason(path: str, policy: Policy) -> str | None:
    """Say why a file's contents are secret, in our words, or None; `path` is absolute and normalised.

    `allow_read` lifts nothing but what a name says; the person's own `deny_read` outweighs it.
    """
    path_as_one = as_one_name(path)
    if is_below(path_as_one, policy.secret_paths):
        return "it belongs to Leeward's own data and keys"
    if means_path(policy.deny_read, path, policy.workspace, policy.home, folds=True):
        return NOT_TO_BE_READ
    folder, _, name = path_as_one.rpartition("/")
    # Each of these places has one of these in it; looking for that first spares most paths the rest.
    if any(part in path_as_one for part in _IN_CREDENTIALS):
        credentials = _credentials(policy.home)
        if any(credentials.search(f"{folder}/{original}") for original in _originals(name)):
            return "it is where credentials are kept"
    if path_as_one.startswith(_SYSTEM) and _is_secret_of_system(path_as_one):
        return "the system keeps secrets there"
    if not _HINT.search(name) or not any(map(_SECRET_NAME.fullmatch, _originals(name))):
        return None
    if means_path(policy.allow_read, path, policy.workspace, policy.home, folds=False):
        return None
    return NAMED_SECRET


def _is_secret_of_system(path: str) -> bool:
    if _PROC.match(path):
        return True
    return is_below(path, _SECRET_SYSTEM) and not is_below(path, DEVICES)


@lru_cache(maxsize=256)
def _credentials(home: str) -> re.Pattern[str]:
    """Return what finds the places of credentials in any home, and those that are such everywhere."""
    homes = "|".join((re.escape(home.rstrip("/")), *_HOMES))
    of_homes, anywhere = ("|".join(map(re.escape, names)) for names in (_SECRET_OF_HOMES, _SECRET_ANYWHERE))
    return re.compile(rf"(?is)(?:\A(?:{homes})/(?:{of_homes})|/(?:{anywhere}))(?:/|\Z)")


@lru_cache(maxsize=1024)
def _originals(name: str) -> tuple[str, ...]:
    """Return a name and those of the files it may be a backup, a draft or a swap file of."""
    found = [name]
    # No disk holds a longer name, so there is nothing to be read under it.
    for one in found if len(name) <= _LONGEST_NAME else ():
        swap, copy = _SWAP.fullmatch(one), _BACKUP.fullmatch(one)
        made_from = [copy["draft"] or copy["copied"]] if copy else []
        if swap:
            made_from = [swap[2], swap[1] + swap[2]]
        found += (other for other in dict.fromkeys(made_from) if other not in found)
    return tuple(found)


def secret_places(policy: Policy) -> tuple[str, ...]:
    """Return the folders and files that hold secrets wherever they exist; names that say so come on top."""
    credentials = at_home(policy.home, tuple(dict.fromkeys((*_SECRET_OF_HOMES, *_SECRET_ANYWHERE))))
    return tuple(dict.fromkeys((*policy.secret_paths, *credentials)))
