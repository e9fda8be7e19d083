"use strict";
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Tabs: one run or experiment is shown.
for (const button of all("#tabs button")) button.addEventListener("click", () => {
  all("#tabs button").forEach((other) => other.setAttribute("aria-pressed", other === button));
  all("article").forEach((article, i) => { article.hidden = i !== +button.dataset.page; });
});

// A click on a heading sorts the table by this column: numbers before text, empty cells always last.
function keyOf(cell) {
  if (cell.dataset.sort !== undefined) return +cell.dataset.sort;
  return ["", "-"].includes(cell.textContent) ? null : cell.textContent;
}

function compared(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return sign * (typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0);
}

for (const button of all("th button")) button.addEventListener("click", () => {
  const heading = button.parentNode, column = heading.cellIndex, body = heading.closest("table").tBodies[0];
  const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
  body.append(...[...body.rows].sort((a, b) => compared(keyOf(a.cells[column]), keyOf(b.cells[column]), sign)));
});

// The values of the point under the mouse.
const tip = document.createElement("div");
tip.id = "tip";
document.body.append(tip);
document.addEventListener("mousemove", (event) => {
  const mark = event.target.closest("svg [aria-roledescription][aria-label][role=graphics-symbol]:is(path, rect)");
  tip.textContent = mark ? mark.getAttribute("aria-label") : "";
  tip.style.left = `${Math.min(event.pageX + 12, document.documentElement.clientWidth - tip.offsetWidth)}px`;
  tip.style.top = `${event.pageY + 16}px`;
});

// On paper, everything is shown.
addEventListener("beforeprint", () => all("details").forEach((details) => { details.open = true; }));
