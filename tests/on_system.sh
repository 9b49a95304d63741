#!/usr/bin/env bash
# Runs a command in a fresh clone of what is committed here, on a fresh Debian or
# Ubuntu below a folder of its own, which is removed at the end. Needs root,
# debootstrap, git and a network.
#
#   tests/on_system.sh bookworm|trixie|noble COMMAND...
#
# E.g.: tests/on_system.sh noble deploy/quickstart.sh
set -euo pipefail
suite=${1:-}
case $suite in
  bookworm | trixie) from=(http://deb.debian.org/debian) options=() ;;
  # Debian's debootstrap may not know it, and has not Ubuntu's keys.
  noble)
    from=(http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy)
    options=(--no-check-gpg --components=main,universe)
    ;;
  *) from=() ;;
esac
if ((${#from[@]} == 0 || $# < 2)); then
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
shift
# Mounts go with the process.
if [[ ! ${GEMMD_OWN_MOUNTS:-} ]]; then
  exec env GEMMD_OWN_MOUNTS=1 unshare --mount "${BASH_SOURCE[0]}" "$suite" "$@"
fi

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
root=$(mktemp -d /var/tmp/gemmd-system-XXXXXX)
clean() {
  umount --recursive "$root/proc" "$root/dev" 2> /dev/null || true
  rm -rf --one-file-system "$root" "$root.log"
}
trap clean EXIT
debootstrap --variant=minbase "${options[@]}" "$suite" "$root" "${from[@]}" \
  > "$root.log" || { tail "$root.log"; exit 1; }
mount --bind /proc "$root/proc"
mount --rbind /dev "$root/dev"
cp /etc/resolv.conf "$root/etc/"
git clone --quiet "$repository" "$root/root/gemmd"
# Whom this machine trusts, pip there does too.
cp /etc/ssl/certs/ca-certificates.crt "$root/root/"
chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 \
  PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  PIP_CERT=/root/ca-certificates.crt \
  sh -c 'cd /root/gemmd && exec "$@"' sh "$@"
