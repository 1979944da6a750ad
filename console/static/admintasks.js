// The pages of background tasks and of nodes, which are kept up to date.

import { h } from "./dom.js";
import { bytes, count, duration, some, time, visible } from "./text.js";
import { toast } from "./notice.js";
import { badge, doing, liveList, table } from "./adminlist.js";
import * as api from "./api.js";

/** @type {import("./admin.js").Page} */
export const tasksPage = (main, _parts, signal) => liveList(main, signal, "Tasks", "What the node that leads does in the background.", "v1/admin/tasks",
  (found, again) => table("Tasks", ["Task", "State", "Last run", "Next run", h("span", { class: "sr" }, "Controls")], found.tasks.map((task) => [
    ["Task", h("strong", null, words(task.task)), "whole"], ["State", h("span", null, stateOf(task), reasonOf(task))], ["Last run", task.last ? lastRun(task.last) : "none yet", "double"],
    ["Next run", task.paused ? "none" : task.next ? time(task.next) : "not known"], ["", h("div", { class: "actions" }, controls(task, again)), "double"],
  ])));

const words = (name) => name.replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase());

const stateOf = (task) => badge(task.running ? "running" : task.paused ? "paused" : task.wanted ? "starting" : "waiting");

/** Why a task is paused, if it is not by an operator, and what it would delete. */
const reasonOf = (task) => task.paused && [
  task.reason && h("p", { class: "wrong" }, visible(task.reason)),
  task.due && h("p", { class: "facts" }, `It would delete ${some(task.due.versions, "version")} with ${bytes(task.due.bytes)} now${task.due.more ? ", and perhaps more" : ""}.`),
];

const lastRun = (run) => h("span", null, time(run.began), `, ${duration(run.seconds)}, ${count(run.handled)} handled`, run.error && h("p", { class: "wrong" }, run.error), h("p", { class: "facts" }, "by ", visible(run.node)));

function controls(task, again) {
  const change = async (verb) => {
    await api.post(`v1/admin/tasks/${task.task}/${verb}`);
    await again();
    return true;
  };
  const direct = (verb) => change(verb).catch((error) => toast(error.message));
  const control = (verb, label, act) => h("button", { type: "button", class: "button", "aria-label": `${label} ${words(task.task)}`, onclick: act }, label);
  return [
    task.startable && !task.paused && control("start", "Start", () => void direct("start")),
    task.reason ? control("resume", "Resume", () => void doing(`Resume ${words(task.task)}?`, [reasonOf(task)], "Resume", () => change("resume"))) :
      task.paused ? control("resume", "Resume", () => void direct("resume")) : task.pausable && control("pause", "Pause", () => void doing(`Pause ${words(task.task)}?`, [
      h("p", null, "A run in progress ends, and none begins until the task is resumed, also after a restart. What it would delete or count stays as it is meanwhile, and takes its place."),
    ], "Pause", () => change("pause"))),
  ];
}

/** @type {import("./admin.js").Page} */
export const nodesPage = (main, _parts, signal) => liveList(main, signal, "Nodes", "The nodes that run now. One that was killed remains for 30 seconds.", "v1/admin/nodes",
  (found) => (found.nodes.length === 0 ? h("p", { class: "empty" }, "No node has described itself.") : table("Nodes", ["Node", "State", "Since", "Version"], found.nodes.map((node) => [
    ["Node", visible(node.name), "whole"], ["State", h("span", null, badge(node.ready ? "ready" : "not ready"), node.leader && [" ", badge("leads")], node.reason && h("p", { class: "wrong" }, node.reason))],
    ["Since", node.since ? time(node.since) : "not known"], ["Version", visible(node.version)],
  ]))));
