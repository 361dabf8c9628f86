"""Searches for secret files by their names: asked about outside of the workspace, and nowhere else."""

from __future__ import annotations

import pytest

ASKED = [
    "find / -regex '.*/id_r.a'", "find / -regex '.*\\.p.m'", "find / -regex '.*\\.pem\\b'", "find / -regex '.*/id_rs+a+'", "find / -regex '.*/id_rsaa?'", "find / -regextype posix-extended -regex '.*/id_rs{1}a'", "find / -regex '.*/\\(id_rsa\\|x\\)'",
    "find / -name '*[.][p][e][m]'", "find / -name '[i][d]_*'", "find / -wholename '/home/*/.[s]sh/*'", "find / -path '/home/*/.[r-t]sh/*'", "find / -name credentials", "find / -name 'cred*'", "find / -name shadow", "fdfind 'id.rsa' /",
    "find / -name id_rsa", "find ~ -name '*.pem'", "find .. -name id_rsa", "find / -iname 'ID_RSA'", "find / -name '[i]d_rsa'", "find / -name '?d_rsa'", "find / -name 'id_*'", "find / -name id_rsa_work",
    "find / -path '*/.ssh/*'", "find / -wholename '*/.aws/credentials'", "find / -regex '.*id_rsa.*'", "find / -regex '.*\\.pem$'", "find / -regex '.*\\.\\(crt\\|key\\)'", "find ~ -name '.env*'", "find ~ -type d -name .ssh",
    "find / -name '*.crt' -o -name '*.key'", "find / \\( -name a -o -name .netrc \\) -print0", "find / ! -name a -name id_rsa", "find . / -name id_rsa", "find / -lname '*id_rsa'", "find / -samefile /home/ada/.ssh/id_rsa", "cd / && find . -name id_rsa",
    "find / -name id_rsa -exec ls -l {} +", "find link-out -name id_rsa", "locate '*.pem'", "fd id_rsa /", "fd -H id_rsa ~", "fd -e pem . ~", "fd -g '*.pem' ~", "fdfind id_rsa /", "tree -P id_rsa ~", "find ~/.oci", "ls ~/.oci", "ls ~/*/id_rsa",
]  # fmt: skip
QUIET = [
    "find / -regex '.*\\.py'", "find / -regex '.*/foo[0-9]+\\.txt'", "find /usr -regex '.*/config\\.h'", "find / -regex '.*\\.\\(c\\|h\\)'", "find /usr -name 'sh*'", "find / -name '*.conf'", "find /usr -name 'lib*.so.*'", "find / -name '*ow'",
    "find . -name '*.py'", "find . -name '*.pem'", "find . -name id_rsa", "find src -name .env", "find /srv/ws/src -name '*.key'", "fd id_rsa", "fd -e pem", "tree -P '*.pem' src", "cd src && find . -name '*.pem'",
    "find / -name '*.py'", "find /usr/share -name '*.desktop'", "find ~ -name '*.json'", "find ~ -name '.*'", "find / -name '*.conf'", "find /usr -name 'lib*.so*'", "find /usr/include -name 'std*.h'", "find / -regex '.*\\.py$'",
    "find ~ -name '.bash*'", "find ~", "find / -type f", "locate main.py", "fd main /usr", "tree -P '*.py' /usr",
]  # fmt: skip


@pytest.mark.parametrize("line", ASKED)
def test_a_search_outside_for_a_secret_by_name_is_asked_about(world, line):
    assert world.say(line) == "ask"


@pytest.mark.parametrize("line", ["locate id_rsa", "locate -i .ssh"])
def test_what_is_the_name_of_a_secret_is_asked_about_by_force_where_it_could_be_a_path(world, line):
    assert world.say(line) == "force"


@pytest.mark.parametrize("line", QUIET)
def test_other_searches_and_those_inside_are_quiet(world, line):
    assert world.say(line) == "nothing"


@pytest.mark.parametrize(
    "line", ["cat ~/.oci/config", "head ~/.vault-token", "grep x ~/.config/rclone/rclone.conf"]
)
def test_places_of_credentials_are_not_read(world, line):
    assert world.say(line) == "deny"
