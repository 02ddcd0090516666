// The page of a run that is watched. Events come from the server of the page, or from the window that contains it.

// What a run has sent.
class Stream {
  constructor() {
    this.now = null;
  }

  begin(network) {
    this.now = { network, samples: [], isDone: false, error: null };
  }
}

const Watch = Object.assign(Object.create(Viewer), {
  speed: Infinity,
  fastest: "newest",
  isPlaying: true,
  wall: 0,

  start() {
    this.sides = [{ live: new Stream(), run: null, network: null }];
    this.listen();
    this.showControls();
    if (document.documentElement.dataset.source === "events") this.connect();
    else this.receive();
    this.turnWheel();
  },

  connect() {
    const source = new EventSource("events");
    for (const kind of ["network", "samples", "pulse", "end"]) {
      source.addEventListener(kind, (event) => this.take(kind, JSON.parse(event.data)));
    }
    source.addEventListener("error", () => {
      if (this.isOver) source.close();
      else Elements.get("state").textContent = "The connection to the run is lost. Is its command still running?";
    });
  },

  receive() {
    addEventListener("message", ({ source, data }) => {
      if (source === parent && Array.isArray(data)) for (const [kind, value] of data) this.take(kind, value);
    });
    parent.postMessage("silvan-ready", "*");
  },

  take(kind, value) {
    const [{ live }] = this.sides;
    if (kind === "network") {
      live.begin(value);
      this.isWaiting = false;
      this.furthest = 0;
      this.roots.clear();
      this.draft();
      this.isOver = false;
      Elements.get("account").hidden = true;
      Elements.get("wrong").hidden = true;
    }
    if (kind === "samples") live.now.samples.push(...value);
    if (kind === "pulse") this.wall = value.wall_s;
    if (kind === "end") this.finish(value);
    this.state();
    this.redraw();
    if (this.known() > 0) document.documentElement.dataset.ready = "yes";
  },

  // How far the run is.
  state() {
    if (this.isOver || !this.sides[0].live.now) return;
    const { network, samples } = this.sides[0].live.now;
    const last = samples.at(-1);
    if (!last) return;
    const part = last.time_ns / network.duration_ns;
    Elements.get("progress").value = part;
    const rate = this.wall > 0.5 ? `, ${Data.trim(Number((last.packet_hops / this.wall / 1e6).toPrecision(3)))} million packet hops per second` : "";
    const left = this.wall > 2 && part > 0.02 ? `, about ${Watch.seconds((this.wall * (1 - part)) / part)} left` : "";
    Elements.get("state").textContent = `Running: ${Data.time(last.time_ns / 1e3)} of ${Data.time(network.duration_ns / 1e3)}${rate}${left}`;
  },

  seconds(value) {
    if (value < 90) return `${Math.ceil(value)} s`;
    return value < 5400 ? `${Math.ceil(value / 60)} min` : `${Data.trim(Math.round(value / 360) / 10)} h`;
  },

  finish({ state, error, account, warnings, roots, wall_s: wall }) {
    const { get, make, prose } = Elements;
    this.isOver = true;
    const { now } = this.sides[0].live;
    if (now) now.isDone = true;
    get("progress").hidden = true;
    if (state === "failed") {
      get("state").textContent = "The run has stopped.";
      get("wrong").textContent = error;
      get("wrong").hidden = false;
      return;
    }
    // Letters and colors are those of the report from now on.
    this.roots = new Map([...new Set([...roots, ...this.roots.keys()])].map((one, at) => [one, at]));
    get("state").textContent = `The run has ended after ${Watch.seconds(wall)}. `;
    if (document.documentElement.dataset.source === "events") {
      get("state").append(make("a", { href: "report", target: "_blank", rel: "noopener", textContent: "Open its report" }));
    }
    get("account").replaceChildren(
      make("h3", { textContent: "Account" }),
      ...account.map((text) => prose(text)),
      ...warnings.map((text) => prose(`Warning: ${text}`, { className: "warning" })),
    );
    get("account").hidden = false;
  },

  showProgress() {
    Viewer.showProgress.call(this);
    if (this.known() === 0) return;
    const { network, samples } = this.sides[0].live.now;
    const text = Sentence.ofOne(network, samples[this.at]);
    if (Elements.get("sentence").textContent !== text) Elements.get("sentence").textContent = text;
  },

  // A page that shows the newest sample goes on when more arrive.
  play(isPlaying) {
    if (isPlaying && this.speed === Infinity && this.known() > 0 && this.at >= this.known() - 1 && this.isDone()) this.speed = this.slow();
    Viewer.play.call(this, isPlaying);
  },

  // A speed at which the whole run takes about 20 seconds.
  slow() {
    const wanted = this.sides[0].live.now.network.duration_ns / 1e3 / 20;
    return SPEEDS.find((one) => one >= wanted) ?? Infinity;
  },
});

try {
  Watch.start();
} catch (error) {
  document.body.classList.add("broken");
  console.error(error);
}
