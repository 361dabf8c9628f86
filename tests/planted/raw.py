"""Wrong: hands a function the text of its arguments, as it stood before anybody judged it."""


def with_judged(value, judged):
    return value
