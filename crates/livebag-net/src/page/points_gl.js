// Points with WebGL 2, seen from a camera that orbits a place.

import { colour } from "./colours.js";

const VERTEX = `#version 300 es
layout(location = 0) in vec4 point;
uniform mat4 view;
uniform vec2 range;
uniform int by;
uniform float size;
out vec3 tint;
vec3 ramp(float t) {
  return clamp(vec3(1.6 * t - 0.35, 1.25 * sin(3.1416 * clamp(t, 0.04, 0.96)) + 0.1, 1.15 - 1.3 * t), 0.0, 1.0);
}
void main() {
  gl_Position = view * vec4(point.xyz, 1.0);
  gl_PointSize = clamp(size * 40.0 / max(gl_Position.w, 1.0), size, size * 4.0);
  float value = by == 0 ? point.z : by == 1 ? point.w : length(point.xyz);
  tint = ramp(clamp((value - range.x) / max(range.y - range.x, 1e-6), 0.0, 1.0));
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec3 tint;
uniform vec3 flat_tint;
out vec4 shown;
void main() { shown = vec4(flat_tint.x < 0.0 ? tint : flat_tint, 1.0); }`;

const BY = ["height", "intensity", "distance"];
/** Rings on the ground, this far apart in metres. */
const RING_METRES = 10;
const RINGS = 5;

export class Cloud {
  #gl;
  #canvas;
  #program;
  #points;
  #rings;
  #ringCount = 0;
  #count = 0;
  #values = new Float32Array(0);
  #by = 0;
  #range = /** @type {[number, number]} */ ([0, 1]);
  /** Where the camera is: angles in radians, distance in metres, what it looks at. */
  #camera = { turn: -2.2, tilt: 0.6, away: 45, x: 0, y: 0, z: 0 };
  #asked = false;

  /** @param {HTMLCanvasElement} canvas */
  static on(canvas) {
    const gl = canvas.getContext("webgl2", { antialias: true, alpha: false });
    const program = gl && built(gl);
    return gl && program ? new Cloud(canvas, gl, program) : null;
  }

  /** @param {HTMLCanvasElement} canvas @param {WebGL2RenderingContext} gl @param {WebGLProgram} program */
  constructor(canvas, gl, program) {
    this.#canvas = canvas;
    this.#gl = gl;
    this.#program = program;
    this.#points = gl.createBuffer();
    this.#rings = gl.createBuffer();
    this.#makeRings();
    this.#listen();
  }

  #makeRings() {
    const gl = this.#gl;
    const data = [];
    for (let ring = 1; ring <= RINGS; ring += 1) {
      for (let at = 0; at < 72; at += 1) {
        for (const end of [at, at + 1]) data.push(Math.cos((end / 36) * Math.PI) * ring * RING_METRES, Math.sin((end / 36) * Math.PI) * ring * RING_METRES, 0, 0);
      }
    }
    const reach = RINGS * RING_METRES;
    data.push(-reach, 0, 0, 0, reach, 0, 0, 0, 0, -reach, 0, 0, 0, reach, 0, 0);
    this.#ringCount = data.length / 4;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#rings);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(data), gl.STATIC_DRAW);
  }

  /** x, y, z, intensity of each point. @param {Float32Array<ArrayBuffer>} values */
  show(values) {
    const gl = this.#gl;
    this.#values = values;
    this.#count = values.length / 4;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#points);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
    this.#measure();
    this.draw();
  }

  /** @param {string} name */
  colourBy(name) {
    this.#by = Math.max(0, BY.indexOf(name));
    this.#measure();
    this.draw();
  }

  /** Most values lie in the range; the outermost fiftieth at each end does not stretch it. */
  #measure() {
    const all = [];
    const step = Math.max(1, Math.floor(this.#count / 2000));
    for (let at = 0; at < this.#count; at += step) {
      const [x, y, z, w] = this.#values.subarray(at * 4, at * 4 + 4);
      all.push(this.#by === 0 ? (z ?? 0) : this.#by === 1 ? (w ?? 0) : Math.hypot(x ?? 0, y ?? 0, z ?? 0));
    }
    all.sort((a, b) => a - b);
    this.#range = [all[Math.floor(all.length * 0.02)] ?? 0, all[Math.floor(all.length * 0.98)] ?? 1];
  }

  /** From above and behind. */
  look() {
    this.#camera = { turn: -2.2, tilt: 0.6, away: 45, x: 0, y: 0, z: 0 };
    this.draw();
  }

  draw() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      this.#drawNow();
    });
  }

  #drawNow() {
    const [gl, canvas] = [this.#gl, this.#canvas];
    if (gl.isContextLost() || canvas.clientWidth === 0) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    gl.viewport(0, 0, width, height);
    gl.clearColor(...shares("scene"), 1);
    gl.enable(gl.DEPTH_TEST);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.useProgram(this.#program);
    const place = (/** @type {string} */ name) => gl.getUniformLocation(this.#program, name);
    const matrix = seen(this.#camera, width / height);
    gl.uniformMatrix4fv(place("view"), false, matrix);
    gl.uniform2fv(place("range"), this.#range);
    gl.uniform1i(place("by"), this.#by);
    gl.uniform1f(place("size"), 1.4 * ratio);
    gl.enableVertexAttribArray(0);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#rings);
    gl.vertexAttribPointer(0, 4, gl.FLOAT, false, 16, 0);
    gl.uniform3f(place("flat_tint"), ...shares("line"));
    gl.drawArrays(gl.LINES, 0, this.#ringCount);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#points);
    gl.vertexAttribPointer(0, 4, gl.FLOAT, false, 16, 0);
    gl.uniform3f(place("flat_tint"), -1, 0, 0);
    gl.drawArrays(gl.POINTS, 0, this.#count);
  }

  #listen() {
    const [canvas, camera] = [this.#canvas, () => this.#camera];
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons === 0) return;
      if (event.buttons === 1 && !event.shiftKey) this.#turn(event.movementX * -0.008, event.movementY * 0.008);
      else {
        const far = camera().away / canvas.clientHeight;
        const [along, across] = [event.movementX * far, event.movementY * far];
        const { turn } = camera();
        camera().x += Math.sin(turn) * along - Math.cos(turn) * across;
        camera().y += -Math.cos(turn) * along - Math.sin(turn) * across;
        this.draw();
      }
    });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.#near(Math.exp(Math.sign(event.deltaY) * 0.12));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const turns = /** @type {{[key: string]: [number, number]}} */ ({ ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] })[event.key];
      if (turns) this.#turn(...turns);
      else if (event.key === "+") this.#near(0.85);
      else if (event.key === "-") this.#near(1.18);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      const program = built(this.#gl);
      if (!program) return;
      this.#program = program;
      this.#points = this.#gl.createBuffer();
      this.#rings = this.#gl.createBuffer();
      this.#makeRings();
      this.show(/** @type {Float32Array<ArrayBuffer>} */ (this.#values));
    });
  }

  /** @param {number} turn @param {number} tilt */
  #turn(turn, tilt) {
    this.#camera.turn += turn;
    this.#camera.tilt = Math.min(1.55, Math.max(-0.3, this.#camera.tilt + tilt));
    this.draw();
  }

  /** @param {number} factor */
  #near(factor) {
    this.#camera.away = Math.min(500, Math.max(1, this.#camera.away * factor));
    this.draw();
  }

  /** Gives the card's memory back: browsers allow some sixteen of these. */
  end() {
    this.#gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}

/** @param {WebGL2RenderingContext} gl */
function built(gl) {
  const program = gl.createProgram();
  for (const [kind, source] of /** @type {const} */ ([[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]])) {
    const shader = gl.createShader(kind);
    if (!shader) return null;
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  return gl.getProgramParameter(program, gl.LINK_STATUS) ? program : null;
}

/** A colour as shares of 1. @param {string} name @returns {[number, number, number]} */
function shares(name) {
  const [r = 0, g = 0, b = 0] = (colour(name).match(/[\d.]+/g) ?? []).map(Number);
  return [r / 255, g / 255, b / 255];
}

/**
 * Looks at a place from a turn, a tilt and a distance; z is up.
 * @param {{turn: number, tilt: number, away: number, x: number, y: number, z: number}} camera
 * @param {number} aspect
 */
function seen({ turn, tilt, away, x, y, z }, aspect) {
  const [ct, st, cp, sp] = [Math.cos(turn), Math.sin(turn), Math.cos(tilt), Math.sin(tilt)];
  const eye = [x + away * cp * ct, y + away * cp * st, z + away * sp];
  // Axes of the camera: right, up, back.
  const [right, up, back] = [[-st, ct, 0], [-sp * ct, -sp * st, cp], [cp * ct, cp * st, sp]];
  const dot = (/** @type {number[]} */ axis) => -axis.reduce((sum, part, at) => sum + part * (eye[at] ?? 0), 0);
  const [focal, near, far] = [1 / Math.tan(0.45), 0.1, 2000];
  const [a, b] = [(far + near) / (near - far), (2 * far * near) / (near - far)];
  const rows = [[...right, dot(right)], [...up, dot(up)], [...back, dot(back)]];
  const matrix = new Float32Array(16);
  for (let column = 0; column < 4; column += 1) {
    matrix[column * 4] = ((rows[0]?.[column] ?? 0) * focal) / aspect;
    matrix[column * 4 + 1] = (rows[1]?.[column] ?? 0) * focal;
    matrix[column * 4 + 2] = (rows[2]?.[column] ?? 0) * a + (column === 3 ? b : 0);
    matrix[column * 4 + 3] = -(rows[2]?.[column] ?? 0);
  }
  return matrix;
}
