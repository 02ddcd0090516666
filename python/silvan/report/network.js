// The network of a run on a canvas: links by WebGL2 where it is there, else as plain lines; what is on them
// (rings of roots, victims, names) on a second canvas above.

class Network {
  constructor(stage, run, page) {
    Object.assign(this, { stage, run, page });
    this.view = { x: 0.5, y: 0.5, scale: 1 };
    this.lines = document.createElement("canvas");
    this.marks = document.createElement("canvas");
    stage.append(this.lines, this.marks);
    stage.classList.add("live");
    this.gl = this.lines.getContext("webgl2", { antialias: true, preserveDrawingBuffer: true });
    if (this.gl) this.prepare();
    this.hover = null;
    // Where the pointer is over the stage, in pixels; null elsewhere.
    this.under = null;
    this.gap = this.nearestHosts();
    this.listen();
    // Asked for when it changes: to ask makes the browser lay out the whole page.
    this.size = [stage.clientWidth, stage.clientHeight];
    new ResizeObserver(() => {
      this.size = [stage.clientWidth, stage.clientHeight];
      this.draw();
    }).observe(stage);
  }

  // One program: each link is a quad between two points, as wide and coloured as its four bytes and width say.
  prepare() {
    const gl = this.gl;
    const shader = (kind, text) => {
      const made = gl.createShader(kind);
      gl.shaderSource(made, text);
      gl.compileShader(made);
      if (!gl.getShaderParameter(made, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(made));
      return made;
    };
    const program = gl.createProgram();
    gl.attachShader(program, shader(gl.VERTEX_SHADER, `#version 300 es
      layout(location = 0) in vec2 corner;
      layout(location = 1) in vec4 ends;
      layout(location = 2) in vec4 colour;
      layout(location = 3) in float width;
      uniform vec4 move;
      uniform vec2 size;
      out vec4 shade;
      void main() {
        vec2 from = ends.xy * move.xy + move.zw, to = ends.zw * move.xy + move.zw;
        vec2 along = to - from;
        vec2 across = vec2(-along.y, along.x) / max(length(along), 1e-6);
        // Both directions of a cable side by side.
        vec2 at = mix(from, to, corner.x) + across * (corner.y * width + 0.5 * width + 0.3);
        gl_Position = vec4(at / size * vec2(2.0, -2.0) + vec2(-1.0, 1.0), 0.0, 1.0);
        shade = vec4(colour.rgb * colour.a, colour.a);
      }`));
    gl.attachShader(program, shader(gl.FRAGMENT_SHADER, `#version 300 es
      precision mediump float;
      in vec4 shade;
      out vec4 result;
      void main() { result = shade; }`));
    gl.linkProgram(program);
    this.program = program;
    this.at = { move: gl.getUniformLocation(program, "move"), size: gl.getUniformLocation(program, "size") };
    const { x, y, source, target } = this.run;
    const count = source.length;
    const ends = new Float32Array(count * 4);
    for (let link = 0; link < count; link += 1) {
      ends.set([x[source[link]], y[source[link]], x[target[link]], y[target[link]]], link * 4);
    }
    const fill = (place, values, parts, kind, isNormal, stride, offset, isShared) => {
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, parts, kind, isNormal, stride, offset);
      gl.vertexAttribDivisor(place, isShared ? 0 : 1);
    };
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([0, -0.5, 1, -0.5, 0, 0.5, 1, 0.5]), gl.STATIC_DRAW);
    fill(0, null, 2, gl.FLOAT, false, 0, 0, true);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, ends, gl.STATIC_DRAW);
    fill(1, null, 4, gl.FLOAT, false, 0, 0, false);
    this.buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    this.look = new Uint8Array(count * 8);
    this.widths = new Float32Array(this.look.buffer);
    gl.bufferData(gl.ARRAY_BUFFER, this.look.byteLength, gl.DYNAMIC_DRAW);
    fill(2, null, 4, gl.UNSIGNED_BYTE, true, 8, 0, false);
    fill(3, null, 1, gl.FLOAT, false, 8, 4, false);
    this.lines.addEventListener("webglcontextlost", (event) => {
      event.preventDefault();
      this.gl = null;
      const plain = document.createElement("canvas");
      this.lines.replaceWith(plain);
      this.lines = plain;
      this.draw();
    });
  }

  // What moves places of the picture (0 to 1) to pixels of the page.
  transform() {
    const [width, height] = this.size;
    // Names are above and below nodes.
    const margin = 30;
    const scale = this.view.scale;
    const across = (width - 2 * (width < 500 ? 14 : margin)) * scale;
    const down = (height - 2 * margin) * scale;
    return [across, down, width / 2 - this.view.x * across, height / 2 - this.view.y * down];
  }

  // Colour (red, green, blue, 0 to 255), opacity (0 to 1) and width of a link now.
  style(link, span, chosen, idle) {
    const { run } = this;
    if (this.way?.has(link)) return [this.page.colour("--warning"), this.acts ? 1 : 0.5, 5 * this.thin];
    if (this.way) return [idle, 0.16, 0.7 * this.thin];
    if (span >= 0) {
      const tree = run.spans.tree[span];
      const isApart = chosen !== null && chosen !== tree;
      const share = run.spans.share[span] / 255;
      // A branch whose packets wait in special queues blocks no others: it is thin.
      const wide = run.spans.isolated[span] ? 0.9 : 1.6 + 2.2 * share;
      return [Data.colour(run, tree), isApart ? 0.12 : 0.35 + 0.65 * share, wide * this.thin];
    }
    const load = run.utilisation ? run.utilisation[link * run.frames.length + this.frame] / 15 : 0;
    return [idle, 0.16 + 0.55 * load, (0.7 + 0.8 * load) * this.thin];
  }

  draw() {
    const { run, page } = this;
    this.frame = Data.frameAt(run, page.time);
    const spans = Data.spansAt(run, this.frame);
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    // Many links are drawn thin, until one comes closer.
    this.thin = Math.min(1, Math.max(0.3, Math.sqrt(300 / spans.length)) * Math.sqrt(Math.max(this.view.scale, 1)));
    for (const canvas of [this.lines, this.marks]) {
      const [width, height] = this.size.map((one) => Math.round(one * ratio));
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    }
    const chosen = page.chosen && page.chosen.run === run ? page.chosen.tree : null;
    const idle = page.colour("--soft");
    // The links of the cause that was clicked, and whether it acts now.
    this.way = page.cause?.run === run ? page.cause.links : null;
    this.acts = this.way !== null && page.acts();
    if (this.gl) this.drawFast(spans, chosen, idle, ratio);
    else this.drawPlain(spans, chosen, idle, ratio);
    this.drawMarks(spans, chosen, ratio);
    this.show(spans);
  }

  // Draws everything on one canvas, for a file.
  paint(context, ratio) {
    const spans = Data.spansAt(this.run, this.frame);
    const chosen = this.page.chosen && this.page.chosen.run === this.run ? this.page.chosen.tree : null;
    this.drawPlain(spans, chosen, this.page.colour("--soft"), ratio, context);
    this.drawMarks(spans, chosen, ratio, context);
  }

  drawFast(spans, chosen, idle, ratio) {
    const gl = this.gl;
    for (let link = 0; link < spans.length; link += 1) {
      const [colour, opacity, width] = this.style(link, spans[link], chosen, idle);
      const at = link * 8;
      this.look[at] = colour[0];
      this.look[at + 1] = colour[1];
      this.look[at + 2] = colour[2];
      this.look[at + 3] = opacity * 255;
      this.widths[link * 2 + 1] = width * ratio;
    }
    gl.viewport(0, 0, this.lines.width, this.lines.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.useProgram(this.program);
    gl.uniform4fv(this.at.move, this.transform().map((one) => one * ratio));
    gl.uniform2f(this.at.size, this.lines.width, this.lines.height);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    gl.bufferSubData(gl.ARRAY_BUFFER, 0, this.look);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, spans.length);
  }

  drawPlain(spans, chosen, idle, ratio, context = this.lines.getContext("2d")) {
    const { x, y, source, target } = this.run;
    const [a, b, c, d] = this.transform();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.lines.width, this.lines.height);
    for (const isIn of [false, true]) {
      for (let link = 0; link < spans.length; link += 1) {
        if (spans[link] >= 0 !== isIn) continue;
        const [colour, opacity, width] = this.style(link, spans[link], chosen, idle);
        context.strokeStyle = `rgba(${colour.join(",")},${opacity})`;
        context.lineWidth = width;
        const [x0, y0] = [x[source[link]] * a + c, y[source[link]] * b + d];
        const [x1, y1] = [x[target[link]] * a + c, y[target[link]] * b + d];
        // Both directions of a cable side by side, as above.
        const aside = (0.5 * width + 0.3) / Math.max(Math.hypot(x1 - x0, y1 - y0), 1e-6);
        const [acrossX, acrossY] = [(y0 - y1) * aside, (x1 - x0) * aside];
        context.beginPath();
        context.moveTo(x0 + acrossX, y0 + acrossY);
        context.lineTo(x1 + acrossX, y1 + acrossY);
        context.stroke();
      }
    }
  }

  // Hosts that have a role now: tree by host.
  having(role) {
    const found = new Map();
    const time = this.run.frames[this.frame];
    const from = this.frame > 0 ? this.run.frames[this.frame - 1] : 0;
    for (let at = 0; at < role.tree.length; at += 1) {
      if (role.first[at] < time && role.last[at] > from) found.set(role.host[at], role.tree[at]);
    }
    return found;
  }

  // The smallest distances of hosts in a row and of rows, as parts of the picture's width and height; 1 without rows.
  nearestHosts() {
    const { run } = this;
    const hosts = [...run.x.slice(0, run.hosts)].map((x, at) => [run.y[at], x]).sort((one, other) => one[0] - other[0] || one[1] - other[1]);
    let [across, down] = [1, 1];
    for (let at = 1; at < hosts.length; at += 1) {
      const [lower, right] = [hosts[at][0] - hosts[at - 1][0], hosts[at][1] - hosts[at - 1][1]];
      if (lower > 1e-6) down = Math.min(down, lower);
      else if (right > 1e-6) across = Math.min(across, right);
    }
    const isInRows = new Set(hosts.map(([y]) => y)).size < hosts.length / 2;
    return [across, isInRows ? down : 1];
  }

  drawMarks(spans, chosen, ratio, context = this.marks.getContext("2d")) {
    const { run, page } = this;
    const [a, b, c, d] = this.transform();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.marks.width, this.marks.height);
    const contributors = this.having(run.contributors);
    const victims = this.having(run.victims);
    const count = run.nodes.length;
    const scale = Math.sqrt(this.view.scale);
    // Hosts are drawn apart from each other where there is room for a pixel.
    const apart = Math.min(this.gap[0] * a, this.gap[1] * b);
    const room = Math.max(0.7, 0.42 * apart);
    const radius = Math.min(Math.min(6, Math.max(1.2, 60 / Math.sqrt(count + 40))) * Math.min(scale, 3), room);
    const css = { host: page.style("--host"), switch: page.style("--switch"), ink: page.style("--ink") };
    const isNamed = (this.size[0] * this.view.scale) / Math.max(count, 1) > 22;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    this.spots = [];
    for (let node = 0; node < count; node += 1) {
      const [x, y] = [run.x[node] * a + c, run.y[node] * b + d];
      if (x < -20 || y < -20 || x > this.size[0] + 20 || y > this.size[1] + 20) continue;
      this.spots.push([node, x, y]);
      const isHost = node < run.hosts;
      const fed = isHost ? contributors.get(node) : undefined;
      context.fillStyle = fed !== undefined ? Data.hue(run, fed) : isHost ? css.host : css.switch;
      context.beginPath();
      if (isHost) context.arc(x, y, fed !== undefined ? radius * 1.15 : radius, 0, 7);
      else context.rect(x - radius * 1.25, y - radius * 1.25, radius * 2.5, radius * 2.5);
      context.fill();
      if (isHost && victims.has(node)) {
        // Rings of neighbors do not overlap: with little room they are closer to their hosts.
        const ring = Math.max(radius, Math.min(radius + 3, 2 * radius, apart / 2 - 0.8));
        this.ring(context, x, y, ring, css.ink, [ring * 0.7, ring * 0.5], Math.min(1.6, ring * 0.4));
      }
      if (isNamed) {
        context.fillStyle = css.ink;
        const text = run.nodes[node].length > 14 ? `${run.nodes[node].slice(0, 13)}…` : run.nodes[node];
        context.fillText(text, x, isHost ? y + radius + 18 : y - radius - 7);
      }
    }
    this.drawDown(context, page.style("--warning"));
    for (const link of this.roots(spans)) {
      const tree = run.spans.tree[spans[link]];
      const end = run.target[link];
      const [x, y] = [run.x[end] * a + c, run.y[end] * b + d];
      const isApart = chosen !== null && chosen !== tree;
      context.globalAlpha = isApart ? 0.3 : 1;
      this.ring(context, x, y, radius + 5, Data.hue(run, tree), [], 3);
      context.fillStyle = css.ink;
      context.font = "bold 12px system-ui, sans-serif";
      // On a halo, as the names of roots must be readable over links and rings.
      context.strokeStyle = page.style("--sheet");
      context.lineWidth = 3;
      const place = [Data.letter(run, tree), x + radius + 13, y + 4];
      context.strokeText(...place);
      context.fillText(...place);
      context.globalAlpha = 1;
    }
    const link = page.link && page.link.run === run ? page.link.link : this.hover;
    if (link !== null && link !== undefined) this.drawWay(context, spans, link, css.ink);
  }

  ring(context, x, y, radius, colour, dash, width) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.stroke();
    context.setLineDash([]);
  }

  // Links that are down now, one for each cable.
  down() {
    const { failures, frames, source, target } = this.run;
    const time = frames[this.frame];
    const found = new Map();
    for (let at = 0; at < (failures?.link.length ?? 0); at += 1) {
      if (failures.first[at] > time || failures.last[at] <= time) continue;
      const link = failures.link[at];
      // Two cables between the same switches have different names.
      const name = this.run.links[link].split("->").sort().join(" - ");
      if (!found.has(name)) found.set(name, [source[link], target[link]]);
    }
    return found;
  }

  drawDown(context, ink) {
    const { run } = this;
    const [a, b, c, d] = this.transform();
    context.strokeStyle = ink;
    context.lineWidth = 2;
    for (const [from, to] of this.down().values()) {
      const [x0, y0, x1, y1] = [run.x[from] * a + c, run.y[from] * b + d, run.x[to] * a + c, run.y[to] * b + d];
      const [x, y] = [(x0 + x1) / 2, (y0 + y1) / 2];
      context.setLineDash([2, 4]);
      context.beginPath();
      context.moveTo(x0, y0);
      context.lineTo(x1, y1);
      context.stroke();
      context.setLineDash([]);
      context.beginPath();
      for (const side of [-5, 5]) {
        context.moveTo(x - side, y - 5);
        context.lineTo(x + side, y + 5);
      }
      context.stroke();
    }
  }

  roots(spans) {
    const found = [];
    for (let link = 0; link < spans.length; link += 1) {
      if (spans[link] >= 0 && this.run.spans.depth[spans[link]] === 0) found.push(link);
    }
    return found;
  }

  // A link and what it waits for, up to the root.
  drawWay(context, spans, link, ink) {
    const { run } = this;
    const [a, b, c, d] = this.transform();
    context.strokeStyle = ink;
    context.lineWidth = 1.4;
    for (let at = link, step = 0; step < 64; step += 1) {
      const [from, to] = [run.source[at], run.target[at]];
      context.setLineDash(step === 0 ? [] : [6, 4]);
      context.beginPath();
      context.moveTo(run.x[from] * a + c, run.y[from] * b + d);
      context.lineTo(run.x[to] * a + c, run.y[to] * b + d);
      context.stroke();
      if (spans[at] < 0 || run.spans.waits_for[spans[at]] === at) break;
      at = run.spans.waits_for[spans[at]];
    }
    context.setLineDash([]);
  }

  show(spans) {
    const trees = new Set();
    let links = 0;
    for (const span of spans) {
      if (span < 0) continue;
      trees.add(this.run.spans.tree[span]);
      links += 1;
    }
    const output = this.stage.parentNode.querySelector("output");
    const one = trees.size === 1 ? "1 tree" : `${trees.size} trees`;
    const down = [...this.down().keys()];
    const others = down.length > 3 ? ` and ${down.length - 3} more` : "";
    const dead = down.length > 0 ? `; down: ${down.slice(0, 3).join(", ")}${others}` : "";
    const now = (trees.size === 0 ? "no tree" : `${one}, ${links} links`) + dead;
    output.textContent = this.mean === undefined ? now : `${now} (mean ${this.mean})`;
  }

  // The link or node at a place, or null.
  find(x, y) {
    const { run } = this;
    for (const [node, nodeX, nodeY] of this.spots ?? []) {
      if (Math.hypot(x - nodeX, y - nodeY) < 6) return { node };
    }
    const [a, b, c, d] = this.transform();
    const spans = Data.spansAt(run, this.frame);
    let best = null;
    let nearest = 7;
    for (let link = 0; link < run.source.length; link += 1) {
      const [x0, y0] = [run.x[run.source[link]] * a + c, run.y[run.source[link]] * b + d];
      const [dx, dy] = [run.x[run.target[link]] * a + c - x0, run.y[run.target[link]] * b + d - y0];
      const length = dx * dx + dy * dy || 1;
      const along = Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / length));
      const side = (x - x0) * -dy + (y - y0) * dx;
      // Of two directions, the one on the side where it is drawn; of several links, one in a tree.
      const away = Math.hypot(x - x0 - along * dx, y - y0 - along * dy) + (side < 0 ? 1 : 0) - (spans[link] >= 0 ? 2 : 0);
      if (away < nearest) [nearest, best] = [away, { link }];
    }
    return best;
  }

  listen() {
    const { stage } = this;
    const pointers = new Map();
    let moved = 0;
    stage.addEventListener("pointerdown", (event) => {
      stage.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      if (pointers.size === 1) moved = 0;
    });
    stage.addEventListener("pointermove", (event) => {
      const box = stage.getBoundingClientRect();
      this.under = [event.clientX - box.left, event.clientY - box.top];
      const before = pointers.get(event.pointerId);
      if (!before) {
        this.point(this.find(event.clientX - box.left, event.clientY - box.top), event);
        return;
      }
      const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      if (others.length === 1) {
        const apart = (place) => Math.hypot(place[0] - others[0][0], place[1] - others[0][1]);
        this.zoom(apart([event.clientX, event.clientY]) / Math.max(apart(before), 1), event.clientX - box.left, event.clientY - box.top);
        moved = 99;
      } else {
        this.move(event.clientX - before[0], event.clientY - before[1]);
        moved += Math.abs(event.clientX - before[0]) + Math.abs(event.clientY - before[1]);
      }
    });
    const lift = (event) => {
      const isClick = pointers.delete(event.pointerId) && moved < 5 && event.type === "pointerup";
      if (!isClick) return;
      const box = stage.getBoundingClientRect();
      this.page.choose(this, this.find(event.clientX - box.left, event.clientY - box.top));
    };
    for (const kind of ["pointerup", "pointercancel"]) stage.addEventListener(kind, lift);
    stage.addEventListener("pointerleave", () => {
      this.under = null;
      this.point(null);
    });
    stage.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = stage.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    stage.addEventListener("dblclick", () => this.reset());
  }

  point(found, event) {
    const link = found?.link ?? null;
    this.page.tip(found ? this.page.describe(this, found) : null, event);
    if (link === this.hover) return;
    this.hover = link;
    this.page.redraw();
  }

  move(x, y) {
    const [a, b] = this.transform();
    this.view.x -= x / a;
    this.view.y -= y / b;
    this.page.redraw();
  }

  // Makes everything larger around a pixel, which stays where it is.
  zoom(factor, x = this.size[0] / 2, y = this.size[1] / 2) {
    const [a, b, c, d] = this.transform();
    const [placeX, placeY] = [(x - c) / a, (y - d) / b];
    this.view.scale = Math.min(200, Math.max(0.5, this.view.scale * factor));
    const [e, f] = this.transform();
    this.view.x = placeX - (x - this.size[0] / 2) / e;
    this.view.y = placeY - (y - this.size[1] / 2) / f;
    this.page.redraw();
  }

  // The pixel around which keys zoom: the pointer, what is selected, or the root of the largest tree.
  focus() {
    if (this.under) return this.under;
    const { run, page } = this;
    const [a, b, c, d] = this.transform();
    const spans = Data.spansAt(run, Data.frameAt(run, page.time));
    const at = (node) => [run.x[node] * a + c, run.y[node] * b + d];
    if (page.link?.run === run && page.link.link !== undefined) return at(run.target[page.link.link]);
    const sizes = new Map();
    for (const span of spans) {
      if (span >= 0) sizes.set(run.spans.tree[span], (sizes.get(run.spans.tree[span]) ?? 0) + 1);
    }
    const largest = [...sizes].sort((one, other) => other[1] - one[1])[0]?.[0];
    const wanted = page.chosen?.run === run ? page.chosen.tree : largest;
    const root = this.roots(spans).find((link) => run.spans.tree[spans[link]] === wanted);
    return root === undefined ? [this.size[0] / 2, this.size[1] / 2] : at(run.target[root]);
  }

  reset() {
    // Networks that are alike share their view.
    Object.assign(this.view, { x: 0.5, y: 0.5, scale: 1 });
    this.page.redraw();
  }
}
