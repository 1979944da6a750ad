// How a blob is previewed: by its content type or, where that is generic, by its name.

import { lastOf } from "./names.js";

/** @typedef {"image"|"audio"|"video"|"pdf"|"json"|"markdown"|"csv"|"text"|"none"} Kind */

/** Types that clients send with any content. */
const vague = new Set(["", "application/octet-stream", "binary/octet-stream", "application/x-www-form-urlencoded"]);

const textual = /^(text\/.*|application\/(json|.*\+json|xml|.*\+xml|javascript|yaml|x-yaml|toml|x-sh|sql|graphql)|image\/svg\+xml)$/;

/** @type {[Kind, string][]} */
const extensions = [
  ["json", "json geojson ipynb webmanifest"],
  ["markdown", "md markdown"],
  ["csv", "csv tsv"],
  ["text", "txt text rst adoc log json5 jsonl ndjson yaml yml toml ini conf cfg properties env xml html htm xhtml svg css scss js mjs cjs jsx ts mts cts tsx vue go mod sum rs py rb php pl lua java kt scala swift c h cc cpp hpp cs sh bash zsh fish ps1 bat sql graphql proto tf dockerfile makefile diff patch pem srt vtt tex bib"],
  ["image", "png jpg jpeg gif webp avif bmp ico"],
  ["audio", "mp3 m4a aac ogg oga opus wav flac"],
  ["video", "mp4 m4v mov webm ogv mkv"],
  ["pdf", "pdf"],
];
/** @type {Map<string, Kind>} */
const byExtension = new Map(extensions.flatMap(([kind, list]) => list.split(" ").map((extension) => [extension, kind])));

/** Names of texts without an extension. */
const plainNames = /^(readme|license|licence|copying|notice|authors|contributors|changelog|changes|todo|install|makefile|dockerfile|containerfile|vagrantfile|jenkinsfile|gemfile|rakefile|procfile|codeowners|\.gitignore|\.gitattributes|\.editorconfig|\.dockerignore|\.npmrc|\.env)$/i;

/**
 * Returns the kind of preview of a blob.
 * @param {{name: string, contentType: string}} blob
 * @returns {Kind}
 */
export function kindOf(blob) {
  const type = blob.contentType.split(";")[0].trim().toLowerCase();
  if (vague.has(type)) return kindOfName(blob.name);
  if (type === "application/pdf") return "pdf";
  if (type === "application/json" || type.endsWith("+json")) return "json";
  if (type === "text/markdown") return "markdown";
  if (type === "text/csv" || type === "text/tab-separated-values") return "csv";
  if (textual.test(type)) return "text";
  const first = type.split("/")[0];
  return first === "image" || first === "audio" || first === "video" ? first : "none";
}

/** @param {string} name */
function kindOfName(name) {
  const last = lastOf(name);
  if (plainNames.test(last)) return "text";
  const dot = last.lastIndexOf(".");
  return (dot >= 0 && byExtension.get(last.slice(dot + 1).toLowerCase())) || "none";
}
