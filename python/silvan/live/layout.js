// Positions of the nodes of a network: the same layout as that of reports (`silvan/report/_layout.py`).

const Layout = (() => {
  // With a larger share of switch-to-switch links within levels, a network is not drawn in rows.
  const LEVEL_SHARE = 0.5;
  // Steps of the force-directed layout, and its most switches: each step computes all pairs.
  const STEPS = 150;
  const MOST_SPRUNG = 2000;
  // Most rows of hosts below a switch, and the distance between two rows.
  const MOST_ROWS = 5;
  const ROW = 0.045;

  // Returns x and y of each node, from 0 to 1, y downwards.
  function place(wiring) {
    const { nodes, hosts, source, target } = wiring;
    const level = levels(wiring);
    let [between, within] = [0, 0];
    for (let link = 0; link < source.length; link += 1) {
      if (source[link] < hosts || target[link] < hosts) continue;
      between += 1;
      within += level[source[link]] === level[target[link]] ? 1 : 0;
    }
    const switches = nodes.length - hosts;
    const isSprung = within > LEVEL_SHARE * Math.max(between, 1) && switches > 2 && switches <= MOST_SPRUNG;
    return fitted(isSprung ? sprung(wiring) : rows(wiring, level));
  }

  // Whether a host is a reduction unit, which belongs to a switch of any level.
  const isUnit = ({ nodes, hosts }, node) => node < hosts && nodes[node].endsWith("/unit");

  // Links from the nearest host to each node, regardless of reduction units.
  function levels(wiring) {
    const { nodes, hosts, source, target } = wiring;
    const level = nodes.map((_, node) => (node < hosts ? 0 : -1));
    let top = 0;
    for (let depth = 0, isNew = true; isNew; depth += 1) {
      isNew = false;
      for (let link = 0; link < source.length; link += 1) {
        if (level[source[link]] !== depth || level[target[link]] >= 0 || isUnit(wiring, source[link])) continue;
        level[target[link]] = depth + 1;
        top = depth + 1;
        isNew = true;
      }
    }
    // Nodes that no host reaches are on top.
    return level.map((one) => (one < 0 ? top + 1 : one));
  }

  function neighbors({ nodes, source, target }) {
    const found = nodes.map(() => []);
    for (let link = 0; link < source.length; link += 1) {
      found[source[link]].push(target[link]);
      found[target[link]].push(source[link]);
    }
    return found;
  }

  // Hosts at the bottom, under their switches, and a row of switches per level.
  function rows(wiring, level) {
    const { nodes } = wiring;
    const near = neighbors(wiring);
    const position = nodes.map(() => [0, 0]);
    const top = Math.max(...level);
    for (let row = 1; row <= top; row += 1) {
      const below = new Map();
      nodes.forEach((_, node) => {
        if (level[node] !== row) return;
        const under = near[node].filter((one) => level[one] > 0 && level[one] < row).map((one) => position[one][0]);
        const mean = under.length > 0 ? under.reduce((sum, one) => sum + one, 0) / under.length : 0;
        below.set(node, Math.round(mean * 1e6) / 1e6);
      });
      const order = [...below.keys()].sort((one, other) => below.get(one) - below.get(other) || one - other);
      order.forEach((node, at) => {
        position[node] = [(at + 0.5) / order.length, top > 1 ? 1 - row / top : 0.25];
      });
    }
    hostsBelow(wiring, level, near, position);
    return position;
  }

  function hostsBelow(wiring, level, near, position) {
    const { hosts } = wiring;
    const leaves = level.filter((one) => one === 1).length;
    const width = 0.92 / Math.max(leaves, 1);
    const ofLeaf = new Map();
    for (let host = 0; host < hosts; host += 1) {
      if (isUnit(wiring, host)) {
        const [x, y] = position[near[host][0]];
        position[host] = [x + 0.012, y - 0.03];
        continue;
      }
      const home = near[host].find((node) => level[node] === 1) ?? -1;
      ofLeaf.set(home, [...(ofLeaf.get(home) ?? []), host]);
    }
    const most = Math.max(1, ...[...ofLeaf.values()].map((one) => one.length));
    // There is room for 48 hosts with their marks per row, but not for many rows.
    const rows = Math.min(MOST_ROWS, Math.ceil(most / Math.max(1, Math.floor(width * 48))));
    const columns = Math.ceil(most / rows);
    const top = Math.max(...level);
    const lowest = Math.max(top > 1 ? 1 - 1 / Math.max(top, 1) : 0.25, 0.25);
    for (const [leaf, all] of ofLeaf) {
      const center = leaf >= 0 ? position[leaf][0] : 0.5;
      all.forEach((host, at) => {
        const x = ((at % columns) + 0.5) / Math.min(columns, all.length) - 0.5;
        position[host] = [center + x * width, lowest + 0.28 + ROW * Math.floor(at / columns)];
      });
    }
  }

  // A force-directed layout of the switches (Fruchterman and Reingold 1991), with hosts around their switches.
  function sprung(wiring) {
    const { nodes, hosts, source, target } = wiring;
    const count = nodes.length - hosts;
    const position = Array.from({ length: count }, (_, at) => {
      // A perfect circle is an equilibrium: start from a slightly perturbed one, always the same.
      const [angle, radius] = [(2 * Math.PI * at) / count, 0.5 + 0.05 * Math.sin(at * 2.399963)];
      return [Math.cos(angle) * radius, Math.sin(angle) * radius];
    });
    const links = [];
    for (let link = 0; link < source.length; link += 1) {
      if (source[link] >= hosts && target[link] >= hosts) links.push([source[link] - hosts, target[link] - hosts]);
    }
    const ideal = 1 / Math.sqrt(count);
    for (let step = 0; step < STEPS; step += 1) {
      const force = position.map(() => [0, 0]);
      for (let one = 0; one < count; one += 1) {
        for (let other = 0; other < count; other += 1) {
          const [x, y] = [position[one][0] - position[other][0], position[one][1] - position[other][1]];
          const distance = Math.max(Math.hypot(x, y), 1e-6);
          const strength = (ideal * ideal) / (distance * distance);
          force[one][0] += x * strength;
          force[one][1] += y * strength;
        }
      }
      for (const [from, to] of links) {
        const [x, y] = [position[from][0] - position[to][0], position[from][1] - position[to][1]];
        const strength = (Math.hypot(x, y) / ideal) * 0.5;
        force[from][0] -= x * strength;
        force[from][1] -= y * strength;
        force[to][0] += x * strength;
        force[to][1] += y * strength;
      }
      const most = 0.1 * (1 - step / STEPS) + 1e-3;
      position.forEach((place, at) => {
        const length = Math.max(Math.hypot(...force[at]), 1e-9);
        const part = Math.min(length, most) / length;
        place[0] += force[at][0] * part;
        place[1] += force[at][1] * part;
      });
    }
    return [...hostsAround(wiring, position, ideal), ...position];
  }

  function hostsAround(wiring, position, ideal) {
    const { hosts } = wiring;
    const near = neighbors(wiring);
    const center = [0, 1].map((axis) => position.reduce((sum, one) => sum + one[axis], 0) / position.length);
    const ofSwitch = new Map();
    for (let host = 0; host < hosts; host += 1) {
      const home = (near[host][0] ?? hosts) - hosts;
      ofSwitch.set(home, [...(ofSwitch.get(home) ?? []), host]);
    }
    const placed = Array.from({ length: hosts }, () => [0, 0]);
    for (const [home, all] of ofSwitch) {
      const middle = Math.atan2(position[home][1] - center[1], position[home][0] - center[0]);
      all.forEach((host, at) => {
        const angle = middle + (at - (all.length - 1) / 2) * Math.min(0.5, (2 * Math.PI) / all.length);
        placed[host] = [position[home][0] + 0.4 * ideal * Math.cos(angle), position[home][1] + 0.4 * ideal * Math.sin(angle)];
      });
    }
    return placed;
  }

  function fitted(position) {
    const axes = [0, 1].map((axis) => {
      const values = position.map((one) => one[axis]);
      const [least, most] = [Math.min(...values), Math.max(...values)];
      return Float32Array.from(values, (one) => (most - least > 1e-9 ? (one - least) / (most - least) : 0.5));
    });
    return { x: axes[0], y: axes[1] };
  }

  return { place };
})();
