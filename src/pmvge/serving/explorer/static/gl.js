// Draw points with WebGL: one call for all of them. Colours and hidden views are a small texture.

const VERTEX = `#version 300 es
in vec2 place;
in uint code;
in uint view;
in uint chosen;
uniform vec2 scale, offset;
uniform float size;
uniform bool dimmed;
uniform sampler2D table; // row 0: colours of codes; row 1: of views, the size factor and visibility
out vec4 color;
flat out uint shape;
flat out float width;
void main() {
  vec4 facts = texelFetch(table, ivec2(view, 1), 0);
  color = texelFetch(table, ivec2(code, 0), 0);
  if (dimmed && chosen == 0u) color.a *= 0.12;
  shape = view % 4u;
  gl_Position = facts.g > 0.0 ? vec4(place * scale + offset, 0.0, 1.0) : vec4(2.0, 2.0, 2.0, 1.0);
  width = size * facts.r * 4.0;
  gl_PointSize = width;
}`;

const FRAGMENT = `#version 300 es
precision highp float;
in vec4 color;
flat in uint shape;
flat in float width;
out vec4 result;
void main() {
  vec2 at = abs(gl_PointCoord - 0.5) * 2.0;
  float edge = shape == 0u ? length(at)
    : shape == 1u ? (at.x + at.y)
    : shape == 2u ? max(at.x, at.y) * 1.2
    : max(at.x + gl_PointCoord.y * -1.0 + 1.0, gl_PointCoord.y * 1.08);
  float cover = width < 3.0 ? 1.0 : 1.0 - smoothstep(1.0 - 2.0 / width, 1.0, edge);
  if (cover <= 0.0) discard;
  result = vec4(color.rgb, 1.0) * color.a * cover;
}`;

export class Points {
  // Raise an error if the browser has no WebGL 2.
  constructor(canvas) {
    this.canvas = canvas;
    const gl = canvas.getContext("webgl2", { antialias: false, alpha: true, powerPreference: "high-performance" });
    if (!gl) throw new Error("this browser cannot draw the map: it has no WebGL 2");
    this.gl = gl;
    this.n = this.front = 0;
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => this.restore());
    this.facts = new Uint8Array(256 * 4);
    this.palette = new Uint8Array(256 * 4);
    this.restore();
  }

  restore() {
    const { gl } = this;
    this.program = link(gl, VERTEX, FRAGMENT);
    this.uniforms = Object.fromEntries(["scale", "offset", "size", "dimmed", "table"]
      .map((name) => [name, gl.getUniformLocation(this.program, name)]));
    this.texture = gl.createTexture();
    this.array = gl.createVertexArray();
    this.buffers = Object.fromEntries(["place", "code", "view", "chosen"].map((name) => [name, gl.createBuffer()]));
    gl.bindVertexArray(this.array);
    for (const [name, buffer] of Object.entries(this.buffers)) {
      const at = gl.getAttribLocation(this.program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(at);
      if (name === "place") gl.vertexAttribPointer(at, 2, gl.FLOAT, false, 0, 0);
      else gl.vertexAttribIPointer(at, 1, gl.UNSIGNED_BYTE, 0, 0);
    }
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    for (const name of ["MIN", "MAG"]) gl.texParameteri(gl.TEXTURE_2D, gl[`TEXTURE_${name}_FILTER`], gl.NEAREST);
    if (this.last) this.set(...this.last);
    if (this.codes) this.color(this.codes, this.palette);
    if (this.marked !== undefined) this.choose(this.marked);
  }

  // Set coordinates and views. `order` gives the drawing order; the first `front` points are a
  // random sample of all but small views, whose points come last and are drawn on top.
  set(xy, views, order, front) {
    this.last = [xy, views, order, front];
    [this.n, this.order, this.front] = [order.length, order, front];
    const places = new Float32Array(2 * order.length);
    for (let at = 0; at < order.length; at++) {
      places[2 * at] = xy[2 * order[at]];
      places[2 * at + 1] = xy[2 * order[at] + 1];
    }
    this.upload("place", places);
    this.upload("view", this.ordered(views));
    this.choose(null);
  }

  color(codes, palette) {
    [this.codes, this.palette] = [codes, palette];
    this.upload("code", this.ordered(codes));
    this.table();
  }

  // Set size factors (up to 4) and visibility of the views.
  describe(factors, hidden) {
    factors.forEach((factor, view) => this.facts.set([Math.round(factor * 63.75), hidden.has(view) ? 0 : 255, 0, 255], 4 * view));
    this.table();
  }

  // Dim all points but these; null: none is dimmed.
  choose(chosen) {
    this.marked = chosen;
    const { gl } = this;
    gl.useProgram(this.program);
    gl.uniform1i(this.uniforms.dimmed, chosen ? 1 : 0);
    this.upload("chosen", chosen ? this.ordered(chosen) : new Uint8Array(this.n));
  }

  ordered(values) {
    return Uint8Array.from(this.order, (at) => values[at]);
  }

  upload(name, values) {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
  }

  table() {
    const { gl } = this;
    const rows = new Uint8Array(2 * 256 * 4);
    rows.set(this.palette);
    rows.set(this.facts, 256 * 4);
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 2, 0, gl.RGBA, gl.UNSIGNED_BYTE, rows);
  }

  // Draw all points, or at most `limit` of the first and those of small views.
  draw({ scale, offset, size, limit = Infinity }) {
    const { gl, canvas } = this;
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (!this.n) return;
    gl.useProgram(this.program);
    gl.bindVertexArray(this.array);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.uniform2f(this.uniforms.scale, ...scale);
    gl.uniform2f(this.uniforms.offset, ...offset);
    gl.uniform1f(this.uniforms.size, size);
    gl.drawArrays(gl.POINTS, 0, Math.min(this.front, limit));
    gl.drawArrays(gl.POINTS, this.front, this.n - this.front);
  }
}

function link(gl, vertex, fragment) {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
    throw new Error(`the map cannot be drawn: ${gl.getProgramInfoLog(program)}`);
  }
  return program;
}
