// Agents at work: each with its turn, its tool and what it said last.

import { commandLine } from "../parts/command_lines.js";
import { KeyedChildren, el, setAttribute, setText, show } from "../parts/dom.js";
import { get, jobApi, jobPath } from "../parts/api.js";
import { ago, asList, compact, known, money } from "../parts/format.js";
import { stopTick, tick } from "../parts/live.js";
import { empty } from "../parts/widgets.js";

const REFRESH_MS = 2000;

export const open = (page) => new AgentsView(page);

class AgentsView {
  constructor({ job }) {
    this.job = job;
    this.list = el("ul", { class: "agents", "data-list": true });
    this.cards = new KeyedChildren(this.list, (agent) => agent.unit, () => new AgentCard(job));
    this.none = el("div", { hidden: true }, empty("No agent is at work now.", commandLine("status", job), "An agent appears here while its unit runs. The whole conversation of each is with its unit."));
    this.element = el("section", { "aria-label": "Agents" }, this.list, this.none);
  }

  // Events say what each agent does; what it said last, and its place in the job, are read now and then.
  async start() {
    try {
      const agents = asList((await get(jobApi(this.job, "agents"))).agents);
      this.details = new Map(agents.map((agent) => [agent.unit, agent]));
      if (!this.closed) this.take(agents);
    } catch (error) {
      if (!this.details) this.element.append(empty(error.message));
    }
  }

  reload() { this.start(); }

  update(row) {
    if (!row.agents) return;
    this.take(row.agents.map((agent) => ({ ...this.details?.get(agent.unit), ...agent })));
    if (row.agents.length === 0 || this.timer) return;
    this.timer = setTimeout(() => { this.timer = 0; if (!this.closed && !document.hidden) this.start(); }, REFRESH_MS);
  }

  take(agents) {
    this.cards.update(asList(agents));
    show(this.none, asList(agents).length === 0);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.cards.close();
  }
}

class AgentCard {
  constructor(job) {
    this.job = job;
    this.name = el("b", { class: "foreign" });
    this.about = el("span", { class: "soft small" });
    this.tool = el("code", { class: "tool" });
    this.last = el("p", { class: "foreign clamp" });
    this.cost = el("span", { class: "soft small" });
    this.age = el("span", { class: "soft small" });
    this.link = el("a", { "data-item": true }, this.name);
    this.element = el("li", { class: "panel agent" }, el("p", {}, this.link, " ", this.about), el("p", { class: "now" }, this.tool), this.last, el("p", { class: "agent-foot" }, this.cost, this.age));
  }

  update(agent) {
    setText(this.name, agent.unit);
    setAttribute(this.link, "href", known(agent.index) ? jobPath(this.job, "units", String(agent.index)) : `${jobPath(this.job, "units")}?q=${encodeURIComponent(agent.unit)}`);
    setText(this.about, [agent.lane, known(agent.turn) ? `turn ${agent.turn}` : null].filter(Boolean).join(" · "));
    setText(this.tool, agent.tool || "");
    show(this.tool.parentElement, Boolean(agent.tool));
    setText(this.last, agent.last || "Nothing yet.");
    setText(this.cost, [agent.tokens > 0 ? `${compact(agent.tokens)} tokens` : null, agent.cost_usd > 0 ? money(agent.cost_usd) : null].filter(Boolean).join(" · "));
    setAttribute(this.age, "title", agent.session_id ? `session ${agent.session_id}` : null);
    if (this.started !== agent.started_utc) { this.started = agent.started_utc; tick(this.age, (now) => setText(this.age, agent.started_utc ? "began " + ago(agent.started_utc, now) : "")); }
  }

  close() { stopTick(this.age); }
}
