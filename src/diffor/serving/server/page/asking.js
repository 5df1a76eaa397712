// Asks the server, with the token if one is needed, and turns refusals into errors that say what is wrong.

const TOKEN = "diffor-token";

export class AskError extends Error {
  constructor(status, problems) {
    super(problems[0]?.msg ?? "the server did not answer");
    this.status = status;
    this.problems = problems;
  }
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

export async function ask(path, body = null, signal = undefined) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  const isForm = body instanceof FormData;
  if (body && !isForm) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body ? "POST" : "GET", headers, signal, body: body && !isForm ? JSON.stringify(body) : body,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new AskError(0, [{ type: "network", loc: [], msg: "The server cannot be reached. Is it still running?" }]);
  }
  if (response.ok) return response.json();
  let detail;
  try {
    detail = (await response.json()).detail;
  } catch {
    detail = null;
  }
  const problems = Array.isArray(detail) ? detail : [{ type: "http", loc: [], msg: `The server answered ${response.status}.` }];
  throw new AskError(response.status, problems);
}

// Only the answer to the latest question counts: an earlier one that is still under way is given up.
export class Latest {
  #controller = null;

  async ask(path, body) {
    this.#controller?.abort();
    const controller = (this.#controller = new AbortController());
    return ask(path, body, controller.signal);
  }
}

export function isGivenUp(error) {
  return error.name === "AbortError";
}
