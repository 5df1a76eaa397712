// The answer to one row: its point and interval in words, the density or the grades, and the increments.

import { density, glide, label, mixed, movesLittle, numberFormat, onWidth, path, scale, spaced, svg, ticks, valueTicks, valueWriter, viewOf } from "./drawing.js";

const GRID = 160;

export function samplesOf(prediction) {
  return Object.values(prediction.quantiles);
}

// A single sample is a point, whatever was learned.
export function hasSpread(model) {
  return model.has_distribution && model.n_samples > 1;
}

// Levels at which quantiles are the model's own samples in order, so that nothing is lost.
export function sampleLevels(model) {
  if (!hasSpread(model) || model.grades) return {};
  const count = Math.min(model.n_samples, model.limits.max_levels, 128);
  return { quantiles: spaced(0.5 / count, 1 - 0.5 / count, count).map((level) => Number(level.toFixed(9))) };
}

export class AnswerCard {
  constructor(model, words, picture) {
    this.model = model;
    this.words = words;
    this.picture = picture;
    this.write = numberFormat(model.bounds[1] - model.bounds[0]);
    this.view = null;
    this.curve = null;
    onWidth(picture, () => this.prediction && this.#draw(false));
  }

  show(prediction, coverage) {
    this.prediction = prediction;
    this.#say(prediction, coverage);
    this.#draw(true);
  }

  #say({ point, interval, grades }, coverage) {
    const write = (value) => (typeof value === "number" && !this.model.grades ? this.write(value) : String(value));
    this.words.querySelector(".point").textContent = write(point);
    const promise = this.model.calibration_rows ? "guaranteed" : "likely";
    const isWide = hasSpread(this.model) || this.model.calibration_rows;
    let sentence = "This model names a value and no spread.";
    if (!isWide) interval = null;
    if (interval && interval[0] === interval[1]) sentence = `${Math.round(100 * coverage)} % ${promise}: ${write(interval[0])}`;
    else if (interval) sentence = `${Math.round(100 * coverage)} % ${promise}: ${write(interval[0])} to ${write(interval[1])}`;
    if (grades) sentence += `. Probability of ${point}: ${Math.round(100 * grades[point])} %`;
    this.words.querySelector(".interval").textContent = sentence;
  }

  #draw(isNew) {
    const width = this.picture.clientWidth || 320;
    if (this.prediction.grades) drawGrades(this.picture, this.model, this.prediction, width);
    else if (hasSpread(this.model)) this.#drawDensity(width, isNew);
    else drawPoint(this.picture, this.model, this.prediction, width, this.write);
  }

  #drawDensity(width, isNew) {
    const height = width < 480 ? 210 : 250, foot = height - 30, samples = samplesOf(this.prediction), { bounds } = this.model;
    const view = viewOf([...samples, ...this.prediction.interval], bounds, this.view);
    const xs = spaced(...view, GRID), curve = density(samples, bounds, xs, (view[1] - view[0]) / 120);
    const before = isNew && this.view === view && this.curve ? this.curve : null;
    const top = Math.max(...curve);
    const x = scale(view, [10, width - 10]);
    [this.view, this.curve] = [view, curve];
    const paint = (heights, peak) => {
      const y = scale([0, peak * 1.08], [foot, 12]);
      this.picture.replaceChildren(this.#densityPicture(xs, heights, x, y, width, height, foot));
    };
    this.stop?.();
    if (!before) return paint(curve, top);
    const peak = Math.max(...before);
    this.stop = glide(320, (share) => paint(mixed(before, curve, share), peak + (top - peak) * share));
  }

  #densityPicture(xs, heights, x, y, width, height, foot) {
    const { point, interval } = this.prediction, [low, high] = interval ?? [null, null];
    const points = xs.map((value, place) => [x(value), y(heights[place])]);
    const inside = points.filter((_, place) => xs[place] >= low && xs[place] <= high);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Predictive density" });
    const close = (part) => `${path(part)}L${part.at(-1)[0].toFixed(2)} ${foot}L${part[0][0].toFixed(2)} ${foot}Z`;
    picture.append(svg("path", { d: close(points), class: "area faint" }));
    if (inside.length > 1) picture.append(svg("path", { d: close(inside), class: "area" }));
    picture.append(svg("path", { d: path(points), class: "line" }));
    picture.append(svg("line", { x1: 10, x2: width - 10, y1: foot, y2: foot, class: "axis" }));
    for (const value of ticks(xs[0], xs.at(-1), width < 480 ? 4 : 7)) {
      picture.append(svg("line", { x1: x(value), x2: x(value), y1: foot, y2: foot + 4, class: "axis" }));
      picture.append(label(Math.min(Math.max(x(value), 16), width - 16), foot + 19, this.write(value), { "text-anchor": "middle" }));
    }
    if (interval) {
      for (const end of interval) picture.append(svg("line", { x1: x(end), x2: x(end), y1: foot - 7, y2: foot, class: "end" }));
      picture.append(svg("line", { x1: x(low), x2: x(high), y1: foot, y2: foot, class: "end" }));
    }
    picture.append(svg("line", { x1: x(point), x2: x(point), y1: 14, y2: foot, class: "mark" }));
    picture.append(svg("circle", { cx: x(point), cy: foot, r: 4.5, class: "dot" }));
    return picture;
  }
}

function drawGrades(box, model, { grades, interval, point }, width) {
  const names = model.grades.map(String), row = Math.min(38, Math.max(22, 300 / names.length)), height = names.length * row + 8;
  const first = Math.min(Math.max(...names.map((name) => name.length)) * 8 + 16, width * 0.35);
  const x = scale([0, 1], [first, width - 48]), held = interval ? interval.map((grade) => names.indexOf(String(grade))) : [0, -1];
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Probability of each grade" });
  names.forEach((name, place) => {
    const y = 4 + place * row, isHeld = place >= held[0] && place <= held[1], isPoint = name === String(point);
    picture.append(label(first - 10, y + row / 2 + 4, name, { "text-anchor": "end", class: isPoint ? "tick strong" : "tick" }));
    picture.append(svg("rect", { x: first, y: y + 4, width: x(1) - first, height: row - 8, rx: 5, class: "track" }));
    const long = Math.max(x(grades[name]) - first, 2);
    picture.append(svg("rect", { x: first, y: y + 4, width: long, height: row - 8, rx: 5, class: isHeld ? "bar" : "bar faint" }));
    picture.append(label(width - 40, y + row / 2 + 4, `${Math.round(100 * grades[name])} %`));
  });
  box.replaceChildren(picture);
}

function drawPoint(box, model, { point, interval }, width, write) {
  const x = scale(model.bounds, [10, width - 10]), picture = svg("svg", { viewBox: `0 0 ${width} 70`, role: "img", "aria-label": "The point in its range" });
  picture.append(svg("rect", { x: 10, y: 22, width: width - 20, height: 10, rx: 5, class: "track" }));
  if (interval) picture.append(svg("rect", { x: x(interval[0]), y: 22, width: Math.max(x(interval[1]) - x(interval[0]), 2), height: 10, class: "bar faint" }));
  picture.append(svg("circle", { cx: x(point), cy: 27, r: 7, class: "dot" }));
  model.bounds.forEach((bound, place) => picture.append(label(place ? width - 10 : 10, 56, write(bound), { "text-anchor": place ? "end" : "start" })));
  box.replaceChildren(picture);
}

// The increments as a thermometer: the tube holds all of them, and the stair below shows them one by one, coarse first.
export class Thermometer {
  constructor(model, picture) {
    this.model = model;
    this.picture = picture;
    onWidth(picture, () => this.increments && this.#draw(false));
  }

  show(increments) {
    const isFirst = !this.increments;
    this.increments = increments;
    this.#draw(isFirst);
  }

  #draw(isFirst) {
    const { bounds, increment_edges: edges } = this.model, width = this.picture.clientWidth || 320, count = this.increments.length;
    const row = Math.min(24, Math.max(5, 200 / count)), head = 40, height = head + count * row + 34, left = 26;
    const x = scale(bounds, [left, width - 12]), write = numberFormat(bounds[1] - bounds[0]), name = valueWriter(this.model);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: isFirst && !movesLittle.matches ? "filling" : "",
      "aria-label": `Increments from coarse to fine: ${this.increments.map(write).join(", ")}; together ${write(bounds[0] + this.increments.reduce((a, b) => a + b, 0))}` });
    picture.append(svg("rect", { x: left - 1, y: 7, width: width - left - 10, height: 18, rx: 9, class: "track" }));
    picture.append(svg("clipPath", { id: "tube" }, svg("rect", { x: left, y: 8, width: width - left - 12, height: 16, rx: 8 })));
    const tube = svg("g", { "clip-path": "url(#tube)" });
    picture.append(tube);
    for (const edge of edges) picture.append(svg("line", { x1: x(edge), x2: x(edge), y1: 29, y2: height - 28, class: "rule" }));
    let level = bounds[0];
    this.increments.forEach((increment, place) => {
      const y = head + place * row, from = x(level), long = Math.max(x(level + increment) - from, 0);
      const full = Math.min(x(level + edges[place + 1] - edges[place]), width - 12) - from;
      const shade = `shade shade-${Math.round((8 * place) / Math.max(count - 1, 1))}`;
      picture.append(svg("rect", { x: from, y: y + 1.5, width: Math.max(full, 0), height: row - 3, rx: 3, class: "ghost" }));
      const bar = svg("rect", { x: from, y: y + 1.5, width: Math.max(long, 1), height: row - 3, rx: 3, class: shade });
      const part = svg("rect", { x: from, y: 8, width: long + 0.5, height: 16, class: shade });
      for (const one of [bar, part]) one.style.setProperty("--place", place / count);
      picture.append(bar);
      tube.append(part);
      if (row >= 12) picture.append(label(left - 8, y + row / 2 + 4, String(place + 1), { "text-anchor": "end" }));
      level += increment;
    });
    picture.append(svg("line", { x1: x(level), x2: x(level), y1: 4, y2: height - 26, class: "mark" }));
    for (const value of valueTicks(this.model, bounds, width < 480 ? 4 : 7)) {
      picture.append(label(Math.min(Math.max(x(value), 16), width - 18), height - 8, name(value), { "text-anchor": "middle" }));
    }
    this.picture.replaceChildren(picture);
  }
}
