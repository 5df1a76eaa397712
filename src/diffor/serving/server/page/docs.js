// The OpenAPI document as a page to read: paths, an example of each request, and what comes back.

import { ask } from "./asking.js";
import { html } from "./drawing.js";

const address = window.location.origin;

function example(operation) {
  const content = operation.requestBody?.content ?? {}, schema = content["application/json"]?.schema;
  if (schema) return { rows: [schema.properties.rows.items.example] };
  return null;
}

function command(path, method, operation) {
  if (method === "get") return `curl ${address}${path}`;
  const body = example(operation);
  if (body) return `curl ${address}${path} -H 'Content-Type: application/json' -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
  return `curl ${address}${path} -F images=@picture.jpg`;
}

function fields(schema, schemas) {
  const found = schema?.$ref ? schemas[schema.$ref.split("/").at(-1)] : schema;
  return Object.entries(found?.properties ?? {}).map(([name, one]) => {
    const inner = one.items?.$ref ? fields(one.items, schemas).map((row) => [`${name}[].${row[0]}`, row[1]]) : [];
    return [[name, one.description ?? one.type ?? ""], ...inner];
  }).flat();
}

function table(rows, first, second) {
  const head = html("tr", {}, html("th", { scope: "col" }, first), html("th", { scope: "col" }, second));
  const body = rows.map(([name, text]) => html("tr", {}, html("td", {}, html("code", {}, name)), html("td", {}, text)));
  return html("div", { class: "scroll" }, html("table", {}, html("thead", {}, head), html("tbody", {}, ...body)));
}

// Sends a request from this page and shows what comes back.
function trial(path, method, operation) {
  const body = example(operation);
  if (method !== "get" && !body) return null; // images are easier to drop on the page
  const input = html("textarea", { "aria-label": `What to send to ${path}`, spellcheck: "false" });
  if (body) input.value = JSON.stringify(body, null, 1);
  const button = html("button", { type: "button" }, "Send"), output = html("code", {}), shown = html("pre", { tabindex: "0", hidden: true }, output);
  button.addEventListener("click", async () => {
    let told;
    try {
      told = await ask(path.slice(1), body ? JSON.parse(input.value) : null);
    } catch (error) {
      told = error.problems ? { status: error.status, detail: error.problems } : { status: null, detail: error.message };
    }
    output.textContent = JSON.stringify(told, null, 1);
    shown.hidden = false;
  });
  return html("div", { class: "try" }, html("h3", {}, "Try it"), ...(body ? [input] : []), button, shown);
}

function section(path, method, operation, schemas) {
  const answer = operation.responses["200"]?.content?.["application/json"]?.schema;
  const parts = [
    html("h2", {}, html("code", {}, `${method.toUpperCase()} ${path}`)),
    html("p", {}, operation.description ?? operation.summary),
    html("pre", { tabindex: "0" }, html("code", {}, command(path, method, operation))),
  ];
  const sent = Object.values(operation.requestBody?.content ?? {})[0]?.schema;
  if (sent) parts.push(html("h3", {}, "What to send"), table(fields(sent, schemas), "field", "meaning"));
  const rows = fields(answer, schemas);
  if (rows.length) parts.push(html("h3", {}, "What comes back"), table(rows, "field", "meaning"));
  const tried = trial(path, method, operation);
  if (tried) parts.push(tried);
  const refusals = Object.entries(operation.responses).filter(([status]) => status >= "400");
  if (refusals.length) parts.push(html("h3", {}, "Refusals"), table(refusals.map(([status, { description }]) => [status, description]), "status", "why"));
  return html("section", { class: "card path" }, ...parts);
}

try {
  const { info, paths, components } = await ask("openapi.json");
  document.querySelector("#about").textContent = info.description;
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      document.querySelector("#paths").append(section(path, method, operation, components?.schemas ?? {}));
    }
  }
} catch (error) {
  document.querySelector("#about").textContent = error.status === 401 ? "This server needs a token: open the page first, and give it there." : error.message;
}
