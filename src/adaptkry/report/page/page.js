"use strict";
const all = JSON.parse(document.getElementById("data").textContent);
const percent = (x) => (x === null ? "-" : (100 * x).toFixed(2));
const short = (x) => (x === null || x === undefined ? "-" : typeof x === "number" && !Number.isInteger(x) ? +x.toPrecision(4) : String(x));

// Text never becomes markup: every name from a user's file goes through textContent.
function make(name, attributes = {}, ...children) {
  const drawn = ["svg", "path", "line", "rect", "circle", "text", "title"].includes(name) && attributes.svg !== false;
  const node = drawn ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (key !== "svg") node.setAttribute(key, value);
  for (const child of children) node.append(child instanceof Node ? child : String(child));
  return node;
}

// What stands between two backticks is shown as code, and still as text.
function spoken(text) {
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
const there = (v) => typeof v === "number" && Number.isFinite(v);

// Runs of neighbours that are all there: a gap in the numbers is a gap in the line.
function pieces(length, usable) {
  const found = [];
  for (let i = 0; i < length; i++) if (usable(i)) (i && usable(i - 1) ? found[found.length - 1] : (found.push([]), found[found.length - 1])).push(i);
  return found;
}

// One chart for everything: lines with bands or whiskers and bars, over numbers or names, linear or logarithmic upwards.
function chart({ x, y, lines = [], areas = [], bars = [], across, up, label, log = false, names = null }) {
  const turned = names && names.join("  ").length > 66, W = 560, left = 66, right = 26, top = 10;
  const bottom = 42 + (turned ? 5.6 * Math.min(18, Math.max(...names.map((name) => name.length))) : 0), H = 300 + bottom - 42;
  const level = (v) => (log ? Math.log10(v) : v), usable = (v) => there(v) && (!log || v > 0);
  const X = (v) => left + ((v - x[0]) / (x[1] - x[0] || 1)) * (W - left - right);
  const Y = (v) => H - bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (H - top - bottom);
  const U = (v) => Y(usable(v) ? Math.min(y[1], Math.max(y[0], level(v))) : y[0]); // an end below a logarithmic axis is drawn to its foot
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
  for (const area of areas) for (const piece of pieces(area.x.length, (i) => there(area.low[i]) && usable(area.high[i]))) {
    const over = piece.map((i) => `${X(area.x[i])},${U(area.high[i])}`), back = piece.map((i) => `${X(area.x[i])},${U(area.low[i])}`).reverse();
    svg.append(make("path", { d: `M${over.concat(back).join("L")}Z`, fill: area.colour, opacity: 0.2 }));
  }
  for (const line of lines) {
    const d = names ? "" : pieces(line.x.length, (i) => usable(line.y[i])).map((piece) => `M${piece.map((i) => `${X(line.x[i])},${U(line.y[i])}`).join("L")}`).join("");
    if (d) svg.append(make("path", { d, fill: "none", stroke: line.colour, "stroke-width": line.width || 2, opacity: line.opacity || 1, "stroke-dasharray": line.dash || "none", class: line.name || "" }));
    if (line.said && (names || line.x.length <= 40)) line.x.forEach((v, i) => { // points can be asked what they are
      if (!usable(line.y[i])) return;
      const ends = line.low && there(line.low[i]) && there(line.high[i]);
      if (names && ends) svg.append(make("line", { x1: X(v), x2: X(v), y1: U(line.low[i]), y2: U(line.high[i]), stroke: line.colour, "stroke-width": 2 }));
      const at = `${line.said}: ${names ? names[Math.round(v)] : short(v)}, ${short(line.y[i])}${ends ? ` (${short(line.low[i])} .. ${short(line.high[i])})` : ""}`;
      svg.append(make("circle", { cx: X(v), cy: U(line.y[i]), r: names ? 4.5 : 3, fill: line.dash ? "var(--card)" : line.colour, stroke: line.colour, "stroke-width": 1.5 }, make("title", {}, at)));
    });
  }
  svg.append(make("text", { x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle" }, across));
  svg.append(make("text", { x: 14, y: (H - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(H - bottom) / 2})` }, up));
  return svg;
}

function range(values, log = false) {
  const good = values.filter((v) => there(v) && (!log || v > 0)).map((v) => (log ? Math.log10(v) : v));
  if (!good.length) return [0, 1];
  const low = Math.min(...good), high = Math.max(...good), room = (high - low || (log ? 1 : Math.abs(high) || 1)) * 0.05;
  return [low - room, high + room];
}

function legend(entries) {
  return make("ul", { class: "legend" }, ...entries.map(({ said, colour, dash, bar }) => make("li", {},
    make("svg", { viewBox: "0 0 26 12", "aria-hidden": "true" }, bar ? make("rect", { x: 2, y: 2, width: 22, height: 8, fill: colour, opacity: 0.6 })
      : make("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: colour, "stroke-width": 2.5, "stroke-dasharray": dash || "none" })), said)));
}

// What a cell sorts by: a number if it has one, words if not, nothing at all if it is empty.
function worth(cell) {
  if (cell === null || cell === undefined || cell === "" || cell === "-") return null;
  if (typeof cell === "object") return there(cell.sort) ? cell.sort : null;
  return typeof cell === "string" && /^[-+]?\d[\d,]*\.?\d*(e[-+]?\d+)?\s*(%|±.*)?$/i.test(cell) ? parseFloat(cell.replaceAll(",", "")) : cell;
}

const words = (cell) => (cell !== null && typeof cell === "object" ? cell.text : cell);
const signs = { holds: "✓ holds", above: "▲ above", below: "▼ below" };

// How a column is set: sentences, words, or numbers (which stand to the right).
function kind(cells) {
  if (cells.some((cell) => String(short(words(cell))).length > 40)) return { class: "words" };
  return cells.some((cell) => typeof worth(cell) === "string") && !cells.some((cell) => typeof worth(cell) === "number") ? { class: "said" } : {};
}

function written(cell, how) {
  const text = String(short(words(cell))), verdict = cell !== null && typeof cell === "object" && Object.hasOwn(signs, cell.verdict) && signs[cell.verdict];
  const node = make("td", how, verdict && text === "-" ? "" : text);
  if (verdict) node.append(" ", make("span", { class: `badge ${cell.verdict}` }, verdict));
  return node;
}

// A table whose columns sort when their headings are pressed: numbers by size, before words; empty cells last, up or down.
function table(headings, rows) {
  const body = make("tbody"), head = make("tr");
  const kinds = headings.map((_, column) => kind(rows.map((row) => row[column])));
  const fill = (list) => body.replaceChildren(...list.map((row) => make("tr", {}, ...row.map((cell, column) => written(cell, kinds[column])))));
  headings.forEach((heading, column) => {
    const cell = make("th", { scope: "col", ...kinds[column] }, make("button", { type: "button" }, heading));
    const bare = rows.every((row) => worth(row[column]) === null); // cells without numbers to sort by: by what they say
    const key = (row) => (bare && words(row[column]) ? String(words(row[column])) : worth(row[column]));
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

function summary(run) {
  const good = run.rows.filter((row) => row.chosen && row.test !== null).map((row) => row.test);
  const mean = good.reduce((a, b) => a + b, 0) / good.length;
  const std = Math.sqrt(good.reduce((a, b) => a + (b - mean) ** 2, 0) / Math.max(1, good.length - 1));
  const about = run.about;
  return card(`${run.settings.method} on ${about.graph}`, true,
    make("p", { class: "big" }, good.length ? `${percent(mean)} ± ${percent(std)} %` : "no training ended well"),
    make("p", {}, `test ${about.metric}, mean ± standard deviation over ${good.length} trainings, ${about.scheme} splits; ${about.nodes} nodes, ${about.entries === null ? `${about.stored_rows} stored` : `${about.entries} entries`}, ${about.features} features, ${about.classes} classes`),
    ...about.warnings.map((text) => make("p", { class: "warning" }, `warning: ${text}`)));
}

function curves(run) {
  const c = run.curves, parts = [];
  for (const [name, colour, up] of [["loss", "var(--orange)", "training loss"], ["validation", "var(--blue)", `validation ${run.about.metric}`]]) {
    const k = c[name];
    if (!k.epoch.length) continue;
    parts.push(chart({ x: [0, Math.max(1, ...k.epoch)], y: range([...k.low, ...k.high]), across: "epoch", up, label: up,
      areas: [{ x: k.epoch, low: k.low, high: k.high, colour }], lines: [{ x: k.epoch, y: k.mean, colour }] }));
  }
  return card("Learning curves", false, ...parts, make("p", {}, "mean over trainings still running, and their range"));
}

// The explorer: where the eigenvalues of P_tau lie, and what the learned filter does to them, for any tau.
function explorer(run) {
  if (!run.explorer) return null;
  const steps = run.explorer, own = run.settings.taus[0], place = make("div", { id: "explorer" });
  const slider = make("input", { type: "range", min: steps[0].tau, max: steps[steps.length - 1].tau, step: 0.01, value: Math.min(own, steps[steps.length - 1].tau), "aria-label": "tau" });
  const shown = make("output");
  const one = steps.find((step) => step.tau === 1) || steps[steps.length - 1];
  const draw = () => {
    const tau = +slider.value;
    let i = steps.findIndex((step) => step.tau >= tau); i = Math.max(1, i);
    const [a, b] = [steps[i - 1], steps[i]], t = Math.min(1, Math.max(0, (tau - a.tau) / (b.tau - a.tau)));
    const quantiles = a.quantiles.map((q, k) => q * (1 - t) + b.quantiles[k] * t);
    shown.value = tau.toFixed(2);
    const bins = 40, low = Math.min(...quantiles), high = Math.max(...quantiles), width = (high - low) / bins || 1, mass = Array(bins).fill(0);
    for (let k = 0; k + 1 < quantiles.length; k++) { // an even share of the nodes lies between two quantiles
      const from = quantiles[k], to = quantiles[k + 1];
      for (let bin = 0; bin < bins; bin++) {
        const lo = low + bin * width, overlap = Math.min(to, lo + width) - Math.max(from, lo);
        if (to - from < 1e-9 ? from >= lo && from <= lo + width : overlap > 0) mass[bin] += to - from < 1e-9 ? 1 : overlap / (to - from);
      }
    }
    const most = Math.max(...mass);
    const bars = mass.map((m, bin) => ({ from: 1 - (low + bin * width), to: 1 - (low + (bin + 1) * width), high: m / most }));
    const parts = [make("p", {}, "Spectrum of P at this tau: share of eigenvalues at each frequency 1 - λ"),
      chart({ x: [0, Math.max(2, 1 - low)], y: [0, 1.05], bars, across: "frequency 1 - λ (0 smooth, 2 rough)", up: "density", label: "spectrum of P at this tau" })];
    if (run.filter) {
      const at = (list, v) => { const g = run.filter.grid, u = ((v - g[0]) / (g[g.length - 1] - g[0])) * (g.length - 1), k = Math.min(g.length - 2, Math.max(0, Math.floor(u))); return list[k] + (list[k + 1] - list[k]) * (u - k); };
      const from = one.quantiles, places = Array.from({ length: 121 }, (_, k) => from[0] + ((from[from.length - 1] - from[0]) * k) / 120);
      const moved = (v) => { let k = from.findIndex((q) => q >= v); k = Math.max(1, k); const share = (v - from[k - 1]) / (from[k] - from[k - 1] || 1); return quantiles[k - 1] + (quantiles[k] - quantiles[k - 1]) * share; };
      const x = places.map((v) => 1 - v);
      const lines = run.filter.responses.map((response) => ({ x, y: places.map((v) => at(response, moved(v))), colour: "var(--blue)", opacity: 0.5, width: 1.5, name: "response" }));
      parts.push(make("p", {}, "What the learned filter does to the frequencies of the graph itself (those of P at tau 1) when P has this tau"),
        chart({ x: [0, Math.max(...x)], y: range(lines.flatMap((line) => line.y)), lines, across: "frequency at tau = 1", up: "g", label: "learned response at this tau" }));
    }
    place.replaceChildren(...parts);
  };
  slider.addEventListener("input", draw);
  draw();
  return card("Tau explorer", false, make("label", {}, "tau ", shown, slider), place, make("p", {}, `trained with tau ${run.settings.taus.join(", ")}`));
}

function filter(run) {
  if (!run.filter) return card("Learned filter", false, make("p", {}, "this method has no filter that one curve could show"));
  const x = run.filter.grid.map((v) => 1 - v), step = run.explorer && run.explorer.reduce((best, s) => (Math.abs(s.tau - run.settings.taus[0]) < Math.abs(best.tau - run.settings.taus[0]) ? s : best));
  const y = range(run.filter.responses.flat()), most = step && Math.max(...step.mass);
  const bars = !step ? [] : step.mass.map((m, i) => ({ from: 1 - step.edges[i], to: 1 - step.edges[i + 1], high: y[0] + (m / most) * (y[1] - y[0]) * 0.9 }));
  return card(step ? "Learned filter over the density of states" : "Learned filter", false, chart({ x: [Math.min(0, ...x), Math.max(2, ...x)], y, bars,
    lines: run.filter.responses.map((r) => ({ x, y: r, colour: "var(--blue)", opacity: 0.6, width: 1.5 })), across: "frequency 1 - λ (0 smooth, 2 rough)", up: "g", label: "learned filter" }),
    make("p", {}, step ? "one line a training; grey: where the eigenvalues are" : "one line a training; trained from a basis folder, so the spectrum of the graph is not known"));
}

function weights(run) {
  if (!run.hop_weights || run.hop_weights[0].length < 2) return null;
  const hops = run.hop_weights[0].length, mean = Array.from({ length: hops }, (_, k) => run.hop_weights.reduce((a, w) => a + w[k], 0) / run.hop_weights.length);
  const y = range([0, ...run.hop_weights.flat()]), x = mean.map((_, k) => k);
  return card("Weight of each hop", false, chart({ x: [0, Math.max(1, hops - 1)], y, across: "hop", up: "weight", label: "weight of each hop",
    lines: [...run.hop_weights.map((w) => ({ x, y: w, colour: "var(--grey)", width: 1 })), { x, y: mean, colour: "var(--blue)" }, { x: [0, hops - 1], y: [0, 0], colour: "var(--soft)", width: 1 }] }),
    make("p", {}, "blue: mean over trainings; grey: each of them"));
}

function angles(run) {
  if (run.settings.degree < 2 || !run.angles) return null;
  const lines = Object.entries(run.angles).map(([tau, a], i) => ({ x: a.map((_, k) => k + 1), y: a, said: `tau ${tau}`, colour: `var(--series${i % 7})` }));
  return card("Angle between consecutive hops", false, chart({ x: [1, Math.max(2, ...lines.map((line) => line.x.length))], y: range(lines.flatMap((line) => line.y).concat(0)),
    across: "hop", up: "degrees", label: "angle between consecutive hops", lines }), legend(lines));
}

function classes(run) {
  const c = run.confusion, total = (k) => c[k].reduce((a, b) => a + b, 0), guessed = (k) => c.reduce((a, row) => a + row[k], 0);
  const scores = run.names.map((name, k) => {
    const precision = guessed(k) ? c[k][k] / guessed(k) : 0, recall = total(k) ? c[k][k] / total(k) : 0;
    return [name, total(k), percent(precision), percent(recall), percent(precision + recall ? (2 * precision * recall) / (precision + recall) : 0)];
  });
  return card("Classes", true, table(["class", "tested", "precision %", "recall %", "F1 %"], scores), make("h2", {}, "Confusion matrix"),
    table(["true \\ predicted", ...run.names], c.map((row, k) => [run.names[k], ...row])), make("p", {}, "test nodes of all trainings that count; 0 tested: the splits never test that class"));
}

function runPage(run) {
  const settings = Object.entries(run.settings).map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : value]);
  return [summary(run), explorer(run), filter(run), curves(run), weights(run), angles(run), classes(run),
    run.homophily && card("Homophily", false, table(["measure", "value"], Object.entries(run.homophily))),
    card("Trainings", true, table(["split", "seed", "validation %", "test %", "epoch", "counts", "failed"], run.rows.map((r) => [r.split, r.seed, percent(r.validation), percent(r.test), r.epoch, r.chosen ? "yes" : "no", r.failed]))),
    card("Settings", true, table(["setting", "value"], settings))];
}

// A chart of an experiment: names across stand side by side, numbers make lines; each series has a colour and, from the eighth on, a dash.
function plotted({ title, x: across, y: up, log, series, behind }) {
  const names = typeof series[0]?.x[0] === "string" ? [...new Set(series.flatMap((one) => one.x))] : null;
  const aside = (i) => (names ? ((i + 0.5) / series.length - 0.5) * 0.6 : 0);
  const lines = series.map((one, i) => ({ ...one, said: one.name, name: "", x: one.x.map((v) => (names ? names.indexOf(v) : v) + aside(i)),
    colour: `var(--series${i % 7})`, dash: one.dashed ? "6 4" : i >= 7 ? "2 3" : "" }));
  const shown = range(lines.flatMap((line) => [...line.y, ...(line.low || []), ...(line.high || [])]), log);
  if (!lines.some((line) => line.y.some(there))) return card(title, false, make("p", {}, "nothing was measured"));
  const most = behind ? Math.max(...behind.mass) : 0;
  const bars = behind ? behind.mass.map((m, i) => ({ from: behind.edges[i], to: behind.edges[i + 1], high: shown[0] + (m / most) * (shown[1] - shown[0]) * 0.9 })) : [];
  const ends = lines.flatMap((line) => line.x).concat(behind ? behind.edges : []);
  const areas = names ? [] : lines.filter((line) => line.low);
  return card(title, false, chart({ x: names ? [-0.5, names.length - 0.5] : [Math.min(...ends), Math.max(...ends)], y: shown, lines, areas, bars, across, up, label: title, log, names }),
    legend([...lines, ...(behind ? [{ said: behind.name, colour: "var(--grey)", bar: true }] : [])]));
}

function experimentPage({ title, lead, tables, charts, notes, made }) {
  const loud = (text) => text.startsWith("warning:"), calm = notes.filter((text) => !loud(text));
  return [card(title, true, lead ? make("p", { class: "lead" }, ...spoken(lead)) : "", ...notes.filter(loud).map((text) => make("p", { class: "warning" }, text))),
    ...tables.map((one) => card(one.title, true, table(one.columns, one.rows), one.note ? make("p", {}, ...spoken(one.note)) : "")),
    ...charts.map(plotted),
    calm.length ? card("Notes", false, make("ul", {}, ...calm.map((text) => make("li", {}, ...spoken(text))))) : null,
    Object.keys(made).length ? card("Made", false, table(["what", "value"], Object.entries(made))) : null];
}

const isRun = (facts) => facts.kind !== "experiment", runs = all.filter(isRun);
const titleOf = (facts) => (isRun(facts) ? `${facts.settings.method} on ${facts.about.graph}` : facts.title);

function show(index) {
  document.querySelectorAll("#tabs button").forEach((button, i) => button.setAttribute("aria-pressed", i === index));
  document.getElementById("main").replaceChildren(...(isRun(all[index]) ? runPage : experimentPage)(all[index]).filter(Boolean));
}

const counted = [[runs.length, "run"], [all.length - runs.length, "experiment"]].filter(([count]) => count).map(([count, what]) => `${count} ${what}${count > 1 ? "s" : ""}`);
const origins = all.map((facts) => (isRun(facts) ? facts.about : facts.made)), from = origins[0];
const shared = (name) => from[name] && origins.every((one) => one[name] === from[name]); // what differs stands on each page
document.getElementById("made").textContent = [counted.join(", "), ...["version", "commit", "device"].filter(shared).map((name) => `${name} ${from[name]}`)].join("; ");
if (runs.length > 1) {
  const mean = (run) => { const good = run.rows.filter((r) => r.chosen && r.test !== null).map((r) => r.test); return good.length ? good.reduce((a, b) => a + b, 0) / good.length : null; };
  document.querySelector("header").append(table(["run", "graph", "test %", "trainings"], runs.map((run) => [run.settings.method, run.about.graph, percent(mean(run)), run.rows.filter((r) => r.chosen).length])));
}
if (all.length > 1) {
  document.getElementById("tabs").append(...all.map((facts, i) => { const button = make("button", { type: "button" }, titleOf(facts)); button.addEventListener("click", () => show(i)); return button; }));
}
show(0);
