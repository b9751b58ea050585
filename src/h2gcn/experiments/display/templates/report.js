"use strict";
// The page can be read without this: it sorts tables, tells what is pointed at,
// hides series, and opens what is folded before printing.

const tip = document.getElementById("tip");
const NEAR = 22; // how far from a point the pointer may be, in the chart's units
const SAME = 6; // points nearer to each other than this are told together
const MOST = 4; // points told together

function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const right = x + 14 + box.width > innerWidth;
  const left = right ? x - 14 - box.width : x + 14;
  tip.style.left = Math.max(4, Math.min(left, innerWidth - box.width - 4)) + "px";
  const below = y + 14 + box.height > innerHeight;
  tip.style.top = Math.max(4, below ? y - 14 - box.height : y + 14) + "px";
}

function hideTip() {
  tip.hidden = true;
  for (const el of document.querySelectorAll(".near")) el.classList.remove("near");
}

function showTipAt(el, text) {
  const box = el.getBoundingClientRect();
  showTip(text, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
}

// ------------------------------------------------------------------------- charts

for (const chart of document.querySelectorAll(".chart")) {
  const svg = chart.querySelector("svg");
  const rows = [...svg.querySelectorAll(".series")].map((series) =>
    [...series.querySelectorAll(".p")].map((el) => ({
      el,
      series,
      x: Number(el.dataset.x),
      y: Number(el.dataset.y),
      top: Number(el.dataset.top ?? el.dataset.y),
      bottom: Number(el.dataset.bottom ?? el.dataset.y),
    })),
  );
  const points = rows.flat();
  const label = (point) => point.el.getAttribute("aria-label");
  const seen = (point) => !point.series.classList.contains("off");

  function distance(point, at) {
    const beyond = Math.max(point.top - at.y, at.y - point.bottom, 0);
    return Math.hypot(point.x - at.x, beyond);
  }

  function pointAt(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(
      svg.getScreenCTM().inverse(),
    );
    const near = points
      .filter(seen)
      .map((point) => ({ point, far: distance(point, at) }))
      .filter((found) => found.far < NEAR)
      .sort((a, b) => a.far - b.far);
    hideTip();
    if (!near.length) return;
    const first = near[0].point;
    const together = near
      .map((found) => found.point)
      .filter((p) => Math.hypot(p.x - first.x, p.y - first.y) < SAME);
    for (const point of together) point.el.classList.add("near");
    const texts = together.slice(0, MOST).map(label);
    if (together.length > MOST) texts.push(`and ${together.length - MOST} more`);
    showTip(texts.join("\n\n"), event.clientX, event.clientY);
  }

  svg.addEventListener("pointermove", pointAt);
  svg.addEventListener("pointerdown", pointAt);
  svg.addEventListener("pointerleave", hideTip);

  // One stop for the Tab key; arrows go on from there.
  if (points.length) points[0].el.setAttribute("tabindex", "0");
  svg.addEventListener("focusin", (event) => {
    for (const point of points) point.el.setAttribute("tabindex", "-1");
    event.target.setAttribute("tabindex", "0");
    hideTip();
    showTipAt(event.target, event.target.getAttribute("aria-label"));
  });
  svg.addEventListener("focusout", hideTip);
  svg.addEventListener("keydown", (event) => {
    const row = rows.findIndex((r) => r.some((p) => p.el === event.target));
    if (row < 0) return;
    const place = rows[row].findIndex((p) => p.el === event.target);
    let next;
    if (event.key === "ArrowRight") next = rows[row][place + 1];
    else if (event.key === "ArrowLeft") next = rows[row][place - 1];
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const shown = rows.filter((r) => r.length && (seen(r[0]) || r === rows[row]));
      const step = event.key === "ArrowDown" ? 1 : -1;
      const other = shown[shown.indexOf(rows[row]) + step];
      if (other) next = other[Math.min(place, other.length - 1)];
    } else return;
    event.preventDefault();
    if (next) next.el.focus();
  });

  for (const key of chart.querySelectorAll(".key")) {
    key.addEventListener("click", () => {
      const on = key.getAttribute("aria-pressed") !== "true";
      key.setAttribute("aria-pressed", String(on));
      const i = key.dataset.series;
      if (i === undefined) svg.classList.toggle("no-paper", !on);
      else {
        const series = svg.querySelectorAll(".series")[Number(i)];
        series.classList.toggle("off", !on);
        svg.querySelector(`.b${i}`)?.classList.toggle("off", !on);
        if (!on) for (const el of series.querySelectorAll(".p")) el.setAttribute("tabindex", "-1");
        if (!svg.querySelector('.series:not(.off) .p[tabindex="0"]')) {
          const first = points.find(seen);
          if (first) first.el.setAttribute("tabindex", "0");
        }
      }
    });
  }
}

// ------------------------------------------------------------------------- tables

const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function compare(a, b, up) {
  const value = (cell) => (cell.dataset.v === undefined ? null : Number(cell.dataset.v));
  const [x, y] = [value(a), value(b)];
  if (x !== null && y !== null) return up * (x - y);
  const [s, t] = [a.dataset.s, b.dataset.s];
  if (s !== undefined && t !== undefined) return up * words.compare(s, t);
  // What is not there comes last, whichever way.
  const empty = (cell) => cell.dataset.v === undefined && cell.dataset.s === undefined;
  return Number(empty(a)) - Number(empty(b));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const was = head.getAttribute("aria-sort");
      for (const other of heads) other.removeAttribute("aria-sort");
      let rows = [...original];
      if (was !== "descending") {
        const up = was === "ascending" ? -1 : 1;
        head.setAttribute("aria-sort", up > 0 ? "ascending" : "descending");
        rows.sort((a, b) => compare(a.cells[column], b.cells[column], up));
      }
      body.append(...rows);
    });
  });

  const told = [...body.querySelectorAll("[data-tip]")];
  if (told.length) told[0].setAttribute("tabindex", "0");
  for (const cell of told) {
    cell.addEventListener("pointerenter", (event) =>
      showTip(cell.dataset.tip, event.clientX, event.clientY),
    );
    cell.addEventListener("pointerleave", hideTip);
    cell.addEventListener("focus", () => {
      for (const other of told) other.setAttribute("tabindex", "-1");
      cell.setAttribute("tabindex", "0");
      cell.setAttribute("aria-describedby", "tip");
      showTipAt(cell, cell.dataset.tip);
    });
    cell.addEventListener("blur", () => {
      cell.removeAttribute("aria-describedby");
      hideTip();
    });
  }
  body.addEventListener("keydown", (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    if (!step || !event.target.dataset.tip) return;
    event.preventDefault();
    const rows = [...body.rows];
    let row = rows.indexOf(event.target.parentNode) + step[0];
    let column = event.target.cellIndex + step[1];
    while (rows[row] && rows[row].cells[column]) {
      const cell = rows[row].cells[column];
      if (cell.dataset.tip) return cell.focus();
      row += step[0];
      column += step[1];
    }
  });
}

// ----------------------------------------------------------------------- the page

addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
addEventListener(
  "scroll",
  () => {
    // What has the focus may have been scrolled into view: its tip stays with it.
    const held = document.activeElement;
    if (tip.hidden) return;
    if (held.classList.contains("p")) showTipAt(held, held.getAttribute("aria-label"));
    else if (held.dataset.tip) showTipAt(held, held.dataset.tip);
    else hideTip();
  },
  { capture: true, passive: true },
);

let folded = [];
addEventListener("beforeprint", () => {
  hideTip();
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
});
