// CSV files as browsers read them: quotes, line breaks inside cells, commas, semicolons or tabs, and a byte-order mark.

// What pandas, and so diffor predict, takes for a missing value.
const MISSING = new Set(["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
  "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]);

export function parseCsv(text) {
  const source = text.replace(/^\uFEFF/, ""), header = source.slice(0, source.search(/[\r\n]|$/));
  const mark = [",", ";", "\t"].reduce((best, one) => (header.split(one).length > header.split(best).length ? one : best), ",");
  const rows = [];
  let row = [], cell = "", isQuoted = false;
  const endRow = () => {
    row.push(cell);
    if (row.length > 1 || row[0] !== "") rows.push(row);
    [row, cell] = [[], ""];
  };
  for (let place = 0; place < source.length; place++) {
    const letter = source[place];
    if (isQuoted) {
      if (letter !== '"') cell += letter;
      else if (source[place + 1] === '"') cell += source[++place];
      else isQuoted = false;
    } else if (letter === '"' && cell === "") isQuoted = true;
    else if (letter === mark) {
      row.push(cell);
      cell = "";
    } else if (letter === "\n") endRow();
    else if (letter !== "\r") cell += letter;
  }
  if (cell !== "" || row.length) endRow();
  return rows;
}

export function writeCsv(rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

// One cell as the server takes it; undefined where a number is none.
export function readCell(text, kind) {
  if (MISSING.has(text.trim())) return null;
  if (kind !== "number") return text;
  if (/^(true|false)$/i.test(text.trim())) return /^t/i.test(text.trim());
  const number = Number(text);
  return Number.isFinite(number) ? number : undefined;
}
