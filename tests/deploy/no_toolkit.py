"""Runs commands on a machine that looks as if no CUDA toolkit were installed:
a mount namespace of their own, in which every copy of NVRTC that the dynamic
loader or the usual folders offer is hidden."""

import os
import pathlib
import subprocess

# $1: folders to hide, one a line; the rest: the command. An empty file system
# over a folder and an empty file over a library; /usr/lib itself must stay.
_HIDE = r"""
shopt -s nullglob
for folder in /usr/local/cuda* /opt/cuda* $1; do
  [[ -L $folder ]] || mount -t tmpfs none "$folder" || exit 125
done
ldconfig -p | awk '/libnvrtc/ { print $NF }' | while read -r library; do
  [[ ! -e $library ]] || mount --bind /dev/null "$library" || exit 125
done
shift
exec "$@"
"""
_WAYS = (["unshare", "--mount"],
         ["unshare", "--user", "--map-root-user", "--mount"])


def way_in():
    """(command that makes a mount namespace, None) or (None, the reason)."""
    for way in _WAYS:
        try:
            tried = subprocess.run([*way, "mount", "-t", "tmpfs", "none",
                                    "/mnt"], capture_output=True, text=True)
        except OSError as error:
            return None, f"no mount namespace: {error}"
        if tried.returncode == 0:
            return way, None
    return None, f"no mount namespace: {tried.stderr.strip()}"


def run(way, *command, hide=(), timeout_s=300):
    """Runs the command; hides also the folders of `hide`."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("LD_", "CUDA"))}
    folders = "\n".join(str(pathlib.Path(each).resolve()) for each in hide)
    return subprocess.run(
        [*way, "bash", "-c", _HIDE, "hide", folders, *map(str, command)],
        env=environment, timeout=timeout_s, capture_output=True, text=True)
