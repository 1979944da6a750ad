#!/usr/bin/env bash
# Installs what the tests need from outside the Go toolchain: the npm packages of e2e/client and examples,
# strace, Node.js, Chromium, Firefox, nginx, HAProxy, Varnish, PostgreSQL, ip, zsh, fish, mandoc, promtool,
# awscli, rclone, s3cmd, s3fs, restic, boto3, runc, rpm, gpg, a new Debian system in a .tar, versitygw,
# oapi-codegen and the modules of drivers of S3. It first prints what it will install, with the command
# for each, and installs nothing that is already there. It never fails: it ends with a list of what
# could not be installed, whose tests are skipped (see require.go).
#
# With --list it only prints.
set -u
cd "$(dirname "$0")/../.."

tools=${XDG_CACHE_HOME:-$HOME/.cache}/sluice-tools
versitygw_version=v1.8.0-codes # as in programs.go
versitygw_comparison=e2e/s3/testdata/statusandcode.go
oapi_codegen_version=v2.8.2 # as in programs.go

have() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ]; }
have_headless_shell() { [ -x /usr/lib/chromium/chromium-headless-shell ] || have chrome-headless-shell; }
have_chromium() { have_headless_shell || have chromium || have chromium-browser || have google-chrome; }
# Debian has the headless shell as a package; other systems may have only the whole browser.
is_debian() { grep -qx 'ID=debian' /etc/os-release 2>/dev/null; }
have_debian_tree() { [ -f "$tools/debian-bookworm-apt.tar" ]; }
have_postgres() { have postgres || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; }
# The copy of the comparison is made after a complete installation.
have_versitygw() { cmp -s "$versitygw_comparison" "$tools/versitygw-$versitygw_version/comparison.go"; }
# Its version belongs to the modules of e2e/clients/testdata/goclient, which are downloaded with it.
have_oapi_codegen() { [ -x "$tools/oapi-codegen-$oapi_codegen_version/oapi-codegen" ]; }
list_drivers() {
  (cd e2e/s3/testdata/drivers && timeout 600 go list -deps -test . github.com/distribution/distribution/v3/registry/storage/driver/s3-aws >/dev/null)
}
have_drivers() { GOPROXY=off list_drivers 2>/dev/null; }
list_testcontainers() { (cd examples/testcontainers-go && timeout 600 go list -deps -test . >/dev/null); }
have_testcontainers() { GOPROXY=off list_testcontainers 2>/dev/null; }
# The copy of the lock file is made after a complete installation.
npm_folders=(e2e/client examples/testcontainers-node)
have_npm_packages() { cmp -s "$1/package-lock.json" "$1/node_modules/.installed-lock.json"; }

packages=() # Debian packages to install
have strace || packages+=(strace)
have node || packages+=(nodejs)
have npm || packages+=(npm)
if is_debian; then
  have_headless_shell || packages+=(chromium-headless-shell)
else
  have_chromium || packages+=(chromium)
fi
have firefox-esr || have firefox || packages+=(firefox-esr)
have nginx || packages+=(nginx-light)
have haproxy || packages+=(haproxy)
have varnishd || packages+=(varnish)
have ip || packages+=(iproute2)
have zsh || packages+=(zsh)
have fish || packages+=(fish)
have mandoc || packages+=(mandoc)
have promtool || packages+=(prometheus)
have_postgres || packages+=(postgresql)
have curl || packages+=(curl)
[ -x /usr/bin/aws ] || packages+=(awscli)
have rclone || packages+=(rclone)
have s3cmd || packages+=(s3cmd)
have s3fs || packages+=(s3fs)
have restic || packages+=(restic)
have runc || packages+=(runc)
have rpm || packages+=(rpm)
have gpg || packages+=(gpg gpg-agent)
have systemd-analyze || packages+=(systemd)
have mmdebstrap || packages+=(mmdebstrap)
/usr/bin/python3 -c 'import boto3' 2>/dev/null || packages+=(python3-boto3)

plan=()
[ ${#packages[@]} = 0 ] || plan+=("apt-get install ${packages[*]} (on this machine, as root)")
have_versitygw || plan+=("go install github.com/versity/versitygw/cmd/versitygw@${versitygw_version%-codes}, with $versitygw_comparison (into $tools)")
have_oapi_codegen || plan+=("go install github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@$oapi_codegen_version (into $tools)")
have_drivers || plan+=("go list -deps, in e2e/s3/testdata/drivers (modules into Go's cache)")
have_debian_tree || plan+=("mmdebstrap bookworm (into $tools)")
have_testcontainers || plan+=("go list -deps, in examples/testcontainers-go (modules into Go's cache)")
for folder in "${npm_folders[@]}"; do
  have_npm_packages "$folder" || plan+=("npm ci (into $folder/node_modules)")
done
if [ ${#plan[@]} = 0 ]; then
  echo "The tests have what they need."
  exit 0
fi
echo "The tests need what is missing here. This will be run:"
printf '  %s\n' "${plan[@]}"
[ "${1:-}" != --list ] || exit 0

missing=()
updated=no

# apt PACKAGE...: installs Debian packages. It fails unless it runs as root.
apt() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  if [ $updated = no ]; then
    timeout 300 apt-get update -qq >&2 || return 1
    updated=yes
  fi
  DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq --no-install-recommends "$@" >&2
}

# The tests start their own servers, so those of the packages are disabled.
install_package() {
  case $1 in
    postgresql)
      apt postgresql-common &&
        sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf &&
        apt postgresql || return 1
      ;;
    nginx-light | haproxy | varnish | prometheus)
      apt "$1" || return 1
      { command -v systemctl >/dev/null && systemctl disable --now "${1%-light}"; } >/dev/null 2>&1
      return 0
      ;;
    chromium-headless-shell) apt "$1" || have_chromium || apt chromium ;;
    *) apt "$1" ;;
  esac
}

# versitygw's suite gets our comparison of errors: its own functions are renamed, and keep the status
# of a response in a field that errors of S3 do not have here.
install_versitygw() {
  local to=$tools/versitygw-$versitygw_version from copy
  copy=$(mktemp -d)
  from=$(timeout 300 go mod download -json "github.com/versity/versitygw@${versitygw_version%-codes}" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') &&
    cp -r "$from/." "$copy" && chmod -R u+w "$copy" && cp "$versitygw_comparison" "$copy/tests/integration/" &&
    sed -i 's/^func \(checkApiErr\|checkHTTPResponseApiErr\|compareS3ApiError\)(/func \1OfVersity(/
      s/^\t*return nil, &errResp, nil$/errResp.HostID = fmt.Sprint(resp.StatusCode)\n&/' "$copy/tests/integration/utils.go" &&
    (cd "$copy" && GOBIN=$to timeout 600 go install ./cmd/versitygw >&2) &&
    cp "$versitygw_comparison" "$to/comparison.go"
  local failed=$?
  rm -rf "$copy"
  return $failed
}

install_oapi_codegen() {
  (cd e2e/clients/testdata/goclient && timeout 300 go mod download >&2) &&
    GOBIN=$tools/oapi-codegen-$oapi_codegen_version timeout 600 \
      go install "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@$oapi_codegen_version" >&2
}

# The tree is for tests of the .deb. It gets its name when it is whole. A mirror can fail for a
# moment, so there is a second attempt.
install_debian_tree() {
  mkdir -p "$tools" && (make_debian_tree || make_debian_tree) &&
    mv "$tools/debian-bookworm-apt.new.tar" "$tools/debian-bookworm-apt.tar"
}
make_debian_tree() {
  timeout 300 mmdebstrap --quiet --variant=apt --include=passwd bookworm "$tools/debian-bookworm-apt.new.tar" >&2
}

install_npm_packages() {
  cd "$1" &&
    timeout 300 npm ci --ignore-scripts --no-audit --no-fund --loglevel=error &&
    cp package-lock.json node_modules/.installed-lock.json
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
for package in "${packages[@]}"; do
  install_package "$package" >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    missing+=("$package (apt-get install failed, or needs root)")
  }
done
have_versitygw || install_versitygw || missing+=("versitygw (go install failed)")
have_oapi_codegen || install_oapi_codegen || missing+=("oapi-codegen (go install failed)")
have_drivers || list_drivers || missing+=("the modules of e2e/s3/testdata/drivers (go list failed)")
have_debian_tree || install_debian_tree || missing+=("debian-bookworm-apt.tar (mmdebstrap failed)")
have_testcontainers || list_testcontainers || missing+=("the modules of examples/testcontainers-go (go list failed)")
for folder in "${npm_folders[@]}"; do
  have_npm_packages "$folder" || (install_npm_packages "$folder") || missing+=("the npm packages of $folder (npm ci failed)")
done

if [ ${#missing[@]} -gt 0 ]; then
  printf '\n!!! NOT INSTALLED; tests that need it are skipped, or fail with SLUICE_TEST_REQUIRE:\n' >&2
  printf '!!!   %s\n' "${missing[@]}" >&2
  printf '\n' >&2
fi
exit 0
