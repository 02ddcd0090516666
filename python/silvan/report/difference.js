// Two runs of the same network in one picture: links that are in a tree in only one of them, or in both.

class Difference extends Network {
  constructor(stage, [one, other], page) {
    super(stage, one, page);
    this.pair = [one, other];
  }

  compare([one, other]) {
    this.pair = [one, other];
    this.run = one;
    this.page.redraw();
  }

  // Per link: 0 in no tree, 1 only in the first run, 2 only in the second, 3 in both.
  states() {
    const [one, other] = this.pair.map((run) => Data.spansAt(run, Data.frameAt(run, this.page.time)));
    return [...one].map((span, link) => (span >= 0 ? 1 : 0) + (other[link] >= 0 ? 2 : 0));
  }

  draw() {
    this.now = this.states();
    super.draw();
  }

  style(link, span, chosen, idle) {
    const state = this.now[link];
    if (state === 0) return [idle, 0.16, 0.7 * this.thin];
    return [this.page.colour(["", "--only-first", "--only-second", "--ink"][state]), 0.9, (state === 3 ? 1.4 : 3) * this.thin];
  }

  // Nodes without roles: these differ between the runs.
  having() {
    return new Map();
  }

  roots() {
    return [];
  }

  show() {
    const count = (state) => this.now.filter((one) => one === state).length;
    const output = this.stage.parentNode.querySelector("output");
    const [first, second] = this.pair.map((run) => run.title);
    const parts = [[1, `only in “${first}”`], [2, `only in “${second}”`], [3, "in both"]].map(([state, text]) => {
      const part = document.createElement("span");
      part.className = `key state-${state}`;
      part.textContent = `${count(state)} links ${text}`;
      return part;
    });
    output.replaceChildren(...parts);
  }

  describe({ link, node }) {
    if (node !== undefined) return [this.run.nodes[node]];
    const lines = this.pair.map((run) => {
      const span = Data.spansAt(run, Data.frameAt(run, this.page.time))[link];
      if (span < 0) return `${run.title}: in no tree`;
      const tree = run.spans.tree[span];
      return `${run.title}: in a tree of root ${Data.letter(run, tree)} ${run.trees[tree - 1][0]}`;
    });
    return [this.run.links[link], ...lines];
  }

  // Which runs can be compared: those with the same links.
  static pairs(runs) {
    const isSame = (one, other) => one.spans && other.spans && one.links.length === other.links.length
      && one.links.every((name, at) => name === other.links[at]);
    return runs.flatMap((one, at) => runs.slice(at + 1).filter((other) => isSame(one, other)).map((other) => [one, other]));
  }
}
