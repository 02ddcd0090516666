// Lines over time on a canvas, with the span that is selected, and a cursor at the page's time. Only the cursor moves
// from frame to frame; sizes are asked for when they change, as to ask makes the browser lay out the whole page.

class Chart {
  // `series` are lines of one run; `most` is the largest value of the chart in all runs.
  constructor(parent, run, series, [least, most], page) {
    Object.assign(this, { run, series, least, most, page });
    const box = document.createElement("div");
    box.className = "chart";
    const title = document.createElement("h3");
    // Bytes and times have their units at the axis; what is counted is in the title.
    const unit = series.unit.includes("/") ? ` (${series.unit})` : "";
    const name = `${series.title}${unit}`;
    const text = document.createElement("span");
    text.textContent = page.data.runs.length > 1 ? `${name}: ${run.title}` : name;
    text.dataset.term = series.title;
    title.append(text);
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${series.title} over time, ${run.title}`);
    this.cursor = document.createElement("i");
    const plot = document.createElement("div");
    plot.className = "plot";
    plot.append(this.canvas, this.cursor);
    this.list = document.createElement("ul");
    this.items = [];
    this.values = series.lines.map((line, at) => {
      const item = document.createElement("li");
      this.items.push(item);
      item.className = ["", "dashed", "dotted"][this.dash(line, at)];
      item.title = line.name;
      const value = document.createElement("b");
      const name = document.createElement("span");
      name.style.color = "var(--soft)";
      name.textContent = `${line.name} `;
      item.append(name, value);
      this.list.append(item);
      return value;
    });
    if (series.lines.length === 0) this.list.textContent = "None.";
    box.append(title, plot, this.list);
    parent.append(box);
    this.isLog = series.id === "latency" && most > 20 * Math.max(least, 1e-9);
    this.listen();
    // What the canvas shows: nothing yet.
    this.shown = "";
    this.size = [0, 0];
    new ResizeObserver(() => {
      this.size = [this.canvas.clientWidth, this.canvas.clientHeight];
      this.draw();
    }).observe(this.canvas);
  }

  // A root has its colour everywhere. Other lines have none of these colours: they differ by tone and dashes.
  hue(line, at) {
    if (line.hue !== undefined) return Data.hues[line.hue];
    const tree = this.series.id === "held" && line.name.match(/^tree (\d+)$/);
    if (tree) return Data.hue(this.run, Number(tree[1]));
    return this.page.style(["--ink", "--tone", "--soft"][at % 3]);
  }

  // 0: solid, 1: dashed, 2: dotted.
  dash(line, at) {
    return line.hue === undefined && this.series.id !== "held" ? (at + Math.floor(at / 3)) % 3 : 0;
  }

  place() {
    const [width, height] = this.size;
    return { left: 58, right: width - 8, top: 8, bottom: height - 20, width, height };
  }

  x(time) {
    const { left, right } = this.place();
    return left + ((right - left) * time) / this.page.end;
  }

  y(value) {
    const { top, bottom } = this.place();
    const part = this.isLog
      ? Math.log(Math.max(value, this.least) / this.least) / Math.log(this.most / this.least)
      : value / (this.most * 1.04 || 1);
    return bottom - (bottom - top) * part;
  }

  ticks() {
    if (this.isLog) {
      const found = [];
      for (let value = 10 ** Math.ceil(Math.log10(this.least)); value <= this.most; value *= 10) found.push(value);
      return found.length > 1 ? found : [this.least, this.most];
    }
    const step = Chart.step(this.most, 4);
    const found = [];
    for (let value = 0; value <= this.most * 1.02; value += step) found.push(value);
    return found;
  }

  static step(most, count) {
    const rough = (most || 1) / count;
    const size = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].find((one) => one * size >= rough) * size;
  }

  label(value) {
    const { unit } = this.series;
    if (unit === "B") return Data.bytes(value);
    if (unit === "ns") return Data.time(value / 1e3);
    return Data.trim(value);
  }

  draw() {
    const { page, run } = this;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    if (!this.size[0]) return;
    const wanted = [...this.size, ratio, page.look, page.span].join();
    if (this.shown !== wanted) {
      this.drawPlot(ratio);
      this.items?.forEach((item, at) => { item.style.color = this.hue(this.series.lines[at], at); });
    }
    this.shown = wanted;
    this.cursor.style.transform = `translateX(${Math.round(this.x(page.time))}px)`;
    const frame = Data.frameAt(run, page.time);
    this.series.lines.forEach((line, at) => {
      const value = line.values[frame];
      const text = Number.isNaN(value) ? "–" : this.withUnit(value);
      if (this.values[at].textContent !== text) this.values[at].textContent = text;
    });
  }

  drawPlot(ratio) {
    const { canvas } = this;
    const { width, height } = this.place();
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
    this.paint(canvas.getContext("2d"), ratio);
  }

  // Draws the plot without its cursor on any canvas.
  paint(context, ratio) {
    const { page } = this;
    const { left, right, top, bottom, width, height } = this.place();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    if (page.span) {
      context.fillStyle = page.style("--mark-soft");
      context.fillRect(this.x(page.span[0]), top, this.x(page.span[1]) - this.x(page.span[0]), bottom - top);
    }
    context.fillStyle = page.style("--soft");
    context.strokeStyle = page.style("--line");
    context.lineWidth = 1;
    context.textAlign = "right";
    for (const value of this.ticks()) {
      const y = Math.round(this.y(value)) + 0.5;
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(right, y);
      context.stroke();
      context.fillText(this.label(value), left - 6, y + 4);
    }
    context.textAlign = "center";
    const step = Chart.step(page.end, Math.max(2, Math.floor(width / 130)));
    for (let time = 0; time <= page.end * 1.001; time += step) {
      const x = this.x(time);
      context.fillText(Data.time(time), Math.min(x, right - 14), height - 5);
    }
    this.series.lines.forEach((line, at) => {
      context.setLineDash([[], [6, 3], [2, 2]][this.dash(line, at)]);
      this.drawLine(context, line.values, this.hue(line, at));
    });
    context.setLineDash([]);
  }

  withUnit(value) {
    const { unit } = this.series;
    return unit === "B" || unit === "ns" ? this.label(value) : `${Data.trim(value)} ${unit}`;
  }

  drawLine(context, values, colour) {
    const { frames } = this.run;
    context.strokeStyle = colour;
    context.lineWidth = 1.6;
    context.lineJoin = "round";
    context.beginPath();
    let isDown = false;
    for (let at = 0; at < values.length; at += 1) {
      if (Number.isNaN(values[at])) {
        isDown = false;
        continue;
      }
      const [x, y] = [this.x(frames[at]), this.y(values[at])];
      if (isDown) context.lineTo(x, y);
      else context.moveTo(x, y);
      isDown = true;
    }
    context.stroke();
  }

  // A drag selects a span, a click goes to a time.
  listen() {
    const { canvas, page } = this;
    const time = (event) => {
      const { left, right } = this.place();
      const part = (event.clientX - canvas.getBoundingClientRect().left - left) / (right - left);
      return Math.min(1, Math.max(0, part)) * page.end;
    };
    let from = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      from = [time(event), event.clientX];
    });
    canvas.addEventListener("pointermove", (event) => {
      if (from === null || Math.abs(event.clientX - from[1]) < 4) return;
      page.select([from[0], time(event)].sort((one, other) => one - other));
    });
    canvas.addEventListener("pointerup", (event) => {
      if (from !== null && Math.abs(event.clientX - from[1]) < 4) page.go(time(event));
      from = null;
    });
    canvas.addEventListener("pointercancel", () => { from = null; });
    canvas.addEventListener("dblclick", () => page.select(null));
  }
}
