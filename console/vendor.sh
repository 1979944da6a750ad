#!/usr/bin/env bash
# Fetches the libraries of static/vendor from npm, in the versions below, and compares them with
# vendor.sha256. After a change of a version, vendor.sh --update writes that file.
set -eu
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# vendor PACKAGE VERSION FILE...: replaces the folder of a package by these files.
vendor() {
  local package=$1 version=$2
  shift 2
  mkdir -p "$work/$package"
  (cd "$work/$package" && npm pack --silent "$package@$version" >/dev/null && tar -xzf ./*.tgz)
  rm -rf "static/vendor/$package"
  mkdir -p "static/vendor/$package"
  for file in "$@"; do
    cp "$work/$package/package/$file" "static/vendor/$package/$(basename "$file")"
  done
  mv "static/vendor/$package/"LICENSE* "static/vendor/$package/LICENSE.txt"
}

vendor uplot 1.6.32 dist/uPlot.iife.min.js dist/uPlot.min.css LICENSE
vendor pdfjs-dist 5.6.205 build/pdf.min.mjs build/pdf.worker.min.mjs LICENSE
vendor js-yaml 5.5.0 dist/browser/js-yaml.esm.min.mjs LICENSE
vendor marked 16.4.2 lib/marked.esm.js LICENSE.md

if [ "${1:-}" = --update ]; then
  (cd static/vendor && find . -type f | LC_ALL=C sort | xargs sha256sum) >vendor.sha256
else
  (cd static/vendor && sha256sum --check --quiet ../../vendor.sha256)
fi
