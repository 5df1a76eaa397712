// The form of one row, made from the model's columns: numbers, categories, and an image where the model reads one.

import { html, numberFormat } from "./drawing.js";

const MAX_OPTIONS = 60;
const MAX_FIELDS = 12; // more are folded away, those that move the answer least
const UNKNOWN = "\u2014 not known \u2014";

export class RowForm {
  constructor(model, fields, onChange) {
    this.model = model;
    this.inputs = new Map();
    this.picture = null;
    this.onChange = onChange;
    if (model.images) fields.append(this.#pictureField());
    const further = fields.parentElement.querySelector("details"), rest = further.querySelector(".fields");
    const ordered = inOrder(model.columns);
    const n = ordered.length > MAX_FIELDS + 3 ? MAX_FIELDS : ordered.length;
    ordered.forEach((column, place) => (place < n ? fields : rest).append(this.#field(column, place)));
    further.hidden = n === ordered.length;
    further.querySelector("summary").textContent = `${ordered.length - n} more columns`;
    for (const one of [fields, rest]) one.addEventListener("input", onChange);
    this.#offerRows(fields.parentElement.querySelector("#start"));
  }

  // Rows to start from: the typical one, and those that the server was given.
  #offerRows(field) {
    const examples = this.model.examples ?? [], select = field.querySelector("select");
    const typical = Object.fromEntries([...this.inputs].map(([name, { input }]) => [name, input.value]));
    const rows = [typical, ...examples];
    const names = [...this.inputs.keys()].slice(0, 3);
    select.append(...rows.map((row, place) => html("option", { value: String(place) }, place ? `Row ${place}: ${names.map((name) => row[name] ?? "\u2013").join(", ")}` : "Typical row")));
    select.addEventListener("change", () => {
      for (const [name, value] of Object.entries(rows[Number(select.value)])) if (this.inputs.has(name)) this.set(name, typeof value === "number" ? Number(value.toPrecision(6)) : (value ?? ""));
      this.onChange();
    });
    field.hidden = examples.length === 0;
  }

  #field(column, place) {
    const id = `column-${place}`, input = column.kind === "number" ? numberInput(column) : categoryInput(column, id);
    input.id = id;
    input.setAttribute("aria-describedby", `${id}-hint ${id}-problem`);
    this.inputs.set(column.name, { input, column });
    const hint = html("span", { class: "hint", id: `${id}-hint` }, hintOf(column));
    const problem = html("span", { class: "problem", id: `${id}-problem` });
    const name = html("label", { for: id }, column.name);
    const list = input.listElement ? [input.listElement] : [];
    return html("div", { class: "field" }, name, input, ...list, hint, problem);
  }

  #pictureField() {
    const input = html("input", { type: "file", id: "picture", accept: "image/*", class: "hidden-file", "aria-describedby": "picture-problem" });
    const preview = html("img", { alt: "the image that is asked about", hidden: true });
    const words = html("span", {}, "Drop an image here, or choose one");
    const zone = html("label", { class: "drop", for: "picture" }, preview, words);
    const take = (file) => {
      if (!file) return;
      this.picture = file;
      URL.revokeObjectURL(preview.src);
      preview.src = URL.createObjectURL(file);
      preview.hidden = false;
      words.textContent = `${file.name} \u2014 choose another`;
      this.onChange();
    };
    input.addEventListener("change", () => take(input.files[0]));
    takeDrops(zone, (files) => take(files[0]));
    const problem = html("span", { class: "problem", id: "picture-problem" });
    return html("div", { class: "field wide" }, input, zone, problem);
  }

  get isReady() {
    return !this.model.images || this.picture !== null;
  }

  // The row as the server takes it; null where a field is wrong, which then says so.
  row() {
    this.clear();
    const row = {};
    let isRight = true;
    for (const [name, { input, column }] of this.inputs) {
      if (input.validity.badInput) {
        this.#complain(input, "This must be a number, or empty where it is not known.");
        isRight = false;
      } else if (input.value === "") {
        if (column.required || column.role === "feature") row[name] = null;
      } else {
        row[name] = column.kind === "number" ? Number(input.value) : input.value;
      }
    }
    return isRight ? row : null;
  }

  body(row, options = {}) {
    if (!this.model.images) return { rows: [row], ...options };
    return pictureBody([this.picture], this.inputs.size ? [row] : null, options);
  }

  set(name, value) {
    this.inputs.get(name).input.value = value;
  }

  // Puts the server's problems below their fields; the answer is those that belong to none.
  show(problems) {
    return problems.filter(({ loc, msg }) => {
      const found = this.inputs.get(loc.at(-1));
      if (found) this.#complain(found.input, msg);
      return !found;
    });
  }

  #complain(input, message) {
    input.setAttribute("aria-invalid", "true");
    const folded = input.closest("details");
    if (folded) folded.open = true;
    document.getElementById(`${input.id}-problem`).textContent = message;
  }

  clear() {
    for (const { input } of this.inputs.values()) {
      input.removeAttribute("aria-invalid");
      document.getElementById(`${input.id}-problem`).textContent = "";
    }
  }
}

// Where there are many, those that move the answer most come first; a few stay in the order that people know.
function inOrder(columns) {
  if (columns.length <= MAX_FIELDS) return columns;
  return [...columns].sort((one, other) => (other.influence ?? 0) - (one.influence ?? 0));
}

export function pictureBody(pictures, rows, options) {
  const form = new FormData();
  for (const picture of pictures) form.append("images", picture);
  if (rows) form.append("rows", JSON.stringify(rows));
  for (const [name, value] of Object.entries(options)) form.append(name, JSON.stringify(value));
  return form;
}

export function takeDrops(zone, take) {
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("is-over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("is-over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("is-over");
    if (event.dataTransfer.files.length) take([...event.dataTransfer.files]);
  });
}

function numberInput(column) {
  const input = html("input", { type: "number", step: "any", placeholder: "not known" });
  if (column.centre !== null) input.value = tidy(column.centre, column.range);
  return input;
}

function tidy(value, range) {
  const places = 3 - Math.floor(Math.log10(range[1] - range[0] || 1));
  return String(Number(value.toFixed(Math.min(Math.max(places, 0), 12))));
}

function categoryInput(column, id) {
  if (column.levels && column.n_levels <= MAX_OPTIONS) {
    const options = column.levels.map((level) => html("option", { value: level }, level));
    const input = html("select", {}, html("option", { value: "" }, UNKNOWN), ...options);
    input.value = column.levels[0] ?? "";
    return input;
  }
  const input = html("input", { type: "text", placeholder: "not known", list: `${id}-list` });
  input.listElement = html("datalist", { id: `${id}-list` });
  input.listElement.append(...(column.levels ?? []).map((level) => html("option", { value: level })));
  input.value = column.levels?.[0] ?? "";
  return input;
}

function hintOf(column) {
  if (column.kind !== "number") return column.levels ? `${column.n_levels} known` : "any text";
  if (!column.range) return column.role;
  const write = numberFormat(column.range[1] - column.range[0]);
  return `${write(column.range[0])} to ${write(column.range[1])}`;
}
