// Headers of sortable tables become buttons: rising, falling, as they were; unknown values stay at the end.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0], original = [...body.rows], headers = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim(), number = parseFloat(text.replaceAll(",", ""));
    return Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
    return typeof a === "number" ? -1 : 1;
  };
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: null }[header.getAttribute("aria-sort")];
      const order = next === undefined ? "ascending" : next;
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      let rows = [...original];
      if (order) {
        header.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const known = rows.filter((row) => !["", "-"].includes(row.cells[column].textContent.trim()));
        const unknown = rows.filter((row) => !known.includes(row));
        rows = [...known.sort((a, b) => sign * compare(value(a, column), value(b, column))), ...unknown];
      }
      body.append(...rows);
    });
  });
}
