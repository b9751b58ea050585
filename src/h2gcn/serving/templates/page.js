// The page of `h2gcn serve`. Ids and labels are anybody's text: they are only ever put in as text.
"use strict";

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const RADII = [0, 92, 172];
const SIZES = [13, 9, 6];
const NAMED = 14; // neighbours that are named in the picture, at most
const SHOWN = 60;
const REASONS = 12;

let facts = null;
let asked = 0; // counts up, so that a late answer to an early question is dropped
let fromPicture = false;

// ------------------------------------------------------------------------- requests

class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function kept() {
  try { return sessionStorage.getItem("h2gcn-token"); } catch { return null; }
}

async function ask(path) {
  const token = kept();
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let answer;
  try {
    answer = await fetch(path, { headers, cache: "no-store" });
  } catch {
    throw new Failure(0, "The server cannot be reached.");
  }
  let content = {};
  try { content = await answer.json(); } catch { /* not ours */ }
  if (!answer.ok) throw new Failure(answer.status, content.error || `The server says ${answer.status}.`);
  return content;
}

const nodePath = (id) => `nodes/${encodeURIComponent(id)}`;
const nodeLink = (id) => `#/node/${encodeURIComponent(id)}`;

function linked() {
  const found = location.hash.match(/^#\/node\/(.+)$/s);
  if (!found) return null;
  try { return decodeURIComponent(found[1]); } catch { return found[1]; }
}

// ---------------------------------------------------------------------- small things

function make(tag, text, ...classes) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  element.classList.add(...classes);
  return element;
}

function draw(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const percent = (share) => `${(100 * share).toFixed(share > 0.9995 || share < 0.0995 ? 1 : 0)} %`;
const short = (text, most) => ([...text].length > most ? `${[...text].slice(0, most - 1).join("")}…` : text);

function mark(element, label) {
  const place = facts.classes.indexOf(label);
  if (place >= 0) element.style.setProperty("--mark", `var(--c${place % 12})`);
  return element;
}

function bar(name, share, figure, { signed = false, label = null } = {}) {
  const row = make("li");
  const track = make("span", null, "track");
  const fill = make("span", null, "fill");
  if (signed) {
    fill.style.left = `${share < 0 ? 50 + 50 * share : 50}%`;
    fill.style.width = `${Math.abs(50 * share)}%`;
    if (share < 0) fill.classList.add("against");
    track.append(fill, make("span", null, "middle"));
  } else {
    fill.style.width = `${100 * share}%`;
    track.append(fill);
  }
  track.setAttribute("aria-hidden", "true");
  const title = make("span", name, "name");
  if (label !== null) {
    title.classList.add("dot");
    mark(title, label);
    mark(fill, label);
    fill.style.background = "var(--mark, var(--bar))";
  }
  row.append(title, track, make("span", figure, "figure"));
  return row;
}

// ---------------------------------------------------------------------------- a node

async function open() {
  const id = linked();
  const turn = ++asked;
  const inPicture = fromPicture;
  fromPicture = false;
  $("failure").textContent = "";
  if (id === null) {
    $("node").hidden = true;
    document.title = `Nodes of ${facts.graph}`;
    return;
  }
  let node, near;
  try {
    [node, near] = await Promise.all([
      ask(nodePath(id)),
      ask(`${nodePath(id)}/surroundings?hops=2&limit=${SHOWN}`),
    ]);
  } catch (failure) {
    if (turn !== asked) return;
    $("node").hidden = true;
    fail(failure);
    return;
  }
  if (turn !== asked) return;
  showNode(node);
  showSurroundings(near);
  $("node").hidden = false;
  document.title = `${node.id} – ${facts.graph}`;
  $("q").value = node.id;
  close();
  if (inPicture) $("picture").querySelector(".spot").focus();
  else $("name").focus();
  const likely = node.probabilities[node.label];
  $("status").textContent = `${node.id}: ${node.label}, ${percent(likely)}`;
  await explain(id, turn);
}

function showNode(node) {
  $("name").textContent = node.id;
  $("label").textContent = node.label;
  $("label").classList.add("hollow");
  mark($("label"), node.label);
  $("sure").textContent = `is what the model says, with ${percent(node.probabilities[node.label])}.`;
  let truth = "The graph has no label for it.";
  if (node.truth !== null) {
    const agreed = node.truth === node.label ? "as the model says" : "not what the model says";
    const seen = {
      true: " Training saw it, so that agreeing proves nothing.",
      false: " Training did not see it.",
    }[node.seen] || "";
    truth = `The graph has the label ${node.truth}, ${agreed}.${seen}`;
  }
  const neighbours = node.degree === 1 ? "1 neighbour" : `${node.degree.toLocaleString("en")} neighbours`;
  $("truth").textContent = `${truth} It has ${neighbours}.`;
  $("set").textContent = node.set === null ? "" : `It may be: ${node.set.join(", ")}.`;
  $("coverage").textContent = `${node.coverage[0].toUpperCase()}${node.coverage.slice(1)}.`;
  const shares = Object.entries(node.probabilities).sort((a, b) => b[1] - a[1]);
  $("shares").replaceChildren(
    ...shares.map(([name, share]) => bar(name, share, percent(share), { label: name })),
  );
}

async function explain(id, turn) {
  $("reasons").replaceChildren();
  $("reasons-notes").textContent = "";
  $("reasons-words").textContent = "Being computed …";
  let found;
  try {
    found = await ask(`${nodePath(id)}/reasons`);
  } catch (failure) {
    if (turn === asked) $("reasons-words").textContent = failure.message;
    return;
  }
  if (turn !== asked) return;
  showReasons(found);
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

function showReasons(found) {
  const terms = [...found.terms].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const largest = Math.max(...terms.map((term) => Math.abs(term.value)), 1e-12);
  const all = (some) => some.reduce((sum, term) => sum + term.value, 0);
  const sum = found.exact ? `, which sum to ${signed(all(terms))}` : "";
  $("reasons-words").textContent = `What speaks for ${found.label}, and what against it${sum}.`;
  $("reasons").replaceChildren(...terms.slice(0, REASONS).map((term) => {
    const row = bar(term.name, term.value / largest, signed(term.value), { signed: true });
    const parts = [...term.columns, ...term.nodes].filter((part) => part.value !== 0).slice(0, 5);
    if (parts.length) {
      const words = parts.map((part) => `${short(part.name, 40)} ${signed(part.value)}`);
      row.append(make("span", words.join(", "), "faint", "parts"));
    }
    return row;
  }));
  const rest = terms.slice(REASONS);
  const others = rest.length
    ? `${rest.length} smaller ones are not shown; together ${signed(all(rest))}.` : "";
  $("reasons-notes").textContent = [found.how && `${found.how[0].toUpperCase()}${found.how.slice(1)}.`, others, ...found.notes]
    .filter(Boolean).join(" ");
}

// ----------------------------------------------------------------------- surroundings

const told = (near) =>
  `${near.id}: ${near.label}, ${near.known ? "known" : `predicted with ${percent(near.probability)}`}`;

/** Place each node on the circle of its ring: neighbours by label, others near those that they hang on. */
function layOut(nodes, edges) {
  const places = nodes.map(() => ({ x: 0, y: 0, angle: 0 }));
  const order = [[], [], []];
  nodes.forEach((node, i) => order[node.ring].push(i));
  order[1].sort((a, b) => (nodes[a].label < nodes[b].label ? -1 : nodes[a].label > nodes[b].label ? 1 : a - b));
  const spread = (ring, start) => order[ring].forEach((i, k) => {
    const angle = start + (2 * Math.PI * k) / order[ring].length;
    places[i] = { x: RADII[ring] * Math.cos(angle), y: RADII[ring] * Math.sin(angle), angle };
  });
  spread(1, -Math.PI / 2);
  const pull = nodes.map(() => [0, 0]);
  for (const { source, target } of edges) {
    for (const [a, b] of [[source, target], [target, source]]) {
      if (nodes[a].ring === 2 && nodes[b].ring === 1) {
        pull[a][0] += places[b].x;
        pull[a][1] += places[b].y;
      }
    }
  }
  const wanted = (i) => (Math.atan2(pull[i][1], pull[i][0]) + 2.5 * Math.PI) % (2 * Math.PI);
  order[2].sort((a, b) => wanted(a) - wanted(b) || a - b);
  spread(2, order[2].length ? wanted(order[2][0]) - Math.PI / 2 : 0);
  return { places, order };
}

function showSurroundings(near) {
  const { nodes, edges } = near;
  const { places, order } = layOut(nodes, edges);
  const tip = draw("marker", {
    id: "tip", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto",
    markerUnits: "userSpaceOnUse",
  }, draw("path", { d: "M0 0L6 3L0 6z" }));
  const picture = [draw("defs", {}, tip)];
  for (const ring of [1, 2]) if (order[ring].length) picture.push(draw("circle", { class: "ring", r: RADII[ring] }));
  for (const { source, target, both } of edges) {
    const [a, b] = [places[source], places[target]];
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    const cut = (SIZES[nodes[target].ring] + 3) / length;
    const own = nodes[source].ring === 0 || nodes[target].ring === 0;
    picture.push(draw("line", {
      class: own ? "edge own" : "edge", x1: a.x, y1: a.y, x2: b.x - cut * (b.x - a.x), y2: b.y - cut * (b.y - a.y),
      ...(near.directed && !both ? { "marker-end": "url(#tip)" } : {}),
    }));
  }
  const spots = nodes.map((node, i) => {
    const { x, y } = places[i];
    const size = SIZES[node.ring];
    const steps = ["", ", one step away", ", two steps away"][node.ring];
    const spot = draw("g", {
      class: node.known ? "spot" : "spot hollow", tabindex: i === 0 ? 0 : -1, role: "link",
      "aria-label": told(node) + steps, transform: `translate(${x.toFixed(2)} ${y.toFixed(2)})`,
    }, draw("circle", { class: "halo", r: size + 4 }), draw("circle", { class: "body", r: size - 1.5 }));
    mark(spot, node.label);
    spot.addEventListener("click", () => goOn(node.id));
    spot.addEventListener("mouseenter", () => point(node));
    spot.addEventListener("focus", () => {
      for (const other of spots) other.setAttribute("tabindex", other === spot ? 0 : -1);
      point(node);
    });
    spot.addEventListener("keydown", (event) => move(event, i, nodes, places, order, spots));
    return spot;
  });
  picture.push(...spots);
  if (order[1].length <= NAMED) {
    for (const i of order[1]) {
      const { x, y } = places[i];
      picture.push(draw("text", { x, y: y + (y < 0 ? -14 : 21), "text-anchor": "middle", "aria-hidden": "true" },
        short(nodes[i].id, 14)));
    }
  }
  $("picture").replaceChildren(...picture);
  point(nodes[0]);
  const [one, two] = [order[1].length, order[2].length];
  const around = one ? `${one} one step away, ${two} two steps away` : "it has no neighbour";
  $("near-words").textContent = near.words ? `${around}; ${near.words}.` : `${around}.`;
  const labels = [...new Set(nodes.map((node) => node.label))];
  const known = facts.classes.filter((name) => labels.includes(name));
  const others = labels.filter((name) => !facts.classes.includes(name));
  $("legend").replaceChildren(...[...known, ...others].map((name) => {
    const row = make("li");
    row.append(mark(make("span", name, "dot"), name));
    return row;
  }));
  $("neighbours").replaceChildren(...order[1].map((i) => {
    const row = make("li");
    const link = make("a");
    link.href = nodeLink(nodes[i].id);
    link.append(make("span", nodes[i].id, "id"),
      mark(make("span", nodes[i].label, "dot", ...(nodes[i].known ? [] : ["hollow"])), nodes[i].label));
    link.setAttribute("aria-label", told(nodes[i]));
    row.append(link);
    return row;
  }));
  $("neighbours").previousElementSibling.hidden = one === 0;
}

function point(node) {
  $("pointed").textContent = told(node);
}

function goOn(id) {
  if (id === linked()) return;
  fromPicture = true;
  location.hash = nodeLink(id);
}

/** Go round a circle by left and right, outwards and inwards by up and down, on by Enter. */
function move(event, i, nodes, places, order, spots) {
  const ring = nodes[i].ring;
  const place = order[ring].indexOf(i);
  const nearest = (to) => order[to].reduce((best, j) => {
    const far = (k) => Math.hypot(places[k].x - places[i].x, places[k].y - places[i].y);
    return best === undefined || far(j) < far(best) - 1e-9 ? j : best;
  }, undefined);
  const step = (by) => order[ring][(place + by + order[ring].length) % order[ring].length];
  const to = {
    ArrowRight: () => (ring === 0 ? order[1][0] : step(1)),
    ArrowLeft: () => (ring === 0 ? order[1][order[1].length - 1] : step(-1)),
    ArrowUp: () => (ring < 2 ? (ring === 0 ? order[1][0] : nearest(2)) : undefined),
    ArrowDown: () => (ring > 0 ? nearest(ring - 1) : undefined),
    Home: () => 0,
  }[event.key];
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    goOn(nodes[i].id);
  } else if (to) {
    event.preventDefault();
    const next = to();
    if (next !== undefined) spots[next].focus();
  }
}

// ------------------------------------------------------------------------------ search

let waiting = 0;
let searched = 0;
let active = -1;

function close() {
  $("found").hidden = true;
  $("found").replaceChildren();
  $("q").setAttribute("aria-expanded", "false");
  $("q").removeAttribute("aria-activedescendant");
  $("hint").textContent = "";
  active = -1;
  searched += 1;
  clearTimeout(waiting);
}

function activate(to) {
  const rows = [...$("found").children];
  active = rows.length ? (to + rows.length) % rows.length : -1;
  rows.forEach((row, i) => row.setAttribute("aria-selected", String(i === active)));
  if (active < 0) return;
  $("q").setAttribute("aria-activedescendant", rows[active].id);
  rows[active].scrollIntoView({ block: "nearest" });
}

async function search() {
  const text = $("q").value;
  if (!text) { close(); return []; }
  const turn = ++searched;
  let found;
  try {
    found = await ask(`search?q=${encodeURIComponent(text)}`);
  } catch (failure) {
    if (turn === searched) fail(failure);
    return [];
  }
  if (turn !== searched) return [];
  $("found").replaceChildren(...found.ids.map((id, i) => {
    const row = make("li", id);
    row.id = `found-${i}`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", "false");
    row.addEventListener("mousedown", (event) => event.preventDefault());
    row.addEventListener("click", () => choose(id));
    return row;
  }));
  active = -1;
  $("found").hidden = found.ids.length === 0;
  $("q").setAttribute("aria-expanded", String(found.ids.length > 0));
  const more = found.total > found.ids.length ? `; the first ${found.ids.length} are shown` : "";
  $("hint").textContent = found.total
    ? `${found.total.toLocaleString("en")} found${more}.` : "No id has this in it.";
  return found.ids;
}

function choose(id) {
  close();
  $("q").value = id;
  if (linked() === id) open();
  else location.hash = nodeLink(id);
}

function typed(event) {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (event.key === "ArrowDown") activate(active + 1);
    else activate(active < 0 ? -1 : active - 1);
  } else if (event.key === "Escape") {
    close();
  }
}

async function submitted(event) {
  event.preventDefault();
  const rows = [...$("found").children];
  if (active >= 0) { choose(rows[active].textContent); return; }
  clearTimeout(waiting);
  const text = $("q").value;
  const ids = await search();
  if (ids.length && $("q").value === text) choose(ids[0]);
}

// ------------------------------------------------------------------------------- start

function fail(failure) {
  if (failure.status === 401) { lock(); return; }
  $("failure").textContent = failure.message;
}

function lock() {
  const tried = kept() !== null;
  try { sessionStorage.removeItem("h2gcn-token"); } catch { /* nothing is kept */ }
  $("locked").textContent = tried ? "That is not the token." : "";
  $("look").hidden = $("node").hidden = true;
  $("unlock").hidden = false;
  $("token").focus();
}

async function start() {
  try {
    facts = await ask("model");
  } catch (failure) {
    fail(failure);
    return;
  }
  $("unlock").hidden = true;
  $("look").hidden = false;
  $("graph").textContent = facts.graph;
  const count = (number) => number.toLocaleString("en");
  const test = facts.scores.test_accuracy;
  const right = typeof test === "number" ? ` It was right about ${percent(test)} of the test nodes.` : "";
  $("model").textContent =
    `${count(facts.nodes)} nodes and ${count(facts.edges)} edges; ${facts.model} answers.${right} ` +
    facts.remarks.join(" ");
  $("version").textContent = `h2gcn ${facts.version}`;
  await open();
  if (linked() === null) $("q").focus();
}

window.addEventListener("hashchange", () => { if (facts) open(); });
$("q").addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(search, 120);
});
$("q").addEventListener("keydown", typed);
$("q").addEventListener("blur", () => { $("found").hidden = true; $("q").setAttribute("aria-expanded", "false"); });
$("look").addEventListener("submit", submitted);
$("unlock").addEventListener("submit", (event) => {
  event.preventDefault();
  try { sessionStorage.setItem("h2gcn-token", $("token").value.trim()); } catch { /* asked again each time */ }
  $("token").value = "";
  start();
});
start();
