// The page: settings, up to two runs of them, and what shows these.

const SPEEDS = [20, 50, 100, 200, 500, 1000, Infinity];
const HUES = 8;

const Playground = Object.assign(Object.create(Page), {
  settings: null,
  sides: [],
  charts: [],
  networks: [],
  // The number of the sample that is shown, and how far the run has been shown.
  at: 0,
  furthest: 0,
  part: 0,
  speed: 100,
  tool: "hotspot",
  senders: 12,
  story: null,
  roots: new Map(),
  isWaiting: true,
  // The time between samples in µs.
  interval: 10,

  async start() {
    await Live.load();
    Controls.make(this);
    this.watch();
    const given = await Scenario.settingsOf(location.hash.slice(1)).catch(() => null);
    if (given) this.begin(given, null);
    else this.tell(STORIES[1]);
    this.turnWheel();
  },

  async tell(story) {
    this.speed = story.speed;
    this.begin(await Scenario.settingsOf(story.settings), story);
  },

  // Starts with new settings from the beginning.
  begin(settings, story) {
    this.story = story;
    this.settings = settings;
    const most = Scenario.NETWORKS[settings.net].hosts - 1;
    const given = settings.hotspots.map((one) => (Array.isArray(one.senders) ? one.senders.length : one.senders));
    this.senders = Math.min(given[0] ?? this.senders, most);
    this.at = 0;
    this.furthest = 0;
    this.isPlaying = true;
    this.roots.clear();
    this.restart(0);
  },

  // Computes all sides again with the settings as they are now, up to a time in µs.
  restart(until, only = null) {
    const { settings } = this;
    while (this.sides.length > settings.sides.length) this.sides.pop().live.worker.terminate();
    settings.sides.forEach((side, at) => {
      this.sides[at] ??= { live: new Live(() => this.arrived()), run: null, network: null };
      if (only === null || only === at || !this.sides[at].live.now) {
        this.sides[at].live.open(Scenario.toml(settings, side), until);
      }
    });
    this.isWaiting = true;
    Controls.show();
    this.share();
  },

  share() {
    const { settings } = this;
    Scenario.fragment(settings).then((text) => {
      if (settings === this.settings) history.replaceState(null, "", `#${text}`);
    });
  },

  // Something came from a worker.
  arrived() {
    if (this.isWaiting && this.sides.every((side) => side.live.isReady())) this.swap();
    const wrong = this.sides.map((side) => side.live.now?.error).find((error) => error);
    if (wrong) Controls.complain(wrong);
    this.redraw();
  },

  swap() {
    const wrong = this.sides.map((side) => side.live.next?.error).find((error) => error);
    Controls.complain(wrong ?? null);
    this.sides.forEach((side) => side.live.swap());
    // Without an earlier run there is nothing to show: other settings are awaited.
    if (this.sides.some((side) => !side.live.now)) return;
    this.isWaiting = false;
    this.draft();
    document.documentElement.dataset.ready = "yes";
  },

  // Makes pictures and charts for the runs.
  draft() {
    const parent = document.getElementById("networks");
    const names = this.names();
    this.sides.forEach((side, at) => {
      const { network } = side.live.now;
      const isSame = side.network && side.run.links.length === network.links.length && side.topology === network.topology;
      if (!isSame) {
        side.figure?.remove();
        side.figure = Controls.figure(at);
        parent.insertBefore(side.figure, parent.children[at] ?? null);
        side.run = Frame.empty(network, names[at]);
        side.network = new LiveNetwork(side.figure.querySelector(".stage"), side.run, this);
        side.topology = network.topology;
      } else side.run.trees = [];
      side.run.title = names[at];
      side.figure.querySelector("b").textContent = names[at];
      side.series = Series.make(side.live.now.network, this.settings, this.hasIndex(), (host) => this.hueOf(host));
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

  hasIndex() {
    return this.settings.sides.some(({ mechanism }) => mechanism === "file" || Scenario.MECHANISMS[mechanism].hasIndex);
  },

  makeCharts() {
    const parent = document.getElementById("charts");
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

  names() {
    const names = this.settings.sides.map((side) => {
      const name = Scenario.MECHANISMS[side.mechanism]?.name ?? "As in the file";
      return side.spread ? `${name}, routing per packet` : name;
    });
    return names[0] === names[1] ? [`${names[0]} (first)`, `${names[1]} (second)`] : names;
  },

  // The number of samples that all sides have.
  known() {
    return Math.min(...this.sides.map((side) => side.live.now?.samples.length ?? 0));
  },

  // Runs for ever: advances what is shown while the page plays, and lets the workers compute ahead of it.
  turnWheel() {
    let before = performance.now();
    const on = (now) => {
      const passed = Math.min(now - before, 200) / 1e3;
      before = now;
      requestAnimationFrame(on);
      if (this.isWaiting || this.sides.length === 0) return;
      const ahead = this.speed === Infinity ? 200 : Math.max(20, this.speed / this.interval);
      for (const { live } of this.sides) if (!live.now.isDone) live.grant(Math.ceil(this.at + ahead));
      if (!this.isPlaying) return;
      const most = this.known() - 1;
      this.part += this.speed === Infinity ? 1000 : passed * (this.speed / this.interval);
      const steps = Math.floor(this.part);
      if (steps === 0) return;
      this.part = this.speed === Infinity ? 0 : this.part - steps;
      if (this.at < most) this.goTo(Math.min(this.at + steps, most));
      else if (this.sides.every((side) => side.live.now.isDone)) this.play(false);
    };
    requestAnimationFrame(on);
  },

  play(isPlaying) {
    if (isPlaying && this.at >= this.known() - 1 && this.sides.every((side) => side.live.now.isDone)) this.at = 0;
    this.isPlaying = isPlaying;
    Controls.show();
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
    if (this.sides.length === 0 || this.sides.some((side) => !side.live.now) || this.known() === 0) {
      Controls.progress();
      return;
    }
    this.at = Math.min(this.at, this.known() - 1);
    this.furthest = Math.max(this.at, Math.min(this.furthest, this.known() - 1));
    this.time = this.sides[0].live.time(this.at);
    this.end = Series.end(this.sides[0].live.time(this.furthest));
    for (const { live, run, network } of this.sides) {
      Frame.fill(run, live.now.samples[this.at], (root) => this.lookOf(root));
      network.draw();
    }
    this.drawCharts();
    this.detail();
    Controls.progress();
    // The time from the start of the page to its first picture, in ms.
    document.documentElement.dataset.first ??= Math.round(performance.now());
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

  // A click on a network: what it does to a host depends on the tool; links and trees are selected.
  choose(network, found) {
    const host = this.settings.text === null && this.tool !== "look" ? network.hostAt() : null;
    if (host !== null) {
      this.act(network.run.nodes[host]);
      return;
    }
    if (!found) {
      this.link = null;
      this.chosen = null;
    } else {
      this.link = { run: network.run, ...found };
      const span = found.link === undefined ? -1 : network.run.now[found.link];
      this.chosen = span >= 0 ? { run: network.run, tree: network.run.spans.tree[span] } : null;
    }
    this.redraw();
  },

  letGo() {
    this.link = null;
    this.chosen = null;
    this.redraw();
  },

  // The time of the sample that is shown, in whole µs; 0 at the beginning.
  clock() {
    return this.at === 0 ? 0 : Math.round(this.time);
  },

  hotspots(time = this.time) {
    return this.settings.hotspots.filter((one) => one.from <= time && (one.to === null || one.to > time));
  },

  act(name) {
    const { settings } = this;
    const now = this.clock();
    if (this.tool === "victim") {
      const at = settings.victims.findIndex((one) => one.host === name);
      if (at >= 0) settings.victims.splice(at, 1);
      else settings.victims.push({ host: name, to: Scenario.partner(settings, name) });
    } else {
      const lasting = settings.hotspots.find((one) => one.host === name && one.to === null);
      if (lasting) this.endHotspot(lasting, now);
      else settings.hotspots.push({ host: name, senders: this.senders, from: now, to: null });
    }
    this.changed();
  },

  endHotspot(hotspot, now) {
    if (hotspot.from < now) hotspot.to = now;
    else this.settings.hotspots.splice(this.settings.hotspots.indexOf(hotspot), 1);
  },

  // A hotspot was dragged from a host to another.
  moveHotspot(from, to) {
    const now = this.clock();
    const hotspot = this.settings.hotspots.find((one) => one.host === from && one.to === null);
    if (!hotspot || from === to) return;
    this.endHotspot(hotspot, now);
    const senders = Array.isArray(hotspot.senders) ? hotspot.senders.filter((one) => one !== to) : hotspot.senders;
    this.settings.hotspots.push({ host: to, senders, from: now, to: null });
    this.changed();
  },

  // The settings changed: what is shown goes on from the same time.
  changed(only = null) {
    this.story = null;
    const net = Scenario.NETWORKS[this.settings.net];
    if (this.settings.text === null && this.time > 0.8 * this.settings.length) {
      this.settings.length = Math.min(50_000, this.settings.length + net.length);
      only = null;
    }
    this.isPlaying = true;
    this.restart(this.clock(), only);
  },

  watch() {
    document.addEventListener("keydown", (event) => this.press(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restyle());
    addEventListener("hashchange", async () => {
      const given = await Scenario.settingsOf(location.hash.slice(1)).catch(() => null);
      if (given) this.begin(given, null);
    });
  },

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea, summary")) return;
    const keys = {
      " ": event.target.matches("button") ? null : () => this.play(!this.isPlaying),
      ArrowLeft: () => this.step(-1),
      ArrowRight: () => this.step(1),
      "+": () => this.networks.forEach((one) => one.zoom(1.4)),
      "-": () => this.networks.forEach((one) => one.zoom(1 / 1.4)),
      0: () => this.networks.forEach((one) => one.reset()),
      Escape: () => this.letGo(),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  },
});

Playground.start().catch((error) => {
  document.body.classList.add("broken");
  Controls.complain(String(error));
  console.error(error);
});
