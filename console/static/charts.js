// Charts of the last hour. The library and this module are loaded with the first chart.

import { fill, h } from "./dom.js";
import { bytes, latency } from "./text.js";

// The minified build of uPlot is no module: it defines window.uPlot.
await new Promise((resolve, reject) => {
  const src = new URL("./vendor/uplot/uPlot.iife.min.js", import.meta.url).href;
  document.head.append(h("script", { src, onload: resolve, onerror: () => reject(new Error("The charts could not be loaded.")) }));
});
const uPlot = window.uPlot;

/** Steps of an axis of bytes. The library's are decimal, and would be labelled 97.7 KiB. */
const binarySteps = Array.from({ length: 50 }, (_, i) => 2 ** i);

/** Writes a rate with three significant digits. */
const rate = (v) => String(Number(v.toPrecision(3)));

const charts = [
  { title: "Requests per second", unit: rate, series: [["Requests", "--accent", (i) => i.requests / i.seconds]] },
  { title: "Errors per second", unit: rate, series: [["Client errors", "--chart-2", (i) => i.clientErrors / i.seconds], ["Server errors", "--danger", (i) => i.serverErrors / i.seconds]] },
  { title: "Bytes per second", unit: (v) => bytes(Math.round(v)), steps: binarySteps, series: [["In", "--accent", (i) => i.bytesIn / i.seconds], ["Out", "--chart-2", (i) => i.bytesOut / i.seconds]] },
  { title: "Latency", unit: latency, series: [["p50", "--accent", (i) => i.p50Seconds ?? null], ["p90", "--chart-2", (i) => i.p90Seconds ?? null], ["p99", "--danger", (i) => i.p99Seconds ?? null]] },
];

/**
 * Draws the charts into an element, and returns a function that shows other intervals.
 * @param {HTMLElement} place
 * @param {AbortSignal} signal
 */
export function draw(place, signal) {
  const sheet = h("link", { rel: "stylesheet", href: new URL("./vendor/uplot/uPlot.min.css", import.meta.url).href });
  if (!document.querySelector(`link[href="${sheet.getAttribute("href")}"]`)) document.head.append(sheet);
  let plots = [], shown = [];
  const build = () => {
    plots.forEach((plot) => plot.destroy());
    fill(place, charts.map((c) => h("figure", { class: "card chart" }, h("figcaption", null, c.title), h("div", { class: "plot", "aria-hidden": "true" }), h("p", { class: "legend" }))));
    plots = charts.map((chart, i) => plotOf(chart, place.children[i].querySelector(".plot")));
    show(shown);
  };
  const show = (history) => {
    shown = history;
    charts.forEach((chart, i) => {
      // The last interval has only begun.
      const ended = history.filter((one) => one.seconds >= 1);
      const columns = chart.series.map(([, , of]) => ended.map(of));
      const now = Date.now() / 1000;
      plots[i].setScale("x", { min: now - 3600, max: now });
      plots[i].setData([ended.map((one) => new Date(one.time) / 1000), ...columns], false);
      plots[i].setScale("x", { min: now - 3600, max: now });
      // The picture's values for all readers: the newest value of each line.
      fill(place.children[i].querySelector(".legend"), chart.series.map(([title, colour], k) => {
        const value = columns[k].at(-1);
        const mark = h("span", { class: "mark-line" });
        mark.style.background = `var(${colour})`;
        return h("span", { class: "key" }, mark, `${title}: ${value === null || value === undefined ? "–" : chart.unit(value)}`);
      }));
    });
  };
  const resized = new ResizeObserver(() => plots.forEach((plot, i) => plot.setSize(sizeOf(place.children[i].querySelector(".plot")))));
  addEventListener("themechange", build, { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build, { signal });
  build();
  resized.observe(place);
  signal.addEventListener("abort", () => {
    resized.disconnect();
    plots.forEach((plot) => plot.destroy());
  });
  return show;
}

const sizeOf = (element) => ({ width: Math.max(200, element.clientWidth), height: 160 });

const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });

/** Returns a colour of the design as the canvas needs it. */
function colour(name, element) {
  const probe = h("span", { hidden: true });
  probe.style.color = `var(${name})`;
  element.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function plotOf(chart, element) {
  const muted = colour("--muted", element), line = colour("--line", element);
  const axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return new uPlot({
    ...sizeOf(element), legend: { show: false }, cursor: { show: false }, padding: [8, 24, 0, 0],
    scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [{ ...axis, space: 70, size: 28, values: (_u, values) => values.map((v) => clock.format(v * 1000)) }, { ...axis, size: 74, incrs: chart.steps, values: (_u, values) => values.map((v) => (v === 0 ? "0" : chart.unit(v))) }],
    series: [{}, ...chart.series.map(([label, name]) => ({ label, stroke: colour(name, element), width: 1.6, points: { show: false }, spanGaps: false }))],
  }, [[], ...chart.series.map(() => [])], element);
}
