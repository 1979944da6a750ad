#!/bin/sh
# Stops the service when the package is removed: $1 is "remove" (deb) or 0 (rpm) then, and another
# word when it is upgraded.
set -e
if [ -d /run/systemd/system ] && { [ "$1" = remove ] || [ "$1" = 0 ]; }; then
  systemctl disable --now sluice.socket sluice.service sluice-backup.timer
fi
