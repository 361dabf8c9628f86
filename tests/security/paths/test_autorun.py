"""Files that act later without being named: found wherever they lie, their like left alone, answered by name only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.call import Asker
from leeward.security.gates import paths
from leeward.security.kinds import Effect, Kind
from leeward.security.paths import is_meant_to_run_later, runs_later_reason
from leeward.security.permissions.answers import answer_in_advance
from leeward.security.policy import Autonomy, Rule, RuleAction
from leeward.security.session import Grant, Granted

LATER = [
    "Makefile", "GNUmakefile", "makefile", "rules.mk", "package.json", "packages/a/package.json", "conftest.py", "tests/unit/conftest.py", "lib/x.pth", ".pth", "sitecustomize.py",
    "usercustomize.py", "setup.py", "pyproject.toml", "build.rs", "noxfile.py", ".github/workflows/ci.yml", ".github/workflows/deep/x", ".github/actions/a/action.yml", ".github",
    ".github/workflows", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile", "azure-pipelines.yml", ".travis.yml", ".ci/run", ".bashrc", "home/.zshrc", ".envrc", ".vimrc",
    "units/a.service", "a.timer", "x.desktop", "crontab", "etc/cron.d/x", ".vscode/tasks.json", ".vscode/settings.json", ".idea/runConfigurations/x.xml", ".pre-commit-config.yaml",
    ".husky/pre-commit", "lefthook.yml", "AGENTS.md", "docs/AGENTS.md", "CLAUDE.md", "GEMINI.md", "LEEWARD.md", ".cursorrules", ".cursor/rules/a.mdc", ".mcp.json", ".claude/settings.json",
    ".github/copilot-instructions.md", "x.instructions.md", ".cargo/config.toml", ".devcontainer/devcontainer.json", "gradle/wrapper/gradle-wrapper.jar", ".hg/hgrc", ".gitmodules",
    "MAKEFILE", "Agents.MD", ".GITHUB/Workflows/x.YML", "ConfTest.py", ".V\u017fcode/tasks.json", "Make\u200bfile", "make\ufeffFILE",
    "docs/HEAD", "x/commondir",
]  # fmt: skip
ORDINARY = [
    "main.py", "README.md", "src/makefile.py", "Makefile.md", "Makefile/notes.txt", "my_conftest.py", "conftest.txt", "conftest_test.py", "path.py", "x.pth.md", "mypackage.json", "package.jsonc", "package-lock.json",
    "setup_test.py", "src/setup/main.py", ".github/ISSUE_TEMPLATE.md", ".github/CODEOWNERS", "github/workflows/x.yml", "workflows/ci.yml", "ci/run", "src/ci.yml", ".gitlab/README.md", "bashrc", "bashrc.md", ".bashrc.md",
    "a.service.ts", "service.py", "services/service", "timer.py", "tasks.json", "vscode/tasks.json", ".vscodeignore", "agents.py", "docs/agents/readme.md", "claude.txt", "gradle/x.jar", "wrapper/gradle/x", ".gitignore",
    ".gitattributes", "cursor/rules.md", "husky/x", ".env.example", "a/b/c.txt", "", "src/AGENTS", "hooks/x", "cargo/config.toml", "naïve 日本.txt",
    "HEAD.md", "head.tsx", "heads/x", "src/ahead", "commondir.txt",
]  # fmt: skip


@pytest.mark.parametrize("path", LATER)
def test_what_runs_later_is_found(path: str) -> None:
    assert runs_later_reason(f"/ws/{path}")


@pytest.mark.parametrize("path", ORDINARY)
def test_what_is_like_it_is_not(path: str) -> None:
    assert runs_later_reason(f"/ws/{path}") is None


def test_the_obvious_wrong_list_is_caught(planted) -> None:
    wrong = planted("runs_later").runs_later_reason
    missed = {path for path in LATER if not wrong(f"/ws/{path}")}
    blocked = {path for path in ORDINARY if wrong(f"/ws/{path}")}
    assert {"MAKEFILE", ".github", "tests/unit/conftest.py"} <= missed and {
        "Makefile.md",
        "my_conftest.py",
    } <= blocked


@given(st.text(st.sampled_from("ab.-_~ é/"), max_size=12), st.sampled_from(LATER), st.booleans())
def test_it_does_not_matter_where_it_lies_or_how_it_is_spelled(folder: str, path: str, upper: bool) -> None:
    spelled = path.upper() if upper and path.isascii() else path
    assert runs_later_reason(f"/ws/{folder.strip('/')}/{spelled}")


MEANT = [
    "Makefile",
    "/ws/Makefile",
    "**/Makefile",
    "**/conftest.py",
    ".github/**",
    ".github/workflows/*",
    "**/.vscode/*",
    "*.service",
    "~/units/*.timer",
    "AGENTS.md",
    ".husky/**/",
]
NOT_MEANT = [
    "**",
    "*",
    "/**",
    "src/**",
    "/ws/**",
    "*.py",
    "*.json",
    "M*",
    "**/*",
    "docs/*.md",
    "?akefile",
    "[M]akefile",
    ".git*/**",
    ".*",
]


@pytest.mark.parametrize("pattern", MEANT)
def test_patterns_that_name_such_files(pattern: str) -> None:
    assert is_meant_to_run_later(pattern)


@pytest.mark.parametrize("pattern", NOT_MEANT)
def test_patterns_that_only_happen_to_match(pattern: str) -> None:
    assert not is_meant_to_run_later(pattern)


def asked(make, raw="Makefile", asker=Asker.MODEL, **held):
    action = make.action(
        make.spec(effects=Effect.WRITE, kinds={"path": Kind.PATH}), {"path": raw}, asker=asker
    )
    return action, paths(action, make.session(**held))


def answer(make, *events, raw="Makefile", asker=Asker.MODEL, **held) -> str | None:
    action, ask = asked(make, raw, asker)
    return answer_in_advance("paths", ask, action, make.session(*events, **held))


def rule(match):
    return Rule("*", RuleAction.ALLOW, match, where="config.toml:1")


@pytest.mark.parametrize("pattern", [None, "**", "*", "/ws/**", "M*", "Makefil?"])
def test_neither_full_autonomy_nor_a_wide_rule_or_grant_answers(make, pattern) -> None:
    assert answer(make, rules=(rule(pattern),), autonomy=Autonomy.FULL, allowed_paths=("/ws",)) is None
    assert (
        answer(make, Granted(0, Grant("", "tool", pattern)), autonomy=Autonomy.FULL, allowed_paths=("/ws",))
        is None
    )


@pytest.mark.parametrize("pattern", ["Makefile", "/ws/Makefile", "**/Makefile"])
def test_a_rule_or_grant_that_names_it_answers(make, pattern) -> None:
    assert "config.toml:1" in answer(make, rules=(rule(pattern),))
    assert "grant" in answer(make, Granted(0, Grant("", "tool", pattern)))
    assert answer(make, rules=(rule(pattern),), raw="other/conftest.py") is None


def test_what_the_person_typed_is_answered_and_the_question_is_not_forced(make) -> None:
    assert answer(make, asker=Asker.PERSON) == "the person, by typing it"
    assert asked(make)[1].force is False


def test_one_name_in_a_rule_does_not_answer_for_another_file(make) -> None:
    tool = make.spec(effects=Effect.WRITE, kinds={"a": Kind.PATH, "b": Kind.PATH})
    action = make.action(tool, {"a": "Makefile", "b": "AGENTS.md"})
    session = make.session(rules=(rule("Makefile"), rule("**")))
    assert answer_in_advance("paths", paths(action, session), action, session) is None
    both = make.session(rules=(rule("Makefile"), rule("AGENTS.md")))
    assert answer_in_advance("paths", paths(action, both), action, both) is not None
