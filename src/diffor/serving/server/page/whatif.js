// What if one column were different: the whole answer over its range, and the distribution that follows a slider.

import { hasSpread, sampleLevels, samplesOf } from "./answer.js";
import { isGivenUp, Latest } from "./asking.js";
import { html, label, numberFormat, onWidth, path, quantile, scale, spaced, svg } from "./drawing.js";
import { alignSlider, MarginPlot } from "./margins.js";

const N_PLACES = 33;

export class WhatIf {
  constructor(model, card, onUse, onError) {
    this.model = model;
    this.card = card;
    this.box = card.querySelector(".picture");
    this.select = card.querySelector("select");
    this.slider = card.querySelector("input[type=range]");
    this.words = card.querySelector(".words");
    this.columns = model.columns.filter((column) => column.kind === "number" && column.range && column.range[1] > column.range[0]);
    this.write = numberFormat(model.bounds[1] - model.bounds[0]);
    this.sweeps = new Latest();
    this.answers = new Latest();
    this.onError = onError;
    this.select.append(...this.columns.map((column) => html("option", { value: column.name }, column.name)));
    this.select.addEventListener("change", () => this.#sweep());
    this.slider.addEventListener("input", () => this.#ask(this.value));
    card.querySelector("button").addEventListener("click", () => onUse(this.column.name, this.value));
    onWidth(this.box, () => this.swept && this.#plot());
  }

  get isPossible() {
    return this.columns.length > 0 && hasSpread(this.model) && !this.model.images;
  }

  get column() {
    return this.columns.find((column) => column.name === this.select.value);
  }

  get value() {
    const { range: [low, high] } = this.column, value = low + ((high - low) * Number(this.slider.value)) / 1000;
    return seemsWhole(this.column) ? Math.round(value) : Number(value.toPrecision(6));
  }

  show(row, prediction) {
    this.row = row;
    this.base = prediction;
    this.#sweep();
  }

  async #sweep() {
    const { name, range, centre } = this.column;
    const now = Math.min(Math.max(this.row[name] ?? centre, range[0]), range[1]);
    this.slider.value = Math.round((1000 * (now - range[0])) / (range[1] - range[0]));
    this.places = spaced(...range, N_PLACES);
    const rows = this.places.map((value) => ({ ...this.row, [name]: value }));
    const levels = this.model.grades ? {} : { quantiles: [0.05, 0.25, 0.5, 0.75, 0.95] };
    try {
      this.swept = (await this.sweeps.ask("predict", { rows, ...levels, increments: false })).predictions;
    } catch (error) {
      if (!isGivenUp(error)) this.onError(error);
      return;
    }
    [this.at, this.prediction] = [now, this.base];
    this.#plot();
    if (now === this.row[name]) this.#say();
    else this.#ask(now);  // not known, or beyond what training rows had
  }

  async #ask(at) {
    this.at = at;
    const body = { rows: [{ ...this.row, [this.column.name]: at }], ...sampleLevels(this.model), increments: false };
    try {
      this.prediction = (await this.answers.ask("predict", body)).predictions[0];
    } catch (error) {
      if (!isGivenUp(error)) this.onError(error);
      return;
    }
    this.#stand();
    this.#say();
  }

  #plot() {
    if (this.model.grades) return this.#plotGrades();
    const all = this.swept.flatMap((one) => Object.values(one.quantiles)), { bounds } = this.model;
    const first = Math.min(...all), last = Math.max(...all), room = Math.max(last - first, (bounds[1] - bounds[0]) / 50) * 0.18;
    const view = [Math.max(bounds[0], first - room), Math.min(bounds[1], last + room)];
    this.plot = new MarginPlot(this.box, `Prediction over ${this.column.name}`, this.column.range, this.model, view);
    const at = (level) => this.swept.map((one) => one.quantiles[level]);
    this.plot.band(this.places, at("0.05"), at("0.95"), "band faint");
    this.plot.band(this.places, at("0.25"), at("0.75"), "band");
    this.plot.line(this.places, at("0.5"), "line");
    this.#ends(this.plot.below.bind(this.plot));
    this.plot.align(this.slider);
    this.#stand();
  }

  #ends(write) {
    const { range } = this.column, format = numberFormat(range[1] - range[0]);
    write(range[0], format(range[0]), "start");
    write(range[1], format(range[1]), "end");
  }

  #plotGrades() {
    const width = this.box.clientWidth || 320, height = 260, foot = height - 30, names = this.model.grades.map(String);
    alignSlider(this.slider, 8, width - 110);
    const x = scale(this.column.range, [8, width - 110]), y = scale([0, 1], [foot, 10]);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Probability of grades over ${this.column.name}` });
    let below = this.places.map(() => 0);
    names.forEach((name, place) => {
      const above = below.map((sum, at) => sum + this.swept[at].grades[name]);
      const there = this.places.map((value, at) => [x(value), y(above[at])]);
      const back = this.places.map((value, at) => [x(value), y(below[at])]).reverse();
      const shade = Math.round(8 - (8 * place) / Math.max(names.length - 1, 1));
      picture.append(svg("path", { d: `${path([...there, ...back])}Z`, class: `shade shade-${shade} still` }));
      below = above;
    });
    this.#ends((value, text, anchor) => picture.append(label(x(value), height - 9, text, { "text-anchor": anchor })));
    this.front = svg("g");
    picture.append(this.front);
    this.box.replaceChildren(picture);
    this.gradePlace = { x, y, foot, width, names };
    this.#stand();
  }

  #stand() {
    if (!this.model.grades) {
      const samples = samplesOf(this.prediction);
      this.plot.standAt(this.at, samples, quantile(samples, 0.5));
      return;
    }
    const { x, y, foot, width, names } = this.gradePlace;
    this.front.replaceChildren(svg("line", { x1: x(this.at), x2: x(this.at), y1: 10, y2: foot, class: "cursor" }));
    let below = 0;
    names.forEach((name, place) => {
      const share = this.prediction.grades[name], shade = Math.round(8 - (8 * place) / Math.max(names.length - 1, 1));
      this.front.append(svg("rect", { x: width - 96, y: y(below + share), width: 22, height: Math.max(y(below) - y(below + share), 0), class: `shade shade-${shade} still` }));
      if (share > 0.06) this.front.append(label(width - 66, y(below + share / 2) + 4, name));
      below += share;
    });
  }

  #say() {
    const { name, range } = this.column, value = numberFormat(range[1] - range[0])(this.at), { point } = this.prediction;
    this.slider.setAttribute("aria-valuetext", value);
    this.words.textContent = `With ${name} = ${value}, the answer is ${typeof point === "number" && !this.model.grades ? this.write(point) : point}.`;
  }
}

// Numbers of rooms are whole; a slider that steps by one does no harm where this is guessed wrongly.
function seemsWhole({ range: [low, high], centre }) {
  return [low, high, centre].every(Number.isInteger) && high - low >= 2 && high - low <= 1000;
}
