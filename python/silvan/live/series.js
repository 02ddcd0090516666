// The charts of a run that progresses.

const Series = (() => {
  const none = { title: "", unit: "", lines: [] };
  // More named lines are combined into groups.
  const MOST_LINES = 6;

  // Classes of traffic by what they are for: each flow if there are few, else groups.
  function groups({ classes, flows }) {
    const named = classes.map((name, at) => ({ name, members: [at] }));
    if (classes.length <= MOST_LINES) return named;
    const found = new Map();
    classes.forEach((name, at) => {
      const [, hot] = name.match(/^hot \d+: .*->(.*)$/) ?? [];
      const group = hot ? `to ${hot}, per sender` : name.startsWith("victim ") ? "victims, each" : at < flows ? "flows, each" : name;
      if (!found.has(group)) found.set(group, { name: group, members: [], host: hot });
      found.get(group).members.push(at);
    });
    return [...found.values()];
  }

  // Throughput is the mean of this many samples: in one there are few packets of a flow.
  const WINDOW = 5;
  const line = (name, value, window = 1) => ({ name, value, window, values: [], most: 0 });
  const mean = (values) => {
    const present = values.filter((value) => value !== null);
    return present.length > 0 ? present.reduce((sum, value) => sum + value, 0) / present.length : NaN;
  };

  // `perHost` are names of classes whose throughput is shown per host; `hasIndex` is whether flows may have an index;
  // `hueOf` gives the number of the color of a host's tree, if it has one.
  function make(network, { perHost = [], hasIndex, hueOf }) {
    const all = groups(network);
    // Packets to hotspots wait longest, and would hide the others.
    const others = all.filter(({ name }) => !name.startsWith("to ") && !name.startsWith("hot "));
    const share = (name) => (perHost.includes(name) ? network.hosts : 1);
    const label = (name) => (share(name) > 1 ? `${name}, per host` : name.replace(/^hot \d+: /, ""));
    const found = [
      {
        id: "throughput", title: "Received throughput", unit: "Gbit/s",
        lines: all.map(({ name, members, host }) => {
          const value = (sample) => mean(members.map((at) => sample.class_throughput_gbit_s[at])) / share(name);
          const one = line(label(name), value, WINDOW);
          // A tree may begin later.
          return host ? Object.defineProperty(one, "hue", { get: () => hueOf(host) }) : one;
        }),
      },
      {
        id: "trees", title: "Links in congestion trees", unit: "links",
        lines: [line("links", (sample) => sample.tree_links.length)],
      },
      {
        id: "latency", title: "Mean latency since injection", unit: "ns",
        lines: (others.length > 0 ? others : all).map(({ name, members }) => line(name, (sample) => mean(members.map((at) => sample.class_latency_ns[at])))),
      },
    ];
    if (network.flows > 0 && hasIndex) {
      found.splice(2, 0, {
        id: "ccti", title: "Congestion control index of flows", unit: "index",
        lines: [
          line("largest", (sample) => Math.max(...sample.flow_ccti)),
          line("mean", (sample) => mean(sample.flow_ccti)),
        ],
      });
    }
    return found;
  }

  // Adds the samples up to a number to the lines of a chart.
  function extend(series, run, samples, count) {
    for (let at = run.frames.length; at < count; at += 1) {
      run.frames.push(Math.fround(samples[at].time_ns / 1e3));
      for (const one of series.lines) {
        const recent = samples.slice(Math.max(0, at + 1 - one.window), at + 1);
        const value = one.window > 1 ? mean(recent.map(one.value)) : one.value(samples[at]);
        one.values.push(value);
        if (value > one.most) one.most = value;
      }
    }
  }

  // The end of the time axis: it grows in steps.
  function end(time) {
    const size = 10 ** Math.floor(Math.log10(Math.max(time, 100)));
    return [1, 2, 3, 5, 7.5, 10].map((one) => one * size).find((one) => one >= time) ?? time;
  }

  return { make, extend, end, none };
})();
