// A plot of values over something, with the density of the values at one place in its right margin.

import { density, label, path, scale, spaced, svg, valueTicks, valueWriter } from "./drawing.js";

const MARGIN_SHARE = 0.24;

export function alignSlider(slider, from, to) {
  slider.style.marginLeft = `${from - 8}px`;
  slider.style.width = `${to - from + 16}px`;
}

export class MarginPlot {
  constructor(box, name, across, model, view) {
    this.bounds = model.bounds;
    this.view = view;
    this.width = box.clientWidth || 320;
    this.height = this.width < 480 ? 230 : 280;
    this.split = this.width * (1 - MARGIN_SHARE);
    this.top = 10;
    this.foot = this.height - 30;
    this.x = Object.assign(scale(across, [46, this.split - 8]), { from: 46, to: this.split - 8 });
    this.y = scale(view, [this.foot, this.top]);
    this.picture = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}`, role: "img", "aria-label": name });
    const write = valueWriter(model);
    for (const value of valueTicks(model, view, 6)) {
      this.picture.append(svg("line", { x1: 46, x2: this.width - 6, y1: this.y(value), y2: this.y(value), class: "rule" }));
      this.picture.append(label(40, this.y(value) + 4, write(value), { "text-anchor": "end" }));
    }
    this.back = svg("g");
    this.front = svg("g");
    this.picture.append(this.back, this.front);
    box.replaceChildren(this.picture);
  }

  // A slider below the plot whose thumb stands under the cursor.
  align(slider) {
    alignSlider(slider, this.x.from, this.x.to);
  }

  below(value, text, anchor = "middle") {
    this.back.append(label(this.x(value), this.height - 9, text, { "text-anchor": anchor }));
  }

  band(places, low, high, name) {
    const there = places.map((at, place) => [this.x(at), this.y(high[place])]);
    const back = places.map((at, place) => [this.x(at), this.y(low[place])]).reverse();
    this.back.append(svg("path", { d: `${path([...there, ...back])}Z`, class: name }));
  }

  line(places, values, name, group = this.back) {
    group.append(svg("path", { d: path(places.map((at, place) => [this.x(at), this.y(values[place])])), class: name }));
  }

  // What stands at one place: a cursor, and the density of its values at the right.
  standAt(at, samples, mark) {
    this.front.replaceChildren();
    this.front.append(svg("line", { x1: this.x(at), x2: this.x(at), y1: this.top, y2: this.foot, class: "cursor" }));
    const ys = spaced(...this.view, 120), heights = density(samples, this.bounds, ys, (this.view[1] - this.view[0]) / 100);
    const across = scale([0, Math.max(...heights)], [this.split + 6, this.width - 8]);
    const points = ys.map((value, place) => [across(heights[place]), this.y(value)]);
    const base = this.split + 6;
    this.front.append(svg("path", { d: `${path(points)}L${base} ${this.y(ys.at(-1))}L${base} ${this.y(ys[0])}Z`, class: "area" }));
    this.front.append(svg("path", { d: path(points), class: "line" }));
    if (mark !== undefined) {
      this.front.append(svg("line", { x1: this.x(at), x2: this.width - 8, y1: this.y(mark), y2: this.y(mark), class: "mark" }));
      this.front.append(svg("circle", { cx: this.x(at), cy: this.y(mark), r: 4.5, class: "dot" }));
    }
  }
}
