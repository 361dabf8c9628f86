"""Wrong: remembers what a function made and forgets of what, so that a line is judged by another's facts."""


class Once:
    def __init__(self) -> None:
        self._kept: dict = {}

    def of(self, work, *given):
        if work not in self._kept:
            self._kept[work] = work(*given)
        return self._kept[work]
