"""What a trial run changed in git repositories, as git means it."""

from .changes import GitChanges, GitLimits, git_changes_of
from .history import Histories

__all__ = ["GitChanges", "GitLimits", "Histories", "git_changes_of"]
