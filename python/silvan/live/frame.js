// What the renderer of reports draws: a run with a single frame, which is the sample that is shown.
const Frame = {
  empty(network, title) {
    const links = network.links.length;
    return {
      title, nodes: network.nodes, hosts: network.hosts, links: network.links,
      source: network.source, target: network.target, ...Layout.place(network),
      frames: [0], trees: [], charts: [],
      spans: { link: [], first: [], last: [], tree: [], trees: [], waits_for: [], depth: [], isolated: [], queued: [], held: [], share: [] },
      starts: new Uint32Array(links + 1), now: new Int32Array(links).fill(-1), nowFrame: 0,
      contributors: { tree: [], host: [], first: [], last: [] }, victims: { tree: [], host: [], first: [], last: [] },
      failures: { link: [], first: [], last: [] },
      utilisation: new Uint8Array(links),
    };
  },

  // Fills in a sample; `lookOf` gives the number of the color of a root, and its letter.
  fill(run, sample, lookOf) {
    const { spans } = run;
    run.frames[0] = sample.time_ns / 1e3;
    run.utilisation = sample.utilisation;
    run.failures = { link: sample.down, first: sample.down.map(() => 0), last: sample.down.map(() => Infinity) };
    run.now.fill(-1);
    for (const column of Object.values(spans)) column.length = 0;
    sample.tree_links.forEach(([link, tree, waitsFor, depth, trees, queued, held, isolated], at) => {
      run.now[link] = at;
      spans.link.push(link);
      spans.first.push(0);
      spans.last.push(0);
      spans.tree.push(tree);
      spans.trees.push(trees);
      spans.waits_for.push(waitsFor);
      spans.depth.push(depth);
      spans.queued.push(queued);
      spans.held.push(held);
      spans.isolated.push(isolated);
      spans.share.push(255);
    });
    for (const { tree, root, born_ns: born, kind } of sample.trees) {
      const name = run.links[root];
      run.trees[tree - 1] = [name, kind, born / 1e3, run.frames[0], ...lookOf(name)];
    }
    for (const role of ["contributors", "victims"]) {
      const pairs = sample.trees.flatMap((tree) => tree[role].map((host) => [tree.tree, host]));
      run[role] = {
        tree: pairs.map(([tree]) => tree), host: pairs.map(([, host]) => host),
        first: pairs.map(() => 0), last: pairs.map(() => Infinity),
      };
    }
  },
};
