#!/bin/sh
# Makes the user and the folders. It starts nothing: a service that was running before an upgrade
# is restarted.
set -e
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers sluice.conf
elif ! getent passwd sluice >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/sluice --no-create-home --shell /usr/sbin/nologin sluice
fi
install -d -o sluice -g sluice -m 0700 /var/lib/sluice
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart sluice.service
fi
