#!/usr/bin/env bash
# Installs what make bench-peers needs and the tests do not: Redis, webdis and wrk, as Debian packages.
# The rest is installed by test/testenv/setup.sh. A program that cannot be installed is left out of
# the table.
set -u

packages=()
command -v redis-server >/dev/null || packages+=(redis-server)
command -v redis-benchmark >/dev/null || packages+=(redis-tools)
command -v webdis >/dev/null || packages+=(webdis)
command -v wrk >/dev/null || packages+=(wrk)
[ ${#packages[@]} -gt 0 ] || exit 0
echo "make bench-peers needs what is missing here. This will be run:"
echo "  apt-get install ${packages[*]} (on this machine, as root)"
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "!!! NOT INSTALLED: ${packages[*]} (needs root)" >&2
  exit 0
fi
timeout 300 apt-get update -qq >&2
for package in "${packages[@]}"; do
  DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq --no-install-recommends "$package" >&2 ||
    echo "!!! NOT INSTALLED: $package" >&2
done
# The benchmark starts its own servers.
{ command -v systemctl >/dev/null && systemctl disable --now redis-server webdis; } >/dev/null 2>&1
exit 0
