// Previews of PDF, drawn page by page by a library that is loaded when one is shown.

import { button, fill, h } from "./dom.js";
import { visibleText } from "./text.js";
import { showError } from "./notice.js";
import { APIError } from "./api.js";

const library = new URL("./vendor/pdfjs-dist/", import.meta.url);

/**
 * Shows a PDF, one page at a time. Scripts in the document do not run: the library has no interpreter
 * for them here.
 * @param {HTMLElement} stage
 * @param {import("./preview.js").Shown} blob
 * @param {Object<string, string>} httpHeaders
 * @param {AbortSignal} signal
 */
export async function showPDF(stage, blob, httpHeaders, signal) {
  const pdf = await import("./vendor/pdfjs-dist/pdf.min.mjs");
  pdf.GlobalWorkerOptions.workerSrc = new URL("pdf.worker.min.mjs", library).href;
  const loading = pdf.getDocument({ url: blob.url, httpHeaders, isEvalSupported: false, enableXfa: false, useWasm: false, useWorkerFetch: false });
  signal.addEventListener("abort", () => void loading.destroy());
  let pages;
  try {
    pages = await loading.promise;
  } catch (error) {
    if (signal.aborted) return;
    throw new APIError({ status: 0, detail: `The document cannot be shown: ${error.message}` });
  }
  const canvas = h("canvas", { role: "img" });
  const text = h("div", { class: "sr" });
  const position = h("span", { role: "status" });
  let number = 1, drawing = null;
  const draw = async () => {
    const shown = number;
    const page = await pages.getPage(shown);
    if (shown !== number) return; // another page was chosen meanwhile
    drawing?.cancel();
    const width = Math.max(240, Math.min(stage.clientWidth, 900));
    const ratio = devicePixelRatio || 1;
    const viewport = page.getViewport({ scale: (width / page.getViewport({ scale: 1 }).width) * ratio });
    canvas.width = viewport.width;
    canvas.height = viewport.height;
    canvas.style.width = `${viewport.width / ratio}px`;
    position.textContent = `Page ${number} of ${pages.numPages}`;
    canvas.setAttribute("aria-label", `Page ${number} of ${visibleText(blob.name)}`);
    previous.disabled = number === 1;
    next.disabled = number === pages.numPages;
    drawing = page.render({ canvas, canvasContext: canvas.getContext("2d"), viewport });
    try {
      await drawing.promise;
    } catch (error) {
      if (error.name !== "RenderingCancelledException") throw error;
      return;
    }
    const content = await page.getTextContent();
    if (shown !== number) return;
    text.textContent = content.items.map((item) => item.str).join(" ");
    canvas.dataset.drawn = String(shown);
  };
  const turn = (by) => {
    number = Math.min(pages.numPages, Math.max(1, number + by));
    draw().catch((error) => showError(stage, error, signal));
  };
  const previous = button(null, "Previous page", () => turn(-1)), next = button(null, "Next page", () => turn(1));
  fill(stage, h("div", { class: "pages" }, previous, position, next), h("div", { class: "paper" }, canvas), text);
  await draw();
}
