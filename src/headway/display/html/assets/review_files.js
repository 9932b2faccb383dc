// The files of a review: their status and the numbers of their findings. A file that is chosen filters the findings.

const FILE_LETTERS = { DONE: "p", CACHED: "p", TIMEOUT: "t", ERROR: "e", PENDING: "w", IN_PROGRESS: "w" };
const fileWord = (status) => status.toLowerCase().replace("_", " ");

class FileList {
  // `chosen(file)` is told the number of a file that was clicked.
  constructor(chosen) {
    this.body = el("tbody", {});
    const names = [["File", ""], ["Status", "col-status"], ["Findings", "col-count"], ["Cost", "col-use number"]];
    const head = el("tr", { role: "row", "aria-rowindex": 1 }, names.map(([name, part]) => el("th", { role: "columnheader", scope: "col", class: part }, name)));
    this.table = el("table", { role: "grid", "aria-label": "Files", "aria-readonly": "true" }, el("thead", {}, head), this.body);
    this.scroller = el("div", { class: "panel rows filelist", tabindex: "-1" }, this.table);
    this.none = el("p", { class: "none", hidden: true }, "No file matches the filter.");
    this.view = new RowView(this.scroller, this.body, names.length, (file) => this.row(file), (file) => chosen(file));
    const statuses = [...new Set(FILES.map((file) => file[1]))];
    this.status = select("Status of files", [["", "Any status"], ["found", "With findings"], ...statuses.map((status) => [status, fileWord(status)])]);
    this.count = el("span", { class: "count", role: "status" });
    this.status.addEventListener("change", () => this.apply());
  }

  element() {
    return el("section", { "aria-label": "Files" }, el("h2", {}, "Files"), el("div", { class: "filters" }, this.status, this.count), this.scroller, this.none, this.leftOut());
  }

  leftOut() {
    if (!REVIEW.leftOutCount) return null;
    const more = REVIEW.leftOutCount - REVIEW.leftOut.length;
    const list = el("dl", {}, REVIEW.leftOut.map(([path, why]) => [el("dt", { class: "foreign" }, path), el("dd", { class: "foreign" }, why)]));
    return el("details", {}, el("summary", {}, `${count(REVIEW.leftOutCount)} left out of the review`), list, more > 0 ? el("p", { class: "soft" }, `${count(more)} more are in the report as .json.`) : null);
  }

  apply() {
    const wanted = this.status.value;
    const shown = [];
    FILES.forEach((file, number) => {
      const { status, numbers } = fileOf(file);
      if (wanted === "" || status === wanted || (wanted === "found" && numbers.some((n) => n > 0))) shown.push(number);
    });
    this.count.textContent = shown.length === FILES.length ? plural(shown.length, "file") : `${count(shown.length)} of ${plural(FILES.length, "file")}`;
    this.table.setAttribute("aria-rowcount", shown.length + 1);
    this.none.hidden = shown.length > 0;
    this.scroller.hidden = shown.length === 0;
    this.view.show(shown);
  }

  row(number) {
    const { path, status, numbers, error, open, cost } = fileOf(FILES[number]);
    const clip = (...inside) => el("div", { class: "clip" }, inside);
    const why = [open.join(", "), error].filter(Boolean).join(": ");
    const found = numbers.map((n, severity) => (n ? el("span", { class: "v-" + REVIEW.severities[severity] }, `${count(n)} ${REVIEW.severities[severity]}`) : null)).filter(Boolean);
    return el("tr", { role: "row" }, el("th", { role: "rowheader", scope: "row" }, clip(el("span", { class: "foreign", title: path }, path))),
      el("td", { class: "col-status", role: "gridcell", tabindex: "-1" }, clip(mark(FILE_LETTERS[status], fileWord(status)))),
      el("td", { class: "col-count", role: "gridcell", tabindex: "-1" }, clip(found.length ? el("span", { class: "counts" }, found) : null, found.length && !why ? null : el("span", { class: why ? "s-error" : "soft", title: why || null }, why || "none"))),
      el("td", { class: "col-use number", role: "gridcell", tabindex: "-1" }, clip(money(cost < 0 ? null : cost))));
  }
}
