"use strict";
const all = JSON.parse(document.getElementById("data").textContent);
const short = (x) => (x === null || x === undefined ? "-" : typeof x === "number" && !Number.isInteger(x) ? +x.toPrecision(4) : String(x));

// Creates an element. Text is appended as text nodes, so names from a user's file never become markup.
function element(name, attributes = {}, ...children) {
  const isSvg = ["svg", "path", "line", "rect", "circle", "text", "title"].includes(name);
  const node = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  for (const child of children) node.append(child instanceof Node ? child : String(child));
  return node;
}

// Text between backticks is shown as code.
function withCode(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((part, i) => (i % 2 ? element("code", {}, part) : part)) : [text];
}

function card(title, wide, ...children) {
  return element("section", wide ? { class: "wide" } : {}, element("h2", {}, title), ...children);
}

// About five round numbers between low and high; powers of ten if a logarithmic axis spans more than one of them.
function ticks([low, high], log) {
  if (log && high - low > 1.2) {
    const step = Math.ceil((high - low) / 6), first = Math.ceil(low / step) * step;
    return Array.from({ length: Math.floor((high - first) / step) + 1 }, (_, i) => first + i * step);
  }
  if (log) return ticks([10 ** low, 10 ** high]).filter((v) => v > 0).map(Math.log10);
  const raw = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((candidate) => candidate >= raw * 0.999), first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
}

const compact = (v) => (Math.abs(v) >= 1e4 ? new Intl.NumberFormat("en", { notation: "compact" }).format(v) : short(+v.toPrecision(4)));
const truncate = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
const isNumber = (v) => typeof v === "number" && Number.isFinite(v);

// Ranges of consecutive usable points: a missing value is a gap in the line.
function segments(length, usable) {
  const found = [];
  for (let i = 0; i < length; i++) {
    if (!usable(i)) continue;
    if (!i || !usable(i - 1)) found.push([]);
    found[found.length - 1].push(i);
  }
  return found;
}

// Draws a line chart: lines with bands or error bars, and bars; the x-axis has numbers or names, the y-axis may be logarithmic.
function chart({ x, y, lines = [], areas = [], bars = [], xLabel, yLabel, label, log = false, names = null }) {
  const slanted = names && names.join("  ").length > 66, W = 560, left = 66, right = 26, top = 10;
  const bottom = 42 + (slanted ? 5.6 * Math.min(18, Math.max(...names.map((name) => name.length))) : 0), H = 300 + bottom - 42;
  const level = (v) => (log ? Math.log10(v) : v), usable = (v) => isNumber(v) && (!log || v > 0);
  const X = (v) => left + ((v - x[0]) / (x[1] - x[0] || 1)) * (W - left - right);
  const Y = (v) => H - bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (H - top - bottom);
  const clippedY = (v) => Y(usable(v) ? Math.min(y[1], Math.max(y[0], level(v))) : y[0]); // values below a logarithmic axis are drawn at its end
  const svg = element("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label });
  for (const v of ticks(y, log)) {
    svg.append(element("line", { x1: left, x2: W - right, y1: Y(v), y2: Y(v), stroke: "var(--line)" }));
    svg.append(element("text", { x: left - 6, y: Y(v) + 4, "text-anchor": "end" }, compact(log ? 10 ** v : v)));
  }
  for (const u of names ? names.keys() : ticks(x)) {
    const position = { x: X(u), y: H - bottom + 16, "text-anchor": slanted ? "end" : "middle" };
    if (slanted) position.transform = `rotate(-35 ${position.x} ${position.y})`;
    svg.append(names ? element("text", position, truncate(names[u], slanted ? 18 : 30), element("title", {}, names[u])) : element("text", position, compact(u)));
  }
  for (const bar of bars) {
    const a = X(bar.from), b = X(bar.to);
    svg.append(element("rect", { x: Math.min(a, b), width: Math.abs(b - a), y: Y(bar.high), height: Y(y[0]) - Y(bar.high), fill: bar.colour || "var(--grey)", opacity: 0.6 }));
  }
  for (const area of areas) for (const segment of segments(area.x.length, (i) => isNumber(area.low[i]) && usable(area.high[i]))) {
    const upper = segment.map((i) => `${X(area.x[i])},${clippedY(area.high[i])}`), lower = segment.map((i) => `${X(area.x[i])},${clippedY(area.low[i])}`);
    svg.append(element("path", { d: `M${upper.concat(lower.reverse()).join("L")}Z`, fill: area.colour, opacity: 0.2 }));
  }
  for (const line of lines) {
    const d = names ? "" : segments(line.x.length, (i) => usable(line.y[i])).map((segment) => `M${segment.map((i) => `${X(line.x[i])},${clippedY(line.y[i])}`).join("L")}`).join("");
    if (d) svg.append(element("path", { d, fill: "none", stroke: line.colour, "stroke-width": line.width || 2, opacity: line.opacity || 1, "stroke-dasharray": line.dash || "none", class: line.name || "" }));
    if (line.label && (names || line.x.length <= 40)) line.x.forEach((v, i) => { // points show their values in a tooltip
      if (!usable(line.y[i])) return;
      const hasInterval = line.low && isNumber(line.low[i]) && isNumber(line.high[i]);
      if (names && hasInterval) svg.append(element("line", { x1: X(v), x2: X(v), y1: clippedY(line.low[i]), y2: clippedY(line.high[i]), stroke: line.colour, "stroke-width": 2 }));
      const tooltip = `${line.label}: ${names ? names[Math.round(v)] : short(v)}, ${short(line.y[i])}${hasInterval ? ` (${short(line.low[i])} .. ${short(line.high[i])})` : ""}`;
      svg.append(element("circle", { cx: X(v), cy: clippedY(line.y[i]), r: names ? 4.5 : 3, fill: line.dash ? "var(--card)" : line.colour, stroke: line.colour, "stroke-width": 1.5 }, element("title", {}, tooltip)));
    });
  }
  svg.append(element("text", { x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle" }, xLabel));
  svg.append(element("text", { x: 14, y: (H - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(H - bottom) / 2})` }, yLabel));
  return svg;
}

function range(values, log = false) {
  const good = values.filter((v) => isNumber(v) && (!log || v > 0)).map((v) => (log ? Math.log10(v) : v));
  if (!good.length) return [0, 1];
  const low = Math.min(...good), high = Math.max(...good), margin = (high - low || (log ? 1 : Math.abs(high) || 1)) * 0.05;
  return [low - margin, high + margin];
}

function legend(entries) {
  return element("ul", { class: "legend" }, ...entries.map(({ label, colour, dash, bar }) => element("li", {},
    element("svg", { viewBox: "0 0 26 12", "aria-hidden": "true" }, bar ? element("rect", { x: 2, y: 2, width: 22, height: 8, fill: colour, opacity: 0.6 })
      : element("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: colour, "stroke-width": 2.5, "stroke-dasharray": dash || "none" })), label)));
}

// The sort key of a cell: its number if it has one, otherwise its text; null if it is empty.
function sortKey(cell) {
  if (cell === null || cell === undefined || cell === "" || cell === "-") return null;
  if (typeof cell === "object") return isNumber(cell.sort) ? cell.sort : null;
  return typeof cell === "string" && /^[-+]?\d[\d,]*\.?\d*(e[-+]?\d+)?\s*(%|±.*)?$/i.test(cell) ? parseFloat(cell.replaceAll(",", "")) : cell;
}

const textOf = (cell) => (cell !== null && typeof cell === "object" ? cell.text : cell);
const verdictBadges = { holds: "✓ holds", above: "▲ above", below: "▼ below" };

// The CSS class of a column: long text, short text, or numbers (aligned to the right).
function columnClass(cells) {
  if (cells.some((cell) => String(short(textOf(cell))).length > 40)) return { class: "long-text" };
  return cells.some((cell) => typeof sortKey(cell) === "string") && !cells.some((cell) => typeof sortKey(cell) === "number") ? { class: "text" } : {};
}

function tableCell(cell, attributes) {
  const text = String(short(textOf(cell))), verdict = cell !== null && typeof cell === "object" && Object.hasOwn(verdictBadges, cell.verdict) && verdictBadges[cell.verdict];
  const node = element("td", attributes, verdict && text === "-" ? "" : text);
  if (verdict) node.append(" ", element("span", { class: `badge ${cell.verdict}` }, verdict));
  return node;
}

// A table that is sorted by a column when its heading is clicked: numbers before text, empty cells always last.
function table(headings, rows) {
  const body = element("tbody"), head = element("tr");
  const classes = headings.map((_, column) => columnClass(rows.map((row) => row[column])));
  const fill = (list) => body.replaceChildren(...list.map((row) => element("tr", {}, ...row.map((cell, column) => tableCell(cell, classes[column])))));
  headings.forEach((heading, column) => {
    const cell = element("th", { scope: "col", ...classes[column] }, element("button", { type: "button" }, heading));
    const hasNoKeys = rows.every((row) => sortKey(row[column]) === null); // then sort by text
    const key = (row) => (hasNoKeys && textOf(row[column]) ? String(textOf(row[column])) : sortKey(row[column]));
    cell.firstChild.addEventListener("click", () => {
      const sign = cell.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of head.children) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
      fill([...rows].sort((first, second) => {
        const a = key(first), b = key(second);
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (typeof a !== typeof b ? (typeof a === "number" ? -1 : 1) : a < b ? -1 : a > b ? 1 : 0);
      }));
    });
    head.append(cell);
  });
  fill(rows);
  return element("div", { class: "scroll", tabindex: 0 }, element("table", {}, element("thead", {}, head), body));
}

// The index i of the interval list[i - 1] .. list[i] that contains v, in a list of ascending numbers.
function intervalOf(list, v) {
  const i = list.findIndex((bound) => bound >= v);
  return i < 0 ? list.length - 1 : Math.max(1, i); // v may exceed the last number by a rounding error
}

// The tau explorer: the spectrum of P_tau and the learned filter as a function of it, for any tau.
function explorer(facts) {
  if (!facts.explorer) return null;
  const { steps, taus, grid, responses } = facts.explorer, box = element("div", { id: "explorer" });
  const slider = element("input", { type: "range", min: steps[0].tau, max: steps[steps.length - 1].tau, step: 0.01, value: Math.min(taus[0], steps[steps.length - 1].tau), "aria-label": "tau" });
  const shown = element("output");
  const reference = steps.find((step) => step.tau === 1) || steps[steps.length - 1];
  const draw = () => {
    const tau = +slider.value;
    const i = intervalOf(steps.map((step) => step.tau), tau);
    const [a, b] = [steps[i - 1], steps[i]], t = Math.min(1, Math.max(0, (tau - a.tau) / (b.tau - a.tau)));
    const quantiles = a.quantiles.map((q, k) => q * (1 - t) + b.quantiles[k] * t);
    shown.value = tau.toFixed(2);
    const bins = 40, low = Math.min(...quantiles), high = Math.max(...quantiles), width = (high - low) / bins || 1, mass = Array(bins).fill(0);
    for (let k = 0; k + 1 < quantiles.length; k++) { // the same share of eigenvalues is between any two consecutive quantiles
      const from = quantiles[k], to = quantiles[k + 1];
      for (let bin = 0; bin < bins; bin++) {
        const lo = low + bin * width, overlap = Math.min(to, lo + width) - Math.max(from, lo);
        if (to - from < 1e-9 ? from >= lo && from <= lo + width : overlap > 0) mass[bin] += to - from < 1e-9 ? 1 : overlap / (to - from);
      }
    }
    const maxMass = Math.max(...mass);
    const bars = mass.map((m, bin) => ({ from: 1 - (low + bin * width), to: 1 - (low + (bin + 1) * width), high: m / maxMass }));
    const parts = [element("div", {}, element("p", {}, "Spectrum of P at this tau: density of eigenvalues by frequency 1 - λ"),
      chart({ x: [0, Math.max(2, 1 - low)], y: [0, 1.05], bars, xLabel: "frequency 1 - λ (0 smooth, 2 rough)", yLabel: "density", label: "spectrum of P at this tau" }))];
    if (responses) {
      // Linear interpolation on the equally spaced grid, and from quantiles at tau = 1 to quantiles at this tau.
      const interpolate = (values, v) => { const g = grid, u = ((v - g[0]) / (g[g.length - 1] - g[0])) * (g.length - 1), k = Math.min(g.length - 2, Math.max(0, Math.floor(u))); return values[k] + (values[k + 1] - values[k]) * (u - k); };
      const from = reference.quantiles, eigenvalues = Array.from({ length: 121 }, (_, k) => from[0] + ((from[from.length - 1] - from[0]) * k) / 120);
      const atThisTau = (v) => { const k = intervalOf(from, v), share = (v - from[k - 1]) / (from[k] - from[k - 1] || 1); return quantiles[k - 1] + (quantiles[k] - quantiles[k - 1]) * share; };
      const x = eigenvalues.map((v) => 1 - v);
      const lines = responses.map((response) => ({ x, y: eigenvalues.map((v) => interpolate(response, atThisTau(v))), colour: "var(--blue)", opacity: 0.5, width: 1.5, name: "response" }));
      parts.push(element("div", {}, element("p", {}, "Response of the learned filter if P had this tau, by the frequencies of the graph (those of P at tau 1)"),
        chart({ x: [0, Math.max(...x)], y: range(lines.flatMap((line) => line.y)), lines, xLabel: "frequency at tau = 1", yLabel: "g", label: "learned response at this tau" })));
    }
    box.replaceChildren(...parts);
  };
  slider.addEventListener("input", draw);
  draw();
  return card("Tau explorer", true, element("label", {}, "tau ", shown, slider), box, element("p", {}, `trained with tau ${taus.join(", ")}`));
}

// A matrix of counts: a table whose cells are shaded by their share of the row.
function matrixCard({ title, x, y, names, counts }) {
  const box = table([`${y} \\ ${x}`, ...names], counts.map((row, k) => [names[k], ...row]));
  const shade = () => box.querySelectorAll("tbody tr").forEach((line) => {
    const cells = [...line.children].slice(1), total = cells.reduce((sum, cell) => sum + +cell.textContent, 0) || 1;
    for (const cell of cells) cell.style.background = `color-mix(in srgb, var(--blue) ${Math.round((45 * cell.textContent) / total)}%, transparent)`;
  });
  shade();
  box.addEventListener("click", shade); // sorting replaces the rows
  return card(title, true, box);
}

// A line chart: points if the x-axis has names, lines if it has numbers; from the eighth series on, lines are dotted.
function lineCard({ title, x: xLabel, y: yLabel, log, series, behind, empty }) {
  const names = typeof series[0]?.x[0] === "string" ? [...new Set(series.flatMap((line) => line.x))] : null;
  const shift = (i) => (names ? ((i + 0.5) / series.length - 0.5) * 0.6 : 0);
  const lines = series.map((line, i) => ({ ...line, label: line.name, name: "", x: line.x.map((v) => (names ? names.indexOf(v) : v) + shift(i)),
    colour: `var(--series${i % 7})`, dash: line.dashed ? "6 4" : i >= 7 ? "2 3" : "" }));
  const shown = range(lines.flatMap((line) => [...line.y, ...(line.low || []), ...(line.high || [])]), log);
  if (!lines.some((line) => line.y.some(isNumber))) return card(title, false, element("p", {}, empty));
  const maxMass = behind ? Math.max(...behind.mass) : 0;
  const bars = behind ? behind.mass.map((m, i) => ({ from: behind.edges[i], to: behind.edges[i + 1], high: shown[0] + (m / maxMass) * (shown[1] - shown[0]) * 0.9 })) : [];
  const ends = lines.flatMap((line) => line.x).concat(behind ? behind.edges : []);
  const areas = names ? [] : lines.filter((line) => line.low);
  return card(title, false, chart({ x: names ? [-0.5, names.length - 0.5] : [Math.min(...ends), Math.max(...ends)], y: shown, lines, areas, bars, xLabel, yLabel, label: title, log, names }),
    legend([...lines, ...(behind ? [{ label: behind.name, colour: "var(--grey)", bar: true }] : [])]));
}

const chartCard = (facts) => (facts.kind === "matrix" ? matrixCard : lineCard)(facts);

// The page of a run or an experiment; a run also has a score and an explorer.
function factsPage(facts) {
  const { title, lead, tables, charts, notes, provenance, score } = facts;
  const isWarning = (text) => text.startsWith("warning:"), others = notes.filter((text) => !isWarning(text));
  return [card(title, true, score ? element("p", { class: "big" }, score) : "", lead ? element("p", { class: "lead" }, ...withCode(lead)) : "", ...notes.filter(isWarning).map((text) => element("p", { class: "warning" }, text))),
    ...(isRun(facts) ? [explorer(facts), ...charts.map(chartCard)] : []),
    ...tables.map(({ title, columns, rows, note }) => card(title, true, table(columns, rows), note ? element("p", {}, ...withCode(note)) : "")),
    ...(isRun(facts) ? [] : charts.map(chartCard)),
    others.length ? card("Notes", false, element("ul", {}, ...others.map((text) => element("li", {}, ...withCode(text))))) : null,
    Object.keys(provenance).length ? card("Provenance", false, table(["name", "value"], Object.entries(provenance))) : null];
}

const isRun = (facts) => facts.kind === "run", runs = all.filter(isRun);

function show(index) {
  document.querySelectorAll("#tabs button").forEach((button, i) => button.setAttribute("aria-pressed", i === index));
  document.getElementById("main").replaceChildren(...factsPage(all[index]).filter(Boolean));
}

const counts = [[runs.length, "run"], [all.length - runs.length, "experiment"]].filter(([count]) => count).map(([count, what]) => `${count} ${what}${count > 1 ? "s" : ""}`);
const provenances = all.map((facts) => facts.provenance), first = provenances[0];
const isShared = (name) => first[name] && provenances.every((provenance) => provenance[name] === first[name]); // the others are on each page
document.getElementById("provenance").textContent = [counts.join(", "), ...["version", "commit", "device"].filter(isShared).map((name) => `${name} ${first[name]}`)].join("; ");
if (runs.length > 1) {
  document.querySelector("header").append(table(Object.keys(runs[0].overview), runs.map((run) => Object.values(run.overview))));
}
if (all.length > 1) {
  document.getElementById("tabs").append(...all.map((facts, i) => { const button = element("button", { type: "button" }, facts.title); button.addEventListener("click", () => show(i)); return button; }));
}
show(0);
