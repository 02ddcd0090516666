// The page: one time, one selection, and whatever shows them.

const Page = {
  data: null,
  time: 0,
  end: 1,
  span: null,
  // The tree and the link that were clicked, with their runs.
  chosen: null,
  link: null,
  // The cause of a delay that was clicked: its run, links, spans of time, and what is said about it.
  cause: null,
  isPlaying: false,
  isDue: false,
  // Rises when colours change.
  look: 0,
  networks: [],
  charts: [],

  style(name) {
    this.styles ??= new Map();
    if (!this.styles.has(name)) {
      this.styles.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
    }
    return this.styles.get(name);
  },

  colour(name) {
    const text = this.style(name);
    return Data.rgb(text.length === 4 ? `#${[...text.slice(1)].map((one) => one + one).join("")}` : text);
  },

  async start() {
    this.data = await Data.load();
    const { runs } = this.data;
    this.end = Math.max(...runs.map((run) => run.frames[run.frames.length - 1] ?? 0), 1e-6);
    this.finest = runs.reduce((one, run) => (run.frames.length > one.frames.length ? run : one), runs[0]);
    for (const figure of document.querySelectorAll("figure.network")) {
      const run = runs[Number(figure.dataset.run)];
      if (run.spans) this.networks.push(new Network(figure.querySelector(".stage"), run, this));
    }
    this.shareViews();
    this.makeDifference();
    this.makeCharts();
    Save.start(this);
    Terms.start(this);
    Tables.start((at, kind, number) => (kind === "cause" ? this.chooseCause(runs[at], number) : this.chooseTree(runs[at], number)));
    this.listen();
    for (const name of ["player", "hint", "filter", "theme"]) document.getElementById(name).hidden = false;
    this.go(this.mostTelling());
    document.documentElement.dataset.ready = "yes";
  },

  // A typical time: after the warm-up, as many links of each run are in trees as on average.
  mostTelling() {
    const runs = this.data.runs.filter((run) => run.spans);
    const from = Math.max(0, ...runs.map((run) => run.from ?? 0));
    const means = runs.map((run) => this.meanSize(run, from));
    runs.forEach((run, at) => {
      const network = this.networks.find((one) => one.run === run);
      if (network) network.mean = Data.trim(Number(means[at].toPrecision(3)));
    });
    const times = [...this.finest.frames].filter((time) => time > from);
    const away = times.map((time) => runs.reduce((sum, run, at) => (
      sum + Math.abs(run.sizes[Data.frameAt(run, time)] - means[at]) / Math.max(means[at], 1)
    ), 0));
    const least = Math.min(...away);
    const best = away.flatMap((one, at) => (one <= least + 1e-9 ? [at] : []));
    return times[best[best.length >> 1]] ?? this.end;
  },

  // How many links of a run are in trees on average after a time.
  meanSize(run, from) {
    const sizes = [...run.frames].flatMap((time, at) => (time > from ? [run.sizes[at]] : []));
    return sizes.reduce((sum, one) => sum + one, 0) / Math.max(sizes.length, 1);
  },

  // Networks with the same links move and zoom together.
  shareViews() {
    for (const [one, other] of Difference.pairs(this.data.runs)) {
      const [first, second] = [one, other].map((run) => this.networks.find((network) => network.run === run));
      second.view = first.view;
    }
  },

  // A panel with the difference of two runs, at first those of the first and the last.
  makeDifference() {
    const pairs = Difference.pairs(this.data.runs);
    const button = document.getElementById("difference");
    button.hidden = pairs.length === 0;
    if (pairs.length === 0) return;
    const figure = document.createElement("figure");
    figure.className = "network difference";
    figure.hidden = true;
    const caption = document.createElement("figcaption");
    const name = document.createElement("span");
    name.textContent = "Difference";
    caption.append(name);
    const choice = document.createElement("select");
    choice.setAttribute("aria-label", "Runs to compare");
    for (const [at, [one, other]] of pairs.entries()) choice.append(new Option(`“${one.title}” and “${other.title}”`, at));
    const ends = ([one, other]) => one === this.data.runs[0] && other === this.data.runs.at(-1);
    const first = Math.max(0, pairs.findIndex(ends));
    choice.value = first;
    choice.hidden = pairs.length === 1;
    const stage = document.createElement("div");
    Object.assign(stage, { className: "stage", tabIndex: 0 });
    stage.setAttribute("role", "application");
    stage.setAttribute("aria-label", "The difference of two runs");
    caption.append(choice, " ", document.createElement("output"));
    figure.append(caption, stage);
    document.querySelector(".networks").append(figure);
    let shown = null;
    button.addEventListener("click", () => {
      figure.hidden = !figure.hidden;
      button.setAttribute("aria-pressed", String(!figure.hidden));
      if (!shown) {
        shown = new Difference(stage, pairs[choice.value], this);
        shown.view = this.networks.find((one) => one.run === shown.run).view;
        this.networks.push(shown);
        Save.of(shown, this);
      }
      this.redraw();
    });
    choice.addEventListener("change", () => shown.compare(pairs[choice.value]));
  },

  makeCharts() {
    const { runs } = this.data;
    const parent = document.getElementById("charts");
    const kinds = new Map();
    for (const run of runs) for (const series of run.charts) kinds.set(series.id, series);
    for (const [id, like] of kinds) {
      const all = runs.map((run) => run.charts.find((series) => series.id === id) ?? { ...like, lines: [] });
      let [least, most] = [Infinity, 0];
      for (const series of all) {
        for (const line of series.lines) {
          for (const value of line.values) {
            if (value > most) most = value;
            if (value > 0 && value < least) least = value;
          }
        }
      }
      const range = [Math.min(least, most || 1), most || 1];
      all.forEach((series, at) => this.charts.push(new Chart(parent, runs[at], series, range, this)));
    }
  },

  listen() {
    const get = (id) => document.getElementById(id);
    const slider = get("slider");
    slider.max = this.finest.frames.length - 1;
    slider.addEventListener("input", () => this.go(this.finest.frames[Number(slider.value)]));
    get("play").addEventListener("click", () => this.play(!this.isPlaying));
    get("back").addEventListener("click", () => this.step(-1));
    get("forth").addEventListener("click", () => this.step(1));
    get("whole").addEventListener("click", () => this.select(null));
    get("words").addEventListener("input", () => this.filter());
    get("in-span").addEventListener("change", () => this.filter());
    get("theme").addEventListener("click", () => this.turn());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restyle());
    document.addEventListener("keydown", (event) => this.press(event));
    this.nameTheme();
  },

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea, summary, [tabindex] th")) return;
    const stage = this.networks.find((one) => one.stage === document.activeElement);
    // One for each view: networks that are alike share theirs. The one under the pointer decides where to zoom.
    const order = [...this.networks].sort((one, other) => Boolean(other.under) - Boolean(one.under));
    const shown = stage ? [stage] : order.filter((one, at) => order.findIndex((other) => other.view === one.view) === at);
    const zoom = (factor) => shown.forEach((one) => one.zoom(factor, ...one.focus()));
    const move = (x, y) => shown.forEach((one) => one.move(x, y));
    const page = Math.max(1, Math.round(this.steps() / 10));
    const isOnButton = event.target.matches("button, tr, th");
    const keys = {
      " ": isOnButton ? null : () => this.play(!this.isPlaying),
      ArrowLeft: () => (event.shiftKey ? move(60, 0) : this.step(-1)),
      ArrowRight: () => (event.shiftKey ? move(-60, 0) : this.step(1)),
      ArrowUp: event.shiftKey ? () => move(0, 60) : null,
      ArrowDown: event.shiftKey ? () => move(0, -60) : null,
      Home: () => this.step(-Infinity),
      End: () => this.step(Infinity),
      PageUp: () => this.step(-page),
      PageDown: () => this.step(page),
      "+": () => zoom(1.4),
      "-": () => zoom(1 / 1.4),
      0: () => this.networks.forEach((one) => one.reset()),
      Escape: () => this.letGo(),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  },

  play(isPlaying) {
    this.isPlaying = isPlaying;
    const button = document.getElementById("play");
    button.textContent = isPlaying ? "❚❚" : "▶";
    button.setAttribute("aria-label", isPlaying ? "Pause" : "Play");
    if (!isPlaying) return;
    const [from, to] = this.span ?? [0, this.end];
    if (this.time >= to || this.time < from) this.go(from);
    let before = performance.now();
    const on = (now) => {
      if (!this.isPlaying) return;
      const [first, last] = this.span ?? [0, this.end];
      // A run, or what is selected of it, takes 12 seconds.
      const speed = (Number(document.getElementById("speed").value) * (last - first)) / 12_000;
      const next = this.time + speed * (now - before);
      before = now;
      this.go(Math.min(next, last));
      if (next >= last) this.play(false);
      else requestAnimationFrame(on);
    };
    requestAnimationFrame(on);
  },

  steps() {
    return this.finest.frames.length;
  },

  step(count) {
    this.play(false);
    const { frames } = this.finest;
    const at = Math.min(Math.max(Data.frameAt(this.finest, this.time) + count, 0), frames.length - 1);
    this.go(frames[at]);
  },

  go(time) {
    this.time = time;
    document.getElementById("slider").value = Data.frameAt(this.finest, time);
    document.getElementById("now").textContent = Data.time(time);
    this.redraw();
  },

  select(span) {
    this.span = span && span[1] - span[0] > this.end / 1000 ? span : null;
    document.getElementById("whole").hidden = !this.span;
    if (this.span && (this.time < this.span[0] || this.time > this.span[1])) this.go(this.span[0]);
    this.filter();
    this.redraw();
  },

  filter() {
    const isIn = document.getElementById("in-span").checked;
    Tables.filter(document.getElementById("words").value, isIn ? this.span : null);
  },

  // Draws everything once, before the next picture is shown.
  redraw() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      for (const one of this.networks) one.draw();
      for (const one of this.charts) one.draw();
      this.detail();
    });
  },

  choose(network, found) {
    if (network instanceof Difference) return;
    if (!found) {
      this.letGo();
      return;
    }
    const { run } = network;
    this.cause = null;
    this.link = { run, ...found };
    const span = found.link === undefined ? -1 : Data.spansAt(run, network.frame)[found.link];
    this.chosen = span >= 0 ? { run, tree: run.spans.tree[span] } : null;
    Tables.pick(this.data.runs.indexOf(run), this.chosen?.tree ?? null);
    this.redraw();
  },

  chooseTree(run, tree) {
    if (!run?.spans) return;
    const [, , born, last] = run.trees[tree - 1];
    this.link = null;
    this.cause = null;
    this.chosen = { run, tree };
    Tables.pick(this.data.runs.indexOf(run), tree);
    if (this.time <= born || this.time > last) this.go((born + last) / 2);
    this.redraw();
  },

  // Shows the links from what waits to the cause, at a time at which it acts.
  chooseCause(run, number) {
    const found = run?.causes?.[number - 1];
    if (!found) return;
    this.link = null;
    this.chosen = null;
    this.cause = { run, ...found, links: new Set(found.links) };
    Tables.pick(this.data.runs.indexOf(run), number, "cause");
    const longest = found.spans.reduce((one, other) => (other[1] - other[0] > one[1] - one[0] ? other : one), [0, 0]);
    if (!this.acts()) this.go((longest[0] + longest[1]) / 2);
    this.redraw();
  },

  // Whether the cause that was clicked acts in the frame of this time.
  acts() {
    const { frames } = this.cause.run;
    const at = Data.frameAt(this.cause.run, this.time);
    const [from, to] = [at > 0 ? frames[at - 1] : 0, frames[at]];
    return this.cause.spans.some(([begin, end]) => begin < to && end > from);
  },

  letGo() {
    this.link = null;
    this.cause = null;
    this.chosen = null;
    Tables.pick(0, null);
    this.redraw();
  },

  // What is known of a link or node now, in lines.
  describe(network, { link, node }) {
    const { run } = network;
    if (network instanceof Difference) return network.describe({ link, node });
    const spans = Data.spansAt(run, network.frame);
    if (node !== undefined) return this.describeNode(network, node);
    const lines = [run.links[link]];
    const span = spans[link];
    if (run.utilisation) {
      const part = run.utilisation[link * run.frames.length + network.frame] / 15;
      lines.push(`carries ${Math.round(part * 100)} % of its rate`);
    }
    if (span < 0) return [...lines, "in no tree"];
    const { tree, trees, depth, waits_for: waits, isolated, queued, held } = run.spans;
    const kind = run.trees[tree[span] - 1][1];
    const letter = Data.letter(run, tree[span]);
    if (depth[span] === 0) lines.push(`root ${letter} of tree ${tree[span]} (${kind})`);
    else {
      const more = trees[span] > 1 ? ` and ${trees[span] - 1} more` : "";
      lines.push(`in tree ${tree[span]} (${kind}) of root ${letter}${more}, ${depth[span]} from its root`);
      lines.push(`waits for ${run.links[waits[span]]}`);
      if (isolated[span]) lines.push("only packets in special queues wait; others pass");
    }
    const waiting = [];
    spans.forEach((one, other) => {
      if (one >= 0 && other !== link && waits[one] === link) waiting.push(run.links[other]);
    });
    if (waiting.length > 0) {
      const more = waiting.length > 6 ? ` and ${waiting.length - 6} more` : "";
      lines.push(`${waiting.length} wait for it: ${waiting.slice(0, 6).join(", ")}${more}`);
    }
    lines.push(`up to ${Data.bytes(queued[span])} wait for it; up to ${Data.bytes(held[span])} are in the buffer behind it`);
    return lines;
  },

  describeNode(network, node) {
    const { run } = network;
    const lines = [`${node < run.hosts ? "host" : "switch"} ${run.nodes[node]}`];
    for (const [word, role] of [["feeds", run.contributors], ["is a victim of", run.victims]]) {
      const time = run.frames[network.frame];
      const trees = new Set();
      role.host.forEach((host, at) => {
        if (host === node && role.first[at] < time && role.last[at] >= time) trees.add(role.tree[at]);
      });
      if (trees.size > 0) lines.push(`${word} tree${trees.size > 1 ? "s" : ""} ${[...trees].slice(0, 12).join(", ")}`);
    }
    if (node < run.hosts && run.utilisation) {
      const load = (link) => Math.round(run.utilisation[link * run.frames.length + network.frame] / 0.15);
      const part = (ends) => [...ends.keys()].filter((link) => ends[link] === node).map((link) => `${load(link)} %`).join(" and ");
      lines.push(`sends at ${part(run.source)} and receives at ${part(run.target)} of the rate of its link`);
    }
    const spans = Data.spansAt(run, network.frame);
    const blocked = run.links.filter((_, link) => spans[link] >= 0 && run.source[link] === node);
    if (blocked.length > 0) lines.push(`in trees: ${blocked.slice(0, 6).join(", ")}${blocked.length > 6 ? " …" : ""}`);
    return lines;
  },

  fill(element, lines) {
    element.replaceChildren(...lines.map((line, at) => {
      const text = document.createElement(at === 0 ? "strong" : "p");
      text.textContent = line.length > 400 ? `${line.slice(0, 399)}…` : line;
      return text;
    }));
  },

  tip(lines, event) {
    const tip = document.getElementById("tip");
    tip.hidden = !lines;
    if (!lines) return;
    this.fill(tip, lines);
    const [width, height] = [tip.offsetWidth, tip.offsetHeight];
    const left = event.clientX + 14 + width > innerWidth ? event.clientX - width - 10 : event.clientX + 14;
    const top = event.clientY + 14 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  },

  detail() {
    const details = document.getElementById("details");
    const network = this.networks.find((one) => one.run === (this.link ?? this.cause ?? this.chosen)?.run);
    details.hidden = !network;
    if (!network) return;
    if (this.cause) {
      this.fill(details, [...this.cause.lines, this.acts() ? "acts now" : "does not act now"]);
      return;
    }
    if (this.link) {
      this.fill(details, this.describe(network, this.link));
      return;
    }
    const [root, kind, born, last] = network.run.trees[this.chosen.tree - 1];
    this.fill(details, [`Tree ${this.chosen.tree}: ${kind}`, `root ${Data.letter(network.run, this.chosen.tree)} ${root}`, `from ${Data.time(born)} to ${Data.time(last)}`]);
  },

  isDark() {
    const set = document.documentElement.dataset.theme;
    return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  },

  turn() {
    document.documentElement.dataset.theme = this.isDark() ? "light" : "dark";
    this.restyle();
  },

  restyle() {
    this.styles = null;
    this.look += 1;
    this.nameTheme();
    this.redraw();
  },

  nameTheme() {
    Data.setDark(this.isDark());
    document.getElementById("theme").textContent = this.isDark() ? "Light" : "Dark";
  },
};
