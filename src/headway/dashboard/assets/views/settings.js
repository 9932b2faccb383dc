// The settings of a job: what it was started with.

import { commandLine } from "../parts/command_lines.js";
import { el } from "../parts/dom.js";
import { pretty } from "../parts/format.js";
import { command, empty, pairs, section, time } from "../parts/widgets.js";

export const open = ({ job, row }) => {
  const { settings, out, models, created_utc: created, started_utc: started, finished_utc: finished, input, kind } = row();
  const about = pairs([["Kind", kind], ["Input", input], ["Results", out], ["Models", (models || []).join(", ")], ["Created", created ? time(created) : null], ["Started", started ? time(started) : null], ["Ended", finished ? time(finished) : null]]);
  const list = Object.entries(settings || {}).map(([name, value]) => [name, pretty(value)]);
  return { element: el("div", {}, section("The job", el("div", { class: "panel facts" }, about)), section("Settings", list.length ? el("div", { class: "panel facts" }, pairs(list)) : empty("The job has the default settings.")), el("p", { class: "soft small" }, "On a terminal: ", command(commandLine("status", job)))) };
};
