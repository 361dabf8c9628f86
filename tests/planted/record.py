"""Wrong: what a gate quotes is taken as it is, since the arguments are masked already."""


def fact(_action, text):
    return text
