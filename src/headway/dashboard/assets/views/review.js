// The findings of a review beside their code: the files with their counts, and the chosen file.

import { KeyedChildren, el, setAttribute, setText, show } from "../parts/dom.js";
import { get, jobApi, jobPath, query } from "../parts/api.js";
import { asList, count, known, percent, plural } from "../parts/format.js";
import { navigate } from "../parts/router.js";
import { empty, setMark, mark } from "../parts/widgets.js";

const SEVERITIES = ["critical", "high", "medium", "low", "info"];
const AROUND = 6;
const REFRESH_MS = 2500;
const MARKS = { no_such_line: "The file has no such line.", no_such_quote: "The quote is not in the file.", refuted: "A second model refuted it.", ignored: "A comment in the file ignores it." };

export const open = (page) => new ReviewView(page);

class ReviewView {
  constructor({ job, item, search }) {
    Object.assign(this, { job, path: item ?? search.get("file") });
    this.pages = [];
    this.onlyFound = el("input", { type: "checkbox", checked: true });
    this.onlyFound.addEventListener("change", () => this.draw());
    this.list = el("div", { "data-list": true });
    this.files = new KeyedChildren(this.list, (file) => file.path, () => new FileButton((path) => this.choose(path)));
    this.more = el("button", { type: "button", hidden: true, click: () => this.load() }, "Show more files");
    this.count = el("p", { class: "soft small", role: "status" });
    this.file = el("div", { class: "file-view" });
    this.problem = el("p", { class: "s-fail", role: "alert" });
    this.element = el("section", { "aria-label": "Findings" }, this.problem, el("div", { class: "review" }, el("div", {}, el("p", { class: "review-filter" }, el("label", {}, this.onlyFound, " Only files with findings"), this.count), el("div", { class: "panel files" }, this.list, this.more)), this.file));
  }

  accepts(part, item, search) {
    if (part !== "review") return false;
    const path = item ?? search.get("file");
    if (path && path !== this.path) this.showFile(path);
    return true;
  }

  async start() {
    await this.load();
    const first = this.path || this.all().find(found)?.path || this.all()[0]?.path;
    if (first && !this.closed) this.showFile(first);
  }

  all() { return this.pages.flatMap((page) => asList(page.files)); }

  async load() {
    const last = this.pages[this.pages.length - 1];
    try {
      this.pages.push(await get(jobApi(this.job, "review") + query({ after: last?.next, limit: 200 })));
    } catch (error) {
      setText(this.problem, error.message);
      return;
    }
    if (!this.closed) this.draw();
  }

  draw() {
    const all = this.all(), shown = this.onlyFound.checked ? all.filter((file) => found(file) || file.error || file.path === this.path) : all;
    this.files.update(shown.map((file) => ({ ...file, chosen: file.path === this.path })));
    const last = this.pages[this.pages.length - 1];
    show(this.more, Boolean(last?.next));
    setText(this.count, `${count(shown.length)} of ${plural(last?.total_files ?? all.length, "file")}`);
    if (all.length === 0) this.file.replaceChildren(empty("No file has been reviewed yet."));
  }

  choose(path) { navigate(`${jobPath(this.job, "review")}?file=${encodeURIComponent(path)}`, { replace: true }); }

  async showFile(path) {
    this.path = path;
    this.draw();
    const turn = (this.turn = (this.turn || 0) + 1);
    try {
      const file = await get(jobApi(this.job, "review", "file") + query({ path }));
      if (turn === this.turn && !this.closed) this.file.replaceChildren(fileView(file));
    } catch (error) {
      if (turn === this.turn && !this.closed) this.file.replaceChildren(empty(error.message));
    }
  }

  update(row) {
    const state = `${row.state} ${row.attempts}`;
    if (this.state === undefined) this.state = state;
    if (this.state === state || this.timer) return;
    this.state = state;
    this.timer = setTimeout(async () => {
      this.timer = 0;
      if (this.closed) return;
      this.pages = [];
      await this.load();
      if (!this.path && !this.closed) this.start();
    }, REFRESH_MS);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}

const found = (file) => Object.values(file.findings || {}).some((n) => n > 0);

class FileButton {
  constructor(choose) {
    this.path = el("bdi", {});
    this.counts = el("span", { class: "severities small" });
    this.state = mark("pending");
    this.element = el("button", { type: "button", class: "file", "data-item": true, click: () => choose(this.name) }, el("span", { class: "path" }, this.path), this.counts, el("span", { class: "small" }, this.state));
  }

  update(file) {
    this.name = file.path;
    setText(this.path, file.path);
    setAttribute(this.element, "title", file.path);
    setAttribute(this.element, "aria-current", file.chosen ? "true" : null);
    const shown = SEVERITIES.filter((severity) => file.findings?.[severity] > 0);
    const key = shown.map((severity) => severity + file.findings[severity]).join();
    if (key !== this.key) { this.key = key; this.counts.replaceChildren(...shown.map((severity) => el("span", { class: "level v-" + severity, title: severity }, count(file.findings[severity]), el("span", { class: "visually-hidden" }, ` ${severity} `)))); }
    const quiet = file.status === "DONE" || file.status === "CACHED";
    show(this.state, !quiet);
    if (!quiet) setMark(this.state, { PENDING: "pending", IN_PROGRESS: "running", TIMEOUT: "timeout", ERROR: "error" }[file.status] || "pending", file.status.toLowerCase().replaceAll("_", " "));
  }
}

// Code with the findings below their last line. What is far from every finding is folded.
function fileView(file) {
  const findings = [...asList(file.findings)].sort((a, b) => a.start_line - b.start_line || SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
  const head = el("div", {}, el("h2", { class: "foreign" }, file.path), file.error ? el("p", { class: "s-fail foreign" }, file.error) : null, el("p", { class: "soft small" }, findings.length ? plural(findings.length, "finding") : "No findings in this file."));
  if (asList(file.code).length === 0) return el("div", {}, head, findings.map(findingCard));
  const first = file.first_line || 1, last = first + file.code.length - 1;
  const below = new Map(), marked = new Set(), kept = new Set();
  for (const finding of findings) {
    const end = Math.min(last, Math.max(first, finding.end_line || finding.start_line || first));
    below.set(end, [...(below.get(end) || []), finding]);
    for (let n = finding.start_line; n <= end; n++) marked.add(n);
    for (let n = finding.start_line - AROUND; n <= end + AROUND; n++) kept.add(n);
  }
  const shows = (n) => findings.length === 0 || kept.has(n);
  const pre = el("pre", {});
  for (let n = first; n <= last; n++) {
    if (!shows(n)) { n = foldFrom(pre, file.code, n, first, last, shows); continue; }
    pre.append(codeLine(file.code[n - first], n, marked.has(n)));
    for (const finding of below.get(n) || []) pre.append(findingCard(finding));
  }
  return el("div", {}, head, el("div", { class: "code", tabindex: "0", role: "group", "aria-label": "Code with findings" }, pre));
}

const codeLine = (text, n, isFound) => el("span", { class: "line" + (isFound ? " is-found" : ""), "data-n": n }, text || " ");

// One button for lines that are folded; it shows them. Gives the last of them.
function foldFrom(pre, code, from, first, last, shows) {
  let end = from;
  while (end < last && !shows(end + 1)) end++;
  const button = el("button", { type: "button", class: "fold", click: () => button.replaceWith(...Array.from({ length: end - from + 1 }, (_, n) => codeLine(code[from - first + n], from + n, false))) }, `${plural(end - from + 1, "line")} more`);
  pre.append(button);
  return end;
}

function findingCard(finding) {
  const card = el("div", { class: `finding v-${finding.severity}${finding.mark ? " is-marked" : ""}`, tabindex: "-1", "data-item": true });
  const about = [finding.rule, asList(finding.axes).length > 1 ? finding.axes.join(", ") : finding.axis, known(finding.confidence) ? `${percent(finding.confidence)} sure` : null].filter(Boolean).join(" · ");
  card.append(el("p", {}, el("span", { class: "level v-" + finding.severity }, finding.severity), el("span", { class: "soft small foreign" }, " " + about)), el("p", { class: "foreign" }, finding.message));
  if (finding.suggestion) card.append(el("p", { class: "foreign soft" }, "→ " + finding.suggestion));
  if (finding.mark) card.append(el("p", { class: "small s-error foreign" }, [MARKS[finding.mark] || finding.mark, finding.mark_reason].filter(Boolean).join(" ")));
  return card;
}
