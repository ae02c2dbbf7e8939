"use strict";

// Data ----------------------------------------------------------------

const data = JSON.parse(document.getElementById("data").textContent);
const size = data.tokens.length;
const root = document.documentElement;

function decode(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const values = new Float64Array(bytes.length / 2);
  for (let i = 0; i < values.length; i++) {
    values[i] = view.getUint16(2 * i, true) / data.scale;
  }
  return values;
}

const heads = data.attention.map((text) => {
  const all = decode(text);
  return Array.from({ length: data.heads }, (_, head) =>
    all.subarray(head * size * size, (head + 1) * size * size));
});
const means = heads.map((layer) => {
  const mean = new Float64Array(size * size);
  for (const values of layer) {
    for (let i = 0; i < mean.length; i++) mean[i] += values[i] / data.heads;
  }
  return mean;
});

// What is shown: the row of the layer, the head, and the piece looked at
// ("left" looks from it, "right" looks at who attends to it).
const state = {
  row: Math.max(0, data.layers.indexOf(data.layer)),
  head: data.head,
  mean: false,
  floor: 0.02,
  piece: null,
  side: "left",
  held: false,
};

const element = (id) => document.getElementById(id);
const current = () =>
  state.mean ? means[state.row] : heads[state.row][state.head];
const headName = () =>
  `layer ${data.layers[state.row]}, ` +
  (state.mean ? "mean of heads" : `head ${state.head}`);
const digits = (value) => value.toFixed(3);

function groupOf(position) {
  if (!data.mask[position]) return "padding";
  return data.segments[position] ? "second" : "first";
}

// Lines between two columns ------------------------------------------

const svg = element("lines");
const namespace = "http://www.w3.org/2000/svg";
const rowHeight = size > 64 ? 18 : 22;
const top0 = 26;
const gap = 210;
const numberWidth = 42;

function add(parent, name, attributes, text) {
  const node = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) {
    node.setAttribute(key, value);
  }
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

const shorten = (token) =>
  [...token].length > 24 ? [...token].slice(0, 23).join("") + "…" : token;

function columnWidth() {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `600 13px ${getComputedStyle(document.body).fontFamily}`;
  const widths = data.tokens.map((t) => context.measureText(shorten(t)).width);
  return Math.ceil(Math.max(44, ...widths)) + 16;
}

const width = columnWidth();
const columns = {
  left: { x: numberWidth, edge: numberWidth + width },
  right: { x: numberWidth + width + gap, edge: numberWidth + width + gap },
};
const middle = (position) => top0 + (position + 0.5) * rowHeight;
const pieces = { left: [], right: [] };
const numbers = { left: [], right: [] };
let lineGroup;

function createLines() {
  const totalWidth = 2 * (width + numberWidth) + gap;
  const totalHeight = top0 + size * rowHeight + 4;
  svg.setAttribute("width", totalWidth);
  svg.setAttribute("height", totalHeight);
  svg.setAttribute("viewBox", `0 0 ${totalWidth} ${totalHeight}`);
  lineGroup = add(svg, "g", {});
  for (const [side, { x }] of Object.entries(columns)) {
    const isLeft = side === "left";
    add(svg, "text", {
      class: "heading", y: 15, x: x + width / 2, "text-anchor": "middle",
    }, isLeft ? "from" : "to");
    data.tokens.forEach((token, position) => {
      const special = /^\[[A-Z]+\]$/.test(token) ? " special" : "";
      const masked = token === "[MASK]" ? " masked" : "";
      const group = add(svg, "g", {
        class: `piece ${groupOf(position)}${masked}`,
      });
      add(group, "title", {}, `${position}: ${token}`);
      add(group, "rect", {
        x, y: middle(position) - rowHeight / 2 + 1.5, width,
        height: rowHeight - 3, rx: 4,
      });
      add(group, "text", {
        class: special, x: isLeft ? x + width - 8 : x + 8,
        y: middle(position) + 4.5, "text-anchor": isLeft ? "end" : "start",
      }, shorten(token));
      group.addEventListener("pointerenter", () => hover(side, position));
      group.addEventListener("pointerleave", () => hover(side, null));
      group.addEventListener("click", () => hold(side, position));
      pieces[side].push(group);
      numbers[side].push(add(svg, "text", {
        class: "number", y: middle(position) + 4,
        x: isLeft ? x - 5 : x + width + 5,
        "text-anchor": isLeft ? "end" : "start",
      }));
    });
  }
}

function drawLines() {
  const values = current();
  const nodes = [];
  for (let from = 0; from < size; from++) {
    if (state.piece !== null && state.side === "left" && from !== state.piece) {
      continue;
    }
    for (let to = 0; to < size; to++) {
      const value = values[from * size + to];
      const other = state.piece !== null && state.side === "right";
      if (value < state.floor || value <= 0 || (other && to !== state.piece)) {
        continue;
      }
      const line = document.createElementNS(namespace, "line");
      line.setAttribute("class", groupOf(from));
      line.setAttribute("x1", columns.left.edge + 2);
      line.setAttribute("x2", columns.right.edge - 2);
      line.setAttribute("y1", middle(from));
      line.setAttribute("y2", middle(to));
      // One piece's lines are few enough to show small values better.
      const strength = state.piece === null ? value : Math.sqrt(value);
      line.setAttribute("opacity", Math.min(1, strength + 0.04).toFixed(3));
      line.setAttribute("stroke-width", (1.2 + 2.4 * value).toFixed(2));
      nodes.push(line);
    }
  }
  lineGroup.replaceChildren(...nodes);
  for (const side of ["left", "right"]) {
    for (let i = 0; i < size; i++) {
      const isChosen = state.piece === i && state.side === side;
      pieces[side][i].classList.toggle("chosen", isChosen);
      numbers[side][i].textContent =
        state.piece !== null && state.side !== side
          ? digits(valueBeside(values, i)) : "";
    }
  }
  svg.setAttribute("aria-label", `Attention as lines, ${headName()}`);
  return nodes.length;
}

const valueBeside = (values, i) =>
  state.side === "left"
    ? values[state.piece * size + i]
    : values[i * size + state.piece];

// Heat maps -----------------------------------------------------------

function palette() {
  const style = getComputedStyle(root);
  const read = (name) =>
    style.getPropertyValue(name).trim().split(/\s+/).map(Number);
  return [read("--low"), read("--high")];
}

function paint(canvas, values, [low, high]) {
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  for (let i = 0; i < values.length; i++) {
    const share = Math.sqrt(values[i]);
    for (let c = 0; c < 3; c++) {
      image.data[4 * i + c] = low[c] + share * (high[c] - low[c]);
    }
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

const overview = element("overview");
const cells = [];

function createOverview() {
  const edge = data.heads > 12 ? 38 : data.heads > 6 ? 50 : 84;
  overview.style.setProperty("--cell", `${edge}px`);
  overview.style.setProperty(
    "--rendering", size < edge ? "pixelated" : "auto");
  overview.style.gridTemplateColumns = `auto repeat(${data.heads}, auto)`;
  const label = (text) => {
    const span = document.createElement("span");
    span.textContent = text;
    overview.append(span);
  };
  label("");
  for (let head = 0; head < data.heads; head++) label(head);
  heads.forEach((layer, row) => {
    label(data.layers[row]);
    cells.push(layer.map((_, head) => {
      const button = document.createElement("button");
      const name = `layer ${data.layers[row]}, head ${head}`;
      button.title = name;
      button.setAttribute("aria-label", name);
      button.append(document.createElement("canvas"));
      button.addEventListener("click", () =>
        change({ row, head, mean: false }));
      overview.append(button);
      return button;
    }));
  });
}

function drawOverview() {
  const colours = palette();
  cells.forEach((buttons, row) => buttons.forEach((button, head) =>
    paint(button.firstChild, heads[row][head], colours)));
}

function markOverview() {
  cells.forEach((buttons, row) => buttons.forEach((button, head) => {
    const isChosen = row === state.row && (state.mean || head === state.head);
    button.setAttribute("aria-pressed", isChosen);
    // One stop for the tab key; the arrows move inside.
    button.tabIndex = row === state.row && head === state.head ? 0 : -1;
  }));
}

const map = element("map");

function drawMap() {
  paint(map, current(), palette());
  const edge = size * Math.max(3, Math.min(18, Math.floor(440 / size)));
  map.style.width = `${edge}px`;
  element("map-title").textContent =
    headName().replace(/^l/, "L");
  map.setAttribute("aria-label", `Attention as a table, ${headName()}`);
}

map.addEventListener("pointermove", (event) => {
  const box = map.getBoundingClientRect();
  const at = (offset, length) =>
    Math.max(0, Math.min(size - 1, Math.floor(offset / length * size)));
  const from = at(event.clientY - box.top, box.height);
  const to = at(event.clientX - box.left, box.width);
  readout([[from, to, current()[from * size + to]]]);
});
map.addEventListener("pointerleave", describe);

// Words for what is shown ----------------------------------------------

function node(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function readout(entries) {
  const parts = [];
  for (const [from, to, value] of entries) {
    parts.push(node("b", data.tokens[from]), " → ",
      node("b", data.tokens[to]), " ", node("span", digits(value), "value"));
  }
  element("readout").replaceChildren(...parts);
}

function describe() {
  const values = current();
  if (state.piece === null) {
    element("readout").textContent =
      "Point at a piece, or at the table, for values.";
    return;
  }
  const entries = data.tokens.map((_, i) => {
    const value = valueBeside(values, i);
    return state.side === "left"
      ? [state.piece, i, value] : [i, state.piece, value];
  });
  entries.sort((a, b) => b[2] - a[2]);
  readout(entries.slice(0, 6));
}

// Changes ---------------------------------------------------------------

function change(changes) {
  Object.assign(state, changes);
  element("layer").value = state.row;
  element("head").value = state.head;
  element("head").disabled = state.mean;
  element("mean").checked = state.mean;
  element("floor").value = state.floor;
  element("floor-value").textContent = Number(state.floor).toFixed(2);
  const count = drawLines();
  drawMap();
  markOverview();
  describe();
  const where = new URLSearchParams({
    layer: data.layers[state.row], head: state.head,
  });
  if (state.mean) where.set("mean", 1);
  if (state.held) {
    where.set("piece", state.piece);
    where.set("side", state.side);
  }
  try {
    history.replaceState(null, "", `#${where}`);
  } catch {
    // Some viewers forbid it; the page works without an address.
  }
  root.dataset.shown = `${headName()}, ${count} lines`;
}

function hover(side, position) {
  if (state.held) return;
  Object.assign(state, { side, piece: position });
  root.dataset.shown = `${headName()}, ${drawLines()} lines`;
  describe();
}

function hold(side, position) {
  const again = state.held && state.side === side && state.piece === position;
  change(again ? { held: false, piece: null }
    : { held: true, side, piece: position });
}

function step(value, by, count) {
  return (value + by + count) % count;
}

function stepPiece(by) {
  const start = state.piece === null ? (by > 0 ? -1 : 0) : state.piece;
  change({ held: true, piece: step(start, by, size) });
}

const keys = {
  ArrowLeft: () => change({ head: step(state.head, -1, data.heads), mean: false }),
  ArrowRight: () => change({ head: step(state.head, 1, data.heads), mean: false }),
  ArrowUp: () => change({ row: step(state.row, -1, heads.length) }),
  ArrowDown: () => change({ row: step(state.row, 1, heads.length) }),
  j: () => stepPiece(1),
  k: () => stepPiece(-1),
  s: () => change({ side: state.side === "left" ? "right" : "left" }),
  m: () => change({ mean: !state.mean }),
  Escape: () => change({ held: false, piece: null }),
};

document.addEventListener("keydown", (event) => {
  const isField = event.target.closest?.("select, input");
  if (isField || event.ctrlKey || event.metaKey || event.altKey) return;
  const action = keys[event.key];
  if (!action) return;
  event.preventDefault();
  const wasInside = overview.contains(document.activeElement);
  action();
  if (wasInside) cells[state.row][state.head].focus();
});

function readAddress() {
  const where = new URLSearchParams(location.hash.slice(1));
  const within = (name, count) => {
    const value = Number(where.get(name));
    return where.has(name) && Number.isInteger(value)
      && value >= 0 && value < count ? value : null;
  };
  const row = data.layers.indexOf(Number(where.get("layer") ?? NaN));
  const piece = within("piece", size);
  return {
    row: row < 0 ? state.row : row,
    head: within("head", data.heads) ?? state.head,
    mean: where.get("mean") === "1",
    held: piece !== null,
    piece,
    side: where.get("side") === "right" ? "right" : "left",
  };
}

function createControls() {
  const fill = (select, labels) => labels.forEach((label, i) =>
    select.append(new Option(label, i)));
  fill(element("layer"), data.layers);
  fill(element("head"), Array.from({ length: data.heads }, (_, i) => i));
  const listen = (id, read) => element(id).addEventListener("input",
    (event) => change(read(event.target)));
  listen("layer", (x) => ({ row: Number(x.value) }));
  listen("head", (x) => ({ head: Number(x.value), mean: false }));
  listen("mean", (x) => ({ mean: x.checked }));
  listen("floor", (x) => ({ floor: Number(x.value) }));
  const entries = [["first", "first text", data.mask.some((x, i) =>
    groupOf(i) === "first")]];
  entries.push(["second", "second text", data.segments.includes(1)]);
  entries.push(["masked", "[MASK]", data.tokens.includes("[MASK]")]);
  entries.push(["padding", "padding, masked out", data.mask.includes(0)]);
  for (const [className, text, isThere] of entries) {
    if (isThere) element("legend").append(node("li", text, className));
  }
}

createControls();
createLines();
createOverview();
drawOverview();
change(readAddress());
window.addEventListener("hashchange", () => change(readAddress()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  drawOverview();
  drawMap();
});
root.dataset.ready = "true";
