/** Draws the map on a canvas: dots, names of groups, titles when one is close, and the answers to a question on top. */

const MARGIN = 28, REACH = 14, COLOURS = 8;
const MAX_TITLES = 30, TITLE_ZOOM = 2.5, NARROW = 520;

/** The part of the map that is seen: `zoom` times as large, moved by `x` and `y` pixels. */
export const WHOLE = Object.freeze({ zoom: 1, x: 0, y: 0 });

/** Return the function from places on the map to pixels of a box. */
export function projector({ width, height }, view) {
  const wide = Math.max(1, width - 2 * MARGIN), high = Math.max(1, height - 2 * MARGIN);
  return (x, y) => [width / 2 + view.x + (x - 0.5) * wide * view.zoom, height / 2 + view.y + (y - 0.5) * high * view.zoom];
}

/** Change the zoom and keep what is at a pixel where it is. */
export function zoomAt(view, { width, height }, factor, px = width / 2, py = height / 2) {
  const zoom = Math.min(20, Math.max(1, view.zoom * factor)), change = zoom / view.zoom;
  const moved = { zoom, x: (view.x - (px - width / 2)) * change + (px - width / 2), y: (view.y - (py - height / 2)) * change + (py - height / 2) };
  return hold(moved, { width, height });
}

/** Keep the map in its box. */
export function hold(view, { width, height }) {
  const x = (width * (view.zoom - 1)) / 2, y = (height * (view.zoom - 1)) / 2;
  return { zoom: view.zoom, x: Math.min(x, Math.max(-x, view.x)), y: Math.min(y, Math.max(-y, view.y)) };
}

/** Return the number of the point nearest to a pixel, or -1 if none is near. */
export function nearest(points, place, px, py) {
  let best = -1, least = REACH * REACH;
  points.forEach(([, , x, y], number) => {
    const [left, top] = place(x, y), apart = (left - px) ** 2 + (top - py) ** 2;
    if (apart < least) { least = apart; best = number; }
  });
  return best;
}

/** Return the group that lies nearest in a direction from another one, or -1. */
export function nextCluster(clusters, from, [right, down]) {
  const here = clusters[from];
  let best = -1, least = Infinity;
  clusters.forEach((there, number) => {
    if (number === from || !there.count) return;
    const dx = there.x - here.x, dy = there.y - here.y, along = dx * right + dy * down, across = Math.abs(dx * down) + Math.abs(dy * right);
    if (along > 0 && along + 2 * across < least) { least = along + 2 * across; best = number; }
  });
  return best;
}

/** Return the numbers of the points of hits, with the passages that were joined to one, and how many hits have none. */
export function findLit(map, hits) {
  const places = new Map(map.points.map(([document, chunk], at) => [`${map.documents[document].uid}/${chunk}`, at]));
  const found = hits.map(({ document_uid: uid, chunk_indexes: [first, last] }) => {
    const points = [];
    for (let chunk = first; chunk <= last; chunk++) if (places.has(`${uid}/${chunk}`)) points.push(places.get(`${uid}/${chunk}`));
    return points;
  });
  return { numbers: new Set(found.flat()), hits: found.filter((points) => points.length).length, missing: found.filter((points) => !points.length).length };
}

/** Return the documents of a group, each with the passage that lies nearest to the middle; most passages first. */
export function listDocuments(map, group) {
  const { x, y } = map.clusters[group], found = new Map();
  for (const [document, chunk, left, top, cluster] of map.points) {
    if (cluster !== group) continue;
    const apart = Math.hypot(left - x, top - y), known = found.get(document) ?? { document, chunk, count: 0, least: apart };
    found.set(document, { ...known, count: known.count + 1, ...(apart < known.least && { chunk, least: apart }) });
  }
  return [...found.values()].sort((one, other) => other.count - one.count);
}

/** The colour of a collection by its place: eight colours, then grey. */
export const colourOf = (collection) => (collection < COLOURS ? `dot-${collection}` : "dot-rest");

/** Colours as the browser resolves them: a canvas knows neither custom properties nor `light-dark`. */
function readColours(canvas) {
  const styles = (name) => getComputedStyle(canvas.parentElement.querySelector(`.palette .${name}`)).backgroundColor;
  const names = [...Array(COLOURS).keys()].map((number) => `dot-${number}`);
  return Object.fromEntries([...names, "dot-rest", "ink", "surface", "mark-edge", "ink-3"].map((name) => [name, styles(name)]));
}

/** Draw everything. `lit` has the numbers of the answers, or is null without a question. */
export function draw(canvas, { map, view, lit, cluster, hover, names }) {
  const box = { width: canvas.clientWidth, height: canvas.clientHeight }, scale = devicePixelRatio || 1;
  if (!box.width || !box.height) return;
  if (canvas.width !== Math.round(box.width * scale) || canvas.height !== Math.round(box.height * scale)) {
    canvas.width = Math.round(box.width * scale);
    canvas.height = Math.round(box.height * scale);
  }
  const pen = canvas.getContext("2d"), colours = readColours(canvas), place = projector(box, view);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, box.width, box.height);
  const radius = Math.min(6, (map.points.length > 1500 ? 2 : map.points.length > 300 ? 2.8 : 3.8) * Math.sqrt(view.zoom));
  const dot = (number, size, colour, alpha) => {
    const [document, , x, y] = map.points[number], [left, top] = place(x, y);
    pen.globalAlpha = alpha;
    pen.fillStyle = colour ?? colours[colourOf(map.documents[document].collection)];
    pen.beginPath();
    pen.arc(left, top, size, 0, 2 * Math.PI);
    pen.fill();
  };
  const chosen = (number) => cluster === null || map.points[number][4] === cluster;
  map.points.forEach((_, number) => { if (!lit?.has(number)) dot(number, radius, null, lit ? 0.3 : chosen(number) ? 0.62 : 0.14); });
  drawNames(pen, box, place, colours, { map, view, cluster, names, lit });
  for (const number of lit ?? []) { dot(number, radius + 4, colours["mark-edge"], 0.95); dot(number, radius + 1.2, null, 1); }
  if (hover >= 0) { dot(hover, radius + 3.5, colours.ink, 0.9); dot(hover, radius + 1.5, null, 1); }
  pen.globalAlpha = 1;
}

/** Names of groups, largest first, then titles of documents when one is close; a name that would lie on another is left out. */
function drawNames(pen, box, place, colours, { map, view, cluster, names, lit }) {
  const taken = [];
  const style = getComputedStyle(document.body).fontFamily;
  const write = (text, x, y, size, weight, alpha) => {
    pen.font = `${weight} ${size}px ${style}`;
    const wide = pen.measureText(text).width, [left, top] = place(x, y);
    const rect = [Math.min(box.width - wide - 6, Math.max(6, left - wide / 2)), top - size, wide, size * 1.5];
    if (top < size || top > box.height - 4 || left < 0 || left > box.width) return;
    if (taken.some((other) => rect[0] < other[0] + other[2] + 8 && other[0] < rect[0] + rect[2] + 8 && rect[1] < other[1] + other[3] + 2 && other[1] < rect[1] + rect[3] + 2)) return;
    taken.push(rect);
    pen.globalAlpha = alpha;
    pen.lineJoin = "round";
    pen.lineWidth = 4;
    pen.strokeStyle = colours.surface;
    pen.strokeText(text, rect[0], top);
    pen.fillStyle = colours.ink;
    pen.fillText(text, rect[0], top);
  };
  const order = map.clusters.map((_, number) => number).sort((one, other) => (other === cluster) - (one === cluster) || map.clusters[other].count - map.clusters[one].count);
  for (const number of order) {
    const { x, y, count } = map.clusters[number];
    const name = box.width < NARROW ? names[number].split(" · ")[0] : names[number];
    if (count) write(name, x, y, number === cluster ? 14 : 12.5, number === cluster ? 650 : 550, lit || (cluster !== null && number !== cluster) ? 0.55 : 1);
  }
  if (view.zoom >= TITLE_ZOOM) titlesInView(map, place, box).forEach(([text, x, y]) => write(text, x, y, 11.5, 400, 0.85));
}

/** The documents with the most passages in view, each at the middle one of them. */
function titlesInView(map, place, { width, height }) {
  const seen = new Map();
  for (const [document, , x, y] of map.points) {
    const [left, top] = place(x, y);
    if (left > 0 && left < width && top > 0 && top < height) (seen.get(document) ?? seen.set(document, []).get(document)).push([x, y]);
  }
  return [...seen].sort((one, other) => other[1].length - one[1].length).slice(0, MAX_TITLES).map(([document, places]) => {
    const [x, y] = places[places.length >> 1], { title } = map.documents[document];
    return [title.length > 32 ? `${title.slice(0, 31)}…` : title, x, y];
  });
}
