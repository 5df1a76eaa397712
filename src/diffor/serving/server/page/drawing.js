// What all pictures share: SVG elements, scales, ticks, densities, numbers, and motion for those who want it.

const NAMESPACE = "http://www.w3.org/2000/svg";

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function html(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else if (typeof value === "boolean") element.toggleAttribute(key, value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export function label(x, y, text, attributes = {}) {
  return svg("text", { x, y, class: "tick", ...attributes }, text);
}

// A straight map from one pair of ends to another; of a range without width everything is in the middle.
export function scale([low, high], [from, to]) {
  return (value) => (high === low ? (from + to) / 2 : from + ((value - low) / (high - low)) * (to - from));
}

export function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const found = [];
  for (let place = Math.ceil(low / step - 1e-9); place * step <= high + step * 1e-9; place++) found.push(place * step);
  return found;
}

// Numbers as fine as the range they are in deserves.
export function numberFormat(range) {
  const digits = Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(range) || 1)), 0), 8);
  const format = new Intl.NumberFormat("en", { maximumFractionDigits: digits });
  return (value) => format.format(value).replace(/^-0$/, "0").replace("-", "\u2212");
}

// Values of the target as people call them: grades have names, and stand at whole numbers.
export function valueWriter(model) {
  if (!model.grades) return numberFormat(model.bounds[1] - model.bounds[0]);
  return (value) => String(model.grades[Math.min(Math.max(Math.round(value), 0), model.grades.length - 1)]);
}

export function valueTicks(model, [low, high], count) {
  if (!model.grades) return ticks(low, high, count);
  return model.grades.map((_, place) => place).filter((place) => place >= low && place <= high);
}

// A smooth density of samples inside bounds: what would leak over an end is folded back.
export function density(samples, [low, high], points, floor = 0) {
  const n = samples.length, mean = samples.reduce((sum, value) => sum + value, 0) / n;
  const spread = Math.sqrt(samples.reduce((sum, value) => sum + (value - mean) ** 2, 0) / n);
  const sorted = [...samples].sort((a, b) => a - b);
  const quartiles = (sorted[Math.floor(0.75 * (n - 1))] - sorted[Math.floor(0.25 * (n - 1))]) / 1.349;
  const width = Math.max(0.9 * Math.min(spread, quartiles || spread) * n ** -0.2, floor, 1e-12);
  const bell = (distance) => Math.exp(-0.5 * (distance / width) ** 2);
  return points.map((at) => {
    if (at < low || at > high) return 0;
    let sum = 0;
    for (const value of samples) sum += bell(at - value) + bell(at - (2 * low - value)) + bell(at - (2 * high - value));
    return sum / (n * width * 2.5066);
  });
}

export function spaced(low, high, count) {
  return Array.from({ length: count }, (_, place) => low + ((high - low) * place) / (count - 1));
}

export function quantile(sorted, level) {
  const place = Math.min(Math.max(level * sorted.length - 0.5, 0), sorted.length - 1), below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

// The part of the range that shows samples well. What is shown already stays as long as it still does.
export function viewOf(samples, [low, high], shown = null, whole = false) {
  const first = Math.min(...samples), last = Math.max(...samples), span = Math.max(last - first, (high - low) / 50);
  const fits = shown && first >= shown[0] && last <= shown[1] && span > 0.22 * (shown[1] - shown[0]);
  if (whole) return [low, high];
  if (fits) return shown;
  return [Math.max(low, first - 0.5 * span), Math.min(high, last + 0.5 * span)];
}

export function path(points) {
  return points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
}

export const movesLittle = window.matchMedia("(prefers-reduced-motion: reduce)");

// Calls draw(share) with shares from 0 to 1 over some milliseconds, or once with 1 where motion is not wanted.
export function glide(milliseconds, draw) {
  if (movesLittle.matches || document.hidden) {
    draw(1);
    return () => {};
  }
  let frame;
  const started = performance.now();
  const step = (now) => {
    const share = Math.min((now - started) / milliseconds, 1);
    draw(1 - (1 - share) ** 3);
    if (share < 1) frame = requestAnimationFrame(step);
  };
  frame = requestAnimationFrame(step);
  return () => cancelAnimationFrame(frame);
}

export function mixed(from, to, share) {
  return to.map((value, place) => from[place] + (value - from[place]) * share);
}

// Redraws when the width of an element changes; draw gets the width.
export function onWidth(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (element.clientWidth && element.clientWidth !== width) draw((width = element.clientWidth));
  }).observe(element);
}
