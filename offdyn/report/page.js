"use strict";
// Sort any table marked `sortable` by a click on a head; filter the list of runs by words and by state.
const value = cell => {
  const text = cell.dataset.sort ?? cell.firstChild?.textContent.trim() ?? "";
  const number = Number(text);
  return text !== "" && !Number.isNaN(number) ? number : text;
};
const absent = it => it === "" || it === "–";
const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map(row => ({ row, key: value(row.cells[column]) }));
      // What has no value stays at the end in either direction.
      rows.sort((a, b) => absent(a.key) - absent(b.key) || (down ? -1 : 1) * compare(a.key, b.key));
      table.tBodies[0].append(...rows.map(({ row }) => row));
    });
  });
}

const words = document.getElementById("words"), state = document.getElementById("state");
const runs = [...document.querySelectorAll("#runs tbody tr")];
const filter = () => {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of runs) {
    const text = row.textContent.toLowerCase();
    row.hidden = !(wanted.every(word => text.includes(word)) && (!state.value || row.dataset.state === state.value));
    shown += !row.hidden;
  }
  document.getElementById("shown").textContent = `${shown} of ${runs.length} runs`;
};
words.addEventListener("input", filter);
state.addEventListener("change", filter);
// Paper cannot be unfolded: what to know before believing a table is printed in full.
addEventListener("beforeprint", () => document.querySelectorAll("#notices details").forEach(it => it.open = true));
document.querySelector(".tools").hidden = false;
filter();
