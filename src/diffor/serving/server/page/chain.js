// The denoising of one row as an animation: each chain's estimate from all noise to none, one step at a time.

import { glide, mixed, onWidth, quantile, svg, valueWriter } from "./drawing.js";
import { MarginPlot } from "./margins.js";

const PAUSE = 900;

export class Chain {
  constructor(model, card) {
    this.model = model;
    this.card = card;
    this.box = card.querySelector(".picture");
    this.slider = card.querySelector("input[type=range]");
    this.words = card.querySelector(".words");
    this.write = valueWriter(model);
    this.steps = [];
    this.place = 0;
    this.buttons = Object.fromEntries([...card.querySelectorAll("button[data-do]")].map((button) => [button.dataset.do, button]));
    for (const [name, button] of Object.entries(this.buttons)) button.addEventListener("click", () => this.do(name));
    this.slider.addEventListener("input", () => {
      this.pause();
      this.go(Number(this.slider.value));
    });
    card.addEventListener("keydown", (event) => this.#key(event));
    onWidth(this.box, () => this.steps.length && this.#plot());
  }

  show({ steps }) {
    this.pause();
    this.steps = steps;
    this.slider.max = steps.length - 1;
    const values = steps.flatMap((step) => step.values), [low, high] = this.model.bounds;
    const first = Math.min(...values), last = Math.max(...values), span = Math.max(last - first, (high - low) / 50);
    this.view = [Math.max(low, first - 0.15 * span), Math.min(high, last + 0.15 * span)];
    this.place = Math.min(this.place, steps.length - 1);
    this.#plot();
  }

  do(name) {
    if (name === "play") return this.timer ? this.pause() : this.play();
    this.pause();
    const last = this.steps.length - 1;
    return this.go({ first: 0, back: this.place - 1, next: this.place + 1, last }[name]);
  }

  play() {
    if (this.place === this.steps.length - 1) this.go(0);
    this.buttons.play.textContent = "Pause";
    this.words.setAttribute("aria-live", "off"); // nobody wants every step read out
    this.timer = setInterval(() => {
      this.go(this.place + 1);
      if (this.place === this.steps.length - 1) this.pause();
    }, PAUSE);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.buttons.play.textContent = "Play";
    this.words.setAttribute("aria-live", "polite");
  }

  go(place) {
    const wanted = Math.min(Math.max(place, 0), this.steps.length - 1);
    if (wanted === this.place || !this.steps.length) return;
    const from = this.steps[this.place].values, start = this.place;
    this.place = wanted;
    this.#say();
    this.stop?.();
    this.stop = glide(420, (share) => this.#paint(start + (wanted - start) * share, mixed(from, this.steps[wanted].values, share)));
  }

  #key(event) {
    if (event.target === this.slider) return;
    const wanted = { ArrowLeft: "back", ArrowRight: "next", Home: "first", End: "last" }[event.key];
    if (!wanted) return;
    event.preventDefault();
    this.do(wanted);
  }

  #plot() {
    const last = this.steps.length - 1;
    this.plot = new MarginPlot(this.box, "Estimates of all chains along the denoising steps", [0, Math.max(last, 1)], this.model, this.view);
    this.plot.below(0, "all noise", "start");
    this.plot.below(Math.max(last, 1), "no noise", "end");
    const places = this.steps.map((_, place) => place);
    this.steps[0].values.forEach((_, chain) => this.plot.line(places, this.steps.map((step) => step.values[chain]), "thread faint"));
    this.#say();
    this.#paint(this.place, this.steps[this.place].values);
  }

  #paint(at, values) {
    const { plot } = this, done = Math.floor(at + 1e-9);
    const sorted = [...values].sort((a, b) => a - b);
    plot.standAt(at, values, quantile(sorted, 0.5));
    const places = [...Array(done + 1).keys()];
    values.forEach((value, chain) => {
      if (places.length > 1 || at > done) {
        plot.line([...places, at], [...places.map((place) => this.steps[place].values[chain]), value], "thread", plot.front);
      }
      plot.front.append(svg("circle", { cx: plot.x(at), cy: plot.y(value), r: 2.6, class: "grain" }));
    });
  }

  #say() {
    const { time, noise, values } = this.steps[this.place], sorted = [...values].sort((a, b) => a - b);
    const half = [0.25, 0.75].map((level) => this.write(quantile(sorted, level)));
    this.slider.value = this.place;
    this.slider.setAttribute("aria-valuetext", `step ${this.place + 1} of ${this.steps.length}`);
    this.words.textContent = `Step ${this.place + 1} of ${this.steps.length}, time ${time}, ${Math.round(100 * noise)} % noise: half of the chains lie between ${half[0]} and ${half[1]}.`;
    // Not disabled altogether, which would take the focus away from who steps by keyboard.
    const ends = { first: 0, back: 0, next: this.steps.length - 1, last: this.steps.length - 1 };
    for (const [name, end] of Object.entries(ends)) this.buttons[name].setAttribute("aria-disabled", this.place === end);
    this.card.dataset.step = this.place + 1;
  }
}
