"use strict";

function add(parent, tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  parent.append(made);
  return made;
}

const typeOf = ({ type, anyOf, items }) =>
  anyOf ? anyOf.map(typeOf).filter((name) => name !== "null").join(" or ")
    : items ? `list of ${typeOf(items) || "values"}` : type ?? "";

function list(parent, title, rows) {
  if (!rows.length) return;
  add(parent, "h3", title);
  const wide = add(parent, "div", "");
  wide.className = "wide";
  const table = add(wide, "table", "");
  for (const cells of rows) {
    const line = table.insertRow();
    for (const cell of cells) add(line, "td", cell);
  }
}

function show(path, method, request) {
  const section = add(document.getElementById("requests"), "section", "");
  add(section, "h2", `${method.toUpperCase()} ${path}`);
  for (const part of (request.description ?? request.summary).split("\n\n")) add(section, "p", part);
  list(section, "Options in the query", (request.parameters ?? []).map(
    ({ name, schema, description }) => [name, typeOf(schema), description ?? schema.description ?? ""]));
  const kinds = Object.entries(request.requestBody?.content ?? {});
  list(section, "Body", kinds.map(([kind, { schema }]) => [kind, schema.properties ? "see below" : "a file"]));
  for (const [kind, { schema }] of kinds) {
    list(section, kind, Object.entries(schema.properties ?? {}).map(
      ([name, each]) => [name, typeOf(each), each.description ?? ""]));
  }
  list(section, "Answers", Object.entries(request.responses).map(
    ([status, { description, content }]) => [status, description, Object.keys(content ?? {}).join(", ")]));
}

document.getElementById("example").textContent =
  `curl --data-binary @my.csv -H 'Content-Type: text/csv' '${location.origin}/forecast?levels=80'`;
fetch("openapi.json").then((answer) => answer.json()).then(({ paths }) => {
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, request] of Object.entries(methods)) show(path, method, request);
  }
});
