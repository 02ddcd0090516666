"use strict";
// The data of the page: columns of numbers out of one packed text, and what is asked of them.

const Data = (() => {
  async function unpack() {
    const text = document.getElementById("columns").textContent;
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }

  const kinds = { Uint8Array, Uint16Array, Uint32Array, Float32Array };

  function column(bytes, place) {
    const values = new kinds[place.kind](bytes, place.at, place.length);
    if (place.rising) {
      for (let at = 1; at < values.length; at += 1) values[at] += values[at - 1];
    }
    return values;
  }

  // Replaces all places in a value by the columns they name.
  function resolve(bytes, value) {
    if (Array.isArray(value)) return value.map((one) => resolve(bytes, one));
    if (value === null || typeof value !== "object") return value;
    if ("kind" in value && "at" in value && "length" in value) return column(bytes, value);
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, resolve(bytes, one)]));
  }

  async function load() {
    const bytes = await unpack();
    const data = resolve(bytes, JSON.parse(document.getElementById("data").textContent));
    data.runs.forEach(prepare);
    return data;
  }

  // Where the spans of each link begin, and the roles of hosts by tree.
  function prepare(run) {
    if (!run.spans) return;
    const starts = new Uint32Array(run.links.length + 1);
    for (const link of run.spans.link) starts[link + 1] += 1;
    for (let at = 1; at < starts.length; at += 1) starts[at] += starts[at - 1];
    run.starts = starts;
    // Links in trees, frame after frame.
    run.sizes = new Int32Array(run.frames.length + 1);
    run.spans.first.forEach((frame) => { run.sizes[frame] += 1; });
    run.spans.last.forEach((frame) => { run.sizes[frame + 1] -= 1; });
    for (let at = 1; at < run.sizes.length; at += 1) run.sizes[at] += run.sizes[at - 1];
    run.now = new Int32Array(run.links.length).fill(-1);
    run.nowFrame = -1;
  }

  // The number of values that are less than or equal to one.
  function count(values, value, from = 0, to = values.length) {
    while (from < to) {
      const middle = (from + to) >> 1;
      if (values[middle] <= value) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  // The frame that holds a time.
  function frameAt(run, time) {
    const frames = run.frames;
    let at = count(frames, time);
    if (at > 0 && frames[at - 1] === Math.fround(time)) at -= 1;
    return Math.min(Math.max(at, 0), frames.length - 1);
  }

  // Per link, its span at a frame, or -1 where it is in no tree.
  function spansAt(run, frame) {
    if (run.nowFrame === frame) return run.now;
    const { first, last } = run.spans;
    for (let link = 0; link < run.links.length; link += 1) {
      const at = count(first, frame, run.starts[link], run.starts[link + 1]) - 1;
      run.now[link] = at >= run.starts[link] && last[at] >= frame ? at : -1;
    }
    run.nowFrame = frame;
    return run.now;
  }

  function time(us) {
    if (us >= 1e6) return `${trim(us / 1e6)} s`;
    if (us >= 1e3) return `${trim(us / 1e3)} ms`;
    return us === 0 ? "0" : `${trim(us)} µs`;
  }

  function trim(value) {
    return String(Number(value.toPrecision(4)));
  }

  function bytes(value) {
    if (value >= 1e9) return `${trim(value / 1e9)} GB`;
    if (value >= 1e6) return `${trim(value / 1e6)} MB`;
    if (value >= 1e3) return `${trim(value / 1e3)} kB`;
    return `${trim(value)} B`;
  }

  // Colours of roots: Okabe and Ito's palette, told apart by the colour-blind; the stills have the same. On a dark
  // page, lighter ones.
  const light = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d00", "#7a5fb0"];
  const dark = ["#ff8238", "#459fe0", "#26c795", "#eaa0c8", "#ffc44d", "#98d6f7", "#c9a93c", "#ae97ee"];
  const rgb = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  const looks = [light, dark].map((hues) => ({ hues, colours: hues.map(rgb) }));
  let look = looks[0];
  const hue = (run, tree) => look.hues[run.trees[tree - 1][4]];
  const colour = (run, tree) => look.colours[run.trees[tree - 1][4]];
  // The letter of a tree's root, the same in all runs; without one, the number of the tree.
  const letter = (run, tree) => run.trees[tree - 1][5] ?? String(tree);
  const setDark = (isDark) => { look = looks[isDark ? 1 : 0]; };

  return {
    load, count, frameAt, spansAt, time, bytes, trim, hue, colour, letter, rgb, setDark,
    get hues() { return look.hues; },
  };
})();
