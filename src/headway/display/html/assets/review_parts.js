// The data of a review, and what its parts share: severities, findings, code.

const REVIEW = block("review");
// Of each finding: severity, axis, mark, file.
const INDEX = block("findings");
const FILES = block("files");
const KEYS = [
  [["↑", "↓"], "Move through the findings or the files"], [["Enter"], "Open a finding; show the findings of a file"],
  [["←", "→"], "In a finding: the previous and the next one"], [["Esc"], "Close"], [["/"], "Search"], [["?"], "These keys"],
];
const SEVERITY = 0, AXIS = 1, MARK = 2, FILE = 3;
const MARK_NAMES = ["", "no such line", "no such quote", "refuted", "ignored"];
const MARK_TEXTS = ["", "The file has no such line.", "The quote is not in the file.", "A second model refuted it.", "A comment in the file ignores it."];

function findingOf([file, rule, start, end, confidence = 0, message = "", quote = "", fingerprint = "", suggestion = "", axes = [], why = ""]) {
  return { file, rule, start, end, confidence, message, quote, fingerprint, suggestion, axes, why };
}

function fileOf([path, status, numbers = [], error = "", open = [], cost = 0]) {
  return { path, status, numbers, error, open, cost };
}

function level(severity) {
  const name = REVIEW.severities[severity];
  return el("span", { class: "level v-" + name }, name);
}

const lines = (start, end) => (start === end ? String(start) : `${start}–${end}`);
const percent = (share) => Math.round(100 * share) + "%";

// Code in lines. They are numbered if the quote has exactly the lines of the finding.
function code(quote, start, end) {
  const parts = quote.split("\n");
  const numbered = parts.length === end - start + 1;
  const shown = parts.map((text, n) => el("span", { class: "line", "data-n": numbered ? start + n : null }, text || " "));
  return el("div", { class: "code", tabindex: "0", role: "group", "aria-label": "Code" }, el("pre", { class: "foreign" }, shown));
}

// The white space that all lines begin with is left out.
function dedented(quote) {
  const parts = quote.split("\n");
  const widths = parts.filter((text) => text.trim()).map((text) => text.length - text.trimStart().length);
  const least = Math.min(...widths, Infinity);
  return parts.map((text) => text.slice(Number.isFinite(least) ? least : 0)).join("\n");
}

// What a model puts between backticks is code.
function spans(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((part, n) => (n % 2 ? el("code", {}, part) : part)) : [text];
}
