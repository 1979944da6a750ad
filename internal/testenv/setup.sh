#!/usr/bin/env bash
# Sets up what the tests need from outside: the npm packages of e2e/client,
# strace, Chromium, nginx, HAProxy, PostgreSQL and versitygw. It does only what is missing,
# never fails, and says loudly at the end what it could not set up; see testenv.go
# for what the tests make of that.
set -u
cd "$(dirname "$0")/../.."

missing=()
updated=no

# apt PACKAGE...: installs Debian packages, as root only.
apt() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  if [ $updated = no ]; then
    timeout 300 apt-get update -qq >&2 || return 1
    updated=yes
  fi
  DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq --no-install-recommends "$@" >&2
}

# need COMMAND PACKAGE...: the command, from the packages where it is not there.
need() {
  local command=$1
  shift
  command -v "$command" >/dev/null || apt "$@" >/tmp/sluice-setup.$$ 2>&1 || {
    tail -n 5 "/tmp/sluice-setup.$$" >&2 2>/dev/null
    missing+=("$command (apt-get install $* did not work or needs root)")
  }
  rm -f "/tmp/sluice-setup.$$"
}

# The copy of the lock file tells a complete installation from a cut one.
npm_packages() {
  cd e2e/client || return 1
  cmp -s package-lock.json node_modules/.installed-lock.json && return 0
  timeout 300 npm ci --ignore-scripts --no-audit --no-fund --loglevel=error &&
    cp package-lock.json node_modules/.installed-lock.json
}

# The version is that of s3.go, beside this file.
versitygw() {
  local tools=${XDG_CACHE_HOME:-$HOME/.cache}/sluice-tools/versitygw-v1.8.0
  [ -x "$tools/versitygw" ] && return 0
  GOBIN=$tools timeout 600 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 >&2
}

# The tests run their own servers: the package is to make and start none.
postgresql() {
  apt postgresql-common &&
    sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf &&
    apt postgresql
}

need strace strace
need node nodejs
need npm npm
command -v google-chrome >/dev/null || command -v chromium-browser >/dev/null || need chromium chromium
if ! command -v nginx >/dev/null && [ ! -x /usr/sbin/nginx ]; then
  need nginx nginx-light
  # The test runs its own; the service that comes with the package has no use.
  { command -v systemctl >/dev/null && systemctl disable --now nginx; } >/dev/null 2>&1
fi
if ! command -v haproxy >/dev/null && [ ! -x /usr/sbin/haproxy ]; then
  need haproxy haproxy
  { command -v systemctl >/dev/null && systemctl disable --now haproxy; } >/dev/null 2>&1
fi
command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || postgresql >/dev/null 2>&1 ||
  missing+=("postgres (apt-get install postgresql did not work or needs root)")
(versitygw) || missing+=("versitygw (go install failed)")
(npm_packages) || missing+=("the npm packages of e2e/client (npm ci failed)")

if [ ${#missing[@]} -gt 0 ]; then
  printf '\n!!! NOT SET UP, tests that need it are skipped, or fail under SLUICE_TEST_REQUIRE:\n' >&2
  printf '!!!   %s\n' "${missing[@]}" >&2
  printf '\n' >&2
fi
exit 0
