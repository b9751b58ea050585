"use strict";
// The page can be read without this: it sorts tables, tells what is pointed at, and
// opens what is folded before printing.

const tip = document.getElementById("tip");

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
}

function showTipAt(el, text) {
  const box = el.getBoundingClientRect();
  showTip(text, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
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
    if (held.dataset.tip) showTipAt(held, held.dataset.tip);
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
