// Filters of the scoreboard: words, a source, a verdict, and whether the score counts a row. Without scripts, the page
// shows all rows.
document.addEventListener("DOMContentLoaded", () => {
  const table = document.getElementById("scores");
  if (!table) return;
  const get = (id) => document.getElementById(id);
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const filter = () => {
    const words = get("score-words").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [source, verdict, counted] = ["source", "verdict", "counted"].map((name) => get(`score-${name}`).value);
    let [shown, met] = [0, 0];
    for (const { row, text } of rows) {
      const isShown = (!source || row.dataset.source === source) && (!verdict || row.dataset.verdict === verdict)
        && (!counted || row.dataset.counted === counted) && words.every((word) => text.includes(word));
      row.hidden = !isShown;
      shown += isShown;
      met += isShown && row.dataset.verdict === "met";
    }
    get("score-count").textContent = `${shown} of ${rows.length} numbers, ${met} met`;
  };
  for (const id of ["score-words", "score-source", "score-verdict", "score-counted"]) get(id).addEventListener("input", filter);
  get("score-filter").hidden = false;
  filter();
});
