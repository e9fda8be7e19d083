"use strict";
const all = JSON.parse(document.getElementById("data").textContent);
const short = (x) => (x === null || x === undefined ? "-" : typeof x === "number" && !Number.isInteger(x) ? +x.toPrecision(4) : String(x));

// Text never becomes markup: every name from a user's file goes through textContent.
function make(name, attributes = {}, ...children) {
  const drawn = ["svg", "path", "line", "rect", "circle", "text", "title"].includes(name) && attributes.svg !== false;
  const node = drawn ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (key !== "svg") node.setAttribute(key, value);
  for (const child of children) node.append(child instanceof Node ? child : String(child));
  return node;
}

// Text between two backticks is shown as code, and never as markup.
function withCode(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((part, i) => (i % 2 ? make("code", {}, part) : part)) : [text];
}

function card(title, wide, ...children) {
  return make("section", wide ? { class: "wide" } : {}, make("h2", {}, title), ...children);
}

// Round numbers from low to high, about five of them; powers of ten on a logarithmic axis that spans several.
function ticks([low, high], log) {
  if (log && high - low > 1.2) {
    const step = Math.ceil((high - low) / 6), first = Math.ceil(low / step) * step;
    return Array.from({ length: Math.floor((high - first) / step) + 1 }, (_, i) => first + i * step);
  }
  if (log) return ticks([10 ** low, 10 ** high]).filter((v) => v > 0).map(Math.log10);
  const raw = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= raw * 0.999), first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
}

const brief = (v) => (Math.abs(v) >= 1e4 ? new Intl.NumberFormat("en", { notation: "compact" }).format(v) : short(+v.toPrecision(4)));
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const isNumber = (v) => typeof v === "number" && Number.isFinite(v);

// Ranges of consecutive usable points: a gap in the numbers is a gap in the line.
function pieces(length, usable) {
  const found = [];
  for (let i = 0; i < length; i++) if (usable(i)) (i && usable(i - 1) ? found[found.length - 1] : (found.push([]), found[found.length - 1])).push(i);
  return found;
}

// Draws every line chart: lines with bands or error bars, and bars, over numbers or names, linear or logarithmic.
function chart({ x, y, lines = [], areas = [], bars = [], across, up, label, log = false, names = null }) {
  const turned = names && names.join("  ").length > 66, W = 560, left = 66, right = 26, top = 10;
  const bottom = 42 + (turned ? 5.6 * Math.min(18, Math.max(...names.map((name) => name.length))) : 0), H = 300 + bottom - 42;
  const level = (v) => (log ? Math.log10(v) : v), usable = (v) => isNumber(v) && (!log || v > 0);
  const X = (v) => left + ((v - x[0]) / (x[1] - x[0] || 1)) * (W - left - right);
  const Y = (v) => H - bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (H - top - bottom);
  const U = (v) => Y(usable(v) ? Math.min(y[1], Math.max(y[0], level(v))) : y[0]); // an end below a logarithmic axis is drawn to the axis
  const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label });
  for (const v of ticks(y, log)) {
    svg.append(make("line", { x1: left, x2: W - right, y1: Y(v), y2: Y(v), stroke: "var(--line)" }));
    svg.append(make("text", { x: left - 6, y: Y(v) + 4, "text-anchor": "end" }, brief(log ? 10 ** v : v)));
  }
  for (const u of names ? names.keys() : ticks(x)) {
    const place = { x: X(u), y: H - bottom + 16, "text-anchor": turned ? "end" : "middle" };
    if (turned) place.transform = `rotate(-35 ${place.x} ${place.y})`;
    svg.append(names ? make("text", place, cut(names[u], turned ? 18 : 30), make("title", {}, names[u])) : make("text", place, brief(u)));
  }
  for (const bar of bars) {
    const a = X(bar.from), b = X(bar.to);
    svg.append(make("rect", { x: Math.min(a, b), width: Math.abs(b - a), y: Y(bar.high), height: Y(y[0]) - Y(bar.high), fill: bar.colour || "var(--grey)", opacity: 0.6 }));
  }
  for (const area of areas) for (const piece of pieces(area.x.length, (i) => isNumber(area.low[i]) && usable(area.high[i]))) {
    const over = piece.map((i) => `${X(area.x[i])},${U(area.high[i])}`), back = piece.map((i) => `${X(area.x[i])},${U(area.low[i])}`).reverse();
    svg.append(make("path", { d: `M${over.concat(back).join("L")}Z`, fill: area.colour, opacity: 0.2 }));
  }
  for (const line of lines) {
    const d = names ? "" : pieces(line.x.length, (i) => usable(line.y[i])).map((piece) => `M${piece.map((i) => `${X(line.x[i])},${U(line.y[i])}`).join("L")}`).join("");
    if (d) svg.append(make("path", { d, fill: "none", stroke: line.colour, "stroke-width": line.width || 2, opacity: line.opacity || 1, "stroke-dasharray": line.dash || "none", class: line.name || "" }));
    if (line.label && (names || line.x.length <= 40)) line.x.forEach((v, i) => { // points show their values in a tooltip
      if (!usable(line.y[i])) return;
      const ends = line.low && isNumber(line.low[i]) && isNumber(line.high[i]);
      if (names && ends) svg.append(make("line", { x1: X(v), x2: X(v), y1: U(line.low[i]), y2: U(line.high[i]), stroke: line.colour, "stroke-width": 2 }));
      const at = `${line.label}: ${names ? names[Math.round(v)] : short(v)}, ${short(line.y[i])}${ends ? ` (${short(line.low[i])} .. ${short(line.high[i])})` : ""}`;
      svg.append(make("circle", { cx: X(v), cy: U(line.y[i]), r: names ? 4.5 : 3, fill: line.dash ? "var(--card)" : line.colour, stroke: line.colour, "stroke-width": 1.5 }, make("title", {}, at)));
    });
  }
  svg.append(make("text", { x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle" }, across));
  svg.append(make("text", { x: 14, y: (H - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(H - bottom) / 2})` }, up));
  return svg;
}

function range(values, log = false) {
  const good = values.filter((v) => isNumber(v) && (!log || v > 0)).map((v) => (log ? Math.log10(v) : v));
  if (!good.length) return [0, 1];
  const low = Math.min(...good), high = Math.max(...good), margin = (high - low || (log ? 1 : Math.abs(high) || 1)) * 0.05;
  return [low - margin, high + margin];
}

function legend(entries) {
  return make("ul", { class: "legend" }, ...entries.map(({ label, colour, dash, bar }) => make("li", {},
    make("svg", { viewBox: "0 0 26 12", "aria-hidden": "true" }, bar ? make("rect", { x: 2, y: 2, width: 22, height: 8, fill: colour, opacity: 0.6 })
      : make("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: colour, "stroke-width": 2.5, "stroke-dasharray": dash || "none" })), label)));
}

// What a cell sorts by: a number if it has one, else its text; null if it is empty.
function sortKey(cell) {
  if (cell === null || cell === undefined || cell === "" || cell === "-") return null;
  if (typeof cell === "object") return isNumber(cell.sort) ? cell.sort : null;
  return typeof cell === "string" && /^[-+]?\d[\d,]*\.?\d*(e[-+]?\d+)?\s*(%|±.*)?$/i.test(cell) ? parseFloat(cell.replaceAll(",", "")) : cell;
}

const textOf = (cell) => (cell !== null && typeof cell === "object" ? cell.text : cell);
const signs = { holds: "✓ holds", above: "▲ above", below: "▼ below" };

// The CSS class of a column: long text, short text, or numbers (aligned to the right).
function columnClass(cells) {
  if (cells.some((cell) => String(short(textOf(cell))).length > 40)) return { class: "long-text" };
  return cells.some((cell) => typeof sortKey(cell) === "string") && !cells.some((cell) => typeof sortKey(cell) === "number") ? { class: "text" } : {};
}

function tableCell(cell, how) {
  const text = String(short(textOf(cell))), verdict = cell !== null && typeof cell === "object" && Object.hasOwn(signs, cell.verdict) && signs[cell.verdict];
  const node = make("td", how, verdict && text === "-" ? "" : text);
  if (verdict) node.append(" ", make("span", { class: `badge ${cell.verdict}` }, verdict));
  return node;
}

// A table that sorts by a column when its heading is pressed: numbers before text; empty cells last in both orders.
function table(headings, rows) {
  const body = make("tbody"), head = make("tr");
  const kinds = headings.map((_, column) => columnClass(rows.map((row) => row[column])));
  const fill = (list) => body.replaceChildren(...list.map((row) => make("tr", {}, ...row.map((cell, column) => tableCell(cell, kinds[column])))));
  headings.forEach((heading, column) => {
    const cell = make("th", { scope: "col", ...kinds[column] }, make("button", { type: "button" }, heading));
    const bare = rows.every((row) => sortKey(row[column]) === null); // without numbers, sort by text
    const key = (row) => (bare && textOf(row[column]) ? String(textOf(row[column])) : sortKey(row[column]));
    cell.firstChild.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of head.children) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", down < 0 ? "descending" : "ascending");
      fill([...rows].sort((first, second) => {
        const a = key(first), b = key(second);
        if (a === null || b === null) return (a === null) - (b === null);
        return down * (typeof a !== typeof b ? (typeof a === "number" ? -1 : 1) : a < b ? -1 : a > b ? 1 : 0);
      }));
    });
    head.append(cell);
  });
  fill(rows);
  return make("div", { class: "scroll", tabindex: 0 }, make("table", {}, make("thead", {}, head), body));
}

// The explorer: where the eigenvalues of P_tau are, and what the learned filter does to them, for any tau.
function explorer(facts) {
  if (!facts.explorer) return null;
  const { steps, taus, grid, responses } = facts.explorer, trained = taus[0], place = make("div", { id: "explorer" });
  const slider = make("input", { type: "range", min: steps[0].tau, max: steps[steps.length - 1].tau, step: 0.01, value: Math.min(trained, steps[steps.length - 1].tau), "aria-label": "tau" });
  const shown = make("output");
  const one = steps.find((step) => step.tau === 1) || steps[steps.length - 1];
  const draw = () => {
    const tau = +slider.value;
    let i = steps.findIndex((step) => step.tau >= tau); i = Math.max(1, i);
    const [a, b] = [steps[i - 1], steps[i]], t = Math.min(1, Math.max(0, (tau - a.tau) / (b.tau - a.tau)));
    const quantiles = a.quantiles.map((q, k) => q * (1 - t) + b.quantiles[k] * t);
    shown.value = tau.toFixed(2);
    const bins = 40, low = Math.min(...quantiles), high = Math.max(...quantiles), width = (high - low) / bins || 1, mass = Array(bins).fill(0);
    for (let k = 0; k + 1 < quantiles.length; k++) { // an equal share of the eigenvalues lies between two quantiles
      const from = quantiles[k], to = quantiles[k + 1];
      for (let bin = 0; bin < bins; bin++) {
        const lo = low + bin * width, overlap = Math.min(to, lo + width) - Math.max(from, lo);
        if (to - from < 1e-9 ? from >= lo && from <= lo + width : overlap > 0) mass[bin] += to - from < 1e-9 ? 1 : overlap / (to - from);
      }
    }
    const most = Math.max(...mass);
    const bars = mass.map((m, bin) => ({ from: 1 - (low + bin * width), to: 1 - (low + (bin + 1) * width), high: m / most }));
    const parts = [make("div", {}, make("p", {}, "Spectrum of P at this tau: share of eigenvalues at each frequency 1 - λ"),
      chart({ x: [0, Math.max(2, 1 - low)], y: [0, 1.05], bars, across: "frequency 1 - λ (0 smooth, 2 rough)", up: "density", label: "spectrum of P at this tau" }))];
    if (responses) {
      const at = (list, v) => { const g = grid, u = ((v - g[0]) / (g[g.length - 1] - g[0])) * (g.length - 1), k = Math.min(g.length - 2, Math.max(0, Math.floor(u))); return list[k] + (list[k + 1] - list[k]) * (u - k); };
      const from = one.quantiles, places = Array.from({ length: 121 }, (_, k) => from[0] + ((from[from.length - 1] - from[0]) * k) / 120);
      const moved = (v) => { let k = from.findIndex((q) => q >= v); k = Math.max(1, k); const share = (v - from[k - 1]) / (from[k] - from[k - 1] || 1); return quantiles[k - 1] + (quantiles[k] - quantiles[k - 1]) * share; };
      const x = places.map((v) => 1 - v);
      const lines = responses.map((response) => ({ x, y: places.map((v) => at(response, moved(v))), colour: "var(--blue)", opacity: 0.5, width: 1.5, name: "response" }));
      parts.push(make("div", {}, make("p", {}, "What the learned filter does to the frequencies of the graph itself (those of P at tau 1) when P has this tau"),
        chart({ x: [0, Math.max(...x)], y: range(lines.flatMap((line) => line.y)), lines, across: "frequency at tau = 1", up: "g", label: "learned response at this tau" })));
    }
    place.replaceChildren(...parts);
  };
  slider.addEventListener("input", draw);
  draw();
  return card("Tau explorer", true, make("label", {}, "tau ", shown, slider), place, make("p", {}, `trained with tau ${taus.join(", ")}`));
}

// A matrix of counts is a table whose cells are shaded by their share of the row.
function matrixCard({ title, x, y, names, counts }) {
  const box = table([`${y} \\ ${x}`, ...names], counts.map((row, k) => [names[k], ...row]));
  const shade = () => box.querySelectorAll("tbody tr").forEach((line) => {
    const cells = [...line.children].slice(1), total = cells.reduce((sum, cell) => sum + +cell.textContent, 0) || 1;
    for (const cell of cells) cell.style.background = `color-mix(in srgb, var(--blue) ${Math.round((45 * cell.textContent) / total)}%, transparent)`;
  });
  shade();
  box.addEventListener("click", shade); // sorting draws the rows anew
  return card(title, true, box);
}

// A line chart: names on the horizontal axis give points side by side, numbers give lines; each series has a colour and, from the eighth on, a dash.
function lineCard({ title, x: across, y: up, log, series, behind, empty }) {
  const names = typeof series[0]?.x[0] === "string" ? [...new Set(series.flatMap((one) => one.x))] : null;
  const shift = (i) => (names ? ((i + 0.5) / series.length - 0.5) * 0.6 : 0);
  const lines = series.map((one, i) => ({ ...one, label: one.name, name: "", x: one.x.map((v) => (names ? names.indexOf(v) : v) + shift(i)),
    colour: `var(--series${i % 7})`, dash: one.dashed ? "6 4" : i >= 7 ? "2 3" : "" }));
  const shown = range(lines.flatMap((line) => [...line.y, ...(line.low || []), ...(line.high || [])]), log);
  if (!lines.some((line) => line.y.some(isNumber))) return card(title, false, make("p", {}, empty));
  const most = behind ? Math.max(...behind.mass) : 0;
  const bars = behind ? behind.mass.map((m, i) => ({ from: behind.edges[i], to: behind.edges[i + 1], high: shown[0] + (m / most) * (shown[1] - shown[0]) * 0.9 })) : [];
  const ends = lines.flatMap((line) => line.x).concat(behind ? behind.edges : []);
  const areas = names ? [] : lines.filter((line) => line.low);
  return card(title, false, chart({ x: names ? [-0.5, names.length - 0.5] : [Math.min(...ends), Math.max(...ends)], y: shown, lines, areas, bars, across, up, label: title, log, names }),
    legend([...lines, ...(behind ? [{ label: behind.name, colour: "var(--grey)", bar: true }] : [])]));
}

const chartCard = (one) => (one.kind === "matrix" ? matrixCard : lineCard)(one);

// Runs and experiments have the same page; a run also has a score and an explorer.
function factsPage(facts) {
  const { title, lead, tables, charts, notes, provenance, score } = facts;
  const isWarning = (text) => text.startsWith("warning:"), others = notes.filter((text) => !isWarning(text));
  return [card(title, true, score ? make("p", { class: "big" }, score) : "", lead ? make("p", { class: "lead" }, ...withCode(lead)) : "", ...notes.filter(isWarning).map((text) => make("p", { class: "warning" }, text))),
    ...(isRun(facts) ? [explorer(facts), ...charts.map(chartCard)] : []),
    ...tables.map((one) => card(one.title, true, table(one.columns, one.rows), one.note ? make("p", {}, ...withCode(one.note)) : "")),
    ...(isRun(facts) ? [] : charts.map(chartCard)),
    others.length ? card("Notes", false, make("ul", {}, ...others.map((text) => make("li", {}, ...withCode(text))))) : null,
    Object.keys(provenance).length ? card("Provenance", false, table(["what", "value"], Object.entries(provenance))) : null];
}

const isRun = (facts) => facts.kind === "run", runs = all.filter(isRun);

function show(index) {
  document.querySelectorAll("#tabs button").forEach((button, i) => button.setAttribute("aria-pressed", i === index));
  document.getElementById("main").replaceChildren(...factsPage(all[index]).filter(Boolean));
}

const counts = [[runs.length, "run"], [all.length - runs.length, "experiment"]].filter(([count]) => count).map(([count, what]) => `${count} ${what}${count > 1 ? "s" : ""}`);
const origins = all.map((facts) => facts.provenance), from = origins[0];
const shared = (name) => from[name] && origins.every((one) => one[name] === from[name]); // what differs is shown on each page
document.getElementById("provenance").textContent = [counts.join(", "), ...["version", "commit", "device"].filter(shared).map((name) => `${name} ${from[name]}`)].join("; ");
if (runs.length > 1) {
  document.querySelector("header").append(table(Object.keys(runs[0].overview), runs.map((run) => Object.values(run.overview))));
}
if (all.length > 1) {
  document.getElementById("tabs").append(...all.map((facts, i) => { const button = make("button", { type: "button" }, facts.title); button.addEventListener("click", () => show(i)); return button; }));
}
show(0);
