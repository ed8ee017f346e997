// Sorts a table by the column whose heading is clicked; without it the tables keep their order.
for (const head of document.querySelectorAll(".sorts th")) head.addEventListener("click", () => {
  const table = head.closest("table"), body = table.tBodies[0], place = head.cellIndex;
  const down = head.getAttribute("aria-sort") === "ascending";
  const value = row => row.cells[place].textContent.replace(/,/g, "").replace("\u2212", "-").trim();
  const rows = [...body.rows].map((row, order) => ({ row, order, text: value(row), number: parseFloat(value(row)) }));
  rows.sort((one, two) => {
    const empty = (one.text === "" || one.text === "-") - (two.text === "" || two.text === "-");
    if (empty) return empty;
    const numbers = !isNaN(one.number) && !isNaN(two.number);
    const gap = numbers ? one.number - two.number : one.text.localeCompare(two.text);
    return (down ? -gap : gap) || one.order - two.order;
  });
  for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows.map(sorted => sorted.row));
});
