// The network of reports, with hotspots that can be set and dragged.

class LiveNetwork extends Network {
  constructor(stage, run, page) {
    super(stage, run, page);
    // The last position of the pointer, in pixels of the stage, and the hotspot that it drags.
    this.pointer = [0, 0];
    this.dragged = null;
    const figure = stage.parentNode;
    figure.addEventListener("pointerdown", (event) => this.grab(event), true);
    figure.addEventListener("pointermove", (event) => this.drag(event), true);
    figure.addEventListener("pointerup", (event) => this.drop(event), true);
    figure.addEventListener("pointercancel", () => { this.dragged = null; }, true);
  }

  place(event) {
    const box = this.stage.getBoundingClientRect();
    this.pointer = [event.clientX - box.left, event.clientY - box.top];
    // Touch is less exact than a mouse.
    this.reach = event.pointerType === "touch" ? 22 : 11;
  }

  // The host nearest to the pointer, or null if none is near.
  hostAt() {
    let [best, nearest] = [null, this.reach];
    for (const [node, x, y] of this.spots ?? []) {
      const away = Math.hypot(x - this.pointer[0], y - this.pointer[1]);
      if (node < this.run.hosts && away < nearest) [best, nearest] = [node, away];
    }
    return best;
  }

  grab(event) {
    this.place(event);
    const host = this.page.settings.text === null && this.page.tool !== "look" ? this.hostAt() : null;
    const name = host === null ? null : this.run.nodes[host];
    if (!this.page.hotspots().some((one) => one.host === name && one.to === null)) return;
    event.stopPropagation();
    this.stage.setPointerCapture(event.pointerId);
    this.dragged = { name, isMoved: false };
  }

  drag(event) {
    this.place(event);
    if (!this.dragged) return;
    event.stopPropagation();
    this.dragged.isMoved = true;
    this.page.redraw();
  }

  drop(event) {
    this.place(event);
    const { dragged } = this;
    if (!dragged) return;
    event.stopPropagation();
    this.dragged = null;
    const host = this.hostAt();
    const name = host === null ? null : this.run.nodes[host];
    if (name === dragged.name && this.page.tool === "hotspot") this.page.act(name);
    else if (name !== null && name !== dragged.name) this.page.moveHotspot(dragged.name, name);
    this.page.redraw();
  }

  drawMarks(spans, chosen, ratio, context = this.marks.getContext("2d")) {
    super.drawMarks(spans, chosen, ratio, context);
    const { page, run } = this;
    context.lineWidth = 2;
    context.font = "bold 12px system-ui, sans-serif";
    context.textAlign = "center";
    const hot = new Set(page.hotspots().map((one) => one.host));
    const victims = new Set(page.settings.victims.map((one) => one.host));
    for (const [node, x, y] of this.spots) {
      if (node >= run.hosts) continue;
      const name = run.nodes[node];
      const isDragged = this.dragged?.isMoved && this.dragged.name === name;
      if (hot.has(name) && !isDragged) this.target(context, x, y, name);
      else if (victims.has(name)) this.label(context, x, y, name);
    }
    if (this.dragged?.isMoved) {
      const host = this.hostAt();
      this.target(context, ...this.pointer, host === null ? this.dragged.name : run.nodes[host]);
    }
  }

  // A hotspot: a cross-hair.
  target(context, x, y, name) {
    context.strokeStyle = this.page.style("--ink");
    context.beginPath();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      context.moveTo(x + 5 * dx, y + 5 * dy);
      context.lineTo(x + 13 * dx, y + 13 * dy);
    }
    context.stroke();
    this.label(context, x, y, name, 28);
  }

  // Whether the network shows the names of all nodes.
  isNamed() {
    return (this.size[0] * this.view.scale) / Math.max(this.run.nodes.length, 1) > 22;
  }

  // Draws a name below a host, or above it if there is no room below.
  label(context, x, y, name, away = 18) {
    if (this.isNamed()) return;
    const width = context.measureText(name).width;
    const left = Math.min(Math.max(x, width / 2 + 2), this.size[0] - width / 2 - 2);
    const base = y + away + 4 > this.size[1] ? y - 16 : y + away;
    context.strokeStyle = this.page.style("--sheet");
    context.lineWidth = 4;
    context.strokeText(name, left, base);
    context.lineWidth = 2;
    context.fillStyle = this.page.style("--ink");
    context.fillText(name, left, base);
  }
}
