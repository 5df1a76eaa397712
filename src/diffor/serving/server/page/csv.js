// CSV files as browsers read them: quotes, line breaks inside cells, commas, semicolons or tabs, and a byte-order mark.

// What pandas, and so diffor predict, takes for a missing value.
const MISSING = new Set(["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
  "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]);

// The text of a file: UTF-8, or UTF-16 where its mark says so. Read as anything else, names would become other names.
export async function readText(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const mark = { "255,254": "utf-16le", "254,255": "utf-16be" }[bytes.slice(0, 2).join()];
  let text;
  try {
    text = new TextDecoder(mark ?? "utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${file.name} must be text in UTF-8, but it is in another encoding; save it as “CSV UTF-8”.`);
  }
  if (text.includes("\0")) throw new Error(`${file.name} must be text, but it holds NUL characters; is it a CSV file?`);
  return text;
}

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

// Spreadsheets run cells that begin like formulas, whoever wrote them; behind an apostrophe they are text.
const FORMULA = /^[=+\-@\t\r]/;

export function writeCsv(rows) {
  const cell = (value) => {
    const told = value === null || value === undefined ? "" : String(value);
    const text = FORMULA.test(told) && !Number.isFinite(Number(told)) ? `'${told}` : told;
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
