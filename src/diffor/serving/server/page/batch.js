// Many rows: a CSV file (or images) in, asked about in pieces with progress, and the file with its answers out.

import { ask, isGivenUp } from "./asking.js";
import { parseCsv, readCell, readText, writeCsv } from "./csv.js";
import { html } from "./drawing.js";
import { pictureBody, takeDrops } from "./form.js";

const PIECE = 100;
const SHOWN = 8;

export class Batch {
  constructor(model, panel) {
    this.model = model;
    this.panel = panel;
    this.input = panel.querySelector("input[type=file]");
    this.progress = panel.querySelector("progress");
    this.words = panel.querySelector(".words");
    this.alert = panel.querySelector("[role=alert]");
    this.stopButton = panel.querySelector("button");
    this.result = panel.querySelector(".result");
    panel.querySelector(".drop span").textContent = model.images ? "Drop images here, or choose some" : "Drop a CSV file here, or choose one";
    if (model.images) Object.assign(this.input, { accept: "image/*", multiple: true });
    this.input.addEventListener("change", () => this.take([...this.input.files]));
    takeDrops(panel.querySelector(".drop"), (files) => this.take(files));
    this.stopButton.addEventListener("click", () => this.controller?.abort());
  }

  async take(files) {
    if (!files.length) return;
    this.#reset();
    try {
      await (this.model.images ? this.#takePictures(files) : this.#takeTable(files[0]));
    } catch (error) {
      this.#end(isGivenUp(error) ? "Stopped; nothing was written." : "");
      if (!isGivenUp(error)) this.alert.textContent = error.message;
    }
    this.input.value = "";
  }

  #reset() {
    this.controller?.abort();
    this.controller = new AbortController();
    this.alert.textContent = "";
    this.words.textContent = "";
    this.result.replaceChildren();
  }

  async #takeTable(file) {
    const [header, ...cells] = parseCsv(await readText(file));
    if (!header || !cells.length) throw new Error(`${file.name} must have a header and at least one row, but it has none.`);
    const rows = readRows(header, cells, this.model.columns);
    const wanted = new Set(this.model.columns.map((column) => column.name));
    const ignored = header.filter((name) => !wanted.has(name));
    const size = Math.min(PIECE, this.model.limits.max_rows);
    const answers = await this.#askAll(rows, size, (piece) => ({ rows: piece, increments: false }));
    const names = answerNames(this.model, header);
    const lines = answers.map((answer, place) => [...cells[place], ...answerCells(this.model, answer)]);
    this.#finish([[...header, ...names], ...lines], file.name, ignored, header.length);
  }

  async #takePictures(files) {
    if (this.model.columns.length) throw new Error("This model needs columns beside its images: ask it by the API, see /docs.");
    const size = Math.min(8, this.model.limits.max_images);
    const answers = await this.#askAll(files, size, (piece) => pictureBody(piece, null, { increments: false }));
    const lines = answers.map((answer, place) => [files[place].name, ...answerCells(this.model, answer)]);
    this.#finish([["image", ...answerNames(this.model, [])], ...lines], "images.csv", [], 1);
  }

  async #askAll(items, size, bodyOf) {
    const answers = [];
    Object.assign(this.progress, { max: items.length, value: 0, hidden: false });
    this.stopButton.hidden = false;
    for (let first = 0; first < items.length; first += size) {
      this.words.textContent = `${first} of ${items.length} rows are answered.`;
      answers.push(...(await this.#askPiece(bodyOf(items.slice(first, first + size)), first)).predictions);
      this.progress.value = answers.length;
    }
    return answers;
  }

  // The server numbers the rows of a piece; people number those of their file.
  async #askPiece(body, first) {
    try {
      return await ask("predict", body, this.controller.signal);
    } catch (error) {
      if (isGivenUp(error) || typeof error.problems?.[0]?.loc?.[1] !== "number") throw error;
      throw new Error(`Row ${first + error.problems[0].loc[1] + 1} of the file: ${error.message}`);
    }
  }

  #finish(table, name, ignored, kept) {
    const url = URL.createObjectURL(new Blob([writeCsv(table)], { type: "text/csv" }));
    const file = `${name.replace(/\.[^.]*$/, "")}-predicted.csv`;
    const count = table.length - 1;
    this.#end(`${count} ${count === 1 ? "row is" : "rows are"} answered.${ignored.length ? ` Not used: ${ignored.join(", ")}.` : ""}`);
    const shown = preview(table, kept);
    this.result.append(html("a", { class: "button primary", href: url, download: file }, `Download ${file}`), shown);
    tellOfWidth(shown);
  }

  #end(words) {
    this.progress.hidden = this.stopButton.hidden = true;
    this.words.textContent = words;
  }
}

function readRows(header, cells, columns) {
  const missing = columns.filter((column) => column.required && !header.includes(column.name));
  if (missing.length) {
    const names = missing.map((column) => column.name).join(", ");
    throw new Error(`The file must have the columns of the model, but ${names} ${missing.length === 1 ? "is" : "are"} missing; its columns are ${header.slice(0, 8).join(", ")}.`);
  }
  const present = columns.filter((column) => header.includes(column.name));
  return cells.map((line, number) => {
    if (line.length !== header.length) throw new Error(`Row ${number + 1} must have ${header.length} cells, but it has ${line.length}.`);
    const row = {};
    for (const { name, kind } of present) {
      row[name] = readCell(line[header.indexOf(name)], kind);
      if (row[name] === undefined) {
        throw new Error(`Row ${number + 1}, column ${name}, must be a number, but got \u201c${line[header.indexOf(name)]}\u201d; correct it or leave it empty.`);
      }
    }
    return row;
  });
}

function answerNames(model, header) {
  const spread = model.grades ? model.grades.map((grade) => `p_${grade}`) : model.has_distribution ? ["q0.05", "q0.25", "q0.5", "q0.75", "q0.95"] : [];
  const names = ["prediction", ...spread, ...(model.has_interval ? ["low", "high"] : [])];
  return names.map((name) => (header.includes(name) ? `diffor_${name}` : name));
}

function answerCells(model, { point, quantiles, interval, grades }) {
  const spread = model.grades ? Object.values(grades) : Object.values(quantiles ?? {});
  return [point, ...spread, ...(interval ?? [])];
}

// What is new comes first: in a wide table it would be far out of sight.
function preview(table, kept) {
  const short = (value) => (typeof value === "number" ? Number(value.toPrecision(5)).toString() : (value ?? ""));
  const cell = (name, isNew) => (value) => html(name, { class: isNew ? "new" : "", ...(name === "th" ? { scope: "col" } : {}) }, String(short(value)));
  const cells = (row, name) => [...row.slice(kept).map(cell(name, true)), ...row.slice(0, kept).map(cell(name, false))];
  const head = html("thead", {}, html("tr", {}, ...cells(table[0], "th")));
  const body = html("tbody", {}, ...table.slice(1, SHOWN + 1).map((row) => html("tr", {}, ...cells(row, "td"))));
  const caption = html("caption", {}, `The first ${Math.min(SHOWN, table.length - 1)} rows, predictions first`);
  return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Preview of the answers" }, html("table", {}, caption, head, body));
}

// Says so where a table is wider than its place: on phones nothing else shows that there is more.
function tellOfWidth(box) {
  if (box.scrollWidth > box.clientWidth) box.before(html("p", { class: "hint sideways" }, "Scroll sideways for more columns \u2192"));
}
