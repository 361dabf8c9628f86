"""Wrong: the workspace of a read-only run may be changed after all."""

from dataclasses import replace


def read_only_confinement(confinement):
    return replace(confinement, network=False)
