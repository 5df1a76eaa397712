// The page: asks what the model is, makes the form, and keeps the pictures in step with it.

import { AnswerCard, sampleLevels, Thermometer } from "./answer.js";
import { ask, isGivenUp, keepToken, Latest } from "./asking.js";
import { Batch } from "./batch.js";
import { Chain } from "./chain.js";
import { html, numberFormat } from "./drawing.js";
import { RowForm } from "./form.js";
import { WhatIf } from "./whatif.js";

const find = (selector) => document.querySelector(selector);
const DELAY = 180;

function complain(message) {
  find("#trouble").textContent = message;
}

async function start() {
  let model;
  try {
    model = await ask("model");
  } catch (error) {
    if (error.status === 401) return askForToken(error);
    find("#status").textContent = "";
    return complain(error.message);
  }
  find("#token-card").hidden = true;
  introduce(model);
  makeTabs();
  new Desk(model).predict();
  const batch = find("#many");
  new Batch(model, batch);
}

function askForToken(error) {
  const card = find("#token-card"), input = find("#token");
  card.hidden = false;
  find("#status").textContent = "";
  if (sessionStorage.getItem("diffor-token")) find("#token-problem").textContent = error.message;
  input.focus();
}

find("#token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(find("#token").value);
  start();
});

function introduce(model) {
  const write = numberFormat(model.bounds[1] - model.bounds[0]);
  const target = model.target ?? (model.grades ? "the grade" : "the target");
  document.title = `${target} \u2014 ${model.name ?? "DiffoR"}`;
  find("#title").textContent = model.target ?? model.name ?? "DiffoR";
  const range = model.grades ? `grades ${model.grades[0]} to ${model.grades.at(-1)}` : `${write(model.bounds[0])} to ${write(model.bounds[1])}`;
  const score = model.training.validation_crps;
  const facts = [
    ["model", model.name], ["method", model.method], ["range", range],
    [model.limit === "share" ? "validation CRPS, of shares" : "validation CRPS", score === null ? null : Number(score.toPrecision(3))],
    ["calibrated on", model.calibration_rows === null ? null : `${model.calibration_rows} rows`],
  ];
  for (const [name, value] of facts) {
    if (value !== null && value !== undefined) find("#facts").append(html("div", {}, html("dt", {}, name), html("dd", {}, String(value))));
  }
  find("#versions").textContent = `DiffoR ${model.versions.diffor}, torch ${model.versions.torch}, Python ${model.versions.python}`;
  find("#status").textContent = "";
  find("#workspace").hidden = false;
}

function makeTabs() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const choose = (tab) => {
    complain("");
    for (const one of tabs) {
      const isChosen = one === tab;
      one.setAttribute("aria-selected", isChosen);
      one.tabIndex = isChosen ? 0 : -1;
      find(`#${one.getAttribute("aria-controls")}`).hidden = !isChosen;
    }
  };
  tabs.forEach((tab, place) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(place + step + tabs.length) % tabs.length];
      choose(next);
      next.focus();
    });
  });
}

class Desk {
  constructor(model) {
    this.model = model;
    this.latest = new Latest();
    this.chains = new Latest();
    this.form = new RowForm(model, find("#fields"), () => this.#soon());
    this.answer = new AnswerCard(model, find("#answer"), find("#answer .picture"));
    find("#row-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.predict(true);
    });
    if (model.increment_edges) {
      this.thermometer = new Thermometer(model, find("#increments .picture"));
    }
    if (model.has_chain) this.chain = new Chain(model, find("#chain"));
    this.whatif = new WhatIf(model, find("#whatif"), (name, value) => {
      this.form.set(name, value);
      this.predict(true);
    }, (error) => complain(error.message));
    find("#whatif").hidden = !this.whatif.isPossible;
    find("#increments").hidden = !model.increment_edges;
    find("#chain").hidden = !model.has_chain;
  }

  #soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.predict(), DELAY);
  }

  async predict(isAsked = false) {
    clearTimeout(this.timer);
    if (!this.form.isReady) {
      if (isAsked) complain("Choose an image first.");
      find("#answers").classList.add("is-waiting");
      return;
    }
    const row = this.form.row();
    find("#answers").classList.toggle("is-stale", !row);
    if (!row) return complain("Some fields are not right yet; they say why.");
    find("#answers").setAttribute("aria-busy", "true");
    try {
      const told = await this.latest.ask("predict", this.form.body(row, sampleLevels(this.model)));
      this.#show(row, told);
    } catch (error) {
      if (isGivenUp(error)) return;
      find("#answers").classList.add("is-stale");
      const others = error.problems ? this.form.show(error.problems) : [{ msg: error.message }];
      complain(others[0]?.msg ?? "Some fields are not right yet; they say why.");
    }
    find("#answers").removeAttribute("aria-busy");
  }

  // A row with a limit of its own has a range of its own.
  #fit(row) {
    if (this.model.limit !== "share") return;
    const end = row[this.model.columns.find((column) => column.role === "upper").name];
    if (this.answer.model.bounds[1] !== end) this.answer.view = null;
    const edges = this.model.increment_edges?.map((edge) => (edge * end) / this.model.bounds[1]);
    const own = { ...this.model, bounds: [0, end], increment_edges: edges };
    for (const part of [this.answer, this.thermometer, this.chain]) if (part) part.model = own;
  }

  #show(row, { predictions: [prediction], coverage, warnings }) {
    complain("");
    find("#notes").replaceChildren(...warnings.map((warning) => html("li", {}, warning)));
    find("#answers").classList.remove("is-waiting");
    this.#fit(row);
    this.answer.show(prediction, coverage);
    if (prediction.increments) this.thermometer.show(prediction.increments);
    if (this.whatif.isPossible) this.whatif.show(row, prediction);
    if (this.chain) this.#follow(row);
  }

  async #follow(row) {
    try {
      this.chain.show(await this.chains.ask("trajectory", this.form.body(row)));
    } catch (error) {
      if (!isGivenUp(error)) complain(error.message);
    }
  }
}

start();
