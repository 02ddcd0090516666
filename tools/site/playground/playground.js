// The page: settings, up to two runs with these settings, and their display.

const Playground = Object.assign(Object.create(Viewer), {
  settings: null,
  tool: "hotspot",
  senders: 12,
  story: null,

  async start() {
    await Live.load();
    Controls.make(this);
    addEventListener("hashchange", async () => {
      const address = await Scenario.settingsOf(location.hash.slice(1)).catch(() => null);
      if (address) this.begin(address, null);
    });
    const given = await Scenario.settingsOf(location.hash.slice(1)).catch(() => null);
    if (given) this.begin(given, null);
    else this.open(STORIES[1]);
    this.turnWheel();
  },

  async open(story) {
    this.speed = story.speed;
    this.begin(await Scenario.settingsOf(story.settings), story);
  },

  // Starts new settings at time 0.
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

  // Computes the sides again with the current settings, and shows them from the time `until` (µs). With `only`, computes
  // only this side and sides without a run.
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
    this.showControls();
    this.share();
  },

  share() {
    const { settings } = this;
    Scenario.fragment(settings).then((text) => {
      if (settings === this.settings) history.replaceState(null, "", `#${text}`);
    });
  },

  // Handles a message of a worker.
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
    // Without an earlier run, there is nothing to show until the settings change.
    if (this.sides.some((side) => !side.live.now)) return;
    this.isWaiting = false;
    this.draft();
    document.documentElement.dataset.ready = "yes";
  },

  hasIndex() {
    return this.settings.sides.some(({ mechanism }) => mechanism === "file" || Scenario.MECHANISMS[mechanism].hasIndex);
  },

  names() {
    const names = this.settings.sides.map((side) => {
      const name = Scenario.MECHANISMS[side.mechanism]?.name ?? "As in the file";
      return side.spread ? `${name}, routing per packet` : name;
    });
    return names[0] === names[1] ? [`${names[0]} (first)`, `${names[1]} (second)`] : names;
  },

  seriesOf(side) {
    // The class of the background traffic covers all hosts.
    const perHost = this.settings.text === null ? ["background"] : [];
    return Series.make(side.live.now.network, { perHost, hasIndex: this.hasIndex(), hueOf: (host) => this.hueOf(host) });
  },

  networkOf(stage, run) {
    return new LiveNetwork(stage, run, this);
  },

  // Lets the workers compute ahead of what is shown.
  want(count) {
    for (const { live } of this.sides) if (!live.now.isDone) live.grant(count);
  },

  showProgress() {
    Viewer.showProgress.call(this);
    Controls.progress();
  },

  showControls() {
    Viewer.showControls.call(this);
    Controls.show();
  },

  // A click on a host applies the tool. Other clicks select links and trees.
  choose(network, found) {
    const host = this.settings.text === null && this.tool !== "look" ? network.hostAt() : null;
    if (host === null) Viewer.choose.call(this, network, found);
    else this.act(network.run.nodes[host]);
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

  // Moves a hotspot that was dragged from one host to another.
  moveHotspot(from, to) {
    const now = this.clock();
    const hotspot = this.settings.hotspots.find((one) => one.host === from && one.to === null);
    if (!hotspot || from === to) return;
    this.endHotspot(hotspot, now);
    const senders = Array.isArray(hotspot.senders) ? hotspot.senders.filter((one) => one !== to) : hotspot.senders;
    this.settings.hotspots.push({ host: to, senders, from: now, to: null });
    this.changed();
  },

  // Applies changed settings. The display continues at the same time.
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
});

Playground.start().catch((error) => {
  document.body.classList.add("broken");
  Controls.complain(String(error));
  console.error(error);
});
