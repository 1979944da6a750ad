#!/bin/sh
# Leaves the blobs, even when the package is purged: only their owner can decide about them.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
if { [ "$1" = purge ] || [ "$1" = 0 ]; } && [ -d /var/lib/sluice ]; then
  echo 'The data of sluice is left in /var/lib/sluice, and /etc/sluice/secrets if you made it.'
fi
