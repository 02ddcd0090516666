// The settings of the page, and their representations: scenarios as TOML, and the fragment of the address.
//
// Settings: `net` (a key of NETWORKS), `load` (percent), `length` (µs), `seed`, `hotspots`, `victims` and `sides`. A
// hotspot has a `host`, its `senders` (a number, or a list of names), and the times `from` and `to` in µs (`to` is null
// if the hotspot has no end). A victim has a `host` and its destination `to`. A side has a `mechanism`, `values` of its
// parameters, and `spread` (whether each packet selects its route). `text` is an opened scenario, or null.

const Scenario = (() => {
  // Hosts send and receive slightly less than the rate of their links (16 Gbit/s), as in the papers. Hosts of Ethernet send
  // at the rate of their links (`gbit`).
  const SENT = 13.5;
  const RECEIVED = 13.6;
  const ETHERNET = ["none", "dcqcn", "dctcp", "timely", "swift", "hpcc", "pcc-rtt", "pcc-telemetry", "nscc", "rccc"];
  // `beside` is the distance between hosts whose packets take the same routes as long as possible.
  const NETWORKS = {
    testbed: {
      name: "Testbed, 7 hosts", hosts: 7, beside: 1, interval: 20, length: 4000, isTree: true,
      lines: ['kind = "dumbbell"', "left = 3", "right = 4"],
    },
    "fat-tree": {
      name: "Fat tree, 64 hosts", hosts: 64, beside: 16, interval: 10, length: 3000, isTree: true,
      lines: ['kind = "k-ary-n-tree"', "k = 4", "n = 3"],
    },
    torus: {
      name: "Torus, 64 hosts", hosts: 64, beside: 1, interval: 10, length: 3000,
      lines: ['kind = "torus"', "sizes = [4, 4]", "hosts_per_switch = 4"],
    },
    dragonfly: {
      name: "Dragonfly, 72 hosts", hosts: 72, beside: 1, interval: 10, length: 3000, lanes: 2,
      // The routing changes virtual lanes along a route, which special queues and the switches of other mechanisms do not
      // support.
      mechanisms: ["none", "ib-cc", "qcn", ...ETHERNET.slice(1)],
      lines: ['kind = "dragonfly"', "p = 2", "a = 4", "h = 2"],
    },
    ethernet: {
      name: "Ethernet at 400 Gbit/s, 64 hosts", hosts: 64, beside: 1, interval: 5, length: 1500, isTree: true, gbit: 400,
      mechanisms: ETHERNET,
      lines: [
        'kind = "two-level-fat-tree"', "leaves = 8", "spines = 8", "hosts_per_leaf = 8", 'link_rate = "400 Gbit/s"',
        'link_delay = "500 ns"',
      ],
    },
    "fat-tree-648": {
      name: "Fat tree, 648 hosts", hosts: 648, beside: 18, interval: 20, length: 2000, isTree: true,
      lines: ['kind = "fat-tree-648"'],
    },
  };

  const timer = {
    id: "timer", key: "reaction.ccti_timer", label: "CCTI_Timer", least: 1, most: 600, usual: 150,
    text: "Every 1.024 µs times this, each index falls by one. Small: senders recover early. Large: late.",
  };
  const table = {
    isWritten: true, id: "table", key: "reaction.table", label: "Steepness of the CCT", least: 1, most: 32, usual: 4,
    wrap: (value) => `{ kind = "quadratic", divisor = 106, scale = ${value}, entries = 128 }`,
    text: "How strongly an index slows a sender down. Many senders need a steep table.",
  };
  const queues = {
    id: "queues", key: "isolation.queues", label: "Special queues per port", least: 1, most: 8, usual: 2,
    text: "Each takes the packets of one congestion tree out of the way of others.",
  };
  const size = (value) => `"${value} kB"`;
  const lowest = {
    isWritten: true, isSize: true, id: "kmin", key: "marking.min", label: "Kmin, kB", least: 2, most: 40, usual: 12, wrap: size,
    text: "No packet is marked while the queues of an output are shorter.",
  };
  const highest = {
    isWritten: true, isSize: true, id: "kmax", key: "marking.max", label: "Kmax, kB", least: 40, most: 200, usual: 60, wrap: size,
    text: "All packets are marked while the queues of an output are longer.",
  };
  const share = {
    isWritten: true, isSize: true, id: "pmax", key: "marking.percent", label: "Pmax, %", least: 1, most: 100, usual: 20,
    text: "Share of the packets that are marked where a queue is as long as Kmax.",
  };
  const red = 'marking.kind = "red"';
  const each = 'notification = "ack-each"';
  // `hasIndex` is whether flows have an index into a congestion control table. `parts` are the components of a
  // composition for links of 16 Gbit/s. On Ethernet, the mechanism is that of the simulator, which scales the thresholds of marks
  // (`isSize`). Other values with `isWritten` differ from those of the simulator.
  const MECHANISMS = {
    none: { name: "No congestion control", text: "Switches and hosts do nothing against congestion.", values: [] },
    "ib-cc": {
      hasIndex: true, name: "InfiniBand CC", text: "Switches mark packets at congested links; the senders of marked packets slow down.",
      values: [
        {
          id: "threshold", key: "marking.threshold", label: "Threshold", least: 1, most: 15, usual: 15,
          text: "15: mark at short queues. 1: mark only when the buffer is almost full.",
        },
        {
          id: "rate", key: "marking.marking_rate", label: "Marking_Rate", least: 1, most: 64, usual: 1,
          text: "Mean number of packets per mark. Large: few marks, slow reaction.",
        },
        {
          id: "increase", key: "reaction.ccti_increase", label: "CCTI_Increase", least: 1, most: 16, usual: 1,
          text: "Added to the index of a flow for each notification. Large: abrupt reaction.",
        },
        timer,
        table,
      ],
    },
    ecocc: {
      hasIndex: true, name: "EcoCC", text: "Special queues isolate congested packets at once (HFDI); marks slow their senders down later.",
      values: [queues, timer, table],
    },
    ccfit: {
      hasIndex: true, name: "CCFIT", text: "FBICM, and marks that slow down the senders of congested packets.",
      values: [queues, timer, table],
    },
    fbicm: { name: "FBICM", text: "Special queues isolate congested packets; others share one queue per input. No sender is slowed down.", values: [queues] },
    hfdi: { name: "HFDI", text: "Special queues isolate congested packets; others have a queue per output. No sender is slowed down.", values: [queues] },
    qcn: {
      name: "QCN", text: "Switches sample packets and report the severity of congestion to their senders.",
      values: [
        {
          id: "set", key: "marking.set_point", label: "Set point, kB", least: 4, most: 96, usual: 26,
          wrap: (value) => `"${value} KB"`, text: "The queue length that switches aim at.",
        },
      ],
    },
    mvcm: { name: "MVCM", text: "Inputs mark packets, outputs validate the marks; senders have windows and waiting slots.", values: [] },
    renato: { name: "Renato et al.", text: "Full inputs mark packets; senders wait between packets, with one packet in flight.", values: [] },
    pfister: {
      hasIndex: true, name: "Pfister et al.", text: "Full outputs mark packets; senders slow down by a table.", values: [],
    },
    dcqcn: {
      name: "DCQCN", parts: [red, 'notification = "cnp"', 'reaction.kind = "dcqcn"'],
      text: "RoCE: switches mark packets at random (RED); notifications reduce the rate of a flow, and it recovers by itself.",
      values: [
        lowest, highest, share,
        {
          isWritten: true, id: "cnp", key: "coalescing.interval", label: "CNP interval, µs", least: 1, most: 50, usual: 4,
          wrap: (value) => `"${value} us"`, text: "Least time between two notifications of a flow.",
        },
      ],
    },
    dctcp: {
      name: "DCTCP", parts: [red, "marking.percent = 100", each, 'reaction.kind = "dctcp"'],
      text: "Switches mark all packets above a threshold; the window of a flow shrinks with the share of marked packets.",
      values: [
        {
          isWritten: true, isSize: true, id: "k", key: "marking.min", also: "marking.max", label: "Threshold K, kB", least: 2, most: 100, usual: 20,
          wrap: size, text: "Packets are marked while the queues of an output are longer.",
        },
        {
          id: "gain", key: "reaction.gain_divisor", label: "1 / g", least: 1, most: 64, usual: 16,
          text: "How slowly the estimate of the share follows the marks.",
        },
      ],
    },
    timely: {
      name: "TIMELY", parts: [each, 'reaction.kind = "timely"'],
      text: "Switches do nothing; the rate of a flow follows the gradient of its round-trip delay.",
      values: [
        {
          id: "beta", key: "reaction.beta_permille", label: "Beta, ‰", least: 50, most: 1000, usual: 800,
          text: "How much a growing delay reduces the rate.",
        },
      ],
    },
    swift: {
      name: "Swift", parts: [each, 'reaction.kind = "swift"'],
      text: "Switches do nothing; the window of a flow aims at a round-trip delay.",
      values: [
        {
          id: "beta", key: "reaction.beta_percent", label: "Beta, %", least: 5, most: 100, usual: 80,
          text: "How much a delay above the target reduces the window.",
        },
        {
          id: "mdf", key: "reaction.max_decrease_percent", label: "Largest decrease, %", least: 5, most: 99, usual: 50,
          text: "The most that the window shrinks at a time.",
        },
      ],
    },
    hpcc: {
      name: "HPCC", parts: ['marking.kind = "telemetry"', each, 'reaction.kind = "hpcc"'],
      text: "Switches write their utilization into packets; sources keep the busiest link of a route almost full.",
      values: [
        {
          id: "eta", key: "reaction.utilization_percent", label: "Utilization, %", least: 50, most: 100, usual: 95,
          text: "What sources aim at. With 100 %, queues no longer drain.",
        },
        {
          id: "stage", key: "reaction.max_stage", label: "maxStage", least: 0, most: 10, usual: 5,
          text: "Round trips of additive increase before the rate follows the utilization again.",
        },
      ],
    },
    nscc: {
      name: "NSCC", parts: [red, "marking.percent = 100", each, 'reaction.kind = "nscc"'],
      text: "Ultra Ethernet: marks and the delay of queues control the window of a flow.",
      values: [lowest, highest],
    },
    rccc: {
      name: "RCCC", parts: ['notification = "ack-grant"', 'reaction.kind = "rccc"'],
      text: "Ultra Ethernet: receivers grant credit at the rate of their links; a flow sends while it has credit.",
      values: [
        {
          id: "grant", key: "reaction.grant_percent", label: "Grants, %", least: 50, most: 100, usual: 99,
          text: "The part of the receiver's link that grants fill. With 100 %, queues of the start do not drain.",
        },
      ],
    },
    "pcc-rtt": {
      name: "PCC, round trips", parts: [each, 'reaction.kind = "pcc-rtt"'],
      text: "In the manner of programmable adapters: a flow sends faster while its round trip is short, and more slowly otherwise.",
      values: [
        {
          isWritten: true, id: "allowed", key: "reaction.allowed_delay", label: "Allowed delay, µs", least: 2, most: 100, usual: 13,
          wrap: (value) => `"${value} us"`, text: "How much longer than the shortest one a round trip may take.",
        },
        {
          id: "factor", key: "reaction.decrease_permille", label: "Decrease, ‰", least: 10, most: 400, usual: 100,
          text: "How much a long round trip reduces the rate.",
        },
      ],
    },
    "pcc-telemetry": {
      name: "PCC, telemetry", parts: ['marking.kind = "telemetry"', each, 'reaction.kind = "pcc-telemetry"'],
      text: "In the manner of programmable adapters: the queue of the last switch decides whether a flow sends faster or more slowly.",
      values: [
        {
          isWritten: true, id: "queue", key: "reaction.queue", label: "Queue, kB", least: 4, most: 200, usual: 40, wrap: size,
          text: "Flows send more slowly while the queue to their receiver is longer.",
        },
        {
          id: "factor", key: "reaction.decrease_permille", label: "Decrease, ‰", least: 10, most: 400, usual: 100,
          text: "How much a long queue reduces the rate.",
        },
      ],
    },
    saa: { name: "Single application assignment", text: "The links of a route assign a rate to each flow; flows are announced before they send.", values: [] },
  };

  // The values of a mechanism on a network.
  const valuesOf = (mechanism, net) =>
    (MECHANISMS[mechanism]?.values ?? []).filter((one) => !(net !== null && NETWORKS[net].gbit && one.isSize));

  const mechanisms = (net) => NETWORKS[net].mechanisms ?? Object.keys(MECHANISMS);

  const hostName = (number) => `H${number}`;
  const hostNames = (net) => Array.from({ length: NETWORKS[net].hosts }, (_, at) => hostName(at + 1));

  // The senders of a hotspot, spread over the network. The choice is not random.
  function chosen(settings, hotspot) {
    if (Array.isArray(hotspot.senders)) return hotspot.senders;
    const names = hostNames(settings.net);
    const taken = new Set([hotspot.host, ...settings.victims.flatMap((one) => [one.host, one.to])]);
    const free = names.filter((name) => !taken.has(name));
    const count = Math.min(hotspot.senders, free.length);
    const step = Math.max(1, Math.round(free.length * 0.381966));
    const found = new Set();
    for (let at = names.indexOf(hotspot.host); found.size < count; at += step) {
      let place = at % free.length;
      while (found.has(free[place])) place = (place + 1) % free.length;
      found.add(free[place]);
    }
    return names.filter((name) => found.has(name));
  }

  // An idle destination whose packets take the same routes as those to the last hotspot, as far as possible.
  function partner(settings, host) {
    const names = hostNames(settings.net);
    const hot = settings.hotspots.at(-1)?.host;
    const used = new Set([host, ...settings.hotspots.map((one) => one.host), ...settings.victims.map((one) => one.to)]);
    const from = names.indexOf(hot ?? host);
    const step = hot ? NETWORKS[settings.net].beside : names.length >> 1;
    for (let count = 1; count < 2 * names.length; count += 1) {
      // First hosts at multiples of the distance, then all other hosts.
      const name = names[(from + (count < names.length / step ? count * step : count)) % names.length];
      if (!used.has(name)) return name;
    }
    return names.find((name) => name !== host);
  }

  function congestion(side, net) {
    const { parts } = MECHANISMS[side.mechanism];
    const isPreset = !parts || (net !== null && NETWORKS[net].gbit);
    const lines = ["[congestion]", ...(isPreset ? [`mechanism = "${side.mechanism}"`] : parts)];
    for (const one of valuesOf(side.mechanism, net)) {
      const value = side.values[one.id] ?? one.usual;
      if (value === one.usual && !one.isWritten) continue;
      for (const key of [one.key, one.also]) if (key) lines.push(`${key} = ${one.wrap ? one.wrap(value) : value}`);
    }
    return lines;
  }

  const time = (us) => `"${us} us"`;

  function flows(settings) {
    const lines = [];
    const message = NETWORKS[settings.net].gbit ? "64 KiB" : "8 KiB";
    for (const { host, to } of settings.victims) {
      lines.push("[[flow]]", `name = "victim ${host}->${to}"`, `from = "${host}"`, `to = "${to}"`, `message = "${message}"`, "");
    }
    settings.hotspots.forEach((hotspot, at) => {
      for (const sender of chosen(settings, hotspot)) {
        lines.push("[[flow]]", `name = "hot ${at + 1}: ${sender}->${hotspot.host}"`);
        lines.push(`from = "${sender}"`, `to = "${hotspot.host}"`, `message = "${message}"`);
        if (hotspot.from > 0) lines.push(`start = ${time(hotspot.from)}`);
        if (hotspot.to !== null) lines.push(`stop = ${time(hotspot.to)}`);
        lines.push("");
      }
    });
    return lines;
  }

  // Switches, links and hosts of Ethernet: shared memory, one queue per output, pause frames. Ultra Ethernet has credits.
  function ethernet(side) {
    const links = ["nscc", "rccc"].includes(side.mechanism) ? [] : ["[flow_control]", 'kind = "pfc"', "shared = {}", ""];
    const routes = side.spread ? [] : ["[ecmp]", ""];
    return [
      "[packet]", 'mtu = "4096 B"', 'header = "64 B"', "", ...links, ...routes,
      "[switch]", 'buffer = "1 MiB"', 'arbitration = "fcfs"', 'latency = "300 ns"', "", "[host]", 'buffer = "1 MiB"', "",
    ];
  }

  // The scenario of a side, as TOML.
  function toml(settings, side) {
    if (settings.text !== null) return opened(settings.text, side);
    const net = NETWORKS[settings.net];
    const lines = [
      "# From the playground. Run it: silvan run FILE",
      'name = "playground"', `seed = ${settings.seed}`, `duration = ${time(settings.length)}`, "",
      "[topology]", ...net.lines, "",
    ];
    if (net.lanes) lines.push("[lanes]", `count = ${net.lanes}`, 'assignment = "routing"', "");
    if (net.gbit) lines.push(...ethernet(side));
    else {
      lines.push("[host]", `injection_rate = "${SENT} Gbit/s"`, `drain_rate = "${RECEIVED} Gbit/s"`, "");
      // Trees grow and drain twice as fast as with the usual buffers.
      lines.push("[switch]", 'buffer = "64 KiB"', "");
    }
    if (side.spread && net.isTree) lines.push("[adaptive_routing]", 'per = "packet"', "");
    lines.push(...congestion(side, settings.net), "", "[measure]", `interval = ${time(net.interval)}`, "");
    // A scenario needs some traffic.
    const load = settings.hotspots.length + settings.victims.length > 0 ? settings.load : Math.max(settings.load, 1);
    if (load > 0) {
      lines.push("[[traffic]]", 'name = "background"', 'message = "4 KiB"', 'pattern = { kind = "uniform" }', 'arrivals = "poisson"');
      lines.push(`rate = "${load * (net.gbit ?? SENT) * 10} Mbit/s"`, "");
    }
    lines.push(...flows(settings));
    return lines.join("\n");
  }

  // An opened scenario, with another mechanism unless the side uses that of the file.
  function opened(text, side) {
    if (side.mechanism === "file") return text;
    const table = congestion(side, null).slice(1);
    const lines = text.split("\n");
    const isHead = (line) => /^\s*\[/.test(line);
    const first = lines.findIndex((line) => /^\s*\[\s*congestion\s*\]/.test(line));
    // Components adjust the mechanism of the file, so they are removed together with it.
    const kept = [];
    let isCongestion = false;
    lines.forEach((line, at) => {
      if (isHead(line)) isCongestion = /^\s*\[\s*congestion\s*[\].]/.test(line);
      if (at === first) kept.push(line, ...table);
      else if (!isCongestion) kept.push(line);
    });
    if (first < 0) kept.push("", "[congestion]", ...table, "");
    return kept.join("\n");
  }

  const number = (text, usual, least, most) => {
    const value = Number(text);
    return text === null || text === "" || !Number.isFinite(value) ? usual : Math.min(most, Math.max(least, Math.round(value)));
  };

  function writeSide(side) {
    const values = Object.entries(side.values).map(([id, value]) => `${id}:${value}`);
    return [side.mechanism, ...(side.spread ? ["spread"] : []), ...values].join(",");
  }

  function readSide(text, net) {
    const [mechanism, ...rest] = text.split(",");
    const isOpened = net === null;
    const isKnown = isOpened ? mechanism === "file" || mechanism in MECHANISMS : mechanisms(net).includes(mechanism);
    const side = { mechanism: isKnown ? mechanism : isOpened ? "file" : "none", values: {}, spread: rest.includes("spread") };
    for (const one of valuesOf(side.mechanism, net)) {
      const given = rest.find((part) => part.startsWith(`${one.id}:`));
      if (given) side.values[one.id] = number(given.split(":")[1], one.usual, one.least, one.most);
    }
    return side;
  }

  // Bytes of the longest scenario that Silvan reads.
  const MOST_TEXT = 16 * 2 ** 20;

  async function pack(text) {
    const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
    return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  }

  // Rejects texts above the limit of scenarios. A short address can contain a text that is much longer unpacked.
  async function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
    const parts = [];
    let size = 0;
    for (const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")).getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) return new Blob(parts).text();
      size += value.length;
      if (size > MOST_TEXT) throw new RangeError(`a scenario has at most ${MOST_TEXT} bytes`);
      parts.push(value);
    }
  }

  // The fragment of the address for settings.
  async function fragment(settings) {
    const parts = [];
    if (settings.text !== null) parts.push(`toml=${await pack(settings.text)}`);
    else {
      parts.push(`net=${settings.net}`, `load=${settings.load}`, `length=${settings.length}`, `seed=${settings.seed}`);
      const hot = settings.hotspots.map((one) => {
        const senders = Array.isArray(one.senders) ? one.senders.join("+") : one.senders;
        return `${one.host}~${senders}@${one.from}${one.to === null ? "" : `-${one.to}`}`;
      });
      if (hot.length > 0) parts.push(`hot=${hot.join(",")}`);
      const victims = settings.victims.map((one) => `${one.host}:${one.to}`);
      if (victims.length > 0) parts.push(`victims=${victims.join(",")}`);
    }
    settings.sides.forEach((side, at) => parts.push(`${"ab"[at]}=${writeSide(side)}`));
    return parts.join("&");
  }

  // The settings of a fragment, with defaults for missing or invalid values. Null if it has no settings.
  async function settingsOf(fragmentText) {
    const found = new Map(fragmentText.split("&").map((part) => {
      const [key, ...rest] = part.split("=");
      return [key, decodeURIComponent(rest.join("="))];
    }));
    if (found.has("toml")) {
      const text = await unpack(found.get("toml"));
      return { ...blank("testbed"), text, sides: sides(found, null) };
    }
    if (!Object.hasOwn(NETWORKS, found.get("net"))) return null;
    const settings = blank(found.get("net"));
    const names = new Set(hostNames(settings.net));
    settings.load = number(found.get("load") ?? null, settings.load, 0, 100);
    settings.length = number(found.get("length") ?? null, settings.length, 100, 50_000);
    settings.seed = number(found.get("seed") ?? null, settings.seed, 0, 1e9);
    for (const part of (found.get("victims") ?? "").split(",")) {
      const [host, to] = part.split(":");
      if (names.has(host) && names.has(to) && host !== to) settings.victims.push({ host, to });
    }
    for (const part of (found.get("hot") ?? "").split(",")) {
      const match = part.match(/^(\w+)~([\w+]+)@(\d+)(?:-(\d+))?$/);
      if (!match || !names.has(match[1])) continue;
      const listed = match[2].split("+").filter((name) => names.has(name) && name !== match[1]);
      const senders = listed.length > 0 ? listed : number(match[2], 12, 1, 64);
      settings.hotspots.push({ host: match[1], senders, from: Number(match[3]), to: match[4] ? Number(match[4]) : null });
    }
    settings.sides = sides(found, settings.net);
    return settings;
  }

  function sides(found, net) {
    const given = ["a", "b"].filter((one) => found.has(one)).map((one) => readSide(found.get(one), net));
    return given.length > 0 ? given : [readSide(net === null ? "file" : "none", net)];
  }

  function blank(net) {
    return {
      net, load: 30, length: NETWORKS[net].length, seed: 1, hotspots: [], victims: [], text: null,
      sides: [{ mechanism: "none", values: {}, spread: false }],
    };
  }

  return { NETWORKS, MECHANISMS, mechanisms, valuesOf, blank, chosen, partner, toml, fragment, settingsOf, hostNames };
})();
