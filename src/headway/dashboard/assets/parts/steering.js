// Commands to jobs and lanes. Each shows the same command of the CLI, and what the server answered.

import { el, setText } from "./dom.js";
import { jobApi, laneApi, post } from "./api.js";
import { notice } from "./notices.js";
import { commandLine } from "./command_lines.js";
import { command, openDialog } from "./widgets.js";

export const pauseLine = (job) => commandLine("pause", job);
export const resumeLine = (job) => commandLine("resume", job);
export const retryFailedLine = (job) => commandLine("retry", job, "--failed");
export const retryUnitLine = (job, id) => commandLine("retry", job, id);
export const budgetLine = (job, usd = "USD") => commandLine("budget", job, usd);
export const cancelLine = (job, ...ids) => commandLine("cancel", job, ...ids);
export const reopenLine = (lane) => commandLine("lanes", "--reopen", lane);
export const limitsLine = (lane) => commandLine("lanes", "--rpm", `${lane}=N`);

// Send a command. The button waits for the answer, so that nobody sends it twice.
export async function send(path, body, line, button = null) {
  if (button) button.disabled = true;
  try {
    const answer = await post(path, body);
    notice(answer.text || "Done.", { line });
    dispatchEvent(new Event("headway-steered"));
    return answer;
  } catch (error) {
    notice(error.message, { line, bad: true });
    return null;
  } finally {
    if (button) button.disabled = false;
  }
}

export const pause = (job, button) => send(jobApi(job, "pause"), {}, pauseLine(job), button);
export const resume = (job, button) => send(jobApi(job, "resume"), {}, resumeLine(job), button);
export const retryFailed = (job, button) => send(jobApi(job, "retry"), { failed: true }, retryFailedLine(job), button);
export const retryUnit = (job, index, id, button) => send(jobApi(job, "retry"), { units: [index] }, retryUnitLine(job, id), button);
export const reopen = (lane, button) => send(laneApi(lane, "reopen"), {}, reopenLine(lane), button);

// A dialog with a form. `fields` are elements; `lineOf` and `bodyOf` read them. `bodyOf` gives a text where something is missing.
function ask({ title, explain, fields, lineOf, bodyOf, path, verb, danger = false }) {
  const line = command(lineOf());
  const problem = el("p", { class: "s-fail", role: "alert" });
  const go = el("button", { type: "submit", class: danger ? "danger" : "primary" }, verb);
  const form = el("form", { method: "dialog" }, el("p", {}, explain), fields, el("p", { class: "soft small" }, "The same on a terminal: ", line), problem,
    el("div", { class: "tools" }, go, el("button", { type: "button", click: () => element.close() }, "Not now")));
  form.addEventListener("input", () => { setText(line.firstChild, lineOf()); setText(problem, ""); });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = bodyOf();
    if (typeof body === "string") { setText(problem, body); return; }
    if (await send(path, body, lineOf(), go)) element.close();
  });
  const element = openDialog(title, form);
  element.classList.add("is-small");
  (form.querySelector("input, select, textarea") || go).focus();
  return element;
}

export function cancel(job) {
  ask({
    title: "Cancel the job?", verb: "Cancel the job", danger: true, path: jobApi(job, "cancel"), fields: [],
    explain: "Requests in flight are aborted, and nothing more starts. Results so far are kept; resume continues the job.",
    lineOf: () => cancelLine(job), bodyOf: () => ({}),
  });
}

export function cancelUnit(job, index, id) {
  ask({
    title: "Cancel this unit?", verb: "Cancel the unit", danger: true, path: jobApi(job, "cancel"), fields: [],
    explain: "If it is in flight it is stopped; if it waits it never starts. The job goes on, and a retry brings the unit back.",
    lineOf: () => cancelLine(job, id), bodyOf: () => ({ units: [index] }),
  });
}

const numberField = (label, value, hint, attributes = {}) => {
  const input = el("input", { type: "number", min: 0, step: "any", inputmode: "decimal", value: value ?? null, ...attributes });
  return { input, element: el("label", { class: "field" }, el("span", {}, label), input, hint ? el("span", { class: "soft small" }, hint) : null) };
};

export function budget(job, present) {
  const field = numberField("Most that the job may cost, in USD", present, "0 removes the cap.", { required: true });
  ask({
    title: "Change the budget", verb: "Change the budget", path: jobApi(job, "budget"), fields: [field.element],
    explain: "The job stops before it costs more than this, earlier runs included.",
    lineOf: () => budgetLine(job, field.input.value || "USD"),
    bodyOf: () => (field.input.value === "" ? "Enter an amount." : { max_cost_usd: Number(field.input.value) }),
  });
}

const LIMITS = [
  ["rpm", "Requests per minute", "requests"], ["tpm", "Tokens per minute", "tokens"], ["input_tpm", "Input tokens per minute", "input_tokens"],
  ["output_tpm", "Output tokens per minute", "output_tokens"], ["max_concurrency", "Requests in flight", "in_flight"],
];

// Change a lane's limits in the running jobs. `lane` is a LaneRow.
export function changeLimits(lane) {
  const now = Object.fromEntries((lane.limits || []).map((limit) => [limit.dimension, limit.limit]));
  const fields = LIMITS.map(([key, label, dimension]) => ({ key, ...numberField(label, null, now[dimension] ? `now ${new Intl.NumberFormat("en").format(now[dimension])}` : null, { step: 1 }) }));
  const entered = () => fields.filter(({ input }) => input.value !== "");
  ask({
    title: `Limits of ${lane.lane}`, verb: "Change the limits", path: laneApi(lane.lane, "limits"), fields: [el("div", { class: "fields" }, fields.map(({ element }) => element))],
    explain: "Running jobs follow at once. Empty stays as it is, 0 is unlimited. Limits of later runs are set in headway.toml.",
    lineOf: () => (entered().length ? commandLine("lanes", ...entered().flatMap(({ key, input }) => ["--" + key.replaceAll("_", "-"), `${lane.lane}=${input.value}`])) : limitsLine(lane.lane)),
    bodyOf: () => (entered().length ? Object.fromEntries(entered().map(({ key, input }) => [key, Number(input.value)])) : "Enter at least one limit."),
  });
}

// Answer a node of a flow that waits for a person.
export function approve(job, node) {
  const answer = el("textarea", { rows: 2, placeholder: "true" });
  const note = el("input", { type: "text", autocomplete: "off" });
  const choice = el("select", {}, el("option", { value: "yes" }, "Approve"), el("option", { value: "no" }, "Reject"));
  const rejects = () => choice.value === "no";
  const decision = () => (rejects() ? ["--reject"] : answer.value.trim() ? ["--answer", answer.value.trim()] : []);
  const extra = () => [...decision(), ...(note.value.trim() ? ["--note", note.value.trim()] : [])];
  ask({
    title: `Answer ${node}`, verb: "Send the answer", path: jobApi(job, "approve"),
    explain: "The flow waits for a person here. Rejected, the node fails and its policy applies.",
    fields: [el("label", { class: "field" }, el("span", {}, "Decision"), choice), el("label", { class: "field" }, el("span", {}, "Answer (JSON or text; true without it)"), answer), el("label", { class: "field" }, el("span", {}, "Note"), note)],
    lineOf: () => commandLine("approve", job, node, ...extra()),
    bodyOf: () => ({ node, answer: rejects() || answer.value.trim() === "" ? null : answer.value.trim(), reject: rejects(), note: note.value.trim() }),
  });
}
