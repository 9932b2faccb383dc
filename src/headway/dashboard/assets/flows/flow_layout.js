// Places for a graph in layers, from left to right.
//
// 1. An edge that closes a circle (a loop) is drawn backwards and does not count. 2. A node is one layer after the last that it waits for.
// 3. An edge over several layers passes a place in each, so that it crosses no box. 4. The order in a layer follows the mean place of the neighbours, in
// sweeps forth and back. 5. Heights follow the neighbours, too, as far as the boxes beside allow.

export const BOX = { width: 196, height: 60 };
const GAP = { across: 50, along: 18, bend: 14 };
const SWEEPS = 12;
const MARGIN = 12;

// `items` are { id, height }.
export function layout(items, edges) {
  const graph = graphOf(items, edges);
  const layers = layered(graph);
  order(layers);
  heights(layers);
  return placed(graph, layers);
}

function graphOf(items, edges) {
  const nodes = new Map(items.map(({ id, height }) => [id, { id, height, next: [], before: [], layer: 0 }]));
  const known = edges.filter(({ from, to }) => nodes.has(from) && nodes.has(to) && from !== to);
  const back = backEdges(nodes, known);
  for (const edge of known) {
    if (back.has(edge)) continue;
    nodes.get(edge.from).next.push(nodes.get(edge.to));
    nodes.get(edge.to).before.push(nodes.get(edge.from));
  }
  return { nodes, edges: known, back };
}

// Edges to a node that is still being visited, found without recursion: flows may be deep.
function backEdges(nodes, edges) {
  const out = new Map([...nodes.keys()].map((id) => [id, []]));
  for (const edge of edges) out.get(edge.from).push(edge);
  const state = new Map(), back = new Set();
  for (const start of nodes.keys()) {
    const stack = state.has(start) ? [] : [[start, 0]];
    if (stack.length) state.set(start, "open");
    while (stack.length) {
      const top = stack[stack.length - 1];
      const edge = out.get(top[0])[top[1]++];
      if (edge === undefined) { state.set(top[0], "done"); stack.pop(); }
      else if (state.get(edge.to) === "open") back.add(edge);
      else if (!state.has(edge.to)) { state.set(edge.to, "open"); stack.push([edge.to, 0]); }
    }
  }
  return back;
}

function layered({ nodes, edges, back }) {
  const waiting = new Map([...nodes.values()].map((node) => [node, node.before.length]));
  const free = [...nodes.values()].filter((node) => node.before.length === 0);
  while (free.length) {
    const node = free.shift();
    for (const next of node.next) {
      next.layer = Math.max(next.layer, node.layer + 1);
      waiting.set(next, waiting.get(next) - 1);
      if (waiting.get(next) === 0) free.push(next);
    }
  }
  const layers = [];
  const put = (item) => (layers[item.layer] ??= []).push(item);
  for (const node of nodes.values()) put(Object.assign(node, { left: [], right: [] }));
  for (const edge of edges) if (!back.has(edge)) edge.via = bends(nodes.get(edge.from), nodes.get(edge.to), put);
  return layers;
}

function bends(from, to, put) {
  const via = [];
  let last = from;
  const join = (item) => { last.right.push(item); item.left.push(last); last = item; };
  for (let layer = from.layer + 1; layer < to.layer; layer++) {
    const bend = { layer, height: 0, left: [], right: [], bend: true };
    via.push(bend);
    put(bend);
    join(bend);
  }
  join(to);
  return via;
}

function order(layers) {
  layers.forEach((layer) => layer.forEach((item, n) => { item.place = n; }));
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forth = sweep % 2 === 0;
    for (const layer of forth ? layers : [...layers].reverse()) {
      for (const item of layer) {
        const beside = forth ? item.left : item.right;
        item.wish = beside.length ? beside.reduce((sum, one) => sum + one.place, 0) / beside.length : item.place;
      }
      layer.sort((a, b) => a.wish - b.wish || a.place - b.place).forEach((item, n) => { item.place = n; });
    }
  }
}

const gapOf = (above, below) => (above.height + below.height) / 2 + (above.bend && below.bend ? GAP.bend : GAP.along);

function heights(layers) {
  for (const layer of layers) layer.forEach((item, n) => { item.y = n === 0 ? 0 : layer[n - 1].y + gapOf(layer[n - 1], item); });
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const layer of sweep % 2 === 0 ? layers : [...layers].reverse()) settle(layer);
  }
  const top = Math.min(...layers.flat().map((item) => item.y - item.height / 2));
  for (const item of layers.flat()) item.y += MARGIN - top;
}

// Each item moves to the mean of its neighbours; then the distances are kept, half from above and half from below.
function settle(layer) {
  const wishes = layer.map((item) => { const beside = [...item.left, ...item.right]; return beside.length ? beside.reduce((sum, one) => sum + one.y, 0) / beside.length : item.y; });
  const down = [...wishes], up = [...wishes];
  for (let n = 1; n < layer.length; n++) down[n] = Math.max(down[n], down[n - 1] + gapOf(layer[n - 1], layer[n]));
  for (let n = layer.length - 2; n >= 0; n--) up[n] = Math.min(up[n], up[n + 1] - gapOf(layer[n], layer[n + 1]));
  layer.forEach((item, n) => { item.y = (down[n] + up[n]) / 2; });
}

function placed({ nodes, edges, back }, layers) {
  const x = (layer) => MARGIN + layer * (BOX.width + GAP.across);
  const boxes = new Map([...nodes.values()].map((node) => [node.id, { x: x(node.layer), y: node.y - node.height / 2, height: node.height }]));
  const lines = edges.map((edge) => ({ ...edge, back: back.has(edge), points: back.has(edge) ? backwards(boxes, edge) : forwards(boxes, edge, x) }));
  const bottom = Math.max(...layers.flat().map((item) => item.y + item.height / 2));
  return { boxes, lines, width: x(layers.length - 1) + BOX.width + MARGIN, height: bottom + MARGIN + (back.size ? 34 : 0) };
}

function forwards(boxes, { from, to, via }, x) {
  const start = boxes.get(from), end = boxes.get(to);
  const points = [[start.x + BOX.width, start.y + start.height / 2]];
  for (const bend of via) points.push([x(bend.layer), bend.y], [x(bend.layer) + BOX.width, bend.y]);
  points.push([end.x - 7, end.y + end.height / 2]);
  return curve(points);
}

// Below the boxes and back to the left.
function backwards(boxes, { from, to }) {
  const start = boxes.get(from), end = boxes.get(to);
  const low = Math.max(start.y + start.height, end.y + end.height) + 22;
  const x1 = start.x + BOX.width / 2, x2 = end.x + BOX.width / 2;
  return `M${x1},${start.y + start.height}C${x1},${low} ${x1},${low} ${x1 - 30},${low}L${x2 + 30},${low}C${x2},${low} ${x2},${low} ${x2},${end.y + end.height + 7}`;
}

function curve(points) {
  let path = `M${points[0].map(round).join()}`;
  for (let n = 1; n < points.length; n++) {
    const [x1, y1] = points[n - 1], [x2, y2] = points[n], middle = (x1 + x2) / 2;
    path += y1 === y2 ? `L${round(x2)},${round(y2)}` : `C${round(middle)},${round(y1)} ${round(middle)},${round(y2)} ${round(x2)},${round(y2)}`;
  }
  return path;
}

const round = (value) => Math.round(value * 10) / 10;
