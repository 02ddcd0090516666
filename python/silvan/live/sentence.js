// One sentence or two about what is shown.

const Sentence = (() => {
  const count = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;
  const end = (name) => name.split("->").at(-1);

  // The tree with the most links, its links, and what all trees have together.
  function summary(sample) {
    const sizes = new Map();
    let branches = 0;
    for (const [, tree, , depth] of sample.tree_links) {
      sizes.set(tree, (sizes.get(tree) ?? 0) + 1);
      branches += depth > 0 ? 1 : 0;
    }
    const trees = [...sample.trees].sort((one, other) => (sizes.get(other.tree) ?? 0) - (sizes.get(one.tree) ?? 0));
    const victims = new Set(sample.trees.flatMap((tree) => tree.victims));
    return { largest: trees[0] ?? null, trees: trees.length, branches, victims: victims.size, size: sizes.get(trees[0]?.tree) ?? 0 };
  }

  // `hotspots` are the hosts to which others send on purpose.
  function ofOne(network, sample, hotspots = []) {
    const { largest, trees, victims, size } = summary(sample);
    if (largest === null) {
      if (hotspots.length > 0) return `Hosts send to ${hotspots.join(" and ")}, but no link waits for credit at this moment.`;
      return "Traffic flows freely: no link waits for credit.";
    }
    const root = network.links[largest.root];
    const isHost = network.target[largest.root] < network.hosts;
    const cause = isHost
      ? `More packets arrive for ${end(root)} than it can receive, so its link is the root (ring) of a congestion tree`
      : `More packets need the link ${root} than it can carry: it is the root (ring) of a congestion tree`;
    const reach = size > 1 ? `: ${count(size - 1, "link")} behind it ${size === 2 ? "waits" : "wait"} for credit` : " that has no branches yet";
    const others = trees > 1 ? ` There ${trees === 2 ? "is" : "are"} ${count(trees - 1, "other tree")}.` : "";
    const hurt = victims > 0
      ? ` ${count(victims, "host")} (dashed) ${victims === 1 ? "is a victim: its" : "are victims: their"} packets wait in the tree, but are for other hosts.`
      : "";
    return `${cause}${reach}.${others}${hurt}`;
  }

  // What victims receive in the last samples, in Gbit/s each; null if there are none.
  function ofVictims({ classes }, samples) {
    const victims = classes.flatMap((name, at) => (name.startsWith("victim ") ? [at] : []));
    if (victims.length === 0) return null;
    const all = samples.flatMap((sample) => victims.map((at) => sample.class_throughput_gbit_s[at]));
    return all.reduce((sum, value) => sum + value, 0) / all.length;
  }

  // Compares two sides by the means of their last samples; `names` are those of their mechanisms. Single samples vary too
  // much: with some mechanisms, links wait in every second one.
  function ofTwo(networks, recent, names) {
    const [one, other] = recent.map((samples) => {
      const all = samples.map(summary);
      const mean = (key) => Math.round(all.reduce((sum, sample) => sum + sample[key], 0) / all.length);
      return { branches: mean("branches"), victims: mean("victims") };
    });
    const name = names[1].replace(/^No /, "no ");
    const links = `on average ${count(other.branches, "waiting link")} instead of ${one.branches}`;
    const rates = networks.map((network, at) => ofVictims(network, recent[at]));
    const [before, now] = rates.map((rate) => Data.trim(Math.round((rate ?? 0) * 10) / 10));
    const victims = networks[1].classes.flatMap((one) => one.match(/^victim (.*)->/)?.[1] ?? []);
    const list = victims.length > 3 ? "Each chosen victim" : victims.join(" and ");
    const received = rates[0] === null ? "" : ` ${list} ${victims.length === 2 || victims.length === 3 ? "each send" : "sends"} ${now} instead of ${before} Gbit/s.`;
    return ` With ${name}: ${links}, ${count(other.victims, "victim")} instead of ${one.victims}.${received}`;
  }

  return { ofOne, ofTwo, summary };
})();
