// The description of the interface, from /openapi.yaml of the server.

import { load } from "./vendor/js-yaml/js-yaml.esm.min.mjs";
import { cell, fill, h } from "./dom.js";
import { navigation, startShell } from "./shell.js";
import { keyButton } from "./key.js";
import { tryIt } from "./tryit.js";
import { info } from "./api.js";

/** Details about refusals that the shared description does not have, by status. */
const refusals = {
  400: "The request is malformed. Nothing was done.", 401: "There is no key, or it is not known.", 402: "The request must be paid for, or its payment was refused.",
  403: "The key may not do this, or its quota is used up.", 404: "Nothing exists at this path.", 409: "It is in a state in which this cannot be done.",
  410: "It has ended or expired.", 412: "A condition does not hold, and nothing was changed.", 413: "The body is too large.", 416: "The range is after the end.", 422: "Its Idempotency-Key belongs to another request.", 507: "There is no space left.",
  429: "There are too many requests: repeat it after Retry-After.", 503: "The service cannot do this now: repeat it after Retry-After.", default: "Every other refusal or failure: Error-Code identifies it.",
};

navigation("api");
startShell();
const main = document.getElementById("main");
info().then((service) => service.profile === "hosted" && document.getElementById("tools").prepend(keyButton()), () => {}); // operations can be read without it

try {
  const response = await fetch(new URL("../openapi.yaml", document.baseURI), { credentials: "omit" });
  if (!response.ok) throw new Error(`the server responded with status ${response.status}`);
  show(load(await response.text()));
} catch (error) {
  fill(main, h("div", { class: "error", role: "alert" }, h("p", null, `The description cannot be shown: ${error.message}`)));
}

function show(doc) {
  /** Returns a reference's target. */
  const resolve = (value) => (value?.$ref ? value.$ref.slice(2).split("/").reduce((at, key) => at[key.replaceAll("~1", "/").replaceAll("~0", "~")], doc) : value);
  const nameOf = (value) => value?.$ref?.split("/").at(-1);
  const operations = Object.entries(doc.paths).flatMap(([path, item]) =>
    ["get", "put", "post", "patch", "delete"].filter((method) => item[method]).map((method) => ({ path, method, shared: item.parameters ?? [], ...item[method] })));
  const tags = doc.tags.map((tag) => ({ ...tag, operations: operations.filter((o) => (o.tags ?? []).includes(tag.name)) })).filter((tag) => tag.operations.length > 0);
  const title = (name) => name[0].toUpperCase() + name.slice(1);

  const contents = h("nav", { class: "contents", "aria-label": "Operations" }, h("details", { open: innerWidth > 900 }, h("summary", null, "Contents"), tags.map((tag) => [
    h("h2", null, title(tag.name)),
    h("ul", null, tag.operations.map((o) => h("li", null, h("a", { href: `#${o.operationId}` }, o.summary)))),
  ]), h("h2", null, "Schemas"), h("ul", null, Object.keys(doc.components.schemas).map((name) => h("li", null, h("a", { href: `#schema-${name}` }, name))))));

  const text = (description) => (description ? h("p", null, description.split("`").map((part, i) => (i % 2 ? h("code", null, part) : part))) : null);

  /** Returns the type of a schema in a few words, with links to named ones. */
  function typeOf(schema) {
    const name = nameOf(schema);
    if (name && schema.$ref.includes("/schemas/")) return h("a", { href: `#schema-${name}` }, name);
    if (!schema) return "any";
    if (schema.type === "array") return h("span", null, "list of ", typeOf(schema.items));
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    const type = [schema.type ?? "object"].flat().join(" or ");
    return schema.format ? `${type}, ${schema.format}` : type;
  }

  const characters = (n) => (n === 1 ? "1 character" : `${n} characters`);
  const limits = {
    minimum: (n) => `at least ${n}`, maximum: (n) => `at most ${n}`, minLength: (n) => `at least ${characters(n)}`, maxLength: (n) => `at most ${characters(n)}`,
    pattern: (p) => `matches ${p}`, default: (value) => `default ${value}`,
  };

  function limitsOf(schema) {
    const known = resolve(schema) ?? {};
    return Object.entries(limits).filter(([key]) => known[key] !== undefined).map(([key, text]) => text(known[key])).join(", ");
  }

  const table = (label, titles, rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", { class: "stacked" }, h("thead", null, h("tr", null, titles.map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", null, rows.map((cells) => h("tr", null, cells.map((c, i) => cell(titles[i], c, i === 0 || i === cells.length - 1 ? "whole" : null)))))));

  const described = (value, schema) => h("span", null, value ?? resolve(schema)?.description ?? "", limitsOf(schema) && h("span", { class: "facts" }, ` ${limitsOf(schema)}`));

  const parametersOf = (o) => [...o.shared, ...(o.parameters ?? [])].map(resolve);

  function parameters(o) {
    const all = parametersOf(o);
    if (all.length === 0) return null;
    return [h("h4", null, "Parameters"), table(`Parameters of ${o.operationId}`, ["Name", "In", "Type", "Description"], all.map((p) => [
      h("span", null, h("code", null, p.name), p.required ? h("span", { class: "facts" }, " required") : null), p.in, typeOf(p.schema), described(p.description, p.schema)]))];
  }

  const exampleOf = (content) => content?.example ?? resolve(Object.values(content?.examples ?? {})[0])?.value;

  function bodyOf(content, label) {
    return Object.entries(content ?? {}).map(([kind, one]) => [
      h("p", null, h("code", null, kind), one.schema ? [": ", typeOf(one.schema)] : null),
      exampleOf(one) !== undefined && h("pre", { class: "text", tabindex: "0", "aria-label": `Example of ${label}` }, typeof exampleOf(one) === "string" ? exampleOf(one) : JSON.stringify(exampleOf(one), null, 2)),
    ]);
  }

  function responses(o) {
    return [h("h4", null, "Responses"), h("div", { class: "responses" }, Object.entries(o.responses).map(([status, value]) => {
      const response = resolve(value);
      const head = h("span", { class: "response" }, h("span", { class: `badge ${status[0] === "2" ? "open" : ""}` }, status === "default" ? "else" : status), (nameOf(value) === "Error" && refusals[status]) || response.description.replaceAll("`", ""));
      if (!response.content && !response.headers) return h("div", { class: "plain" }, head);
      return h("details", null, h("summary", null, head),
        response.headers && table(`Headers of ${o.operationId} ${status}`, ["Header", "Type", "Description"], Object.entries(response.headers).map(([name, header]) => [h("code", null, name), typeOf(resolve(header).schema), described(resolve(header).description, resolve(header).schema)])),
        bodyOf(response.content, `${o.operationId} ${status}`));
    }))];
  }

  function runnable(o) {
    const [contentType, content] = Object.entries(resolve(o.requestBody)?.content ?? {})[0] ?? [];
    return tryIt({ method: o.method.toUpperCase(), path: o.path, parameters: parametersOf(o), keyed: o.security?.length > 0, contentType, example: exampleOf(content) });
  }

  const operation = (o) => h("article", { class: "card operation", id: o.operationId, "aria-labelledby": `${o.operationId}-title` },
    h("h3", { id: `${o.operationId}-title` }, o.summary),
    h("p", { class: "request" }, h("span", { class: `method ${o.method}` }, o.method.toUpperCase()), h("code", null, o.path)),
    text(o.description), o.security?.length > 0 && h("p", { class: "facts" }, "A hosted network requires a key."),
    parameters(o),
    o.requestBody && [h("h4", null, "Request body"), text(resolve(o.requestBody).description), bodyOf(resolve(o.requestBody).content, o.operationId)],
    responses(o), runnable(o));

  function membersOf(schema) {
    const known = resolve(schema);
    const own = Object.entries(known.properties ?? {}).map(([name, value]) => ({ name, value, required: (known.required ?? []).includes(name) }));
    return [...(known.allOf ?? []).flatMap(membersOf), ...own];
  }

  const schemaOf = ([name, schema]) => h("article", { class: "card operation", id: `schema-${name}`, "aria-labelledby": `schema-${name}-title` },
    h("h3", { id: `schema-${name}-title` }, name), text(schema.description),
    membersOf(schema).length > 0
      ? table(`Members of ${name}`, ["Member", "Type", "Description"], membersOf(schema).map((m) => [h("span", null, h("code", null, m.name), m.required ? null : h("span", { class: "facts" }, " optional")), typeOf(m.value), described(m.value.description, m.value)]))
      : h("p", null, typeOf(schema)));

  fill(main, h("div", { class: "head" }, h("div", null, h("h1", null, doc.info.title), h("p", { class: "sub" }, `Version ${doc.info.version} · `, h("a", { href: "../openapi.yaml" }, "openapi.yaml"), ` · ${new URL(doc.servers[0].url, new URL("..", document.baseURI)).href}`))),
    h("div", { class: "reference" }, contents, h("div", { class: "stack" }, text(doc.info.description),
      tags.map((tag) => h("section", { class: "stack", "aria-labelledby": `tag-${tag.name}` }, h("h2", { id: `tag-${tag.name}`, class: "big" }, title(tag.name)), text(tag.description), tag.operations.map(operation))),
      h("section", { class: "stack", "aria-labelledby": "schemas" }, h("h2", { id: "schemas", class: "big" }, "Schemas"), Object.entries(doc.components.schemas).map(schemaOf)))));
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}
