// Tables that sort by a click on a head, filter by words, and by the selected span.

const Tables = (() => {
  const all = [];

  function key(row, at) {
    const cell = row.cells[at];
    return cell.dataset.v === undefined ? cell.textContent.toLowerCase() : Number(cell.dataset.v);
  }

  function sort(table, head) {
    const at = head.cellIndex;
    const isDown = head.getAttribute("aria-sort") !== "descending";
    const rows = [...table.tBodies[0].rows];
    const sign = isDown ? -1 : 1;
    rows.sort((one, other) => {
      const [a, b] = [key(one, at), key(other, at)];
      return a < b ? -sign : a > b ? sign : 0;
    });
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    table.tBodies[0].append(...rows);
  }

  // `show(run, kind, number)` is told which tree or cause of which run a row is about.
  function start(show) {
    for (const table of document.querySelectorAll("section.run table, section.settings table")) {
      const run = Number(table.closest("section.run")?.dataset.run ?? -1);
      const heads = [...table.tHead.rows[0].cells];
      const kind = ["tree", "cause"].find((name) => heads.some((head) => head.textContent === name));
      const column = heads.findIndex((head) => head.textContent === kind);
      const span = ["born", "from"].map((name) => heads.findIndex((head) => head.textContent === name));
      const end = ["last seen", "to"].map((name) => heads.findIndex((head) => head.textContent === name));
      all.push({ table, first: Math.max(...span), last: Math.max(...end) });
      for (const head of heads) {
        head.classList.add("sortable");
        head.tabIndex = 0;
        head.addEventListener("click", () => sort(table, head));
        head.addEventListener("keydown", (event) => event.key === "Enter" && sort(table, head));
      }
      if (column < 0) continue;
      for (const row of table.tBodies[0].rows) {
        row.tabIndex = 0;
        const pick = () => show(run, kind, Number(row.cells[column].dataset.v));
        row.addEventListener("click", pick);
        row.addEventListener("keydown", (event) => event.key === "Enter" && pick());
        row.dataset.run = run;
        row.dataset[kind] = row.cells[column].dataset.v;
      }
    }
  }

  // Shows rows that have all words, and of those with times the ones within `span` (microseconds), if any.
  function filter(words, span) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { table, first, last } of all) {
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        const isOutside =
          span && first >= 0 && last >= 0 &&
          (Number(row.cells[first].dataset.v) / 1e3 > span[1] || Number(row.cells[last].dataset.v) / 1e3 < span[0]);
        row.hidden = isOutside || !wanted.every((word) => text.includes(word));
      }
    }
  }

  function pick(run, number, kind = "tree") {
    for (const row of document.querySelectorAll("tr.picked")) row.classList.remove("picked");
    if (number === null) return;
    const rows = document.querySelectorAll(`tr[data-run="${run}"][data-${kind}="${number}"]`);
    for (const row of rows) row.classList.add("picked");
  }

  return { start, filter, pick };
})();
