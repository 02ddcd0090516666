// The controls of the page, which show and change the settings.

const Controls = (() => {
  const { get, make, choice } = Elements;
  let page = null;

  // A slider with a label, a number and an explanation.
  function slider({ label, text, least, most, value, change }) {
    const shown = make("output", { textContent: value });
    const input = make("input", {
      type: "range", min: least, max: most, step: 1, value, "aria-label": label,
      oninput: () => { shown.textContent = input.value; },
      onchange: () => change(Number(input.value)),
    });
    return make("label", { className: "value" }, make("span", {}, label, shown), input, make("small", { textContent: text }));
  }

  function side(at) {
    const { settings } = page;
    const one = settings.sides[at];
    const ids = settings.text === null ? Scenario.mechanisms(settings.net) : Object.keys(Scenario.MECHANISMS);
    const names = ids.map((id) => [id, Scenario.MECHANISMS[id].name]);
    if (settings.text !== null) names.unshift(["file", "As in the file"]);
    const select = make("select", {
      "aria-label": at === 0 ? "Congestion control" : "Second congestion control",
      onchange: () => {
        Object.assign(one, { mechanism: select.value, values: {} });
        page.changed(at);
      },
    });
    choice(select, names, one.mechanism);
    const mechanism = Scenario.MECHANISMS[one.mechanism];
    const children = [select, make("small", { textContent: mechanism?.text ?? "The mechanism that the file names." })];
    for (const { id, label, text, least, most, usual } of Scenario.valuesOf(one.mechanism, settings.text === null ? settings.net : null)) {
      const change = (value) => {
        one.values[id] = value;
        page.changed(at);
      };
      children.push(slider({ label, text, least, most, value: one.values[id] ?? usual, change }));
    }
    if (settings.text === null && Scenario.NETWORKS[settings.net].isTree && settings.net !== "testbed" && one.mechanism !== "saa") {
      const box = make("input", {
        type: "checkbox", checked: one.spread,
        onchange: () => {
          one.spread = box.checked;
          page.changed(at);
        },
      });
      children.push(make("label", { className: "check" }, box, " Route each packet separately"));
    }
    const title = settings.sides.length === 1 ? "Congestion control" : at === 0 ? "First" : "Second";
    return make("fieldset", {}, make("legend", { textContent: title }), ...children);
  }

  // Replaces the elements of all sides, and keeps the focus at the same position.
  function showSides() {
    const all = () => [...get("sides").querySelectorAll("input, select")];
    const at = all().indexOf(document.activeElement);
    get("sides").replaceChildren(...page.settings.sides.map((_, place) => side(place)));
    if (at >= 0) all()[at]?.focus();
  }

  // Shows the settings.
  function show() {
    const { settings } = page;
    const isFile = settings.text !== null;
    get("stories").replaceChildren(...STORIES.map((story) => make("button", {
      type: "button", textContent: story.name, "aria-pressed": String(page.story === story), onclick: () => page.open(story),
    })));
    get("story").textContent = page.story?.text ?? "";
    get("story").hidden = !page.story;
    const nets = Object.entries(Scenario.NETWORKS).map(([id, { name }]) => [id, name]);
    if (isFile) nets.unshift(["", "An opened scenario"]);
    choice(get("net"), nets, isFile ? "" : settings.net);
    get("traffic").hidden = isFile;
    get("load").value = settings.load;
    get("load-shown").textContent = `${settings.load} %`;
    get("senders").value = page.senders;
    get("senders").max = Math.min(64, Scenario.NETWORKS[settings.net].hosts - 1);
    get("senders-shown").textContent = page.senders;
    for (const one of document.querySelectorAll("[name=tool]")) one.checked = one.value === page.tool;
    showSides();
    get("compare").textContent = settings.sides.length === 1 ? "Compare with a second mechanism" : "Show only the first";
  }

  // Shows the progress of the runs and the explanation.
  function progress() {
    const known = page.known();
    if (known > 0) sentence();
    get("waiting").hidden = !page.isWaiting;
    if (page.isWaiting) {
      const times = page.sides.map(({ live }) => (live.next?.samples.at(-1)?.time_ns ?? 0) / 1e3);
      get("waiting").textContent = known > 0 ? `Computing again from the start: ${Data.time(Math.min(...times))}` : "Computing …";
    }
    pace();
  }

  function sentence() {
    const samples = page.sides.map(({ live }) => live.now.samples[page.at]);
    const hotspots = page.hotspots().map((one) => one.host);
    let text = Sentence.ofOne(page.sides[0].live.now.network, samples[0], hotspots);
    if (hotspots.length === 0 && page.settings.text === null && samples[0].trees.length === 0) {
      text += " Click a host to make it a hotspot.";
    }
    if (samples.length > 1) {
      const runs = page.sides.map(({ live }) => live.now);
      const recent = runs.map((run) => run.samples.slice(Math.max(0, page.at - 9), page.at + 1));
      text += Sentence.ofTwo(runs.map((run) => run.network), recent, page.names());
    }
    if (get("sentence").textContent !== text) get("sentence").textContent = text;
  }

  // The speed of the simulation, in packets that cross a link per second.
  function pace() {
    const texts = page.sides.map(({ live }) => {
      const run = live.next ?? live.now;
      const last = run?.samples.at(-1);
      return last && run.busyMs > 50 ? last.packet_hops / run.busyMs / 1e3 : null;
    }).filter((one) => one !== null);
    const native = JSON.parse(get("native").textContent)[page.settings.text === null ? page.settings.net : ""];
    const here = texts.map((one) => Data.trim(Math.round(one * 100) / 100)).join(" and ");
    get("pace").textContent = here
      ? `Simulated here: ${here} million packet hops per second${native ? `; natively, where this page was built: ${Data.trim(native)}` : ""}.`
      : "";
  }

  function complain(text) {
    get("wrong").hidden = text === null;
    get("wrong").textContent = text ?? "";
  }

  // The text of the scenario of a side, to copy or store.
  function scenarios() {
    const dialog = get("dialog");
    const text = get("toml");
    const names = page.names();
    const select = get("which");
    const fill = () => { text.value = Scenario.toml(page.settings, page.settings.sides[Number(select.value)]); };
    choice(select, names.map((name, at) => [String(at), name]), "0");
    select.hidden = names.length === 1;
    select.onchange = fill;
    get("copied").textContent = "";
    fill();
    dialog.showModal();
  }

  async function copy(text, output) {
    try {
      await navigator.clipboard.writeText(text);
      output.textContent = "Copied.";
    } catch {
      get("toml").select();
      output.textContent = "Press Ctrl+C to copy.";
    }
  }

  function download() {
    const url = URL.createObjectURL(new Blob([get("toml").value], { type: "application/toml" }));
    make("a", { href: url, download: "playground.toml" }).click();
    URL.revokeObjectURL(url);
  }

  async function share() {
    const address = `${location.href.split("#")[0]}#${await Scenario.fragment(page.settings)}`;
    try {
      await navigator.clipboard.writeText(address);
      get("shared").textContent = "The address is copied.";
    } catch {
      get("shared").textContent = "Copy the address of this page.";
    }
  }

  function open(text) {
    const blank = Scenario.blank("testbed");
    page.begin({ ...blank, text, sides: [{ mechanism: "file", values: {}, spread: false }] }, null);
  }

  function listen() {
    const on = (id, event, act) => get(id).addEventListener(event, act);
    on("net", "change", () => {
      if (!get("net").value) return;
      const next = Scenario.blank(get("net").value);
      // Keep the mechanisms that the network supports.
      const known = Scenario.mechanisms(next.net);
      const kept = page.settings.sides.filter((one) => known.includes(one.mechanism));
      if (kept.length > 0) next.sides = kept.map((one) => ({ ...one, spread: false }));
      page.begin(next, null);
    });
    on("load", "input", () => { get("load-shown").textContent = `${get("load").value} %`; });
    on("load", "change", () => {
      page.settings.load = Number(get("load").value);
      page.changed();
    });
    on("senders", "input", () => {
      page.senders = Number(get("senders").value);
      get("senders-shown").textContent = page.senders;
    });
    on("senders", "change", () => {
      const lasting = page.settings.hotspots.filter((one) => one.to === null);
      for (const one of lasting) one.senders = page.senders;
      if (lasting.length > 0) page.changed();
    });
    for (const one of document.querySelectorAll("[name=tool]")) {
      one.addEventListener("change", () => { page.tool = one.value; });
    }
    on("compare", "click", () => {
      const { sides } = page.settings;
      if (sides.length > 1) sides.pop();
      else {
        const other = sides[0].mechanism === "none" ? { mechanism: "ib-cc", values: { table: 16 } } : { mechanism: "none", values: {} };
        sides.push({ spread: false, ...other });
      }
      page.changed(1);
    });
    on("clear", "click", () => {
      Object.assign(page.settings, { hotspots: [], victims: [] });
      page.begin(page.settings, null);
    });
    on("scenario", "click", scenarios);
    on("close", "click", () => get("dialog").close());
    on("copy", "click", () => copy(get("toml").value, get("copied")));
    on("store", "click", download);
    on("share", "click", share);
    on("file", "change", async () => {
      const [file] = get("file").files;
      if (file) open(await file.text());
      get("file").value = "";
    });
  }

  function start(whole) {
    page = whole;
    page.listen();
    listen();
  }

  return { make: start, show, progress, complain, open };
})();
