"use strict";
// A name shows or hides what it names; the pointer reads a chart's values.
for (const key of document.querySelectorAll("button.key")) {
  key.addEventListener("click", () => {
    const off = key.getAttribute("aria-pressed") === "true";
    key.setAttribute("aria-pressed", String(!off));
    const same = key.closest(".figure").querySelectorAll(`[data-series="${key.dataset.series}"]`);
    same.forEach(it => it.classList.toggle("off", off));
  });
}

const numbers = text => text.split(",").map(Number);
const add = (name, parent, text = "", css = "") => {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = css;
  parent.append(made);
  return made;
};
const nearest = (values, at) => values.reduce((n, x, m) => Math.abs(x - at) < Math.abs(values[n] - at) ? m : n, 0);

for (const chart of document.querySelectorAll(".chart")) {
  const { unit, places } = chart.dataset, [left, right] = numbers(`${chart.dataset.left},${chart.dataset.right}`);
  const lines = [...chart.querySelectorAll("g.series[data-x]")].map(group => ({
    group, x: numbers(group.dataset.x), y: group.dataset.y.split(","),
    low: group.dataset.low?.split(","), high: group.dataset.high?.split(","),
  }));
  const steps = [...new Set(lines.flatMap(line => line.x))];
  const cursor = add("i", chart, "", "cursor"), tip = add("div", chart, "", "tip");
  const show = it => cursor.hidden = tip.hidden = !it;
  const read = event => {
    const box = chart.getBoundingClientRect();
    const at = steps[nearest(steps, left + (right - left) * (event.clientX - box.left) / box.width)];
    const here = ({ group, x }) => !group.classList.contains("off") && x[0] <= at && at <= x[x.length - 1];
    const seen = lines.filter(here).map(line => ({ ...line, n: nearest(line.x, at) }));
    show(seen.length);
    const share = 100 * (at - left) / (right - left);
    cursor.style.left = `${share}%`;
    tip.style.left = share < 50 ? `calc(${share}% + .6rem)` : "";
    tip.style.right = share < 50 ? "" : `calc(${100 - share}% + .6rem)`;
    tip.replaceChildren();
    add("strong", tip, places ? places.split(",")[at] : `${at.toLocaleString("en")} ${unit}`);
    for (const { group, y, low, high, n } of seen.sort((a, b) => b.y[b.n] - a.y[a.n])) {
      const line = add("div", tip);
      add("i", line, "", group.classList.contains("black") ? "black" : "").style.color = group.style.color;
      add("span", line, group.dataset.name);
      add("b", line, low ? `${y[n]} [${low[n]}, ${high[n]}]` : y[n]);
    }
  };
  show(false);
  chart.addEventListener("pointermove", read);
  chart.addEventListener("pointerdown", read);
  chart.addEventListener("pointerleave", () => show(false));
}

// A table with no room for its columns shows each line as a block, every value beneath its column's name.
const fit = box => {
  box.classList.remove("stacked");
  box.classList.toggle("stacked", box.scrollWidth > box.clientWidth + 1);
};
const widths = new WeakMap();
const watch = new ResizeObserver(seen => {
  for (const { target, contentRect } of seen) {
    if (widths.get(target) === contentRect.width) continue;
    widths.set(target, contentRect.width);
    [...target.children].filter(child => child.matches(".scroll")).forEach(fit);
  }
});
document.querySelectorAll(".scroll").forEach(box => watch.observe(box.parentElement));

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
addEventListener("beforeprint", () => document.querySelectorAll("#notices, #notices details").forEach(it => it.open = true));
document.querySelector(".tools").hidden = false;
filter();
