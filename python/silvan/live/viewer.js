// A page that shows one or two runs while they progress: their networks, charts, and one time for all.
//
// A side has `live`, which receives a run. `live.now` has the `network` of the run, its `samples` so far, whether it
// `isDone`, and its `error`, if any. A page derives from this one.

// Simulated µs per second; Infinity shows the newest sample.
const SPEEDS = [20, 50, 100, 200, 500, 1000, Infinity];
const HUES = 8;

const Viewer = Object.assign(Object.create(Page), {
  sides: [],
  charts: [],
  networks: [],
  // The number of the sample that is shown, and how far the runs have been shown.
  at: 0,
  furthest: 0,
  part: 0,
  speed: 100,
  roots: new Map(),
  // Whether the page awaits other runs than those that it shows.
  isWaiting: true,
  // The time between samples in µs.
  interval: 10,

  // What pages may do differently.
  names() {
    return this.sides.map(({ live }) => live.now.network.name);
  },

  seriesOf(side) {
    const { network } = side.live.now;
    return Series.make(network, { hasIndex: network.flows > 0, hueOf: (host) => this.hueOf(host) });
  },

  networkOf(stage, run) {
    return new Network(stage, run, this);
  },

  // The runs should have this many samples soon.
  want() {},

  showProgress() {
    const known = this.known();
    if (known === 0) return;
    const [{ live }] = this.sides;
    Elements.get("slider").max = Math.max(known - 1, 1);
    Elements.get("slider").value = this.at;
    Elements.get("now").textContent = `${Data.time(this.time)} of ${Data.time(live.now.network.duration_ns / 1e3)}`;
  },

  showControls() {
    const button = Elements.get("play");
    button.textContent = this.isPlaying ? "❚❚" : "▶";
    button.setAttribute("aria-label", this.isPlaying ? "Pause" : "Play");
    const names = SPEEDS.map((one) => [String(one), one === Infinity ? this.fastest : `${one} µs/s`]);
    Elements.choice(Elements.get("speed"), names, String(this.speed));
  },

  fastest: "as fast as possible",

  listen() {
    const on = (id, event, act) => Elements.get(id).addEventListener(event, act);
    on("play", "click", () => this.play(!this.isPlaying));
    on("back", "click", () => this.step(-1));
    on("forth", "click", () => this.step(1));
    on("slider", "input", () => {
      this.play(false);
      this.goTo(Number(Elements.get("slider").value));
    });
    on("speed", "change", () => { this.speed = Number(Elements.get("speed").value); });
    on("theme", "click", () => this.turn());
    document.addEventListener("keydown", (event) => this.press(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restyle());
    this.nameTheme();
  },

  // Makes pictures and charts for the runs.
  draft() {
    const parent = Elements.get("networks");
    const names = this.names();
    this.sides.forEach((side, at) => {
      const { network } = side.live.now;
      const isSame = side.network && side.run.links.length === network.links.length && side.topology === network.topology;
      if (!isSame) {
        side.figure?.remove();
        side.figure = this.makeFigure();
        parent.insertBefore(side.figure, parent.children[at] ?? null);
        side.run = Frame.empty(network, names[at]);
        side.network = this.networkOf(side.figure.querySelector(".stage"), side.run);
        side.topology = network.topology;
      } else side.run.trees = [];
      side.run.title = names[at];
      side.figure.querySelector("b").textContent = names[at];
      side.series = this.seriesOf(side);
    });
    [...parent.children].slice(this.sides.length).forEach((one) => one.remove());
    parent.dataset.count = this.sides.length;
    this.networks = this.sides.map((side) => side.network);
    // Both sides move and zoom together.
    for (const network of this.networks) network.view = this.networks[0].view;
    this.interval = this.sides[0].live.now.network.interval_ns / 1e3;
    this.at = Math.max(Math.min(this.at, this.known() - 1), 0);
    this.makeCharts();
    this.link = null;
    this.chosen = null;
  },

  makeFigure() {
    const { make } = Elements;
    return make(
      "figure", { className: "network" },
      make("figcaption", {}, make("b"), " ", make("output")),
      make("div", { className: "stage", tabIndex: 0, role: "application", "aria-label": "The network" }),
    );
  },

  makeCharts() {
    const parent = Elements.get("charts");
    parent.replaceChildren();
    this.charts = [];
    this.data = { runs: this.sides.map((side) => side.run) };
    const ids = new Set(this.sides.flatMap((side) => side.series.map((one) => one.id)));
    for (const id of ids) {
      for (const side of this.sides) {
        const series = side.series.find((one) => one.id === id) ?? { ...Series.none, id };
        const run = { title: side.run.title, frames: [] };
        this.charts.push(Object.assign(new Chart(parent, run, series, [1, 1], this), { side, isLog: false }));
      }
    }
    parent.dataset.count = this.sides.length;
  },

  // The number of samples that all sides have.
  known() {
    const counts = this.sides.map((side) => side.live.now?.samples.length ?? 0);
    return counts.length > 0 ? Math.min(...counts) : 0;
  },

  steps() {
    return this.known();
  },

  isDone() {
    return this.sides.every((side) => side.live.now.isDone);
  },

  // Runs for ever: advances what is shown while the page plays.
  turnWheel() {
    let before = performance.now();
    const on = (now) => {
      const passed = Math.min(now - before, 200) / 1e3;
      before = now;
      requestAnimationFrame(on);
      if (this.isWaiting || this.sides.length === 0) return;
      const ahead = this.speed === Infinity ? 200 : Math.max(20, this.speed / this.interval);
      this.want(Math.ceil(this.at + ahead));
      if (!this.isPlaying) return;
      const most = this.known() - 1;
      this.part += this.speed === Infinity ? 1000 : passed * (this.speed / this.interval);
      const steps = Math.floor(this.part);
      if (steps === 0) return;
      this.part = this.speed === Infinity ? 0 : this.part - steps;
      if (this.at < most) this.goTo(Math.min(this.at + steps, most));
      else if (this.isDone()) this.play(false);
    };
    requestAnimationFrame(on);
  },

  play(isPlaying) {
    if (isPlaying && this.at >= this.known() - 1 && this.isDone()) this.at = 0;
    this.isPlaying = isPlaying;
    this.showControls();
  },

  step(count) {
    this.play(false);
    this.goTo(this.at + count);
  },

  goTo(at) {
    this.at = Math.min(Math.max(at, 0), Math.max(this.known() - 1, 0));
    this.redraw();
  },

  // Charts go to a time.
  go(time) {
    this.play(false);
    this.goTo(Math.round(time / this.interval) - 1);
  },

  // Nothing is selected in charts that grow.
  select() {},

  // The number of the color of the tree whose root is the link to a host.
  hueOf(host) {
    const root = [...this.roots].find(([name]) => name.endsWith(`->${host}`));
    return root === undefined ? undefined : root[1] % HUES;
  },

  // The number of the color of a root and its letter: the same on both sides.
  lookOf(root) {
    if (!this.roots.has(root)) this.roots.set(root, this.roots.size);
    const number = this.roots.get(root);
    const letters = [];
    for (let rest = number + 1; rest > 0; rest = Math.floor((rest - 1) / 26)) letters.unshift((rest - 1) % 26);
    return [number % HUES, String.fromCharCode(...letters.map((one) => 65 + one))];
  },

  redraw() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.paint();
    });
  },

  paint() {
    if (this.known() === 0) {
      this.showProgress();
      return;
    }
    this.at = Math.min(this.at, this.known() - 1);
    this.furthest = Math.max(this.at, Math.min(this.furthest, this.known() - 1));
    this.time = this.timeOf(this.at);
    const whole = Math.max(...this.sides.map(({ live }) => live.now.network.duration_ns / 1e3));
    this.end = Math.min(Series.end(this.timeOf(this.furthest)), whole);
    for (const { live, run, network } of this.sides) {
      Frame.fill(run, live.now.samples[this.at], (root) => this.lookOf(root));
      network.draw();
    }
    this.drawCharts();
    this.detail();
    this.showProgress();
    // The time from the start of the page to its first picture, in ms.
    document.documentElement.dataset.first ??= Math.round(performance.now());
  },

  // The time of a sample in µs.
  timeOf(at) {
    return this.sides[0].live.now.samples[at].time_ns / 1e3;
  },

  drawCharts() {
    const most = new Map();
    for (const chart of this.charts) {
      const { samples } = chart.side.live.now;
      Series.extend(chart.series, chart.run, samples, this.furthest + 1);
      most.set(chart.series.id, Math.max(most.get(chart.series.id) ?? 0, ...chart.series.lines.map((line) => line.most)));
    }
    for (const chart of this.charts) {
      chart.most = most.get(chart.series.id) || 1;
      chart.least = 0;
      chart.shown = "";
      chart.draw();
    }
  },

  // A click on a network selects links and trees.
  choose(network, found) {
    if (!found) {
      this.letGo();
      return;
    }
    this.link = { run: network.run, ...found };
    const span = found.link === undefined ? -1 : network.run.now[found.link];
    this.chosen = span >= 0 ? { run: network.run, tree: network.run.spans.tree[span] } : null;
    this.redraw();
  },

  letGo() {
    this.link = null;
    this.chosen = null;
    this.redraw();
  },
});
