"use strict";
const runs = JSON.parse(document.getElementById("data").textContent);
const percent = (x) => (x === null ? "-" : (100 * x).toFixed(2));
const short = (x) => (x === null || x === undefined ? "-" : typeof x === "number" && !Number.isInteger(x) ? +x.toPrecision(4) : String(x));

// Text never becomes markup: every name from a user's file goes through textContent.
function make(name, attributes = {}, ...children) {
  const drawn = ["svg", "path", "line", "rect", "text", "g", "title"].includes(name) && attributes.svg !== false;
  const node = drawn ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (key !== "svg") node.setAttribute(key, value);
  for (const child of children) node.append(child instanceof Node ? child : String(child));
  return node;
}

function card(title, wide, ...children) {
  return make("section", wide ? { class: "wide" } : {}, make("h2", {}, title), ...children);
}

// One chart for everything: lines, areas and bars over two linear axes.
function chart({ x, y, lines = [], areas = [], bars = [], across, up, label }) {
  const W = 560, H = 300, left = 66, right = 26, top = 10, bottom = 42;
  const X = (v) => left + ((v - x[0]) / (x[1] - x[0] || 1)) * (W - left - right);
  const Y = (v) => H - bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (H - top - bottom);
  const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label });
  for (let i = 0; i <= 4; i++) {
    const u = x[0] + ((x[1] - x[0]) * i) / 4, v = y[0] + ((y[1] - y[0]) * i) / 4;
    svg.append(make("line", { x1: left, x2: W - right, y1: Y(v), y2: Y(v), stroke: "var(--line)" }));
    svg.append(make("text", { x: left - 6, y: Y(v) + 4, "text-anchor": "end" }, short(+v.toFixed(3))));
    svg.append(make("text", { x: X(u), y: H - bottom + 16, "text-anchor": "middle" }, short(+u.toFixed(3))));
  }
  for (const bar of bars) {
    const a = X(bar.from), b = X(bar.to);
    svg.append(make("rect", { x: Math.min(a, b), width: Math.abs(b - a), y: Y(bar.high), height: Y(y[0]) - Y(bar.high), fill: bar.colour || "var(--grey)", opacity: 0.6 }));
  }
  for (const area of areas) {
    const there = area.x.map((v, i) => `${X(v)},${Y(area.high[i])}`), back = area.x.map((v, i) => `${X(v)},${Y(area.low[i])}`).reverse();
    svg.append(make("path", { d: `M${there.concat(back).join("L")}Z`, fill: area.colour, opacity: 0.2 }));
  }
  for (const line of lines) {
    const points = line.x.map((v, i) => `${X(v)},${Y(line.y[i])}`);
    svg.append(make("path", { d: `M${points.join("L")}`, fill: "none", stroke: line.colour, "stroke-width": line.width || 2, opacity: line.opacity || 1, class: line.name || "" }));
  }
  svg.append(make("text", { x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle" }, across));
  svg.append(make("text", { x: 14, y: (H - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(H - bottom) / 2})` }, up));
  return svg;
}

function range(values) {
  const good = values.filter(Number.isFinite), low = Math.min(...good), high = Math.max(...good), room = (high - low || 1) * 0.05;
  return [low - room, high + room];
}

// A table whose columns sort when their headings are pressed.
function table(headings, rows) {
  const body = make("tbody"), head = make("tr");
  const fill = (list) => body.replaceChildren(...list.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, short(cell))))));
  headings.forEach((heading, column) => {
    const cell = make("th", { scope: "col" }, make("button", { type: "button" }, heading));
    cell.firstChild.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") === "ascending";
      for (const other of head.children) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => { const n = parseFloat(row[column]); return Number.isNaN(n) ? String(row[column]) : n; };
      const sorted = [...rows].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
      fill(down ? sorted.reverse() : sorted);
    });
    head.append(cell);
  });
  fill(rows);
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body));
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
  const all = run.filter.responses.flat(), y = range(all), most = step && Math.max(...step.mass);
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
  const series = Object.entries(run.angles), y = range(series.flatMap(([, a]) => a).concat(0));
  return card("Angle between consecutive hops", false, chart({ x: [1, Math.max(2, ...series.map(([, a]) => a.length))], y, across: "hop", up: "degrees", label: "angle between consecutive hops",
    lines: series.map(([, a], i) => ({ x: a.map((_, k) => k + 1), y: a, colour: ["var(--blue)", "var(--orange)", "var(--soft)"][i % 3] })) }),
    make("p", {}, `tau ${series.map(([tau]) => tau).join(", ")}`));
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

function show(index) {
  const run = runs[index];
  document.querySelectorAll("#tabs button").forEach((button, i) => button.setAttribute("aria-pressed", i === index));
  const settings = Object.entries(run.settings).map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : value]);
  document.getElementById("main").replaceChildren(...[summary(run), explorer(run), filter(run), curves(run), weights(run), angles(run), classes(run),
    run.homophily && card("Homophily", false, table(["measure", "value"], Object.entries(run.homophily))),
    card("Trainings", true, table(["split", "seed", "validation %", "test %", "epoch", "counts", "failed"], run.rows.map((r) => [r.split, r.seed, percent(r.validation), percent(r.test), r.epoch, r.chosen ? "yes" : "no", r.failed]))),
    card("Settings", true, table(["setting", "value"], settings))].filter(Boolean));
}

document.getElementById("made").textContent = `${runs.length} run(s); version ${runs[0].about.version}, commit ${runs[0].about.commit}, ${runs[0].about.device}`;
if (runs.length > 1) {
  const mean = (run) => { const good = run.rows.filter((r) => r.chosen && r.test !== null).map((r) => r.test); return good.reduce((a, b) => a + b, 0) / good.length; };
  document.querySelector("header").append(table(["run", "graph", "test %", "trainings"], runs.map((run) => [run.settings.method, run.about.graph, percent(mean(run)), run.rows.filter((r) => r.chosen).length])));
  document.getElementById("tabs").append(...runs.map((run, i) => { const button = make("button", { type: "button" }, `${run.settings.method} on ${run.about.graph}`); button.addEventListener("click", () => show(i)); return button; }));
}
show(0);
