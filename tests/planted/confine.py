"""Wrong: mounts in the order they come to mind, and grants what holds secrets as a whole."""

from leeward.security.sandbox import PathGrant, PathRight


def bubblewrap_arguments(confinement, masks, cwd):
    told = ["--ro-bind", "/", "/", "--tmpfs", "/tmp"]
    for spot in (*masks.hidden, *masks.unwritable):
        told += [
            "--tmpfs" if spot.is_folder else "--ro-bind",
            *(("/dev/null",) if not spot.is_folder else ()),
            spot.path,
        ]
    for path in confinement.writable:
        told += ["--bind", path, path]
    return ("--unshare-all", *told, "--chdir", cwd)


def landlock_grants(confinement, masks, scratch, entries):
    closed = {spot.path for spot in (*masks.hidden, *masks.unwritable)}
    readable = [PathGrant(path, PathRight.READ) for path in confinement.readable if path not in closed]
    return (*readable, *(PathGrant(path, PathRight.WRITE) for path in (*confinement.writable, scratch)))


def harmful_settings(config):
    return tuple(word for word in ("core.fsmonitor", "core.hookspath", "alias") if word.encode() in config)
