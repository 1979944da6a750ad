// Markdown, of which a library finds the parts. Each becomes an element of a list that is known
// here, and all else, such as HTML, is text: a blob is untrusted. Links lead only to pages, and an
// image is its description, since a request to its address would reveal who reads this.

import { h } from "./dom.js";
import { lexer } from "./vendor/marked/marked.esm.js";

const plain = { blockquote: "blockquote", paragraph: "p", strong: "strong", em: "em", del: "del" };
/** The page's own headings are above these. */
const headings = ["h2", "h3", "h4", "h5", "h6", "h6"];

/**
 * Returns the elements of a text.
 * @param {string} text
 */
export const markdown = (text) => lexer(text).map(element);

const inner = (token) => (token.tokens ? token.tokens.map(element) : text(token.text ?? token.raw));

const entities = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };
const text = (escaped) => escaped.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => entities[name]);

function element(token) {
  if (plain[token.type]) return h(plain[token.type], null, inner(token));
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return h(headings[token.depth - 1], null, inner(token));
    case "code":
      return h("pre", { tabindex: "0" }, h("code", null, token.text));
    case "codespan":
      return h("code", null, token.text);
    case "br":
      return h("br");
    case "hr":
      return h("hr");
    case "checkbox":
      return null; // as text, with its item
    case "list":
      return h(token.ordered ? "ol" : "ul", { start: token.ordered ? token.start : null }, token.items.map((item) => h("li", null, item.task && (item.checked ? "☑ " : "☐ "), inner(item))));
    case "table":
      return h("table", null, h("thead", null, h("tr", null, token.header.map((cell) => h("th", null, inner(cell))))),
        h("tbody", null, token.rows.map((row) => h("tr", null, row.map((cell) => h("td", null, inner(cell)))))));
    case "link":
      return /^https?:/i.test(token.href) ? h("a", { href: token.href, rel: "noreferrer noopener", target: "_blank" }, inner(token)) : h("span", null, inner(token));
    case "image":
      return h("span", { class: "facts" }, `[image: ${token.text}]`);
    case "text":
    case "escape":
      return h("span", null, inner(token));
    default:
      return token.raw;
  }
}
