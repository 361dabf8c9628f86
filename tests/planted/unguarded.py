"""Wrong: carries out what a strategy wants, whatever the lines say."""

from itertools import compress

from leeward.tools.distill.page import Decision, Page


def after(page: Page, decision: Decision) -> Page:
    gone = {*decision.dropped, *decision.known, *(index for fold in decision.folds for index in fold.members)}
    keep = [index not in gone for index in range(len(page.lines))]
    lines, numbers = list(compress(page.lines, keep)), list(compress(page.numbers, keep))
    return Page(lines, numbers, page.total, page.failed)
