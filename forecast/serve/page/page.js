"use strict";

const element = (id) => document.getElementById(id);
const TYPES = {
  csv: "text/csv", tsv: "text/csv", txt: "text/csv", dat: "text/csv",
  xlsx: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
  ods: "application/vnd.oasis.opendocument.spreadsheet", xls: "application/vnd.ms-excel",
};
const page = {
  model: null, source: null, file: null, understood: null, known: null, answer: null, plot: null, stop: new AbortController(),
};

function fill(parent, tag, texts) {
  parent.replaceChildren(...texts.map((text) => Object.assign(document.createElement(tag), { textContent: text })));
}

function row(section, cells, tag, numeric) {
  const line = section.insertRow();
  for (const [place, cell] of cells.entries()) {
    const box = document.createElement(tag);
    if (tag === "th") box.scope = "col";
    if (numeric[place]) box.className = "number";
    box.append(cell ?? "");
    line.append(box);
  }
}

function table(id, headings, rows) {
  const made = element(id);
  const numeric = rows[0].map((cell) => /^-?[\d.,]+(e.\d+)?$/i.test(cell));
  made.replaceChildren();
  row(made.createTHead(), headings, "th", numeric);
  const body = made.createTBody();
  for (const cells of rows) row(body, cells, "td", numeric);
}

const number = (value) => (value === null ? "" : value.toLocaleString("en", { maximumSignificantDigits: 6 }));

async function ask(path, body, accept) {
  const headers = { Accept: accept ?? "application/json" };
  if (body) headers["Content-Type"] = "application/json";
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, {
    method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal: page.stop.signal,
  });
  if (answer.ok) return answer;
  const content = await answer.json().catch(() => ({ error: `${path}: status ${answer.status}` }));
  throw Object.assign(new Error(content.error), { status: answer.status, content });
}

/** Do work that the user asks for instead of what was asked for before. */
async function attempt(what, work) {
  page.stop.abort();
  page.stop = new AbortController();
  element("state").textContent = what;
  element("error").textContent = "";
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) element("access").hidden = false;
    element("error").textContent = error.status ? error.message
      : error.name === "NotReadableError" ? "The file was changed or moved: choose it again."
        : `The service does not answer (${error.message}).`;
  }
  element("state").textContent = "";
}

async function choose(name) {
  const query = name ? `?model=${encodeURIComponent(name)}` : "";
  page.model = await (await ask(`model${query}`)).json();
  element("access").hidden = true;
  const { models, targets, step, horizon, least_rows: least, known_covariates: known, scores } = page.model;
  element("models").hidden = models.length < 2;
  element("steps").hidden = horizon !== null;
  element("horizon").max = page.model.largest_horizon;
  fill(element("model"), "option", models);
  element("model").value = page.model.model;
  const skill = scores?.model?.skill;
  const judged = skill == null ? "" : ` Its squared error on its test period is ${Math.abs(100 * skill).toFixed(0)} % ` +
    `${skill < 0 ? "above" : "below"} the seasonal naive forecast.`;
  const more = known.length ? ` It needs ${known.join(", ")} of the coming steps.` : "";
  const what = horizon === null ? "The model was trained on none of your data. It forecasts each column of numbers from its own past" :
    `The model forecasts ${targets.slice(0, 8).join(", ")}, ${horizon} steps of one ${step}`;
  element("needs").textContent = `${what}, from a file with at least ${least} rows.${more}${judged}`;
}

async function encoded(file) {
  const size = (bytes) => (bytes / 2 ** 20).toFixed(1);
  if (file.size > page.model.largest_file) {
    throw Object.assign(new Error(`${file.name} has ${size(file.size)} MiB, this page sends at most ` +
      `${size(page.model.largest_file)}: keep the newest rows.`), { status: 413 });
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let place = 0; place < bytes.length; place += 32768) {
    text += String.fromCharCode(...bytes.subarray(place, place + 32768));
  }
  const ending = file.name.toLowerCase().split(".").pop();
  return { type: TYPES[ending] ?? `.${ending}`, base64: btoa(text) };
}

async function open(file) {
  page.source = file;
  page.known = page.answer = null;
  for (const id of ["understood", "ahead", "forecast"]) element(id).hidden = true;
  await attempt(`Reading ${file.name} …`, async () => {
    page.file = await encoded(file);
    page.understood = await (await ask("table", sent())).json();
    element("horizon").placeholder = page.understood.horizon;
    showUnderstood();
    await forecast();
  });
}

function showUnderstood() {
  const { rows, series, step, first, last, notes, columns } = page.understood;
  const many = series ? `${series.toLocaleString("en")} series, ` : "";
  element("span").textContent = `${many}${rows.toLocaleString("en")} rows, one every ${step}, ${first} to ${last}.`;
  fill(element("notes"), "li", notes);
  const headings = ["column", "role", "least", "mean", "largest", "empty", "remarks"];
  table("columns", headings, columns.map((each) => [
    each.name, each.role, number(each.least), number(each.mean), number(each.largest), number(each.empty),
    each.remarks.join(", "),
  ]));
  element("understood").hidden = false;
}

const sent = () => ({
  file: page.file, model: page.model.model,
  ...(page.model.horizon === null && element("horizon").value ? { horizon: Number(element("horizon").value) } : {}),
});

const request = () => ({ ...sent(), levels: page.model.levels, ...(page.known ? { known: page.known } : {}) });

async function forecast() {
  element("state").textContent = "Forecasting …";
  try {
    page.answer = await (await ask("forecast", request())).json();
  } catch (error) {
    if (error.content?.known) showKnown(error.content);
    if (!error.content?.known || page.known) throw error;
    return;
  }
  showForecast();
}

function showKnown({ known }) {
  const ids = [page.understood.time_column, ...page.understood.id_columns];
  const names = Object.keys(known[0]).filter((name) => !ids.includes(name));
  const shown = Object.keys(known[0]).filter((name) => ids.includes(name));
  table("cells", [...shown, ...names], known.map((each) => [
    ...shown.map((name) => each[name]),
    ...names.map((name) => Object.assign(document.createElement("input"), {
      value: each[name] ?? "", required: true, ariaLabel: `${name}, ${shown.map((part) => each[part]).join(", ")}`,
    })),
  ]));
  const cells = [...element("cells").tBodies[0].rows].map((line) => [...line.querySelectorAll("input")]);
  element("known").onpaste = (event) => paste(event, cells);
  element("known").onsubmit = (event) => {
    event.preventDefault();
    page.known = known.map((each, place) => ({
      ...each, ...Object.fromEntries(names.map((name, column) => [name, plain(cells[place][column].value)])),
    }));
    attempt("Forecasting …", forecast);
  };
  element("ahead").hidden = false;
  element("cells").querySelector("input")?.focus();
}

/** Fill cells of a spreadsheet into the inputs from the one on. */
function paste(event, cells) {
  const lines = event.clipboardData.getData("text").trimEnd().split(/\r?\n/).map((line) => line.split("\t"));
  if (lines.length === 1 && lines[0].length === 1) return;
  event.preventDefault();
  const top = cells.findIndex((line) => line.includes(event.target));
  const left = cells[top].indexOf(event.target);
  for (const [down, line] of lines.entries()) {
    for (const [along, text] of line.entries()) {
      const box = cells[top + down]?.[left + along];
      if (box) box.value = text.trim();
    }
  }
}

const plain = (text) => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text.trim());

const idOf = (line) => page.understood.id_columns.map((name) => line[name]).join(", ");

function showForecast() {
  const { rows, intervals, notes, warnings } = page.answer;
  element("many").hidden = !page.understood.id_columns.length;
  fill(element("series"), "option", [...new Set(rows.map(idOf))]);
  fill(element("target"), "option", page.understood.targets);
  fill(element("said"), "li", [...(intervals ? [intervals] : []), ...warnings, ...notes.filter(
    (note) => !page.understood.notes.includes(note))]);
  element("forecast").hidden = false;
  draw();
}

/** Return seconds for an axis that shows the local time of the table; steps stay in order when clocks change. */
function seconds(text, first) {
  const [, year, month, day, hour = 0, minute = 0, second = 0, zone] =
    /^(\d+)-(\d+)-(\d+)(?:[ T](\d+):(\d+):?([\d.]+)?)?([+-]\d\d:?\d\d)?/.exec(text);
  const offset = zone ? Number(`${zone[0]}1`) * (60 * Number(zone.slice(1, 3)) + Number(zone.slice(-2))) : 0;
  const local = Date.UTC(year, month - 1, day, hour, minute) / 1000 + Number(second);
  return first === undefined ? { offset } : local - 60 * (offset - first.offset);
}

/** Return labels of times: months, days or times of day, by the seconds between two of them. */
const labels = (_plot, stamps, _axis, _space, gap) => stamps.map((stamp) => {
  const text = new Date(1000 * stamp).toISOString();
  return gap >= 28 * 86400 ? text.slice(0, 7) : gap >= 86400 || text.includes("T00:00") ? text.slice(5, 10) : text.slice(11, 16);
});

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function draw() {
  const { time_column: time } = page.understood;
  const target = element("target").value, id = element("series").value;
  const past = page.understood.past.filter((line) => idOf(line) === id);
  const rows = page.answer.rows.filter((line) => idOf(line) === id);
  const first = seconds((past[0] ?? rows[0])[time]);
  const times = [...past, ...rows].map((line) => seconds(line[time], first));
  const after = (name) => [...past.map(() => null), ...rows.map((line) => line[name])];
  const levels = [...page.model.levels].reverse();
  const axis = { stroke: color("soft"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line") } };
  const ends = levels.flatMap((level) => ["upper", "lower"].map((end) => ({
    name: `${target}_${end}_${level}`, label: `${level} % ${end}`, stroke: color("fan"), width: 0.5,
  })));
  const data = [times, [...past.map((line) => line[target]), ...rows.map(() => null)],
    ...ends.map(({ name }) => after(name)), after(`${target}_naive`), after(target)];
  const value = (_plot, shown) => number(shown ?? null);
  const instant = (_plot, stamp) => (stamp == null ? "" : new Date(1000 * stamp).toISOString().slice(0, 16).replace("T", " "));
  const series = [{ label: time, value: instant }, { label: "past", stroke: color("past"), width: 1.5, value },
    ...ends.map(({ label, stroke, width }) => ({ label, stroke, width, value, points: { show: false } })),
    { label: page.answer.naive, stroke: color("naive"), width: 1.5, dash: [5, 4], value },
    { label: "forecast", stroke: color("forecast"), width: 2.5, value }];
  const bands = levels.map((_, place) => ({ series: [2 + 2 * place, 3 + 2 * place], fill: `${color("fan")}40` }));
  page.plot?.destroy();
  const width = element("plot").clientWidth;
  page.plot = new uPlot({
    width, height: Math.max(260, Math.min(420, 0.6 * width)), series, bands, axes: [{ ...axis, values: labels }, { ...axis, size: 60 }],
    tzDate: (stamp) => uPlot.tzDate(new Date(1000 * stamp), "Etc/UTC"), cursor: { drag: { x: true, y: false } },
  }, data, element("plot"));
  const values = rows.map((line) => line[target]);
  element("caption").textContent = `${id ? `${id}: ` : ""}${target} from ${rows[0][time]} to ${rows.at(-1)[time]}, ` +
    `${number(Math.min(...values))} to ${number(Math.max(...values))}, ${levels.length ? `with ${levels.join(" and ")} % intervals, ` : ""}` +
    `beside the ${page.answer.naive}. Drag to enlarge, double-click to return; arrow keys read the values.`;
  element("plot").setAttribute("aria-label", `Picture of the forecast of ${target}`);
  const headings = Object.keys(rows[0]);
  table("values", headings, rows.map((line) => headings.map((name) => (
    typeof line[name] === "number" ? String(line[name]) : line[name]))));
}

function step(event) {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!move || !page.plot) return;
  event.preventDefault();
  const { data, cursor } = page.plot;
  const place = Math.max(0, Math.min(data[0].length - 1, (cursor.idx ?? page.understood.past.length - 1) + move));
  page.plot.setCursor({ left: page.plot.valToPos(data[0][place], "x"), top: 10 });
  const line = page.answer.rows.filter((each) => idOf(each) === element("series").value)[
    place - (data[0].length - page.answer.rows.filter((each) => idOf(each) === element("series").value).length)];
  if (line) element("state").textContent = `${line[page.understood.time_column]}: ${line[element("target").value]}`;
}

async function download(name, type) {
  await attempt(`Writing ${name} …`, async () => {
    const address = URL.createObjectURL(await (await ask("forecast", request(), type)).blob());
    Object.assign(document.createElement("a"), { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  });
}

const take = (file) => file && page.model && open(file);
const start = (name) => attempt("", () => choose(name));
element("file").onchange = (event) => take(event.target.files[0]);
element("model").onchange = (event) => start(event.target.value).then(() => take(page.source));
element("horizon").onchange = () => take(page.source);
element("series").onchange = element("target").onchange = draw;
element("plot").onkeydown = step;
element("csv").onclick = () => download("forecast.csv", TYPES.csv);
element("xlsx").onclick = () => download("forecast.xlsx", TYPES.xlsx);
element("access").onsubmit = (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", element("token").value);
  start();
};
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    element("drop").classList.toggle("over", kind === "dragover");
    if (kind !== "drop" || !event.dataTransfer.files.length) return;
    element("file").files = event.dataTransfer.files; // shows the name
    take(event.dataTransfer.files[0]);
  });
}
addEventListener("resize", () => page.answer && draw());
matchMedia("(prefers-color-scheme: dark)").onchange = () => page.answer && draw();
start();
