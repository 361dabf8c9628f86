"""Wrong: takes every file with several names for a secret one, which package managers make of nearly all."""

import os


def is_secret(found: os.stat_result) -> bool:
    return found.st_nlink > 1
