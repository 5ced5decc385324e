"use strict";
// Tables are sorted by the raw values of their cells; n/a stays last whatever the direction.
for (const button of document.querySelectorAll("th > button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement;
    const table = head.closest("table");
    const place = head.cellIndex;
    const isNumber = head.classList.contains("number");
    const before = head.getAttribute("aria-sort");
    // Numbers begin with the largest, texts with the first.
    const direction = before === "none" ? (isNumber ? "descending" : "ascending")
      : before === "ascending" ? "descending" : "ascending";
    for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const keyed = [...table.tBodies[0].rows].map((row) => [row.cells[place].dataset.raw, row]);
    keyed.sort(([a], [b]) => {
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return sign * (isNumber ? a - b : a.localeCompare(b));
    });
    table.tBodies[0].append(...keyed.map(([, row]) => row));
    document.getElementById("sorted").textContent = `sorted by ${button.textContent}, ${direction}`;
  });
}
