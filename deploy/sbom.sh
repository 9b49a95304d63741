#!/usr/bin/env bash
# Prints what the image is made of, as CycloneDX 1.5: gemmd, NVRTC, the Debian
# packages that were linked into it, and those of the system that this runs on.
#
#   deploy/sbom.sh GEMMD [DPKG] > sbom.cdx.json
#
# GEMMD is the daemon, which knows its version. DPKG is /var/lib/dpkg of the
# system that built it; left out, this one did.
set -euo pipefail
gemmd=$("$1" --version | awk '{ print $2 }')
nvrtc=$(sed -n 's/^nvidia-cuda-nvrtc==//p' \
  "$(dirname "${BASH_SOURCE[0]}")/requirements.txt")
[[ $gemmd && $nvrtc ]]
built_by=${2:-/var/lib/dpkg}
# Of the archives in proto/grpc.cmake.
linked=(libgrpc-dev libgrpc++-dev libprotobuf-dev libabsl-dev libre2-dev
  libc-ares-dev)
fields='${db:Status-Status} ${Package} ${Version} ${Architecture}\n'

cat << END
{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
 "metadata": {"component": {"type": "application", "name": "gemmd",
                            "version": "$gemmd"}},
 "components": [
  {"type": "library", "name": "nvidia-cuda-nvrtc", "version": "$nvrtc",
   "purl": "pkg:pypi/nvidia-cuda-nvrtc@$nvrtc"}
END
# Names and versions of Debian need no escapes in JSON, and those of a package
# URL for % + and : (https://github.com/package-url/purl-spec).
{
  dpkg-query --admindir="$built_by" -W -f "$fields" "${linked[@]}"
  dpkg-query -W -f "$fields"
} | sort -u | awk '
    function escaped(text) {
      gsub(/%/, "%25", text); gsub(/\+/, "%2B", text); gsub(/:/, "%3A", text)
      return text
    }
    $1 == "installed" {
      printf "  ,{\"type\": \"library\", \"name\": \"%s\", \"version\": \"%s\",\n", $2, $3
      printf "    \"purl\": \"pkg:deb/debian/%s@%s?arch=%s\"}\n", escaped($2), escaped($3), $4
    }'
echo ']}'
