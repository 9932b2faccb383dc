// The figures of an eval: pass rates with their intervals, cost and latency for each provider and prompt, and which column is better.
// All of them were computed when the page was written; nothing is computed here.

const percent = (share) => (share === 1 ? "100" : (100 * share).toFixed(1)) + "%";

function columnName(place) {
  const { provider, prompt } = EVAL.columns[place];
  return manyPrompts() ? `${provider} · ${prompt}` : provider;
}

const manyPrompts = () => new Set(EVAL.columns.map((column) => column.prompt)).size > 1;

function totalsLine() {
  const { counts, tests, repetitions } = EVAL.statistics;
  const parts = [[counts.passed, "passed"], [counts.failed, "failed"], [counts.errors, counts.errors === 1 ? "error" : "errors"],
    [counts.timeouts, counts.timeouts === 1 ? "timeout" : "timeouts"], [counts.pending, "pending"]];
  const size = plural(tests, "test") + (repetitions > 1 ? ` × ${repetitions}` : "") + " × " + plural(EVAL.columns.length, "column");
  return el("div", { class: "totals" }, el("span", {}, size), parts.filter(([n]) => n).map(([n, what]) => el("span", {}, el("b", {}, count(n)), " " + what)));
}

function figuresSection() {
  const heads = ["Provider", "Pass rate, 95% interval", "Passed", "Failed", "Errors", "Score", "Cost", "Latency p50", "p95", "Tokens"];
  const head = el("tr", {}, heads.map((name, n) => el("th", { scope: "col", class: n > 1 ? "number" : null }, name)));
  const body = el("tbody", {}, EVAL.statistics.providers.map(providerRows));
  const table = el("table", { class: "figures" }, el("caption", { class: "visually-hidden" }, "Pass rates, cost and latency"), el("thead", {}, head), body);
  const scroll = el("div", { class: "panel scroll", tabindex: "0", role: "group", "aria-label": "Pass rates, cost and latency" }, table);
  return el("section", { "aria-labelledby": "figures-title" }, el("h2", { id: "figures-title" }, "Pass rates, cost and latency"), scroll, verdicts());
}

// A provider with one prompt is one row; with several it has a row of its own above them.
function providerRows(provider) {
  const own = EVAL.statistics.columns.filter(({ column }) => column.provider === provider.provider && column.provider_label === provider.label);
  const name = provider.label || provider.provider;
  if (own.length === 1) return columnRow(own[0], manyPrompts() ? `${name} · ${own[0].column.prompt_label}` : name, "alone");
  const tokens = provider.tokens ? (provider.tokens.input || 0) + (provider.tokens.output || 0) : 0;
  const head = el("tr", { class: "provider" }, el("th", { scope: "row", colspan: 6 }, name), useCells(provider, tokens));
  return [head, ...own.map((one) => columnRow(one, one.column.prompt_label, "prompt"))];
}

function columnRow(figures, name, kind) {
  const { counts } = figures;
  const cells = [
    el("td", { class: "wide" }, rate(figures.pass_rate)),
    number("Passed", count(counts.passed)), number("Failed", count(counts.failed)), number("Errors", count(counts.errors + counts.timeouts)),
    number("Score", figures.mean_score === null ? "–" : figures.mean_score.toFixed(2)),
  ];
  const tokens = (figures.tokens.input || 0) + (figures.tokens.output || 0);
  return el("tr", { class: kind }, el("th", { scope: "row" }, name), cells, useCells(figures, tokens));
}

function useCells(figures, tokens) {
  const latency = figures.latency_ms;
  return [number("Cost", money(figures.cost_usd)), number("Latency p50", latency ? seconds(latency.p50) : "–"), number("Latency p95", latency ? seconds(latency.p95) : "–"), number("Tokens", count(tokens))];
}

const number = (label, text) => el("td", { class: "number", "data-label": label }, text);

// A bar from 0 to 100 %, with its interval as a line across its end.
function rate(passRate) {
  if (!passRate) return el("span", { class: "soft" }, "no verdict yet");
  const { low, high } = passRate.interval;
  const x = (share) => (100 * share).toFixed(2) + "%";
  const bar = svg("svg", { "aria-hidden": "true" },
    svg("rect", { class: "track", x: 0, y: 5, width: "100%", height: 8, rx: 4 }), svg("rect", { class: "value", x: 0, y: 5, width: x(passRate.rate), height: 8, rx: 4 }),
    svg("line", { class: "range", x1: x(low), x2: x(high), y1: 9, y2: 9 }), svg("line", { class: "range", x1: x(low), x2: x(low), y1: 4, y2: 14 }), svg("line", { class: "range", x1: x(high), x2: x(high), y1: 4, y2: 14 }));
  const text = `${(100 * low).toFixed(0)}–${(100 * high).toFixed(0)}%`;
  return el("div", { class: "rate" }, el("b", {}, percent(passRate.rate)), bar, el("span", { class: "interval soft small" }, text));
}

// The mean of each named metric, column by column, and the metrics that are computed from them.
function metricsSection() {
  const columns = EVAL.statistics.columns;
  const means = columns.map((one) => ({ ...Object.fromEntries(Object.entries(one.metrics).map(([name, metric]) => [name, metric.mean])), ...one.derived_metrics }));
  const names = [...new Set(means.flatMap(Object.keys))];
  const cell = (value) => (value === undefined || value === null ? "–" : value.toFixed(2));
  return table("Metrics, mean score", [["Metric"], ...columns.map((_, place) => [columnName(place), 1])], names.map((name) => [name, ...means.map((one) => cell(one[name]))]));
}

// What the paired comparisons say, the clearest first. Of more than a few pairs, those that may be noise are only counted.
function verdicts() {
  const pairs = [...EVAL.statistics.comparisons].sort((one, other) => one.corrected_p - other.corrected_p);
  if (pairs.length === 0) return null;
  const few = pairs.length <= 3;
  const clear = pairs.filter((pair) => pair.winner !== null);
  const lines = (few ? pairs : clear).slice(0, 6).map(verdict);
  const noise = few ? 0 : pairs.length - clear.length;
  if (noise) lines.push(`${plural(noise, clear.length ? "other pair" : "pair")} of columns: the differences may be noise`);
  return el("ul", { class: "verdicts", "aria-label": "Columns compared" }, lines.map((line) => el("li", {}, line)));
}

function verdict(pair) {
  const places = new Map(EVAL.statistics.columns.map(({ column }, place) => [column.prompt_index, place]));
  const name = (index) => el("b", {}, columnName(places.get(index)));
  const p = pair.corrected_p < 0.001 ? "p < 0.001" : `p = ${pair.corrected_p.toFixed(3)}`;
  if (pair.winner === null) return [name(pair.first), " and ", name(pair.second), `: the difference of ${points(pair)} may be noise (${p}, ${plural(pair.tests, "test")})`];
  const loser = pair.winner === pair.first ? pair.second : pair.first;
  return [name(pair.winner), " is better than ", name(loser), ` by ${points(pair)} (${p}, ${plural(pair.tests, "test")})`];
}

const points = (pair) => Math.abs(100 * pair.difference).toFixed(1) + " points";
