"""How the page looks, and how its tables are sorted: all of it inside the page."""

CSS = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #ffffff; --line: #d0d0d0; --soft: #f3f4f6; --mark: #0b5394;
  --flag: #8a4b00; --good: #0b5394; --bad: #a61c00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #16181c; --line: #3d4149; --soft: #22252b;
  --mark: #8ab8f5; --flag: #ffb961; --good: #8ab8f5; --bad: #ff9f8a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.6rem; margin: .3rem 0; } h2 { font-size: 1.3rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
code { font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace;
  font-size: .92em; overflow-wrap: anywhere; }
.answer { border-left: .3rem solid var(--mark); background: var(--soft); padding: .6rem 1rem; }
.answer p { margin: .35rem 0; } .answer p:first-child { font-size: 1.12rem; font-weight: 600; }
.wide { overflow-x: auto; border: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
.sorts td { white-space: nowrap; } .sorts td:is(:first-child, :last-child) { white-space: normal; }
.sorts td:first-child { min-width: 7rem; }
.sorts :is(th, td):first-child { position: sticky; left: 0; background: var(--paper); }
th { background: var(--soft); position: sticky; top: 0; vertical-align: bottom; }
.words th, .words td, th:first-child, td:first-child { text-align: left; }
.sorts th { cursor: pointer; } .sorts th[aria-sort]::after { content: " \\2193"; }
.sorts th[aria-sort="ascending"]::after { content: " \\2191"; }
.flag { color: var(--flag); font-weight: 700; } .good { color: var(--good); font-weight: 700; }
.bad { color: var(--bad); font-weight: 700; }
ul.notes { font-size: .87rem; padding-left: 1.2rem; margin: .4rem 0; } nav a { margin-right: 1rem; }
a { color: var(--mark); }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }
figure { margin: 0; background: #ffffff; border: 1px solid var(--line); border-radius: .4rem; padding: .4rem; }
figure img { width: 100%; height: auto; display: block; }
"""
"""Readable in light and dark, at the width of a telephone, and on paper; the pictures keep their white ground."""

SCRIPT = """
for (const head of document.querySelectorAll(".sorts th")) head.addEventListener("click", () => {
  const table = head.closest("table"), body = table.tBodies[0], place = head.cellIndex;
  const down = head.getAttribute("aria-sort") === "ascending";
  const value = row => row.cells[place].textContent.replace(/,/g, "").replace("\\u2212", "-").trim();
  const rows = [...body.rows].map((row, order) => ({ row, order, text: value(row), number: parseFloat(value(row)) }));
  rows.sort((one, two) => {
    const empty = (one.text === "" || one.text === "-") - (two.text === "" || two.text === "-");
    if (empty) return empty;
    const numbers = !isNaN(one.number) && !isNaN(two.number);
    const gap = numbers ? one.number - two.number : one.text.localeCompare(two.text);
    return (down ? -gap : gap) || one.order - two.order;
  });
  for (const each of table.querySelectorAll("th")) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows.map(each => each.row));
});
"""
"""Sorts a table by the column whose heading is clicked; without it the tables stand as they were written."""
