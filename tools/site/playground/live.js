// A run that a worker computes while the page shows it.

class Live {
  // `changed` is called when a network, a sample, an error or the end arrives.
  constructor(changed) {
    this.changed = changed;
    this.worker = new Worker(Live.address());
    this.worker.postMessage({ kind: "module", module: Live.module });
    this.worker.onmessage = ({ data }) => this.receive(data);
    this.number = 0;
    // The run that is shown, and the run that replaces it after reaching the time that is shown.
    this.now = null;
    this.next = null;
  }

  static address() {
    Live.url ??= URL.createObjectURL(new Blob([document.getElementById("worker").textContent], { type: "text/javascript" }));
    return Live.url;
  }

  // Unpacks and compiles the simulator, once for all workers.
  static async load() {
    const packed = Uint8Array.from(atob(document.getElementById("module").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    Live.module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
  }

  // Begins a run, which is shown when it has reached the time `until` in µs.
  open(text, until) {
    this.number += 1;
    this.next = { text, until, network: null, samples: [], error: null, isDone: false, busyMs: 0, results: null };
    this.worker.postMessage({ kind: "open", number: this.number, text });
  }

  receive(data) {
    if (data.run !== this.number) return;
    const run = this.next ?? this.now;
    if (data.kind === "network") {
      run.network = data.network;
      if (this.next) this.grant(Math.ceil((run.until * 1e3) / run.network.interval_ns) + 1);
    }
    if (data.kind === "sample") {
      run.samples.push(data.sample);
      run.busyMs = data.busyMs;
    }
    if (data.kind === "done") run.isDone = true;
    if (data.kind === "error") Object.assign(run, { error: data.text, isDone: true });
    if (data.kind === "results") run.results(data.results);
    this.changed();
  }

  grant(count) {
    this.worker.postMessage({ kind: "grant", run: this.number, count });
  }

  // Whether the next run can replace the one that is shown.
  isReady() {
    const { next } = this;
    if (!next || next.error !== null) return true;
    const last = next.samples.at(-1);
    return next.isDone || (last !== undefined && last.time_ns >= next.until * 1e3);
  }

  swap() {
    if (this.next && this.next.error === null) this.now = this.next;
    this.next = null;
  }

  // Computes the run to its end, and returns its results as text.
  results() {
    const run = this.now;
    return new Promise((done, failed) => {
      this.grant(Infinity);
      const wait = setInterval(() => {
        if (run.error !== null) failed(new Error(run.error));
        if (!run.isDone && run.error === null) return;
        clearInterval(wait);
        run.results = done;
        this.worker.postMessage({ kind: "finish", run: this.number });
      }, 5);
    });
  }

  // Runs a scenario completely. Returns its results as text, and the time that it took.
  static async whole(text) {
    const live = new Live(() => {});
    live.open(text, 0);
    while (!live.isReady()) await new Promise((done) => { setTimeout(done, 5); });
    if (live.next.error !== null) throw new Error(live.next.error);
    live.swap();
    const results = await live.results();
    const { busyMs, samples } = live.now;
    live.worker.terminate();
    return { results, busyMs, hops: samples.at(-1)?.packet_hops ?? 0 };
  }

  // The time of a sample in µs.
  time(at) {
    return this.now.samples[at].time_ns / 1e3;
  }
}
