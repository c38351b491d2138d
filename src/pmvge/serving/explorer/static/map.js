// The map: points, camera, picking and lasso. d3-zoom turns wheel, drag and pinch into a camera.

import { KDBush, select, zoom, zoomIdentity } from "./vendor.js";
import { Points } from "./gl.js";
import { drawMarks } from "./marks.js";

const FIT = 0.92; // share of the stage that the map takes
const REACH = 14; // pixels around the pointer in which a point is found
const MANY = 200_000; // points; with more, a sample is drawn while the camera moves
const SAMPLE = 60_000;
const VERTICES = 48; // of a lasso in the address bar
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export class Space {
  // `on` has the callbacks pick(point), hover(point, x, y), camera(text) and lasso(vertices).
  constructor({ stage, points, marks, on }) {
    Object.assign(this, { stage, marks, on, n: 0, xy: new Float32Array(), extent: [1, 1], hidden: new Set(), lassoing: false });
    this.drawn = new Points(points);
    this.shown = { lines: [], labels: [], rings: [], polygon: null };
    this.transform = zoomIdentity;
    this.zoom = zoom().scaleExtent([0.3, 5000])
      .filter((event) => !this.lassoing && !event.shiftKey && !event.button && (!event.ctrlKey || event.type === "wheel"))
      .on("zoom", ({ transform, sourceEvent }) => this.moved(transform, Boolean(sourceEvent)));
    this.target = select(marks).call(this.zoom).on("dblclick.zoom", null);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(stage);
    this.resize();
  }

  // -- data --------------------------------------------------------------------------------------

  // Set coordinates (x, y, x, y, ...) of all points, and the number of points of each view.
  set(xy, sizes) {
    const box = bounds(xy);
    const width = Math.max(box[2] - box[0], box[3] - box[1]) || 1;
    const [x, y] = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
    this.place = ([a, b]) => [(2 * (a - x)) / width, (-2 * (b - y)) / width]; // into [-1, 1], y down
    this.extent = [(box[2] - box[0]) / width || 1, (box[3] - box[1]) / width || 1];
    this.n = xy.length / 2;
    this.xy = new Float32Array(xy.length);
    for (let at = 0; at < xy.length; at += 2) {
      this.xy[at] = (2 * (xy[at] - x)) / width;
      this.xy[at + 1] = (-2 * (xy[at + 1] - y)) / width;
    }
    this.views = new Uint8Array(this.n);
    this.offsets = [];
    let start = 0;
    sizes.forEach((size, view) => {
      this.offsets.push(start);
      this.views.fill(Math.min(view, 255), start, start + size);
      start += size;
    });
    this.sizes = sizes;
    const largest = Math.max(...sizes);
    this.factors = sizes.map((size) => Math.min(2.4, (largest / size) ** 0.16));
    this.drawn.set(this.xy, this.views, ...drawingOrder(sizes, this.offsets));
    this.tree = null;
    this.hide(this.hidden);
  }

  clear() {
    this.set(new Float32Array(), []);
  }

  color(codes, palette) {
    this.drawn.color(codes, palette);
    this.draw();
  }

  hide(views) {
    this.hidden = views;
    if (this.factors) this.drawn.describe(this.factors, views);
    this.draw();
  }

  // Dim all points outside a lasso; return the positions of those inside, or null without one.
  choose(vertices) {
    this.shown.polygon = vertices;
    if (!vertices) {
      this.drawn.choose(null);
      this.draw();
      return null;
    }
    const chosen = new Uint8Array(this.n);
    const inside = [];
    const box = bounds(vertices.flat());
    for (let at = 0; at < this.n; at++) {
      const [x, y] = [this.xy[2 * at], this.xy[2 * at + 1]];
      if (x < box[0] || x > box[2] || y < box[1] || y > box[3] || this.hidden.has(this.views[at])) continue;
      if (contains(vertices, x, y)) {
        chosen[at] = 1;
        inside.push(at);
      }
    }
    this.drawn.choose(chosen);
    this.draw();
    return inside;
  }

  // Mark points: lines, rings and labels, see marks.js.
  mark({ lines = [], labels = [], rings = [] }) {
    Object.assign(this.shown, { lines, labels, rings });
    this.draw({ points: false });
  }

  point(view, at) {
    return this.offsets[view] + at;
  }

  position(point) {
    const view = this.views[point];
    return [view, point - this.offsets[view]];
  }

  at(point) {
    return [this.xy[2 * point], this.xy[2 * point + 1]];
  }

  // -- camera ------------------------------------------------------------------------------------

  get unit() {
    const [width, height] = this.extent;
    return (Math.min(this.width / Math.max(width, 0.2), this.height / Math.max(height, 0.2)) / 2) * FIT;
  }

  screen([x, y]) {
    const { k, x: left, y: top } = this.transform;
    return [k * (this.width / 2 + this.unit * x) + left, k * (this.height / 2 + this.unit * y) + top];
  }

  world(left, top) {
    const [x, y] = this.transform.invert([left, top]);
    return [(x - this.width / 2) / this.unit, (y - this.height / 2) / this.unit];
  }

  get camera() {
    return [...this.world(this.width / 2, this.height / 2), this.transform.k];
  }

  cameraText() {
    const [x, y, k] = this.camera;
    const same = Math.abs(x) < 1e-3 && Math.abs(y) < 1e-3 && Math.abs(k - 1) < 1e-3;
    return same ? null : [x, y, k].map((value) => Number(value.toPrecision(5))).join(",");
  }

  look([x, y, k], { smooth = false } = {}) {
    const to = zoomIdentity.translate(this.width / 2, this.height / 2).scale(k)
      .translate(-(this.width / 2 + this.unit * x), -(this.height / 2 + this.unit * y));
    if (smooth && !still()) this.target.transition().duration(350).call(this.zoom.transform, to);
    else this.target.call(this.zoom.transform, to);
  }

  // Show a text of `cameraText`; null shows the whole map.
  lookAt(text, options) {
    const parts = (text ?? "0,0,1").split(",").map(Number);
    if (parts.length === 3 && parts.every(Number.isFinite) && parts[2] > 0) this.look(parts, options);
  }

  // Move so that a place is in the middle part of the stage, if it is not.
  reveal(place) {
    const [left, top] = this.screen(place);
    const margin = 40;
    if (left > margin && top > margin && left < this.width - margin && top < this.height - margin) return;
    this.look([...place, this.transform.k], { smooth: true });
  }

  zoomBy(factor) {
    const [x, y, k] = this.camera;
    this.look([x, y, k * factor], { smooth: true });
    this.tellCamera();
  }

  zoomToAll() {
    this.look([0, 0, 1], { smooth: true });
    this.tellCamera();
  }

  moved(transform, byUser) {
    this.transform = transform;
    this.moving = true;
    this.draw();
    this.untold ||= byUser; // a resize soon after a gesture must not cancel its report
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.moving = false;
      this.draw();
      if (this.untold) this.on.camera(this.cameraText());
      this.untold = false;
    }, 160);
  }

  // Write the camera into the address when keys and buttons rest.
  tellCamera() {
    clearTimeout(this.telling);
    this.telling = setTimeout(() => this.on.camera(this.cameraText()), still() ? 0 : 500);
  }

  resize() {
    const before = this.width ? this.camera : null;
    this.width = this.stage.clientWidth || 1;
    this.height = this.stage.clientHeight || 1;
    this.ratio = Math.min(devicePixelRatio || 1, 2);
    for (const canvas of [this.drawn.canvas, this.marks]) {
      canvas.width = Math.round(this.width * this.ratio);
      canvas.height = Math.round(this.height * this.ratio);
    }
    this.zoom.extent([[0, 0], [this.width, this.height]]);
    if (before) this.look(before);
    this.draw();
  }

  // -- drawing -----------------------------------------------------------------------------------

  // Draw at the next frame. Marks lie on a canvas of their own: they need no new drawing of points.
  draw({ points = true } = {}) {
    this.outdated ||= points;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.outdated) this.drawPoints();
      this.outdated = false;
      drawMarks(this);
    });
  }

  drawPoints() {
    const { k, x, y } = this.transform;
    const unit = k * this.unit;
    const few = this.moving && this.n > MANY;
    this.drawn.draw({
      scale: [(2 * unit) / this.width, (-2 * unit) / this.height],
      offset: [(k * this.width + 2 * x) / this.width - 1, 1 - (k * this.height + 2 * y) / this.height],
      size: this.pointSize() * this.ratio,
      limit: few ? SAMPLE : Infinity,
    });
    this.stage.dataset.drawn = few ? "part" : "all";
  }

  pointSize() {
    const size = Math.max(1.6, 11.5 - 1.75 * Math.log10(Math.max(10, this.n)));
    return Math.min(16, size * Math.max(1, this.transform.k) ** 0.3 * (this.width < 500 ? 0.8 : 1));
  }

  // -- pointer and keys --------------------------------------------------------------------------

  // Return the point next to a place on the stage, or null.
  find(left, top) {
    if (!this.n) return null;
    this.tree ??= index(this.xy);
    const [x, y] = this.world(left, top);
    const reach = REACH / (this.unit * this.transform.k);
    let [best, least] = [null, Infinity];
    for (const at of this.tree.within(x, y, reach)) {
      if (this.hidden.has(this.views[at])) continue;
      const distance = Math.hypot(this.xy[2 * at] - x, this.xy[2 * at + 1] - y) / this.factors[this.views[at]];
      if (distance < least || (distance === least && at < best)) [best, least] = [at, distance];
    }
    return best;
  }

  listen() {
    const { marks } = this;
    const place = (event) => {
      const box = marks.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    marks.addEventListener("click", (event) => {
      if (this.lassoing || event.shiftKey || this.lassoed) return;
      const point = this.find(...place(event));
      if (point !== null) this.on.pick(point);
    });
    let hovering = null;
    marks.addEventListener("pointermove", (event) => {
      if (event.pointerType === "touch" || event.buttons) return;
      hovering ??= requestAnimationFrame(() => {
        hovering = null;
        const at = place(event);
        const point = this.find(...at);
        marks.classList.toggle("on-point", point !== null && !this.lassoing);
        this.on.hover(point, ...at);
      });
    });
    marks.addEventListener("pointerleave", () => this.on.hover(null));
    let path = null;
    marks.addEventListener("pointerdown", (event) => {
      if (!(this.lassoing || event.shiftKey) || event.button) return;
      marks.setPointerCapture(event.pointerId);
      path = [place(event)];
    });
    marks.addEventListener("pointermove", (event) => {
      if (!path) return;
      const at = place(event);
      if (Math.hypot(at[0] - path.at(-1)[0], at[1] - path.at(-1)[1]) < 3) return;
      path.push(at);
      this.shown.polygon = path.map(([left, top]) => this.world(left, top));
      this.draw({ points: false });
    });
    marks.addEventListener("pointerup", () => {
      if (!path) return;
      const vertices = path.length < 3 ? null : thin(path).map(([left, top]) => this.world(left, top));
      path = null;
      this.lassoed = true; // the click that follows picks no point
      setTimeout(() => { this.lassoed = false; }, 0);
      if (!vertices) this.shown.polygon = null;
      this.on.lasso(vertices);
    });
    marks.addEventListener("keydown", (event) => {
      const step = 60 / (this.unit * this.transform.k);
      const [x, y, k] = this.camera;
      const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
      if (event.key in moves) this.look([x + moves[event.key][0], y + moves[event.key][1], k]);
      else if (event.key === "+" || event.key === "=") this.look([x, y, k * 1.4]);
      else if (event.key === "-") this.look([x, y, k / 1.4]);
      else if (event.key === "0") this.look([0, 0, 1]);
      else return;
      event.preventDefault();
      this.tellCamera();
    });
  }
}

// Return the points in random order, those of small views last, and the number of the others.
function drawingOrder(sizes, offsets) {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const order = new Uint32Array(total);
  const small = sizes.map((size) => size < total / 20);
  let at = 0;
  for (const last of [false, true]) {
    sizes.forEach((size, view) => {
      for (let i = 0; small[view] === last && i < size; i++) order[at++] = offsets[view] + i;
    });
  }
  const front = sizes.reduce((sum, size, view) => sum + (small[view] ? 0 : size), 0);
  let seed = 1; // the same order each time
  for (let i = front - 1; i > 0; i--) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    const j = seed % (i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return [order, front];
}

function index(xy) {
  const tree = new KDBush(xy.length / 2, 64, Float32Array);
  for (let at = 0; at < xy.length; at += 2) tree.add(xy[at], xy[at + 1]);
  return tree.finish();
}

// Return [least x, least y, largest x, largest y].
function bounds(xy) {
  const box = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = 0; at < xy.length; at += 2) {
    box[0] = Math.min(box[0], xy[at]);
    box[1] = Math.min(box[1], xy[at + 1]);
    box[2] = Math.max(box[2], xy[at]);
    box[3] = Math.max(box[3], xy[at + 1]);
  }
  return xy.length ? box : [0, 0, 0, 0];
}

function contains(vertices, x, y) {
  let inside = false;
  for (let i = 0, j = vertices.length - 1; i < vertices.length; j = i++) {
    const [[ax, ay], [bx, by]] = [vertices[i], vertices[j]];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

function thin(path) {
  const step = Math.max(1, path.length / VERTICES);
  return Array.from({ length: Math.floor(path.length / step) }, (_, at) => path[Math.floor(at * step)]);
}
