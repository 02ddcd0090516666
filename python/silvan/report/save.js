// Pictures and data of the page as files: SVG, PNG, CSV.

// Takes what is drawn on a canvas as SVG.
class Drawing {
  constructor(width, height, background) {
    Object.assign(this, { width, height, parts: [], path: "", dashes: [], globalAlpha: 1, lineWidth: 1 });
    Object.assign(this, { strokeStyle: "#000", fillStyle: "#000", font: "11px sans-serif", textAlign: "left" });
    this.fillStyle = background;
    this.fillRect(0, 0, width, height);
  }

  setTransform() {}

  clearRect() {}

  setLineDash(dashes) {
    this.dashes = dashes;
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${Drawing.number(x)} ${Drawing.number(y)}`;
  }

  lineTo(x, y) {
    this.path += `L${Drawing.number(x)} ${Drawing.number(y)}`;
  }

  // Full circles only.
  arc(x, y, radius) {
    const r = Drawing.number(radius);
    this.path += `M${Drawing.number(x - radius)} ${Drawing.number(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
  }

  rect(x, y, width, height) {
    this.path += `M${Drawing.number(x)} ${Drawing.number(y)}h${Drawing.number(width)}v${Drawing.number(height)}h${Drawing.number(-width)}z`;
  }

  fillRect(x, y, width, height) {
    this.path = "";
    this.rect(x, y, width, height);
    this.fill();
  }

  stroke() {
    const dashes = this.dashes.length > 0 ? ` stroke-dasharray="${this.dashes.map(Drawing.number).join(" ")}"` : "";
    this.add(`<path d="${this.path}" fill="none" stroke="${this.strokeStyle}" stroke-width="${Drawing.number(this.lineWidth)}"${dashes}`);
  }

  fill() {
    this.add(`<path d="${this.path}" fill="${this.fillStyle}"`);
  }

  fillText(text, x, y) {
    const anchor = { center: "middle", right: "end" }[this.textAlign] ?? "start";
    const size = this.font.match(/(\d+)px/)?.[1] ?? 11;
    const weight = this.font.startsWith("bold") ? ' font-weight="bold"' : "";
    this.add(
      `<text x="${Drawing.number(x)}" y="${Drawing.number(y)}" fill="${this.fillStyle}" text-anchor="${anchor}" `
      + `font-family="sans-serif" font-size="${size}"${weight}`, Drawing.escape(text), "text",
    );
  }

  // The halo of a text.
  strokeText(text, x, y) {
    const before = this.parts.length;
    this.fillText(text, x, y);
    this.parts[before] = this.parts[before].replace(
      "<text ", `<text stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" stroke-linejoin="round" `,
    );
  }

  add(start, content = "", name = "") {
    const alpha = this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : "";
    this.parts.push(name ? `${start}${alpha}>${content}</${name}>` : `${start}${alpha}/>`);
  }

  text() {
    const [width, height] = [this.width, this.height].map(Drawing.number);
    return `<svg xmlns="${Drawing.SPACE}" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">\n${this.parts.join("\n")}\n</svg>\n`;
  }

  static number(value) {
    return Math.round(value * 100) / 100;
  }

  static escape(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
  }
}
// The name of the format, not an address to fetch.
Drawing.SPACE = ["http", "//www.w3.org/2000/svg"].join(":");

const Save = (() => {
  function put(name, content, type) {
    const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    const link = document.createElement("a");
    Object.assign(link, { href: address, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  const plain = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 80) || "silvan";
  const cell = (text) => (/[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  const lines = (rows) => rows.map((row) => row.map((one) => cell(String(one))).join(",")).join("\n") + "\n";

  function svg(size, paint, background) {
    const drawing = new Drawing(...size, background);
    paint(drawing, 1);
    return drawing.text();
  }

  function png(size, paint, background, done) {
    const [width, height] = size;
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
    const context = canvas.getContext("2d");
    const clear = context.clearRect.bind(context);
    // Layers are drawn over each other.
    context.clearRect = () => {};
    clear(0, 0, canvas.width, canvas.height);
    context.fillStyle = background;
    context.fillRect(0, 0, canvas.width, canvas.height);
    paint(context, 2);
    canvas.toBlob(done, "image/png");
  }

  function ofChart(chart) {
    const { frames } = chart.run;
    const rows = [["time_us", ...chart.series.lines.map((line) => `${line.name}${chart.series.unit ? ` (${chart.series.unit})` : ""}`)]];
    frames.forEach((time, at) => rows.push([
      Number(time.toPrecision(9)), ...chart.series.lines.map(({ values }) => (Number.isNaN(values[at]) ? "" : Number(values[at].toPrecision(7)))),
    ]));
    return lines(rows);
  }

  // The links that are in trees now.
  function ofNetwork({ run, page }) {
    const rows = [["time_us", "link", "tree", "root", "depth", "waits_for", "queued_bytes"]];
    const frame = Data.frameAt(run, page.time);
    Data.spansAt(run, frame).forEach((span, link) => {
      if (span < 0) return;
      const { tree, depth, waits_for: waits, queued } = run.spans;
      rows.push([Number(run.frames[frame].toPrecision(9)), run.links[link], tree[span], run.trees[tree[span] - 1][0], depth[span], run.links[waits[span]], queued[span]]);
    });
    return lines(rows);
  }

  // Adds the buttons of something that is drawn.
  function buttons(parent, name, drawn, page) {
    const box = document.createElement("span");
    box.className = "save";
    const add = (text, label, act) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
      button.setAttribute("aria-label", label);
      button.title = label;
      button.addEventListener("click", act);
      box.append(button);
    };
    const background = () => page.style("--sheet");
    add("SVG", "Save the picture as SVG", () => put(`${plain(name())}.svg`, svg(drawn.size(), drawn.paint, background()), "image/svg+xml"));
    add("PNG", "Save the picture as PNG", () => png(drawn.size(), drawn.paint, background(), (blob) => put(`${plain(name())}.png`, blob)));
    if (drawn.data) add("CSV", "Save the data as CSV", () => put(`${plain(name())}.csv`, drawn.data(), "text/csv"));
    parent.append(box);
  }

  function start(page) {
    for (const chart of page.charts) {
      const paint = (context, ratio) => chart.paint(context, ratio);
      buttons(chart.canvas.parentNode.previousSibling, () => `${chart.series.title} ${chart.run.title}`, { size: () => chart.size, paint, data: () => ofChart(chart) }, page);
    }
    for (const network of page.networks) of(network, page);
  }

  function of(network, page) {
    const paint = (context, ratio) => network.paint(context, ratio);
    const data = network instanceof Difference ? null : () => ofNetwork(network);
    const name = () => `${network.stage.parentNode.querySelector("figcaption").firstChild.textContent} ${Data.time(page.time)}`;
    buttons(network.stage.parentNode.querySelector("figcaption"), name, { size: () => network.size, paint, data }, page);
  }

  return { start, of, svg, png, ofChart, ofNetwork };
})();
